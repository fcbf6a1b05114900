package import AnabranchCore
import AnabranchQuery

// Constants in MongoDB's extended JSON, both its canonical and its relaxed form, and UUIDs as App Services writes them
// (`Spec/FlexibleRules.md`, section 4).

extension JSONValue {
    private static let keysOfConstants: Set = [
        "$oid", "$uuid", "$date", "$binary", "$numberInt", "$numberLong", "$numberDouble", "$numberDecimal", "$literal",
    ]

    /// True if this is an object that stands for a constant.
    var isExtendedConstant: Bool {
        guard let keys = object?.keys else { return false }
        return keys.contains { Self.keysOfConstants.contains($0) }
    }

    /// The constant that this is; nil for arrays, documents, and malformed values.
    package var constant: Payload? {
        switch self {
        case .null: .null
        case .bool(let value): .bool(value)
        case .integer(let value): .int(value)
        case .real(let value): .number(value)
        case .string(let text): .string(Array(text.utf8))
        case .array, .largeInteger: nil
        case .object(let members):
            members.count == 1
                ? members.first.flatMap { Self.constant($0.key.text, $0.value) } : Self.legacyBinary(members)
        }
    }

    /// True if it is the same as a constant, in the way that conditions compare them: numbers are the same if their
    /// values are.
    package func isSame(as constant: Payload) -> Bool {
        self.constant.map { FilterTest(.isIn, [constant]).isFulfilled(byOneOf: [$0]) } ?? false
    }

    /// The first part that rules could not compare as intended, described in words: an integer that 64 bits do not
    /// hold, or an object that looks like a constant of extended JSON but is not one; nil if there is no such part.
    /// - Parameter place: the place of the value, for the description.
    package func mistake(at place: String) -> String? {
        switch self {
        case .largeInteger: return "\(place): \(excerpt) is not an integer of 64 bits"
        case .array(let values):
            return values.enumerated().lazy.compactMap { $1.mistake(at: "\(place)[\($0)]") }.first
        case .object(let members):
            guard !isExtendedConstant else {
                return constant == nil ? "\(place): \(excerpt) looks like extended JSON and is none" : nil
            }
            return members.sorted { $0.key < $1.key }.lazy.compactMap { $1.mistake(at: "\(place).\($0.text)") }.first
        case .null, .bool, .integer, .real, .string: return nil
        }
    }

    private static func constant(_ key: String, _ value: JSONValue) -> Payload? {
        switch key {
        case "$literal": value.string.map { .string(Array($0.utf8)) }
        case "$oid": value.string.flatMap(Payload.init(objectID:))
        case "$uuid": value.string.flatMap(Payload.init(uuid:))
        case "$numberInt": value.string.flatMap { Int32($0) }.map { .int(Int64($0)) }
        case "$numberLong": value.string.flatMap { Int64($0) }.map(Payload.int)
        case "$numberDouble": value.string.flatMap { Double(extendedJSON: $0) }.map(Payload.number)
        case "$numberDecimal": value.string.flatMap(Payload.init(decimal:))
        case "$date": date(value)
        case "$binary": binary(value["base64"], value["subType"])
        default: nil
        }
    }

    /// Binary data in the older form `{"$binary": "…", "$type": "00"}`.
    private static func legacyBinary(_ members: [JSONName: JSONValue]) -> Payload? {
        guard members.count == 2, let type = members["$type"] else { return nil }
        return binary(members["$binary"], type)
    }

    private static func binary(_ base64: JSONValue?, _ subtype: JSONValue?) -> Payload? {
        guard let base64 = base64?.string, let subtype = subtype?.string else { return nil }
        return Payload(base64: base64, subtype: subtype)
    }

    /// Milliseconds since 1970, or a text of RFC 3339.
    private static func date(_ value: JSONValue) -> Payload? {
        let milliseconds =
            if let text = value.string {
                RFC3339.milliseconds(text.utf8)
            } else {
                value.integer ?? value["$numberLong"]?.string.flatMap { Int64($0) }
            }
        return milliseconds.map(Payload.date)
    }
}

extension Payload {
    /// A number in the one form that stands for all equal ones: a number without fraction is an Int, and NaN, which as
    /// a Double does not equal itself, a Decimal.
    static func number(_ value: Double) -> Payload {
        if value.isNaN { return Decimal128(text: Array("NaN".utf8)).map(Payload.decimal) ?? .null }
        return Int64(exactly: value).map(Payload.int) ?? .double(value)
    }

    static func date(milliseconds: Int64) -> Payload {
        .timestamp(
            Timestamp(
                seconds: milliseconds / 1000, nanoseconds: Int32(milliseconds % 1000) * 1_000_000))
    }

    init?(objectID text: String) {
        guard text.utf8.count == 24, let bytes = Hex.decode(text), let value = ObjectID(bytes) else { return nil }
        self = .objectID(value)
    }

    init?(uuid text: String) {
        guard let value = UUIDBytes(text: text) else { return nil }
        self = .uuid(value)
    }

    /// A binary, or a UUID, which is a binary of subtype 4 with 16 bytes.
    init?(binary bytes: [UInt8], subtype: UInt8) {
        guard subtype == 4 else {
            self = .binary(bytes)
            return
        }
        guard let uuid = UUIDBytes(bytes) else { return nil }
        self = .uuid(uuid)
    }

    init?(base64: String, subtype: String) {
        guard let bytes = Base64.decode(base64.utf8), let number = UInt8(subtype, radix: 16) else { return nil }
        self.init(binary: bytes, subtype: number)
    }

    /// A decimal as MongoDB writes it; nil for a number that 34 digits do not hold.
    init?(decimal text: String) {
        switch text {
        // The short words occur in conditions that are stored.
        case "Infinity", "-Infinity", "Inf", "-Inf", "NaN", "-NaN":
            guard let value = Decimal128(text: Array(text.utf8)) else { return nil }
            self = .decimal(value)
        default:
            guard let value = DecimalText(text.utf8).flatMap({ Decimal128($0) }) else { return nil }
            self = .decimal(value)
        }
    }

    private static func text(of value: Double) -> String {
        value.isFinite ? "\(value)" : value.isNaN ? "NaN" : value < 0 ? "-Infinity" : "Infinity"
    }

    /// The constant in a form that can be read again. Texts that begin with a per cent sign are marked, so that they
    /// are not taken for the name of a value.
    var extendedJSON: JSONValue {
        switch self {
        case .bool(let value): .bool(value)
        case .int(let value): .integer(value)
        case .string(let value) where value.first == UInt8(ascii: "%"):
            ["$literal": .string(String(decoding: value, as: UTF8.self))]
        case .string(let value): .string(String(decoding: value, as: UTF8.self))
        case .binary(let value):
            ["$binary": ["base64": .string(Base64.encode(value)), "subType": "00"]]
        case .timestamp(let value):
            ["$date": ["$numberLong": .string("\(value.seconds * 1000 + Int64(value.nanoseconds) / 1_000_000)")]]
        case .float(let value): Payload.double(Double(value)).extendedJSON
        case .double(let value): ["$numberDouble": .string(Self.text(of: value))]
        case .decimal(let value): ["$numberDecimal": .string("\(value)")]
        case .objectID(let value): ["$oid": .string("\(value)")]
        case .uuid(let value): ["$uuid": .string("\(value)")]
        case .null, .link, .objectValue, .dictionary, .list, .set, .erased: .null
        }
    }
}
