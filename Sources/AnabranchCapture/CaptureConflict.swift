import AnabranchCore

/// Values of a row or an object that are given up, as `sync_conflict` keeps them.
struct CaptureConflict: Hashable, Sendable {
    enum Kind: String {
        /// An object cannot hold the value: its column is kept.
        case value
        /// Others have erased the object to which the values were written.
        case erased
        /// Values of an object that has yielded to another one.
        case newest
        /// Values in whose place those of the other one of a row and its object count.
        case matched
    }

    /// The bytes of a value that are kept.
    private static let valueBytesMax = 64 << 10

    let kind: Kind
    let guid: UUIDBytes
    let table: Int64
    /// A JSON object with the values by column; the name of a column where there are none.
    let lost: String

    init(valueIn column: String, of guid: UUIDBytes, in table: Int64) {
        (kind, lost, self.guid, self.table) = (.value, column, guid, table)
    }

    init(_ kind: Kind, _ values: [(column: String, value: String)], of guid: UUIDBytes, in table: Int64) {
        let texts = values.map { (JSONName($0.column), JSONValue.string(Self.first(of: $0.value))) }
        lost = JSONValue.object(Dictionary(texts) { $1 }).encoded
        (self.kind, self.guid, self.table) = (kind, guid, table)
    }

    /// All values of a change.
    init(_ kind: Kind, _ change: ObjectChange) {
        self.init(kind, change.fields.map { ($0.property, $0.value.text) }, of: change.guid, in: change.table)
    }

    /// The first part of a text that is too long to be kept.
    private static func first(of text: String) -> String {
        let count = text.utf8.count
        guard count > valueBytesMax else { return text }
        // A character that is cut stands as one that cannot be read.
        let first = String(decoding: text.utf8.prefix(valueBytesMax), as: UTF8.self)
        return "\(first)… (the first \(valueBytesMax) of \(count) bytes)"
    }

    // MARK: JSON

    init?(_ json: JSONValue) {
        guard let parts = json.array, parts.count == 4, let kind = parts[0].string.flatMap(Kind.init),
            let guid = parts[1].string.flatMap(Hex.decode).flatMap({ UUIDBytes($0) }), let table = parts[2].integer,
            let lost = parts[3].string
        else { return nil }
        (self.kind, self.guid, self.table, self.lost) = (kind, guid, table, lost)
    }

    var json: JSONValue {
        .array([.string(kind.rawValue), .string(Hex.encode(guid.bytes)), .integer(table), .string(lost)])
    }
}
