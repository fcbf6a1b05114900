extension ChangesetArena {
    /// Takes the instructions out of a changeset that add classes and columns missing from a state.
    ///
    /// - Parameter changeset: a changeset with no instructions but AddTable and AddColumn.
    /// - Returns: the names of missing classes and of columns missing from present ones, and the instructions that were
    ///   taken out, as an encoded changeset.
    package mutating func takeSchema(
        of changeset: ChangesetIndex, missingFrom state: ObjectGraph
    ) -> (names: [String], changeset: [UInt8]) {
        var names: [String] = [], taken = self
        for index in instructionIndices(of: changeset) {
            let className = Array(bytes(of: self[index].className)), schema = state.schema(ofClass: className)
            let name = String(decoding: className, as: UTF8.self)
            if self[index].kind == .addTable {
                if schema != nil {
                    taken.discard(index)
                    continue
                }
                names.append("class \"\(name)\"")
            } else if let schema {
                let field = Array(bytes(of: self[index].field))
                if schema.property(named: field) != nil {
                    taken.discard(index)
                    continue
                }
                names.append("\"\(name).\(String(decoding: field, as: UTF8.self))\"")
            }
            discard(index)
        }
        return (names, taken.encoded(changeset))
    }
}
