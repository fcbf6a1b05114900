import AnabranchCore
import AnabranchHistory
import AnabranchPropertyList

/// The device's ids of the records of a dataclass. They lead to one record each, and a record has one.
struct LocalIDs {
    let view: RecordView
    /// The beginning of the keys of all ids, and of those of the records of each entity.
    private let prefix: [UInt8], prefixes: [[UInt8]]
    /// The beginning of what is kept for an id of a record of each entity.
    private let names: [[UInt8]]

    init(device: String, view: RecordView) {
        let prefix = RowKey(device, view.dataclass.uri).bytes
        (self.view, self.prefix) = (view, prefix)
        prefixes = view.dataclass.entities.map { RowKey(prefix, $0.name).bytes }
        names = view.dataclass.entities.map { RowKey($0.name).bytes }
    }

    private func localPlace(_ local: String) -> RecordPlace { RowKind.localID.place(RowKey(prefix, local).bytes) }

    private func serverPlace(_ text: String, of entity: Int) -> RecordPlace {
        RowKind.serverID.place(RowKey(prefixes[entity], text).bytes)
    }

    /// How many ids are looked up one by one.
    private static let singleMax = 64

    /// Reads all ids, if that is faster than the given number of look-ups.
    func readAhead(for count: Int, _ records: inout PendingRecords) throws(HistoryError) {
        guard count > Self.singleMax else { return }
        for kind in [RowKind.localID, .serverID] { try records.readAhead(kind.range(prefix)) }
    }

    /// The record of a device's id; it may have been erased.
    /// - Parameter entity: its entity as the device says, which counts where the server does not know it.
    func record(_ local: String, of entity: Int? = nil, _ records: PendingRecords) throws -> RecordID? {
        guard let bytes = try records.value(at: localPlace(local)) else { return nil }
        let texts = try RowKey.texts(2, of: bytes[...]).texts
        func isGiven(_ id: RecordID) throws -> Bool {
            try given(serverPlace(texts[1], of: id.entity), records)?.hasBytes(of: local) ?? false
        }
        if let entity, let id = view.candidates(texts[1], of: entity).first, try isGiven(id) { return id }
        let first = view.dataclass.index(ofEntity: texts[0]).flatMap { view.candidates(texts[1], of: $0).first }
        if let first, try view.contains(first) { return first }
        // It was of a record that was gone, and may have been made again.
        return try view.candidates(texts[1]).first { try view.contains($0) && isGiven($0) } ?? first
    }

    /// The device's id of the record with a server's id: that one if the device has given none.
    func local(_ text: String, of entity: Int, _ records: PendingRecords) throws(HistoryError) -> String {
        try given(serverPlace(text, of: entity), records) ?? text
    }

    private func given(_ place: RecordPlace, _ records: PendingRecords) throws(HistoryError) -> String? {
        try records.value(at: place).map { String(decoding: $0, as: UTF8.self) }
    }

    /// The longest id of a device: it is part of the keys of rows.
    static let bytesMax = 1_024

    /// Gives a record an id, which may have been that of one that is gone.
    /// - Returns: false if the id is the server's own, too long or another record's, or the record has another id.
    func set(_ local: String, _ id: RecordID, _ records: inout PendingRecords) throws -> Bool {
        guard local.utf8.count <= Self.bytesMax, let text = view.text(of: id), !local.hasBytes(of: text) else {
            return false
        }
        let serverPlace = serverPlace(text, of: id.entity)
        if let known = try given(serverPlace, records) { return known.hasBytes(of: local) }
        if let other = try record(local, records) {
            if try view.object(other) != nil { return false }
            try erase(local, &records)
        }
        records.set(RowKey(names[id.entity], text).bytes, at: localPlace(local))
        records.set(Array(local.utf8), at: serverPlace)
        return true
    }

    /// Gives an id to a record that is gone. Its entity is not known: of all whose keys have the same form, it is that
    /// of which the device speaks.
    func set(_ local: String, toGone ids: [RecordID], _ records: inout PendingRecords) throws -> Bool {
        guard let first = ids.first, try set(local, first, &records), let text = view.text(of: first) else {
            return false
        }
        for id in ids.dropFirst() {
            let place = serverPlace(text, of: id.entity)
            if try given(place, records) == nil { records.set(Array(local.utf8), at: place) }
        }
        return true
    }

    func erase(_ local: String, _ records: inout PendingRecords) throws {
        if let id = try record(local, records), let text = view.text(of: id) {
            for id in view.candidates(text) {
                let place = serverPlace(text, of: id.entity)
                if try given(place, records)?.hasBytes(of: local) ?? false { records.set(nil, at: place) }
            }
        }
        records.set(nil, at: localPlace(local))
    }

    func eraseAll(_ records: inout PendingRecords) throws {
        for kind in [RowKind.localID, .serverID] { try records.eraseRows(kind, prefix) }
    }
}
