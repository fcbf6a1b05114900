extension WriteTransaction {
    /// True if an object holds what a line says of it; nil if there is no object with the key.
    ///
    /// - Throws: `LineError` for a line that no object can have; `ApplyError` if the state cannot be read.
    package func holds(
        _ className: String, _ keyJSON: JSONValue, _ fields: [JSONName: JSONValue]
    ) throws -> Bool? {
        guard let number = editor.schema.number(of: Array(className.utf8)) else { return nil }
        guard let key = PrimaryKey(exported: keyJSON) else { throw LineError(noKey: keyJSON) }
        let reference = ObjectReference(classID: number, key: key.normalised)
        guard try editor.exists(reference) else { return nil }
        for (field, json) in fields {
            guard let place = editor.schema[number].place(of: Array(field.utf8)) else { return false }
            let value = try ExportedValue(json, at: place, in: editor.schema)
            guard let content = try content(at: Location(reference, place)) else { return false }
            guard try ExportedValue(content, at: place, in: editor.schema).text == value.text else { return false }
        }
        return true
    }
}
