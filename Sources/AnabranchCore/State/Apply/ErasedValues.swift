// What an object still holds in columns that were erased: nobody can read it, and it goes when the object is loaded
// next (`Spec/State.md`, B11). What has nothing to lose stays as it is, so that its chunks are not written again.

extension GraphEditor {
    /// Nil if there is nothing to lose. As deep as paths are long.
    mutating func withoutErasedValues(_ fields: Fields, of classID: ClassID) -> Fields? {
        var rest: Fields?
        for (slot, content) in fields.contents.enumerated() {
            guard let value = withoutErasedValues(content, in: schema[classID].columns[slot]?.place) else { continue }
            rest = rest ?? fields
            rest?.contents[slot] = value
        }
        return rest
    }

    /// - Parameter place: nil where the column was erased.
    private mutating func withoutErasedValues(_ content: Content, in place: Place?) -> Content? {
        guard let place else {
            if case .null = content { return nil }
            grow(by: Content.null.size - content.size)
            return .null
        }
        guard place.isEmbedded else { return nil }
        switch content {
        case .object(let fields): return withoutErasedValues(fields, of: place.target).map(Content.object)
        case .list(let list):
            var rest: ContentList?
            for (index, element) in list.enumerated() {
                guard let value = withoutErasedValues(element.content, in: place) else { continue }
                rest = rest ?? list
                rest?.modify(at: index) { $0.content = value }
            }
            return rest.map(Content.list)
        case .dictionary(let entries):
            var rest: ContentDictionary?
            for (index, entry) in entries.enumerated() {
                guard let value = withoutErasedValues(entry.content, in: place) else { continue }
                rest = rest ?? entries
                rest?.modify(at: index) { $0.content = value }
            }
            return rest.map(Content.dictionary)
        default: return nil
        }
    }
}
