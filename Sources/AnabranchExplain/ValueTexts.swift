package import AnabranchCore

/// The values of a state as JSON, as an export has them (`Spec/Export.md`, section 2): nothing is lost, and a link
/// stands there whether its target exists or not.
package struct ValueTexts {
    private let classes: [ClassID: ClassSchema]

    package init(of state: ObjectGraph) {
        classes = Dictionary(state.classes.map { ($0.number, $0) }, uniquingKeysWith: { $1 })
    }

    /// The properties of an object's class, without the primary key.
    package func properties(of object: StateObject) -> [Property] { classes[object.classID]?.properties ?? [] }

    /// The name of an object's class.
    package func className(of object: StateObject) -> [UInt8] { classes[object.classID]?.name ?? [] }

    /// The properties of an object, by their names.
    func fields(of object: StateObject) -> [[UInt8]: [UInt8]] {
        let properties = properties(of: object)
        return Dictionary(properties.map { ($0.name, json(of: object.value(of: $0))) }, uniquingKeysWith: { $1 })
    }

    func json(of value: StateValue) -> [UInt8] {
        var text: [UInt8] = []
        append(value, to: &text)
        return text
    }

    private func append(_ value: StateValue, to text: inout [UInt8]) {
        switch value {
        case .object(let object):
            let properties = properties(of: object).sorted { $0.name.lexicographicallyPrecedes($1.name) }
            append(properties.map { ($0.name, object.value(of: $0)) }, to: &text)
        case .list(let list):
            text += #"{"list":"#.utf8
            JSONText.append(array: list.values.map(json), to: &text)
            text.append(UInt8(ascii: "}"))
        case .set(let set):
            text += #"{"set":"#.utf8
            JSONText.append(array: set.values.map(json).sorted { $0.lexicographicallyPrecedes($1) }, to: &text)
            text.append(UInt8(ascii: "}"))
        case .dictionary(let dictionary):
            text += #"{"dict":"#.utf8
            append(Array(zip(dictionary.keys, dictionary.values)), to: &text)
            text.append(UInt8(ascii: "}"))
        default: JSONText.append(payload(of: value) ?? .null, .exact, to: &text)
        }
    }

    private func append(_ members: [(name: [UInt8], value: StateValue)], to text: inout [UInt8]) {
        text.append(UInt8(ascii: "{"))
        for (position, member) in members.enumerated() {
            if position > 0 { text.append(UInt8(ascii: ",")) }
            JSONText.append(string: member.name, to: &text)
            text.append(UInt8(ascii: ":"))
            append(member.value, to: &text)
        }
        text.append(UInt8(ascii: "}"))
    }

    /// A value as the payload of an instruction; nil for collections and embedded objects.
    package func payload(of value: StateValue) -> Payload? {
        switch value {
        case .null: .null
        case .int(let value): .int(value)
        case .bool(let value): .bool(value)
        case .string(let value): .string(value)
        case .binary(let value): .binary(value)
        case .timestamp(let value): .timestamp(value)
        case .float(let value): .float(value)
        case .double(let value): .double(value)
        case .decimal(let value): .decimal(value)
        case .objectID(let value): .objectID(value)
        case .uuid(let value): .uuid(value)
        case .link(let object): .link(className: classes[object.classID]?.name ?? [], key: object.key)
        case .object, .list, .set, .dictionary: nil
        }
    }
}
