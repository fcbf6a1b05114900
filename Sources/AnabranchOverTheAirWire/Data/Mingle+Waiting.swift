import AnabranchCore
import AnabranchHistory
import AnabranchOverTheAir
import AnabranchPropertyList

/// The changes of a device that wait for its commit, by records.
struct WaitingChanges {
    /// The fields that the device has changed, with their values; nil for those that have none any more.
    var fields: [RecordID: [ExactString: PropertyList?]] = [:]
    /// Records that are not there yet, and those that the device has deleted: there is nothing to tell of them.
    var gone: Set<RecordID> = []
    /// The device's ids of records that are not there yet, by the server's.
    var ids: [ExactString: String] = [:]

    /// A record with the values that it has on the device.
    func overlaid(_ record: RecordFields, _ id: RecordID) -> RecordFields {
        var record = record
        for (name, value) in fields[id] ?? [:] { record[name.text] = value }
        return record
    }
}

/// An item that waits for the commit of the device.
private struct WaitingItem {
    let id: String
    /// The server's id of the record; nil if that is not there yet.
    let record: String?
    /// As a change of fields, whatever form it had. Links lead to the server's ids, if there are such.
    let item: PropertyList
    /// The fields that it is about, as the device knew them; nil if the device did not have the record.
    let known: RecordFields?

    init(_ id: String, _ record: String?, _ item: Changes.Item, known: RecordFields?) {
        (self.id, self.record, self.item, self.known) = (id, record, Changes.propertyList(item), known)
    }

    init(_ row: PropertyListDictionary) {
        (id, record) = (row.text("id") ?? "", row.text("record"))
        (item, known) = (row["item"] ?? [:], row["known"]?.dictionary)
    }

    var row: PropertyListDictionary {
        var row: PropertyListDictionary = ["id": .string(id), "item": item]
        row["record"] = record.map { .string($0) }
        row["known"] = known.map { .dictionary($0) }
        return row
    }

    /// The item for itself, as if the device had just sent it.
    func pull(_ uri: String) -> Pull {
        var pull = Pull(uri: uri, anchors: Anchors())
        let changes = Changes(.changes, PropertyListDictionary([(id, item)]) { $1 })
        pull.commands = [Pull.Command(sequence: 1, changes: changes)]
        return pull
    }
}

extension ItemReader {
    /// The items that wait for the commit, in the order in which they came.
    fileprivate func waitingItems(_ uri: String, _ records: PendingRecords, device: String) throws -> [ReadItem] {
        var items: [ReadItem] = []
        try records.forEachRow(.pulled, RowKey(device, uri).bytes) { record in
            let waiting = WaitingItem(try PendingRecords.dictionary(record.value))
            let entity = waiting.item["entity"]?.string.flatMap(ids.view.dataclass.index(ofEntity:))
            let target = waiting.record.flatMap { ids.view.candidates($0, of: entity).first }
            for var item in try self.items(of: waiting.pull(uri), isMatched: false, target: target) {
                item.known = KnownRecord(fields: waiting.known)
                items.append(item)
            }
        }
        return items
    }
}

// MARK: - Before the commit

extension ClassMingle {
    /// Keeps what the device has sent until it commits it. It counts as known to the device, and is not pushed.
    mutating func keep(_ data: inout FileData) throws {
        let count = pull.commands.reduce(0) { $0 + $1.changes.items.count }
        try data.readIDsAhead(for: count, of: dataclass, sync)
        let reader = ItemReader(data, dataclass, feed)
        var items = try reader.waitingItems(pull.uri, data.records, device: data.device)
        let type = pull.commands.last { $0.changes.itemType != nil }?.changes.itemType
        if !isRepeat { items += try reader.items(of: pull, isMatched: false) }
        pull.commands = []
        let new = try resolve(&items, reader, data)
        for (local, id) in new {
            waiting.gone.insert(id)
            knownRecords[id] = KnownRecord(fields: [:])
            if let text = view.text(of: id) { waiting.ids[ExactString(text)] = local.text }
        }
        var kept: [WaitingItem] = []
        for item in items {
            guard let id = new[ExactString(item.id)] ?? item.target else { continue }
            let isNew = new[ExactString(item.id)] != nil
            if let change = try wait(for: item, id, isNew: isNew, data), item.known == nil { kept.append(change) }
        }
        try forceRefused(reader, data)
        failures = isRepeat ? storedFailures() : reader.failures
        try record(type, &data)
        try data.append(kept.map(\.row), to: &sync, of: pull.uri, isNewName: !isRepeat)
    }

