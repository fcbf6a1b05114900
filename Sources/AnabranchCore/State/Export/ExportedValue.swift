/// The content of a place of an object, as a line of an export writes it (`Spec/Export.md`, section 2): nothing is
/// lost, and equal contents have one text.
package indirect enum ExportedValue: Sendable {
    /// A value or a link, which may lead to no object.
    case value(Payload)
    case list([ExportedValue])
    /// The elements in the order of their texts, each once.
    case set([ExportedValue])
    /// The entries in the order of their keys' bytes.
    case dictionary([(key: [UInt8], value: ExportedValue)])
    /// An embedded object with all its fields, in the order of their names.
    case object([(name: [UInt8], value: ExportedValue)])

    /// The set of some elements.
    package init(setOf elements: [ExportedValue]) {
        var texts = Set<[UInt8]>()
        let sorted = elements.map { (text: $0.text, element: $0) }.sorted { $0.text.compare($1.text) < 0 }
        self = .set(sorted.filter { texts.insert($0.text).inserted }.map(\.element))
    }

    /// The dictionary with some entries.
    package init(dictionaryOf entries: [(key: [UInt8], value: ExportedValue)]) {
        self = .dictionary(entries.sorted { $0.key.compare($1.key) < 0 })
    }

    init(_ content: Content, at place: Place, in schema: Schema) throws(ApplyError) {
        switch content {
        case .link(let object): self = .value(.link(className: schema[object.classID].name, key: object.key))
        case .list(let elements):
            self = .list(
                try elements.map { element throws(ApplyError) in
                    try ExportedValue(element.content, at: place.element, in: schema)
                })
        case .set(let elements):
            self.init(
                setOf: try elements.map { element throws(ApplyError) in
                    try ExportedValue(element.content, at: place.element, in: schema)
                })
        case .dictionary(let entries):
            self = .dictionary(
                try entries.map { entry throws(ApplyError) in
                    (entry.key, try ExportedValue(entry.content, at: place.element, in: schema))
                })
        case .object(let fields):
            self = .object(try Self.fields(fields, of: place.target, in: schema))
        default: self = .value(try content.payload)
        }
    }

    static func fields(
        _ fields: Fields, of classID: ClassID, in schema: Schema
    ) throws(ApplyError) -> [(name: [UInt8], value: ExportedValue)] {
        let columns = schema[classID].columns.compactMap { $0 }.sorted { $0.name.compare($1.name) < 0 }
        return try columns.map { column throws(ApplyError) in
            let slot = column.place.slot
            let content = slot < fields.contents.count ? fields.contents[slot] : column.initial
            return (column.name, try ExportedValue(content, at: column.place, in: schema))
        }
    }

    // MARK: Text

    package var text: [UInt8] {
        var text: [UInt8] = []
        write(to: &text)
        return text
    }

    package func write(to text: inout [UInt8]) {
        switch self {
        case .value(.decimal(let value)):
            text += "{\"dec\":\"\(value)\"".utf8
            if Decimal128(exactly: "\(value)") != value { text += ",\"bits\":\"\(Hex.encode(value.bytes))\"".utf8 }
            text.append(UInt8(ascii: "}"))
        case .value(let payload): JSONText.append(payload, .exact, to: &text)
        case .list(let elements), .set(let elements):
            text += (isSet ? "{\"set\":" : "{\"list\":").utf8
            JSONText.append(array: elements.map(\.text), to: &text)
            text.append(UInt8(ascii: "}"))
        case .dictionary(let entries):
            text += "{\"dict\":".utf8
            Self.write(members: entries.map { ($0.key, $0.value) }, to: &text)
            text.append(UInt8(ascii: "}"))
        case .object(let fields): Self.write(members: fields.map { ($0.name, $0.value) }, to: &text)
        }
    }

    package static func write(members: [(name: [UInt8], value: ExportedValue)], to text: inout [UInt8]) {
        text.append(UInt8(ascii: "{"))
        for (position, member) in members.enumerated() {
            if position > 0 { text.append(UInt8(ascii: ",")) }
            JSONText.append(string: member.name, to: &text)
            text.append(UInt8(ascii: ":"))
            member.value.write(to: &text)
        }
        text.append(UInt8(ascii: "}"))
    }

    private var isSet: Bool { if case .set = self { true } else { false } }

    /// The payload that an instruction puts there first: the value, or the one for an empty object or collection.
    var payload: Payload {
        switch self {
        case .value(let payload): payload
        case .list: .list
        case .set: .set
        case .dictionary: .dictionary
        case .object: .objectValue
        }
    }
}
