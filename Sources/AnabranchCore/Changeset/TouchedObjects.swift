// Which objects a changeset is about, and changesets without what is about some of them: for views of a state
// (`Spec/FlexibleSync.md`). An instruction is about one top-level object, whatever path it has, or about the schema.

/// A top-level object as the instructions of a changeset name it.
package struct TouchedObject: Sendable {
    /// Its number in the arena.
    package let id: ObjectKeyID
    /// The name of its class.
    package let className: [UInt8]
    package let key: PrimaryKey
    /// What the first live instruction on it does.
    package let firstKind: InstructionKind
    /// Whether a live instruction creates it.
    package fileprivate(set) var isCreated: Bool
}

extension ChangesetArena {
    /// The objects that live instructions of a changeset are about, in the order in which they come first.
    package func touchedObjects(of changeset: ChangesetIndex) -> [TouchedObject] {
        var places: [ObjectKeyID: Int] = [:]
        var touched: [TouchedObject] = []
        for index in instructionIndices(of: changeset) where !self[index].kind.isSchema {
            let object = self[index].object, isCreated = self[index].kind == .createObject
            if let place = places[object] {
                if isCreated { touched[place].isCreated = true }
                continue
            }
            places[object] = touched.count
            let (className, key) = primaryKey(of: object)
            touched.append(
                TouchedObject(
                    id: object, className: Array(bytes(of: className)), key: key.normalised,
                    firstKind: self[index].kind, isCreated: isCreated))
        }
        return touched
    }

    /// Takes out of a changeset what is about some objects; it is dirty then.
    package mutating func discardInstructions(on objects: Set<ObjectKeyID>, of changeset: ChangesetIndex) {
        guard !objects.isEmpty else { return }
        for index in instructionIndices(of: changeset)
        where !self[index].kind.isSchema && objects.contains(self[index].object) {
            discard(index)
        }
    }
}
