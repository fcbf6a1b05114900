/// A JSON value, as requests, tokens and answers hold it.
package enum JSONValue: Equatable, Sendable {
    case null
    case bool(Bool)
    /// A number without fraction and exponent that 64 bits can hold.
    case integer(Int64)
    /// A larger integer, by its digits: it is passed on as it is, and is not a number for calculations.
    case largeInteger(String)
    case real(Double)
    case string(String)
    case array([JSONValue])
    case object([JSONName: JSONValue])

    /// True if both are the same. Texts, like names, are the same if their bytes are.
    package static func == (left: JSONValue, right: JSONValue) -> Bool {
        switch (left, right) {
        case (.null, .null): true
        case (.bool(let flag), .bool(let other)): flag == other
        case (.integer(let number), .integer(let other)): number == other
        case (.largeInteger(let digits), .largeInteger(let others)): digits == others
        case (.real(let number), .real(let other)): number == other
        case (.string(let text), .string(let other)): text.utf8.elementsEqual(other.utf8)
        case (.array(let values), .array(let others)): values == others
        case (.object(let members), .object(let others)): members == others
        default: false
        }
    }

    package var string: String? { if case .string(let text) = self { text } else { nil } }
    package var integer: Int64? { if case .integer(let number) = self { number } else { nil } }
    package var bool: Bool? { if case .bool(let flag) = self { flag } else { nil } }
    package var array: [JSONValue]? { if case .array(let values) = self { values } else { nil } }
    package var members: [JSONName: JSONValue]? { if case .object(let members) = self { members } else { nil } }

    /// The members of an object whose names are a program's own: of names that are equal as `String`s, it has only one.
    package var object: [String: JSONValue]? {
        members.map { Dictionary($0.map { ($0.key.text, $0.value) }) { first, _ in first } }
    }

    package subscript(key: String) -> JSONValue? { members?[JSONName(key)] }

    /// An object whose names are a program's own.
    package static func object(_ members: [String: JSONValue]) -> JSONValue {
        .object(Dictionary(members.map { (JSONName($0.key), $0.value) }) { first, _ in first })
    }

    /// The value as text, members in the order of their names.
    package var encoded: String {
        var text = ""
        write(to: &text)
        return text
    }

    private func write(to text: inout String) {
        switch self {
        case .null: text += "null"
        case .bool(let flag): text += flag ? "true" : "false"
        case .integer(let number): text += String(number)
        case .largeInteger(let digits): text += digits
        case .real(let number): text += number.isFinite ? "\(number)" : "null"
        case .string(let string): text += JSONText.quoted(string)
        case .array(let values):
            text += "["
            for (index, value) in values.enumerated() {
                if index > 0 { text += "," }
                value.write(to: &text)
            }
            text += "]"
        case .object(let members):
            text += "{"
            for (index, member) in members.sorted(by: { $0.key < $1.key }).enumerated() {
                if index > 0 { text += "," }
                text += JSONText.quoted(member.key.text) + ":"
                member.value.write(to: &text)
            }
            text += "}"
        }
    }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByBooleanLiteral, ExpressibleByDictionaryLiteral,
    ExpressibleByArrayLiteral, ExpressibleByIntegerLiteral
{
    package init(stringLiteral value: String) { self = .string(value) }
    package init(booleanLiteral value: Bool) { self = .bool(value) }
    package init(integerLiteral value: Int64) { self = .integer(value) }
    package init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
    package init(dictionaryLiteral elements: (String, JSONValue)...) {
        self = .object(Dictionary(elements.map { (JSONName($0), $1) }) { _, last in last })
    }
}
