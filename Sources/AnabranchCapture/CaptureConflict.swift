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
        /// Values of an object in whose place triggers of the application put others in its row.
        case altered
        /// Values in whose place those of the other one of a row and its object count.
        case matched
    }

    let kind: Kind
    let guid: UUIDBytes
    let table: Int64
    /// A JSON object with the values by column; the name of a column where there are none.
    let lost: String

    init(valueIn column: String, of guid: UUIDBytes, in table: Int64) {
        (kind, lost, self.guid, self.table) = (.value, column, guid, table)
    }

    init(_ kind: Kind, _ values: [(column: String, value: String)], of guid: UUIDBytes, in table: Int64) {
        let texts = values.map { (JSONName($0.column), JSONValue.string($0.value.kept)) }
        lost = JSONValue.object(Dictionary(texts) { $1 }).encoded
        (self.kind, self.guid, self.table) = (kind, guid, table)
    }

    /// All values of a change.
    init(_ kind: Kind, _ change: ObjectChange) {
        self.init(kind, change.fields.map { ($0.property, $0.value.text) }, of: change.guid, in: change.table)
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

extension String {
    /// The bytes that are kept of a text that is given up.
    private static let keptBytesMax = 64 << 10

    /// The text as it is kept where it is given up: the first part of a long one.
    package var kept: String {
        let count = utf8.count
        guard count > Self.keptBytesMax else { return self }
        // A character that is cut stands as one that cannot be read.
        return "\(String(decoding: utf8.prefix(Self.keptBytesMax), as: UTF8.self))… "
            + "(the first \(Self.keptBytesMax) of \(count) bytes)"
    }
}
