import AnabranchCore
import AnabranchHistory
import AnabranchPropertyList

/// How long and how much the door keeps (`Spec/OverTheAirServer.md`, section 7).
package struct DoorLimits: Sendable {
    /// How long changes are kept, in days. A device that stays away longer begins with a slow sync.
    package var changeDays: UInt64 = 90
    /// How long a device is known that does not come, in days.
    package var deviceDays: UInt64 = 180
    /// How long names of sets of changes are known, and changes wait for a device's commit, in days.
    package var nameDays: UInt64 = 30
    /// The bytes of changes that are kept of a dataclass in a file.
    package var changeBytesMax: UInt64 = 64 << 20
    /// The bytes of changes that wait for a device's commit. With more at a start, they are given up.
    package var waitingBytesMax: UInt64 = 32 << 20
    /// How many devices an account may have.
    package var devicesMax = 100

    package init() {}
}

/// Keeps the changes of records by each entry of a file, whoever made it, so that the door knows a record as of an
/// earlier version.
struct DataclassObserver: RecordObserver {
    let dataclasses: [Dataclass]
    let limits: DoorLimits
    let unixSeconds: @Sendable () -> UInt64

    func observe(_ step: RecordStep, _ records: inout PendingRecords) throws(HistoryError) {
        let key = RowKey()
        // Without it, no device has opened the file.
        guard let door = try records.row(.door, key) else { return }
        let version = step.entry.version.rawValue, isNext = door.number("position") &+ 1 == version
        do {
            let changes = isNext ? try self.changes(step) : [:]
            for dataclass in dataclasses {
                guard var row = try records.row(.dataclass, RowKey(dataclass.uri)) else { continue }
                if !isNext {
                    // Entries were missed: what was before them is not known.
                    (row["base"], row["bytes"]) = (.number(version), 0)
                    try records.setRow(row, .dataclass, RowKey(dataclass.uri))
                } else if let changes = changes[dataclass.uri] {
                    try record(changes, of: dataclass.uri, &row, version, &records)
                }
            }
            try records.setRow(["position": .number(version)], .door, key)
        } catch let error as HistoryError {
            throw error
        } catch {
            throw HistoryError(.storeFailed, "a record cannot be read: \(error)")
        }
    }

    private func record(
        _ changes: [[UInt8]], of uri: String, _ row: inout PropertyListDictionary, _ version: UInt64,
        _ records: inout PendingRecords
    ) throws {
        // A clock that is behind for a while must not have what comes meanwhile erased once it is right again.
        let time = max(unixSeconds(), row.number("time")), expiry = time + limits.changeDays * 86_400
        row["time"] = .number(time)
        var bytes = row.number("bytes")
        for (ordinal, value) in changes.enumerated() {
            bytes += UInt64(value.count + 100)
            let key = ChangeRow.key(uri, version, UInt32(clamping: ordinal))
            records.set(value, at: RowKind.change.place(key.bytes), expiresAt: expiry)
        }
        var base = row.number("base")
        if bytes > limits.changeBytesMax { (base, bytes) = (version, 0) }
        (row["base"], row["bytes"]) = (.number(base), .number(bytes))
        try records.setRow(row, .dataclass, RowKey(uri))
        // What is at the base or below is not needed: a few of them go with each entry.
        var range = RowKind.change.range(RowKey(uri).bytes)
        range.upper = ChangeRow.key(uri, base &+ 1, 0).bytes
        for old in try records.records(in: range, countMax: changes.count + 64) { records.set(nil, at: old.place) }
    }

    /// The rows of the changes of records by the entry, by dataclass.
    private func changes(_ step: RecordStep) throws -> [String: [[UInt8]]] {
        let (objects, erasedClasses) = try step.touched()
        var changes: [String: [[UInt8]]] = [:]
        for dataclass in dataclasses {
            var ids: [RecordID] = [], seen: Set<RecordID> = [], new: Set<RecordID> = []
            func add(_ id: RecordID) { if seen.insert(id).inserted { ids.append(id) } }
            for (index, entity) in dataclass.entities.enumerated() {
                let name = Array(entity.className.utf8)
                for object in objects where object.className == name {
                    let id = RecordID(entity: index, key: object.key)
                    add(id)
                    // A write at the head creates only what was not there; clients also what was.
                    let isNew = step.author != nil && object.firstKind == .createObject
                    if isNew, !erasedClasses.contains(name) { new.insert(id) }
                }
                guard erasedClasses.contains(name), let number = step.before.classID(of: name) else { continue }
                try step.before.forEachObject(of: number) { object throws(ApplyError) in
                    if let key = object.key { add(RecordID(entity: index, key: key)) }
                }
            }
            guard !ids.isEmpty else { continue }
            let before = RecordView(dataclass, step.before, keepsLinks: true)
            let after = RecordView(dataclass, step.after, keepsLinks: true)
            let device = ChangeAuthor(step.author)?.device
            changes[dataclass.uri] = try ids.compactMap { id in
                try change(
                    of: id, new.contains(id) ? nil : before.record(id), after, step.entry.version.rawValue, device
                )?.bytes()
            }
        }
        return changes
    }

    /// - Parameter old: the record before the entry.
    private func change(
        of id: RecordID, _ old: RecordFields?, _ after: RecordView, _ version: UInt64, _ device: String?
    ) throws -> ChangeRow? {
        guard let text = after.text(of: id) else { return nil }
        // Of a new record, only that it is there.
        let new = old == nil ? try after.object(id).map { _ in [:] } : try after.record(id)
        var row = ChangeRow(
            version: version, entity: after.dataclass.entities[id.entity].name, id: text, kind: .change,
            device: device, fields: [], before: [:])
        switch (old, new) {
        case (nil, nil): return nil
        case (nil, _?): row.kind = .creation
        case (let old?, nil): (row.kind, row.before) = (.erasure, old)
        case (let old?, let new?):
            row.fields = Set(old.keys).union(new.keys).filter { old[$0] != new[$0] }.sorted()
            for field in row.fields { row.before[field] = old[field] }
            if row.fields.isEmpty { return nil }
        }
        return row
    }
}
