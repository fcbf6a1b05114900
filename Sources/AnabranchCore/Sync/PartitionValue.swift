/// The value by which an app of partition-based sync names a partition (`Spec/Protocol.md`, section 4.2).
public enum PartitionValue: Sendable {
    /// The types that the SDKs have.
    case null
    case string(String)
    /// An integer of any size: the type of a partition key is `long`, and 7 of 32 bits is the same partition.
    case int64(Int64)
    case objectID(ObjectID)
    case uuid(UUIDBytes)

    /// The one text in extended JSON that the value has here, however clients spell it. An `Authorizer` is asked about
    /// these bytes.
    public var bytes: [UInt8] { Array(json.utf8) }

    package var json: String {
        switch self {
        case .null: "null"
        case .string(let text): "\"" + text.unicodeScalars.map(Self.escaped).joined() + "\""
        case .int64(let number): #"{"$numberLong":"\#(number)"}"#
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

extension PartitionValue: Hashable {
    /// True if both name one partition: texts are compared as they are, without normalization.
    public static func == (left: PartitionValue, right: PartitionValue) -> Bool { left.bytes == right.bytes }

    /// Equal values have equal bytes.
    public func hash(into hasher: inout Hasher) { hasher.combine(bytes) }
}

extension PartitionValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByNilLiteral {
    public init(stringLiteral value: String) { self = .string(value) }
    public init(integerLiteral value: Int64) { self = .int64(value) }
    public init(nilLiteral: ()) { self = .null }
}

// MARK: - Reading

extension PartitionValue {
    /// The depth that a UUID needs.
    private static let depthMax = 2
    /// The magnitude beyond which a Double does not tell one integer from the next.
    private static let exactDoubleMax: Double = 9_007_199_254_740_992

    /// Reads a value in MongoDB's extended JSON, however it is spelled: canonical, relaxed, or as older programs write
    /// it; with any blanks, escapes and order of keys.
    /// - Returns: nil for all that names no value of these types.
    public init?(extendedJSON text: some Collection<UInt8>) {
        guard let json = try? JSONValue(parsing: text, depthMax: Self.depthMax) else { return nil }
        self.init(json)
    }

    /// - Returns: nil for all that names no value of these types.
    package init?(_ json: JSONValue) {
        let value: PartitionValue? =
            switch json {
            case .null: .null
            case .integer(let number): .int64(number)
            case .real(let number): Self.integer(number)
            case .string(let text): .string(text)
            case .object(let members):
                members.count == 1
                    ? members.first.flatMap { Self.value($0.key.text, $0.value) }
                    : members.count == 2 ? Self.uuid(members["$binary"], members["$type"]) : nil
            case .bool, .largeInteger, .array: nil
            }
        guard let value else { return nil }
        self = value
    }

    /// True if this is the one text of a string, as can be seen without parsing it: in quotation marks, with nothing
    /// between them but printable ASCII that needs no escapes.
    package static func isPlainText(_ partition: ArraySlice<UInt8>) -> Bool {
        let quote = UInt8(ascii: "\"")
        guard partition.count > 1, partition.first == quote, partition.last == quote else { return false }
        return partition.dropFirst().dropLast().allSatisfy {
            0x20..<0x7f ~= $0 && $0 != quote && $0 != UInt8(ascii: "\\")
        }
    }

    /// The partition as synced files are named after it: a value in its one text, and bytes that are no value as they
    /// are.
    package static func canonical(_ partition: some Collection<UInt8>) -> [UInt8] {
        PartitionValue(extendedJSON: partition)?.bytes ?? Array(partition)
    }

    /// The same for clients that send strings as they are (`Spec/Forks.md`, section 4): a text is a string, unless it
    /// is a number, an object or null in JSON.
    package static func canonical(plain partition: some Collection<UInt8>) -> [UInt8] {
        let json = try? JSONValue(parsing: partition)
        if let value = json.flatMap({ PartitionValue($0) }) { return value.bytes }
        switch json {
        case .object, .real, .largeInteger: return Array(partition)
        default:
            let text = String(validating: partition, as: UTF8.self)
            return text.map { PartitionValue.string($0).bytes } ?? Array(partition)
        }
    }

    /// A partition in its one text, without the slash that a text can begin with: tokens name it either way.
    package static func withoutSlash(_ canonical: [UInt8]) -> [UInt8] {
        canonical.starts(with: "\"/".utf8) ? [canonical[0]] + canonical[2...] : canonical
    }

    /// True if a partition looks like extended JSON but names no value: `{"$numberLong":42}`, for instance. Its bytes
    /// are then a partition of their own, which was hardly intended.
    package static func isMistaken(_ partition: some Collection<UInt8>) -> Bool {
        guard partition.first == UInt8(ascii: "{"),
            let json = try? JSONValue(parsing: partition, depthMax: depthMax),
            let names = json.members?.keys, names.contains(where: { $0.utf8.first == UInt8(ascii: "$") })
        else { return false }
        return PartitionValue(json) == nil
    }

    private static func value(_ key: String, _ value: JSONValue) -> PartitionValue? {
        switch key {
        case "$numberInt": value.string.flatMap { Int32($0) }.map { .int64(Int64($0)) }
        case "$numberLong": value.string.flatMap { Int64($0) }.map { .int64($0) }
        case "$numberDouble": value.string.flatMap { Double(extendedJSON: $0) }.flatMap(integer)
        case "$oid": value.string.flatMap(Hex.decode).flatMap { ObjectID($0) }.map { .objectID($0) }
        case "$uuid": value.string.flatMap { UUIDBytes(text: $0) }.map { .uuid($0) }
        case "$binary": value.members?.count == 2 ? uuid(value["base64"], value["subType"]) : nil
        default: nil
        }
    }

    /// JavaScript has no other numbers, and some writers give them a fraction.
    private static func integer(_ number: Double) -> PartitionValue? {
        number.magnitude <= exactDoubleMax ? Int64(exactly: number).map { .int64($0) } : nil
    }

    private static func uuid(_ base64: JSONValue?, _ subtype: JSONValue?) -> PartitionValue? {
        guard let text = base64?.string, let subtype = subtype?.string, ["4", "04"].contains(subtype) else {
            return nil
        }
        return Base64.decode(text.utf8).flatMap { UUIDBytes($0) }.map { .uuid($0) }
    }
}
