// Elements of lists.

extension WriteTransaction {
    /// Moves an element of a list. A collection that is nested in the list stays where it is as far as the record goes,
    /// and those after it move forward one by one: clients with an SDK can read no other way to a higher index.
    func move(from index: Int, to destination: Int, in list: Location) throws(ApplyError) {
        guard index != destination else { return }
        let count = try count(at: list), place = list.appending(.index(index))
        guard destination > index, try content(at: place)?.isNestedCollection ?? false else {
            return try perform(.move(to: destination, priorSize: count), at: place)
        }
        for next in index + 1...destination {
            try perform(.move(to: next - 1, priorSize: count), at: list.appending(.index(next)))
        }
    }

    /// The digests of the list elements that an edit changes: one that it replaces or erases, and those that it is in.
    /// 0 stands for one that is changed once more; `places` has the others that it is in. The server's own writes are
    /// never made again.
    func elements(
        changedBy edit: Edit, at location: Location
    ) throws(ApplyError) -> (digests: [UInt64], places: [ElementPlace]) {
        guard ident != .server, location.path.contains(where: \.isIndex) else { return ([], []) }
        var digests: [UInt64] = [], places: [ElementPlace] = [], place = Location(location.object, location.field)
        for (position, step) in location.path.enumerated() {
            guard case .name(let name) = step else {
                place = place.appending(step)
                let isLast = position == location.path.count - 1
                if isLast, edit.leavesElement { continue }
                let element = ElementPlace(place), isNew = isLast || !changedElements.contains(element)
                digests.append(isNew ? try digest(at: place) : 0)
                if !isLast, isNew { places.append(element) }
                continue
            }
            place = try self.step(name, from: place)
        }
        return (digests, places)
    }

    private func digest(at location: Location) throws(ApplyError) -> UInt64 {
        guard let content = try content(at: location) else { return 0 }
        return try ExportedValue(content, at: location.place, in: editor.schema).digest
    }

    /// The entry of a dictionary, or the field of an embedded object.
    func step(_ name: [UInt8], from location: Location) throws(ApplyError) -> Location {
        guard location.place.isEmbedded, location.place.collection == .single else {
            return location.appending(.name(name))
        }
        guard let place = editor.schema[location.place.target].place(of: name) else { throw .invalid("no such field") }
        return location.appending(place, named: name)
    }
}

/// The place of an element of a list.
struct ElementPlace: Hashable {
    let object: ObjectReference
    let slot: Int
    let path: [PathStep]

    init(_ location: Location) { (object, slot, path) = (location.object, location.field.slot, location.path) }
}

extension Edit {
    /// True if the element at the end of the path stays as it is, or was not there.
    fileprivate var leavesElement: Bool {
        switch self {
        case .insert, .move: true
        default: false
        }
    }
}