    /// Overlays a record with a change that waits.
    /// - Returns: the change, as it is kept; nil if it changes nothing.
    private mutating func wait(
        for item: ReadItem, _ id: RecordID, isNew: Bool, _ data: FileData
    ) throws -> WaitingItem? {
        let now = try known(id, data), before = item.known.map(\.fields) ?? now
        let entity = dataclass.entities[id.entity].name, record = isNew ? nil : view.text(of: id)
        var names = Set(item.sent.keys.map { ExactString($0) }), links = item.linked, clear: [String] = []
        switch item.kind {
        case .delete:
            // If a filter hides the record, the device has only deleted its own copy.
            guard before != nil else { return nil }
            waiting.gone.insert(id)
            knownRecords[id] = KnownRecord(fields: nil)
            return WaitingItem(item.id, record, .delete(entity: entity), known: [:])
        case .record(let unchanged):
            let supported = supported[id.entity]
            func counts(_ name: String) -> Bool {
                !unchanged.contains(ExactString(name)) && supported?.contains(ExactString(name)) ?? true
            }
            let said = names.union(item.links.map { ExactString($0.name) })
            names = names.filter { counts($0.text) && before?[$0.text] != item.told[$0.text] }
            links = links.filter { counts($0.name) && (before?[$0.name] ?? []) != .texts($0.ids) }
            clear = before?.keys.filter { counts($0) && !said.contains(ExactString($0)) } ?? []
        case .add: break
        case .modify(let fields): clear = fields
        }
        if names.isEmpty, links.isEmpty, clear.isEmpty, !isNew || !item.isNewOrWhole { return nil }
        var set: PropertyListDictionary = [:], values: [(String, PropertyList?)] = clear.map { ($0, nil) }
        for name in names.map(\.text) {
            set[name] = item.sent[name]
            values.append((name, item.told[name]))
        }
        for (name, ids) in links {
            set[name] = .texts(ids.map { waiting.ids[ExactString($0)] ?? $0 })
            values.append((name, ids.isEmpty ? nil : .texts(ids)))
        }
        var former: RecordFields? = before == nil ? nil : [:]
        for (name, value) in values {
            former?[name] = before?[name]
            knownRecords[id]?.fields?[name] = value
            waiting.fields[id, default: [:]].updateValue(value, forKey: ExactString(name))
        }
        let change: Changes.Item =
            isNew && item.isNewOrWhole && clear.isEmpty
            ? .add(entity: entity, set: set) : .modify(entity: entity, set: set, clear: clear, conflict: nil)
        return WaitingItem(item.id, record, change, known: former)
    }
}

// MARK: - The commit

extension FileData {
    mutating func commit(_ uris: [String]) throws -> [[ExactString: Status]] {
        var outcomes: [[ExactString: Status]] = []
        for uri in uris {
            let waiting = try sync(uri)["waiting"], failures = try mergeWaiting(uri)
            outcomes.append(failures)
            guard !failures.isEmpty else { continue }
            // The device may count as accepted what was not: it has to send everything again.
            var row = try sync(uri)
            try removeNames(Int(waiting?["names"]?.integer ?? 0), of: &row)
            try setSync(row, uri)
        }
        return outcomes
    }

