import AnabranchCore
import AnabranchHistory
import AnabranchPropertyList

/// The device's ids of the records of a dataclass. They lead to one record each, and a record has one.
struct LocalIDs {
    let device: String
    let view: RecordView

    private var uri: String { view.dataclass.uri }

    private func key(_ local: String) -> RowKey { RowKey(device, uri, local) }

    private func key(_ id: RecordID) -> RowKey? {
        view.text(of: id).map { RowKey(device, uri, view.dataclass.entities[id.entity].name, $0) }
    }

    /// How many ids are looked up one by one.
    private static let singleMax = 64

    /// Reads all ids, if that is faster than the given number of look-ups.
    func readAhead(for count: Int, _ records: inout PendingRecords) throws(HistoryError) {
        guard count > Self.singleMax else { return }
        for kind in [RowKind.localID, .serverID] { try records.readAhead(kind.range(RowKey(device, uri).bytes)) }
    }

    /// The record of a device's id; it may have been erased.
    func record(_ local: String, _ records: PendingRecords) throws(HistoryError) -> RecordID? {
        guard let bytes = try records.value(at: RowKind.localID.place(key(local).bytes)) else { return nil }
        let texts = try RowKey.texts(2, of: bytes).texts
        return view.dataclass.index(ofEntity: texts[0]).flatMap { view.candidates(texts[1], of: $0).first }
    }

    /// The device's id of a record: the server's if it has given none.
    func text(of id: RecordID, _ records: PendingRecords) throws(HistoryError) -> String? {
        try key(id).flatMap { key throws(HistoryError) in try local(of: key, records) } ?? view.text(of: id)
    }

    private func local(of key: RowKey, _ records: PendingRecords) throws(HistoryError) -> String? {
        try records.value(at: RowKind.serverID.place(key.bytes)).map { String(decoding: $0, as: UTF8.self) }
    }

    /// The longest id of a device: it is part of the keys of rows.
    static let bytesMax = 1_024

    /// - Returns: false if the id is too long or another record's, or the record has another id.
    func set(_ local: String, _ id: RecordID, _ records: inout PendingRecords) throws -> Bool {
        guard local.utf8.count <= Self.bytesMax, let text = view.text(of: id), let serverKey = key(id) else {
            return false
        }
        if let known = try self.local(of: serverKey, records) { return known.hasBytes(of: local) }
        let place = RowKind.localID.place(key(local).bytes)
        guard try records.value(at: place) == nil else { return false }
        records.set(RowKey(view.dataclass.entities[id.entity].name, text).bytes, at: place)
        records.set(Array(local.utf8), at: RowKind.serverID.place(serverKey.bytes))
        return true
    }

    func erase(_ local: String, _ records: inout PendingRecords) throws {
        if let id = try record(local, records), let key = key(id) {
            records.set(nil, at: RowKind.serverID.place(key.bytes))
        }
        records.set(nil, at: RowKind.localID.place(key(local).bytes))
    }

    /// All ids of the device that lead to records.
    func all(_ records: PendingRecords) throws -> [(local: String, id: RecordID)] {
        var all: [(String, RecordID)] = []
        let prefix = RowKey(device, uri).bytes
        try records.forEachRow(.localID, prefix) { record in
            let local = String(decoding: record.place.key.dropFirst(prefix.count + 4), as: UTF8.self)
            if let id = try self.record(local, records) { all.append((local, id)) }
        }
        return all
    }

    func eraseAll(_ records: inout PendingRecords) throws {
        try records.eraseRows(.localID, RowKey(device, uri).bytes)
        try records.eraseRows(.serverID, RowKey(device, uri).bytes)
    }
}
