extension ChangesetArena {
    /// Takes out of a changeset the classes and columns that a state lacks.
    /// - Returns: their names, but for the columns of such classes.
    package mutating func discardSchema(
        of changeset: ChangesetIndex, missingFrom state: ObjectGraph
    ) -> [String] {
        var missing: [String] = []
        for index in instructionIndices(of: changeset) {
            let className = Array(bytes(of: self[index].className)), schema = state.schema(ofClass: className)
            let name = String(decoding: className, as: UTF8.self)
            if self[index].kind == .addTable {
                if schema != nil { continue }
                missing.append("class \"\(name)\"")
            } else if let schema {
                let field = Array(bytes(of: self[index].field))
                if schema.property(named: field) != nil { continue }
                missing.append("\"\(name).\(String(decoding: field, as: UTF8.self))\"")
            }
            discard(index)
        }
        return missing
    }
}
