// The values that an object still holds in columns that were erased: nobody can read them, and they are removed when
// the object is loaded next (`Spec/State.md`, B11). Content without such values stays as it is, so that its parts are
// not written again.

/// The amount of content that was removed from erased columns.
struct ErasedValues {
    /// The size of the content, in bytes (`Content.size`).
    var size = 0
    var linkCount = 0
}

extension Schema {
    /// The approximate size of what must be searched for erased values, in bytes: all embedded objects.
    func erasureSearchBytes(_ fields: Fields, of classID: ClassID) -> Int {
        fields.contents.enumerated().reduce(0) { bytes, field in
            bytes + (place(field.offset, of: classID)?.isEmbedded ?? false ? field.element.size : Content.itemBytes)
        }
    }

    /// The fields without erased values; nil if they hold none. Recurses as deep as paths are long.
    ///
    /// - Parameter erased: Counts what is removed.
    func withoutErasedValues(
        _ fields: Fields, of classID: ClassID, _ erased: inout ErasedValues
    ) throws(ApplyError) -> Fields? {
        var rest: Fields?
        for (slot, content) in fields.contents.enumerated() {
            guard let value = try withoutErasedValues(content, in: place(slot, of: classID), &erased) else { continue }
            rest = rest ?? fields
            rest?.contents[slot] = value
        }
        return rest
    }

    /// The place of a column; nil if it was erased.
    private func place(_ slot: Int, of classID: ClassID) -> Place? {
        self[classID].hasColumn(slot) ? self[classID].columns[slot]?.place : nil
    }

    private func withoutErasedValues(
        _ content: Content, in place: Place?, _ erased: inout ErasedValues
    ) throws(ApplyError) -> Content? {
        guard let place else {
            if case .null = content { return nil }
            erased.size += content.size - Content.null.size
            erased.linkCount += try content.linkCount()
            return .null
        }
        guard place.isEmbedded else { return nil }
        switch content {
        case .object(let fields): return try withoutErasedValues(fields, of: place.target, &erased).map(Content.object)
        case .list(let list): return try withoutErasedValues(list, in: place, &erased).map(Content.list)
        case .dictionary(let entries):
            return try withoutErasedValues(entries, in: place, &erased).map(Content.dictionary)
        default: return nil
        }
    }

    private func withoutErasedValues<Element: ContentElement>(
        _ tree: CountedTree<Element>, in place: Place, _ erased: inout ErasedValues
    ) throws(ApplyError) -> CountedTree<Element>? {
        var rest: CountedTree<Element>?
        var index = 0
        try tree.forEach { element throws(ApplyError) in
            if let value = try withoutErasedValues(element.content, in: place, &erased) {
                rest = rest ?? tree
                try rest?.modify(at: index) { $0.content = value }
            }
            index += 1
        }
        return rest
    }
}