    /// Merges what waits for the device's commit.
    /// - Returns: the items that cannot be written.
    mutating func mergeWaiting(_ uri: String) throws -> [ExactString: Status] {
        guard try sync(uri)["waiting"] != nil else { return [:] }
        var mingle = try ClassMingle(self, Pull(uri: uri, anchors: Anchors()), isCommit: true)
        let conflicts = mingle.conflicts
        // The push is over: the next one tells what comes of the merge, also of records that this one has told.
        mingle.forced = []
        try readIDsAhead(for: 0, of: mingle.dataclass, mingle.sync)
        let reader = ItemReader(self, mingle.dataclass, nil)
        var items = try reader.waitingItems(uri, records, device: device)
        try mingle.mergeChanges(&items, reader, &self)
        var row = try sync(uri)
        let later = mingle.forced.union(row.texts("later forced").map { ExactString($0) })
        var lost = row["later conflicts"]?.dictionary ?? [:]
        for (record, fields) in mingle.conflicts where conflicts[record] != fields {
            lost[record.text] = .dictionary(fields)
        }
        row["later forced"] = later.isEmpty ? nil : .texts(later.sorted().map(\.text))
        row["later conflicts"] = lost.isEmpty ? nil : .dictionary(lost)
        row["erased"] = mingle.erased.isEmpty ? nil : .texts(mingle.erased.sorted().map(\.text))
        row["waiting"] = nil
        try setSync(row, uri)
        try records.eraseRows(.pulled, RowKey(device, uri).bytes)
        forgetViews()
        return reader.failures
    }

    mutating func forget(_ uri: String) throws {
        var row = try sync(uri)
        guard let waiting = row["waiting"] else { return }
        // A device that counts the changes as accepted has to send everything again.
        try removeNames(Int(waiting["names"]?.integer ?? 0), of: &row)
        row["waiting"] = nil
        try setSync(row, uri)
        try records.eraseRows(.pulled, RowKey(device, uri).bytes)
    }

    private func removeNames(_ count: Int, of row: inout PropertyListDictionary) throws {
        var names = try AcceptedNames(row)
        names.removeLast(count)
        names.write(to: &row)
    }

    /// Forgets changes that wait for a commit that has not come for too long, or are too many.
    mutating func forgetOldChanges(_ uri: String) throws {
        guard let waiting = try sync(uri)["waiting"]?.dictionary else { return }
        let isOld = waiting.number("since") + limits.nameDays * 86_400 < now
        if isOld || waiting.number("bytes") > limits.waitingBytesMax { try forget(uri) }
    }

    /// Reads what is needed for the ids of some items, and of those that wait.
    fileprivate mutating func readIDsAhead(
        for count: Int, of dataclass: Dataclass, _ sync: PropertyListDictionary
    ) throws {
        let waiting = sync["waiting"]?["count"]?.integer ?? 0
        try localIDs(dataclass).readAhead(for: count + Int(waiting), &records)
    }

    /// Adds rows of changes that wait.
    /// - Parameter isNewName: true if they came under a name that was not known.
    fileprivate mutating func append(
        _ rows: [PropertyListDictionary], to sync: inout PropertyListDictionary, of uri: String, isNewName: Bool
    ) throws {
        var waiting = sync["waiting"]?.dictionary ?? ["since": .number(now)]
        if rows.isEmpty, sync["waiting"] == nil { return }
        var (count, bytes) = (waiting.number("count"), waiting.number("bytes"))
        // They are forgotten at a start, not in between.
        let expiry = waiting.number("since") + (limits.nameDays + 1) * 86_400
        for row in rows {
            let value = try PropertyList.dictionary(row).encoded(as: .binary, limits: .rows)
            var key = RowKey(device, uri)
            key.append(count)
            records.set(value, at: RowKind.pulled.place(key.bytes), expiresAt: expiry)
            count += 1
            bytes += UInt64(value.count + 100)
        }
        (waiting["count"], waiting["bytes"]) = (.number(count), .number(bytes))
        if isNewName { waiting["names"] = .number(waiting.number("names") + 1) }
        sync["waiting"] = .dictionary(waiting)
    }
}
