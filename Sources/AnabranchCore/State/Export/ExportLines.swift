/// A line of an export (`Spec/Export.md`).
package enum ExportLine: Sendable {
    /// The first line.
    case header
    case declaration(ExportedClass)
    /// An object: its class, its primary key and its fields.
    case object(className: String, key: JSONValue, fields: [JSONName: JSONValue])

    package static let headerText = "{\"anabranch_export\":1}"
    /// The greatest nesting depth of the JSON: a Mixed holds up to 100 collections in each other, with two levels for
    /// each.
    package static let depthMax = 256

    /// - Throws: `LineError` if the text is no such line.
    package init(parsing text: some Collection<UInt8>) throws(LineError) {
        let json: JSONValue
        do throws(JSONError) {
            json = try JSONValue(parsing: text, depthMax: Self.depthMax)
        } catch {
            throw LineError("not JSON at byte \(error.offset): \(error.reason)")
        }
        if let form = json["anabranch_export"] {
            guard form == 1 else { throw LineError("an export of form \(form.excerpt), which is not known") }
            self = .header
        } else if json["class"] != nil {
            self = .declaration(try ExportedClass(json))
        } else {
            guard let parts = json.array, parts.count == 3, let className = parts[0].string,
                let fields = parts[2].members
            else { throw LineError("an object is written [\"Class\",key,{fields}]") }
            self = .object(className: className, key: parts[1], fields: fields)
        }
    }

    /// The text of an object.
    package static func text(
        className: some Sequence<UInt8>, key: [UInt8], fields: [(name: [UInt8], value: ExportedValue)]
    ) -> [UInt8] {
        var text = [UInt8(ascii: "[")]
        JSONText.append(string: className, to: &text)
        text.append(UInt8(ascii: ","))
        text += key
        text.append(UInt8(ascii: ","))
        ExportedValue.write(members: fields, to: &text)
        text.append(UInt8(ascii: "]"))
        return text
    }
}

extension ObjectGraph {
    /// Calls `body` with each line of the export of this state, without line feeds: equal states have equal lines.
    ///
    /// - Parameter replacement: What stands for names, keys and values, in the same order; nil if they stand there
    ///   themselves.
    /// - Throws: what `body` throws; `ApplyError` with the code `unavailable` if objects cannot be read.
    package func forEachExportLine(
        replacing replacement: ((Payload) -> Payload)? = nil, _ body: ([UInt8]) throws -> Void
    ) throws {
        try body(Array(ExportLine.headerText.utf8))
        for declared in exportedClasses(replacing: replacement) { try body(Array(declared.json.encoded.utf8)) }
        let classes = schema.present.filter { schema[$0].kind == .topLevel }
            .sorted { schema[$0].name.compare(schema[$1].name) < 0 }
        for number in classes {
            let name = replacement.map { schema[number].name.replaced(by: $0) } ?? schema[number].name
            var objects = ObjectCursor(of: number, in: self)
            while let (key, contents) = try objects.next() {
                var fields = try ExportedValue.fields(contents, of: number, in: schema)
                if let replacement { fields = fields.replaced(by: replacement) }
                var keyText: [UInt8] = []
                JSONText.append(replacement.map { key.replaced(by: $0) } ?? key, .exact, to: &keyText)
                try body(ExportLine.text(className: name, key: keyText, fields: fields))
            }
        }
    }

    /// Calls `body` with each name, key and value of the state, some of them repeatedly. GlobalKeys are left out.
    package func forEachValue(_ body: (Payload) throws -> Void) throws {
        var failure: (any Error)?
        try withoutActuallyEscaping(body) { body in
            let reading: (Payload) -> Payload = { value in
                if failure == nil { do { try body(value) } catch { failure = error } }
                return value
            }
            try forEachExportLine(replacing: reading) { _ in if let failure { throw failure } }
        }
        if let failure { throw failure }
    }
}
