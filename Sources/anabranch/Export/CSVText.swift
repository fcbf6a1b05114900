import AnabranchCore

/// The objects of a class as lines of CSV (RFC 4180): values alone in the form that spreadsheets and databases read,
/// what holds several as JSON (`Spec/Export.md`, section 8).
struct CSVText {
    /// Writes what has no form of its own, and counts what is lost.
    private(set) var documents: DocumentText

    init(of state: ObjectGraph) { documents = DocumentText(of: state) }

    /// The first line: the names of the columns.
    static func header(of schema: ClassSchema, _ properties: [Property]) -> [UInt8] {
        line([DocumentText.keyName(schema)] + properties.map(\.name))
    }

    /// Appends the line of an object.
    mutating func append(
        _ object: StateObject, of schema: ClassSchema, _ properties: [Property], to text: inout [UInt8]
    ) {
        documents.begin(DocumentText.keyName(schema), of: schema)
        // An empty line would be passed over.
        if let key = object.key, key != .null || properties.isEmpty { Self.append(self.key(key), to: &text) }
        for property in properties {
            text.append(UInt8(ascii: ","))
            documents.begin(property.name, of: schema)
            if let cell = cell(object.value(of: property), of: property) { Self.append(cell, to: &text) }
        }
        text.append(UInt8(ascii: "\n"))
    }

    /// The text of a value; nil for null.
    private mutating func cell(_ value: StateValue, of property: Property) -> [UInt8]? {
        if case .null = value { return nil }
        guard property.collection == .single, !property.isEmbedded, property.type != .null else {
            return json(value, of: property)
        }
        switch value {
        case .string(let bytes):
            return String(validating: bytes, as: UTF8.self) == nil ? json(value, of: property) : bytes
        case .binary(let bytes): return Array(Base64.encode(bytes).utf8)
        case .float(let value): return Array((value.isFinite ? "\(value)" : Double(value).word).utf8)
        case .double(let value): return Array((value.isFinite ? "\(value)" : value.word).utf8)
        case .decimal(let value): return Array(documents.plain(value).utf8)
        case .timestamp(let time): return time.exactDate.map { Array($0.utf8) } ?? json(value, of: property)
        case .objectID(let value): return Array("\(value)".utf8)
        case .uuid(let value): return Array("\(value)".utf8)
        case .link(let object):
            // Neither an empty cell nor an empty text means this object.
            guard object.key != .null else {
                documents.count(.nullKey)
                return nil
            }
            return key(object.key)
        default: return json(value, of: property)
        }
    }

    private mutating func json(_ value: StateValue, of property: Property) -> [UInt8] {
        var text: [UInt8] = []
        documents.append(value, isMixed: property.type == .null, to: &text)
        return text
    }

    private func key(_ key: PrimaryKey) -> [UInt8] {
        switch key {
        case .null: []
        case .int(let value): Array("\(value)".utf8)
        case .string(let bytes): bytes
        case .globalKey(let key): Array(key.text.utf8)
        case .objectID(let value): Array("\(value)".utf8)
        case .uuid(let value): Array("\(value)".utf8)
        }
    }

    // MARK: Cells

    private static func line(_ cells: [[UInt8]]) -> [UInt8] {
        var text: [UInt8] = []
        for (position, cell) in cells.enumerated() {
            if position > 0 { text.append(UInt8(ascii: ",")) }
            append(cell, to: &text)
        }
        text.append(UInt8(ascii: "\n"))
        return text
    }

    /// Appends a cell in quotation marks where it needs them. An empty text has them, so that it is not null.
    private static func append(_ cell: [UInt8], to text: inout [UInt8]) {
        let quote = UInt8(ascii: "\"")
        let special: Set<UInt8> = [quote, UInt8(ascii: ","), UInt8(ascii: "\n"), UInt8(ascii: "\r")]
        let space = UInt8(ascii: " ")
        guard cell.isEmpty || cell.first == space || cell.last == space || cell.contains(where: special.contains) else {
            text += cell
            return
        }
        text.append(quote)
        for byte in cell {
            if byte == quote { text.append(quote) }
            text.append(byte)
        }
        text.append(quote)
    }
}
