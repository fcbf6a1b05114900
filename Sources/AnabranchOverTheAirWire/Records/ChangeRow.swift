import AnabranchCore
import AnabranchHistory
import AnabranchPropertyList

/// The change of one record by one entry of the log (`Spec/OverTheAirServer.md`, section 7).
struct ChangeRow {
    enum Kind: UInt8 {
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

    /// The kind, 1 if a device made it, entity, id and device, followed by the fields if there are any.
    func bytes() throws(PropertyListError) -> [UInt8] {
        var bytes = [kind.rawValue, device == nil ? 0 : 1]
        bytes += RowKey(entity, id, device ?? "").bytes
        guard !fields.isEmpty || !before.isEmpty else { return bytes }
        let row: PropertyList = ["fields": .texts(fields), "before": .dictionary(before)]
        return bytes + (try row.encoded(as: .binary, limits: .rows))
    }

    init(
        version: UInt64, entity: String, id: String, kind: Kind, device: String?, fields: [String], before: RecordFields
    ) {
        (self.version, self.entity, self.id, self.kind) = (version, entity, id, kind)
        (self.device, self.fields, self.before) = (device, fields, before)
    }

    /// - Throws: `storeDamaged` if `bytes` did not make it.
    init(_ bytes: [UInt8], version: UInt64) throws(HistoryError) {
        guard bytes.count > 2, let kind = Kind(rawValue: bytes[0]) else {
            throw HistoryError(.storeDamaged, "a change of the property-list door cannot be read")
        }
        let (texts, rest) = try RowKey.texts(3, of: bytes[2...])
        let row = rest.isEmpty ? [:] : try PendingRecords.dictionary(Array(rest))
        self.init(
            version: version, entity: texts[0], id: texts[1], kind: kind, device: bytes[1] == 0 ? nil : texts[2],
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
