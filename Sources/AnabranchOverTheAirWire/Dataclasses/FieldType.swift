import AnabranchCore
import AnabranchPropertyList

/// The type of a field, which says how its values are read (`Spec/OverTheAirServer.md`, section 2).
package enum FieldType: String, CaseIterable, Sendable {
    case string, integer, real, boolean, date, data, array, dictionary
    /// An integer that travels as text.
    case integerText = "string-integer"

    /// The type of a value in a column; Mixed for the elements of collections.
    var payloadType: PayloadType {
        switch self {
        case .string: .string
        case .integer, .integerText: .int
        case .real: .double
        case .boolean: .bool
        case .date: .timestamp
        case .data: .binary
        case .array, .dictionary: .null
        }
    }

    var collection: CollectionType {
        switch self {
        case .array: .list
        case .dictionary: .dictionary
        default: .single
        }
    }

    /// The value of a new object where it cannot be null.
    var initialPayload: Payload {
        switch self {
        case .string: .string([])
        case .integer, .integerText: .int(0)
        case .real: .double(0)
        case .boolean: .bool(false)
        case .date: .timestamp(Timestamp(seconds: 0, nanoseconds: 0))
        case .data: .binary([])
        case .array, .dictionary: .null
        }
    }

    /// The same in the form for devices.
    var initialTold: PropertyList? { self == .integerText ? "0" : Self.told(initialPayload) }

    // MARK: Telling

    /// A stored value in the form for devices; nil if there is none, or if it has no such form.
    func told(_ value: StateValue) -> PropertyList? {
        switch (self, value) {
        case (.array, .list(let list)):
            let values = list.values.compactMap { Self.toldElement($0) }
            return values.isEmpty ? nil : .array(values)
        case (.dictionary, .dictionary(let entries)):
            let members = Self.toldMembers(entries)
            return members == [:] ? nil : members
        case (.array, _), (.dictionary, _): return nil
        case (.integerText, .int(let number)): return .string(String(number))
        default: return Self.toldElement(value)
        }
    }

    /// The depth to which nested collections are sent and accepted: a message has to hold them.
    private static let depthMax = 32

    /// - Parameter depth: the number of collections that it stands in.
    private static func toldElement(_ value: StateValue, _ depth: Int = 1) -> PropertyList? {
        switch value {
        case .string(let bytes): .string(carried(String(decoding: bytes, as: UTF8.self)))
        case .int(let number): .integer(number)
        case .bool(let flag): .bool(flag)
        case .double(let number): number.isFinite ? .real(number == 0 ? 0 : number) : nil
        case .float(let number): number.isFinite ? .real(Double(number)) : nil
        case .binary(let bytes): .data(bytes)
        case .timestamp(let time):
            PropertyListDate(seconds: time.nanoseconds < 0 ? time.seconds &- 1 : time.seconds).map { .date($0) }
        case .uuid(let ident): .string(ident.description)
        case .objectID(let ident): .string(ident.description)
        case .decimal(let number): .string(number.description)
        case .list(let list) where depth < depthMax: .array(list.values.compactMap { toldElement($0, depth + 1) })
        case .dictionary(let entries) where depth < depthMax: toldMembers(entries, depth + 1)
        default: nil
        }
    }

    private static func toldMembers(_ entries: StateDictionary, _ depth: Int = 1) -> PropertyList {
        let members = zip(entries.keys, entries.values).compactMap { key, value in
            toldElement(value, depth).map { (String(decoding: key, as: UTF8.self), $0) }
        }
        return .dictionary(PropertyListDictionary(members) { $1 })
    }

    /// A text without the characters that XML cannot carry.
    private static func carried(_ text: String) -> String {
        func isCarried(_ scalar: Unicode.Scalar) -> Bool {
            switch scalar.value {
            case 9, 10, 13: true
            case ..<0x20, 0xFFFE, 0xFFFF: false
            default: true
            }
        }
        // Nearly all texts: no byte of theirs is one of such a character.
        if text.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0xEF }) { return text }
        guard !text.unicodeScalars.allSatisfy(isCarried) else { return text }
        var carried = String.UnicodeScalarView()
        for scalar in text.unicodeScalars { carried.append(isCarried(scalar) ? scalar : "\u{FFFD}") }
        return String(carried)
    }

    // MARK: Reading

    /// A value in a collection.
    indirect enum Element {
        case value(Payload)
        case list([Element])
        case dictionary([(key: String, value: Element)])

        /// The value in the form for devices.
        var told: PropertyList? {
            switch self {
            case .value(let payload): FieldType.told(payload)
            case .list(let elements): .array(elements.compactMap(\.told))
            case .dictionary(let entries): .dictionary(entries.told)
            }
        }
    }

    /// Reads a device's value.
    /// - Returns: the value in the form for devices; nil if it is none.
    /// - Throws: the reason why it does not fit the type.
    func read(_ value: PropertyList) throws(WrongValue) -> PropertyList? {
        switch self {
        case .array:
            let values = try elements(value).compactMap(\.told)
            return values.isEmpty ? nil : .array(values)
        case .dictionary:
            let members = try entries(value).told
            return members.isEmpty ? nil : .dictionary(members)
        case .string where value.string != nil: return value.string.map { .string(Self.carried($0)) }
        case .integerText: return Self.told(try payload(value))?.integer.map { .string(String($0)) }
        default: return Self.told(try payload(value))
        }
    }

    /// The elements of an array.
    func elements(_ value: PropertyList) throws(WrongValue) -> [Element] {
        guard let values = value.array else { throw WrongValue(reason: "no array") }
        return try values.map { value throws(WrongValue) in try Self.element(value) }
    }

    /// The entries of a dictionary.
    func entries(_ value: PropertyList) throws(WrongValue) -> [(key: String, value: Element)] {
        guard let members = value.dictionary else { throw WrongValue(reason: "no dictionary") }
        return try Self.entries(members)
    }

    fileprivate static func told(_ payload: Payload) -> PropertyList? {
        switch payload {
        case .string(let bytes): toldElement(.string(bytes))
        case .int(let number): .integer(number)
        case .bool(let flag): .bool(flag)
        case .double(let number): .real(number == 0 ? 0 : number)
        case .binary(let bytes): .data(bytes)
        case .timestamp(let time): toldElement(.timestamp(time))
        default: nil
        }
    }

    /// The stored form of a value, of a field that is not a collection.
    func payload(_ value: PropertyList) throws(WrongValue) -> Payload {
        switch (self, value) {
        case (.string, .string(let text)): return .string(Array(text.utf8))
        case (.string, .integer(let number)): return .string(Array(String(number).utf8))
        case (.string, .largeInteger(let number)): return .string(Array(String(number).utf8))
        case (.integer, .integer(let number)), (.integerText, .integer(let number)): return .int(number)
        case (.integerText, .string(let text)):
            guard let number = Int64(text) else { throw WrongValue(reason: "the text is not an integer of 64 bits") }
            return .int(number)
        case (.real, .real(let number)) where number.isFinite: return .double(number)
        case (.real, .integer(let number)): return .double(Double(number))
        case (.boolean, .bool(let flag)): return .bool(flag)
        case (.date, .date(let date)): return Self.payload(date)
        case (.data, .data(let bytes)):
            // Short ones are copied, as texts are: they would keep the memory of the message around them.
            return .binary(bytes.count > 1_024 ? bytes : bytes.withUnsafeBytes { Array($0) })
        default: throw WrongValue(reason: "no \(rawValue)")
        }
    }

    private static func element(_ value: PropertyList, _ depth: Int = 1) throws(WrongValue) -> Element {
        switch value {
        case .string(let text): return .value(.string(Array(text.utf8)))
        case .integer(let number): return .value(.int(number))
        case .real(let number) where number.isFinite: return .value(.double(number))
        case .bool(let flag): return .value(.bool(flag))
        case .date(let date): return .value(payload(date))
        case .data(let bytes): return .value(.binary(bytes))
        case .array where depth >= depthMax, .dictionary where depth >= depthMax:
            throw WrongValue(reason: "more than \(depthMax) collections within each other")
        case .array(let values):
            var elements: [Element] = []
            for value in values { elements.append(try element(value, depth + 1)) }
            return .list(elements)
        case .dictionary(let members): return .dictionary(try entries(members, depth + 1))
        default: throw WrongValue(reason: "an element that is not a value")
        }
    }

    private static func entries(
        _ members: PropertyListDictionary, _ depth: Int = 1
    ) throws(WrongValue) -> [(key: String, value: Element)] {
        var entries: [(key: String, value: Element)] = []
        for (key, value) in members {
            guard key.utf8.first != UInt8(ascii: "$"), !key.utf8.contains(UInt8(ascii: ".")) else {
                throw WrongValue(reason: "the key \(String(excerptOf: key.utf8)) begins with $ or has a point")
            }
            entries.append((key, try element(value, depth)))
        }
        return entries
    }

    private static func payload(_ date: PropertyListDate) -> Payload {
        // Both parts of a stored time have one sign.
        let isBefore = date.seconds < 0 && date.nanoseconds > 0
        return .timestamp(
            Timestamp(
                seconds: date.seconds + (isBefore ? 1 : 0),
                nanoseconds: date.nanoseconds - (isBefore ? 1_000_000_000 : 0)))
    }
}

/// The reason why a device's value does not fit its type.
struct WrongValue: Error {
    var reason: String
}

extension [(key: String, value: FieldType.Element)] {
    /// The value in the form for devices.
    fileprivate var told: PropertyListDictionary {
        PropertyListDictionary(compactMap { key, value in value.told.map { (key, $0) } }) { $1 }
    }
}
