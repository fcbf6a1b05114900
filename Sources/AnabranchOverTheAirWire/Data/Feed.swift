import AnabranchCore
import AnabranchHistory
import AnabranchPropertyList

/// The changes of the records of a dataclass after a version.
struct Feed {
    private var rows: [RecordID: [ChangeRow]] = [:]

    /// No changes.
    init() {}

    init(_ dataclass: Dataclass, after version: UInt64, _ view: RecordView, _ records: PendingRecords) throws {
        let last = ChangeRow.key(dataclass.uri, version, .max).bytes
        try records.forEachRow(.change, RowKey(dataclass.uri).bytes, after: last) { record in
            let row = try ChangeRow(record.value, version: ChangeRow.version(record.place.key))
            guard let entity = dataclass.index(ofEntity: row.entity),
                let id = view.candidates(row.id, of: entity).first
            else { return }
            rows[id, default: []].append(row)
        }
    }

    /// The records that have changed.
    var ids: Dictionary<RecordID, [ChangeRow]>.Keys { rows.keys }

    /// A record as a device knows it: its fields at a version, overlaid with the device's own changes since. Nil if the
    /// device does not have it.
    /// - Parameters:
    ///   - now: the record at the head, with all its links.
    ///   - told: a record without its links to what was not there at a version.
    ///   - wasShown: false for records that the filter of that time kept from the device.
    func known(
        _ id: RecordID, _ now: RecordFields?, to device: String, since version: UInt64,
        _ told: (RecordFields, UInt64) throws -> RecordFields, wasShown: (RecordFields) -> Bool
    ) rethrows -> RecordFields? {
        let rows = (rows[id] ?? []).filter { $0.version > version }
        // The states after each change, from the last to the first.
        var states: [RecordFields?] = [now]
        for row in rows.reversed() {
            var state = states.last ?? nil
            switch row.kind {
            case .creation: state = nil
            case .erasure: state = row.before
            case .change: for field in row.fields { state?[field] = row.before[field] }
            }
            states.append(state)
        }
        states.reverse()
        var known = try states[0].map { try told($0, version) }.flatMap { wasShown($0) ? $0 : nil }
        for (row, state) in zip(rows, states.dropFirst()) where row.device.map({ $0.hasBytes(of: device) }) ?? false {
            let state = try state.map { try told($0, row.version) }
            switch row.kind {
            case .creation, .erasure: known = state
            case .change: for field in row.fields { known?[field] = state?[field] }
            }
        }
        return known
    }

    /// True if a record was there at a version.
    /// - Parameters:
    ///   - isThere: true if it is there at the head.
    ///   - device: one that has the version and its own changes since; nil for the version alone.
    func has(_ id: RecordID, isThere: Bool, at version: UInt64, with device: String? = nil) -> Bool {
        let rows = (rows[id] ?? []).filter { $0.version > version && $0.kind != .change }
        var has = rows.first.map { $0.kind == .erasure } ?? isThere
        if let device {
            for row in rows where row.device?.hasBytes(of: device) ?? false { has = row.kind == .creation }
        }
        return has
    }
}
