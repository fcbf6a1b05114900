import AnabranchCore
import AnabranchHistory
import AnabranchPropertyList

/// The change of one record by one entry of the log (`Spec/OverTheAirServer.md`, section 7).
struct ChangeRow {
    enum Kind: Int64 {
        case change = 0
        case creation, erasure
    }

    var version: UInt64
    var entity: String
    /// The server's id.
    var id: String
    var kind: Kind
    /// The device that sent the change; nil if others made it.
    var device: String?
    /// The fields that have changed.
    var fields: [String]
    /// Their values before, of those that had any; of an erased record all.
    var before: RecordFields

    var row: PropertyListDictionary {
        var row: PropertyListDictionary = [
            "entity": .string(entity), "id": .string(id), "kind": .integer(kind.rawValue), "fields": .texts(fields),
            "before": .dictionary(before),
        ]
        row["device"] = device.map { .string($0) }
        return row
    }

    init(
        version: UInt64, entity: String, id: String, kind: Kind, device: String?, fields: [String], before: RecordFields
    ) {
        (self.version, self.entity, self.id, self.kind) = (version, entity, id, kind)
        (self.device, self.fields, self.before) = (device, fields, before)
    }

    init(_ row: PropertyListDictionary, version: UInt64) {
        self.init(
            version: version, entity: row.text("entity") ?? "", id: row.text("id") ?? "",
            kind: row["kind"]?.integer.flatMap(Kind.init) ?? .change, device: row.text("device"),
            fields: row.texts("fields"), before: row["before"]?.dictionary ?? [:])
    }

    static func key(_ uri: String, _ version: UInt64, _ ordinal: UInt32) -> RowKey {
        var key = RowKey(uri)
        key.append(version)
        key.append(ordinal)
        return key
    }

    /// The version in a key.
    static func version(_ key: [UInt8]) -> UInt64 { key.dropLast(4).suffix(8).reduce(0) { $0 << 8 | UInt64($1) } }
}

/// The author of a write at the head: the device.
struct ChangeAuthor {
    private static let mark = Array("ota ".utf8)

    let device: String

    init(device: String) { self.device = device }

    init?(_ bytes: [UInt8]?) {
        guard let bytes, bytes.starts(with: Self.mark) else { return nil }
        device = String(decoding: bytes.dropFirst(Self.mark.count), as: UTF8.self)
    }

    var bytes: [UInt8] { Self.mark + device.utf8 }
}
