/// The value by which an app of partition-based sync names a partition (`Spec/Protocol.md`, section 4.2).
public enum PartitionValue: Hashable, Sendable {
    /// The types that the SDKs have.
    case null
    case string(String)
    /// `Int` of Swift is 64 bits, and so is what an integer literal makes.
    case int64(Int64)
    case int32(Int32)
    case objectID(ObjectID)
    case uuid(UUIDBytes)

    /// As clients send it: extended JSON. An `Authorizer` is asked about these bytes.
    public var bytes: [UInt8] { Array(json.utf8) }

    package var json: String {
        switch self {
        case .null: "null"
        case .string(let text): "\"" + text.unicodeScalars.map(Self.escaped).joined() + "\""
        case .int64(let number): #"{"$numberLong":"\#(number)"}"#
        case .int32(let number): #"{"$numberInt":"\#(number)"}"#
        case .objectID(let id): #"{"$oid":"\#(id)"}"#
        case .uuid(let id): #"{"$binary":{"base64":"\#(Base64.encode(id.bytes))","subType":"04"}}"#
        }
    }

    /// The SDKs write a control character in its shortest form.
    private static func escaped(_ character: Unicode.Scalar) -> String {
        switch character {
        case "\"": "\\\""
        case "\\": "\\\\"
        case "\u{8}": "\\b"
        case "\u{C}": "\\f"
        case "\n": "\\n"
        case "\r": "\\r"
        case "\t": "\\t"
        case "\0"..<" ": "\\u00" + Hex.encode(CollectionOfOne(UInt8(character.value)))
        default: String(character)
        }
    }
}

extension PartitionValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByNilLiteral {
    public init(stringLiteral value: String) { self = .string(value) }
    public init(integerLiteral value: Int64) { self = .int64(value) }
    public init(nilLiteral: ()) { self = .null }
}
