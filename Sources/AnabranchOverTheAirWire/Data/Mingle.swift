import AnabranchCore
import AnabranchHistory
import AnabranchOverTheAir
import AnabranchPropertyList

/// The write of an item found a record too large: the message is processed again without it.
struct ItemTooLarge: Error {
    let uri: String, id: String
}

extension FileData {
    func newName(_ pull: Pull) -> String { pull.anchors.nextDeviceAnchor ?? "" }

    mutating func mingle(_ pulls: consuming [Pull]) throws -> [Mingled] {
        var outcomes: [Mingled] = [], pulls = pulls
        for index in pulls.indices {
            let uri = pulls[index].uri, mode = pulls[index].mode
            let waits = try mode == .fast && dataclass(uri).isCommittedByDevice
            // A slow sync is about the records with all changes that have come, and a reset gives these up.
            if mode == .slow { _ = try mergeWaiting(uri) }
            if mode == .reset { try forget(uri) }
            var mingle = try ClassMingle(self, pulls[index])
            pulls[index].commands = []
            if waits { try mingle.keep(&self) } else { try mingle.run(&self) }
            let push = try mingle.push(&self)
            outcomes.append(Mingled(failures: mingle.failures, push: push, waitsForCommit: waits))
        }
        return outcomes
    }
}

/// The merge of a device's changes of a dataclass with the server's (`Spec/OverTheAirServer.md`, section 5).
struct ClassMingle {
    /// The commands of the device, which are given up as they are read.
    var pull: Pull
    let dataclass: Dataclass
    /// The records before the merge.
    let view: RecordView
    var sync: PropertyListDictionary
    /// The anchor that the device came with; nil in a slow sync and after a reset.
    let base: PropertyListDictionary?
    let feed: Feed?
    let isRepeat: Bool
    let filter: RecordFilter
    var writer: RecordWriter
    var failures: [ExactString: Status] = [:]
    /// The records as the device knows them, according to what it has sent; nil for those that it does not have.
    var knownRecords: [RecordID: KnownRecord] = [:]
    /// New records that are exactly as the device has sent them, so they need not be sent back.
    var settled: Set<RecordID> = []
    /// The ids of records that are sent to the device in any case, whatever it knows.
    var forced: Set<ExactString>
    /// The device's ids of records that are gone, until it is known that it has seen that.
    var erased: Set<ExactString>
    /// The values that have lost against those of the device, and these, by the records as in `forced`, and by fields.
    var conflicts: [ExactString: PropertyListDictionary] = [:]
    /// The fields of each entity that the device knows; nil for all.
    let supported: [Set<ExactString>?]
    /// The records of a slow sync with the outcome for each; nil if not requested.
    var matches: [MatchedRecord]?
    /// The part of the device's changes that waits for its commit, by records.
    var waiting = WaitingChanges()
    /// Records of which the device has made again one that was there before.
    private var revived: Set<RecordID> = []
    /// False if nothing looks again at new records that are as they were sent: then their fields are not kept.
    private(set) var keepsSettled = true

    /// - Parameter isCommit: true if what it merges has come earlier, and is not compared with an anchor.
    init(_ data: FileData, _ pull: Pull, isCommit: Bool = false) throws {
        self.pull = pull
        dataclass = try data.dataclass(pull.uri)
        view = data.view(dataclass)
        sync = try data.sync(pull.uri)
        isRepeat = try AcceptedNames(sync).names.last.map { $0.hasBytes(of: data.newName(pull)) } ?? false
        filter = try data.filter(dataclass, sync)
        writer = RecordWriter(data.transaction, view)
        forced = Set((sync.texts("forced") + sync.texts("later forced")).map { ExactString($0) })
        erased = Set(sync.texts("erased").map { ExactString($0) })
        for key in ["conflicts", "later conflicts"] {
            for (record, fields) in sync[key]?.dictionary ?? [:] {
                conflicts[ExactString(record)] = fields.dictionary
            }
        }
        supported = try dataclass.entities.map { try data.supported($0, of: pull.uri) }
        if pull.mode == .fast, !isCommit {
            let token = RowKey(data.device, pull.uri, pull.anchors.lastServerAnchor ?? "")
            guard let base = try data.row(.anchor, token) else {
                throw HistoryError(.storeDamaged, "the anchor of a start is gone")
            }
            self.base = base
            let first = base["whole"] != nil || base["before"] == nil ? base.number("version") : base.number("before")
            feed = try first < data.position() ? Feed(dataclass, after: first, view, data.records) : Feed()
        } else {
            (base, feed) = (nil, nil)
        }
    }

    // MARK: What the device knows

    /// A record as the device knows it; nil if the device does not have it.
    mutating func known(_ id: RecordID, _ data: FileData) throws -> RecordFields? {
        if let known = knownRecords[id] { return known.fields }
        guard let feed, let (version, shown) = lastTold(id) else { return nil }
        let entity = dataclass.entities[id.entity], all = RecordView(keepingLinksOf: view)
        let known = try feed.known(id, all.record(id), to: data.device, since: version) { record, version in
            try view.linking(record, of: id.entity) { feed.has($0, isThere: try view.contains($0), at: version) }
        } wasShown: {
            shown.shows($0, of: entity)
        }
        // Of what is gone, or was when it was told, a device drops the links by itself.
        let fields = try known.map { record in
            try view.linking(record, of: id.entity) { target in
                guard try view.contains(target) else { return false }
                guard let version = lastTold(target)?.version else { return true }
                return feed.has(target, isThere: true, at: version, with: data.device)
            }
        }
        knownRecords[id] = KnownRecord(fields: fields)
        return fields
    }

    /// The version as of which the device was told a record, and its filter then; nil if it was told nothing.
    private func lastTold(_ id: RecordID) -> (version: UInt64, shown: RecordFilter)? {
        guard let base else { return nil }
        if let end = base["position"]?.data, end.lexicographicallyPrecedes(PushPlan.place(of: id, view)) {
            // The push was cut off before it.
            if base["whole"] != nil { return nil }
            return (base.number("before"), RecordFilter(base["filter before"]?.dictionary ?? [:]))
        }
        return (base.number("version"), RecordFilter(base["filter"]?.dictionary ?? [:]))
    }

    /// Records to which nothing was written, but whose links have changed, or whose containers: the records to which
    /// they lead have gone, or have come again, also by the device itself: it has dropped the links.
    /// - Parameter now: the records after the merge.
    func relinked(_ now: RecordView) throws -> Set<RecordID> {
        guard let base, let feed else { return [] }
        let isByContainer =
            filter.containers != nil || ["filter", "filter before"].contains { base[$0]?["containers"] != nil }
        // A push that was cut off has told the rest of it as of an earlier version.
        let versions = ["version", "before"].compactMap { base[$0] == nil ? nil : base.number($0) }
        var moved = revived
        for id in Set(knownRecords.keys).union(feed.ids) {
            if try !now.contains(id) {
                if isByContainer { moved.insert(id) }
            } else if try view.contains(id), !versions.allSatisfy({ feed.has(id, isThere: true, at: $0) }) {
                moved.insert(id)
            }
        }
        // A deletion at the head takes the links along.
        return try view.owners(of: moved)
    }

    // MARK: Merging

    mutating func run(_ data: inout FileData) throws {
        let count = pull.commands.reduce(0) { $0 + $1.changes.items.count }
        try data.localIDs(dataclass).readAhead(for: count, &data.records)
        let reader = ItemReader(data, dataclass, feed)
        var items = try reader.items(of: pull, isMatched: pull.mode == .slow && !isRepeat)
        let type = pull.commands.last { $0.changes.itemType != nil }?.changes.itemType
        pull.commands = []
        keepsSettled = filter.isLimiting || Set(items.lazy.map { ExactString($0.id) }).count < items.count
        switch pull.mode {
        case .fast: if !isRepeat { try mergeChanges(&items, reader, &data) }
        case .slow: try mergeRecords(&items, reader, &data)
        case .reset:
            let ids = data.localIDs(dataclass)
            try ids.eraseAll(&data.records)
            (forced, erased, conflicts) = ([], [], [:])
        }
        failures = isRepeat ? storedFailures() : reader.failures
        try record(type, &data)
    }

    func storedFailures() -> [ExactString: Status] {
        var failures: [ExactString: Status] = [:]
        for (id, value) in sync["failures"]?.dictionary ?? [:] {
            failures[ExactString(id)] = try? Status(value, at: "")
        }
        return failures
    }

    /// Records the name of the changes, their form and their outcome.
    mutating func record(_ type: Changes.ItemType?, _ data: inout FileData) throws {
        sync = try data.sync(pull.uri)
        if !isRepeat {
            var names = try AcceptedNames(sync)
            names.append(data.newName(pull), at: data.now, days: data.limits.nameDays)
            names.write(to: &sync)
            let stored = PropertyListDictionary(failures.map { ($0.text, $1.propertyList) }) { first, _ in first }
            sync["failures"] = stored.isEmpty ? nil : .dictionary(stored)
        }
        if let type { sync["form"] = .string(type.rawValue) }
        sync["round"] = .number(sync.number("round") + 1)
    }

    // MARK: Changes since an anchor

    /// Finds the records that items and their links are about. Those that are refused go.
    /// - Returns: the keys of new records, by the device's ids.
    mutating func resolve(
        _ items: inout [ReadItem], _ reader: ItemReader, _ data: FileData
    ) throws -> [ExactString: RecordID] {
        var new: [ExactString: RecordID] = [:]
        for item in items where item.isNewOrWhole && new[ExactString(item.id)] == nil {
            if let id = try newRecord(item, data) { new[ExactString(item.id)] = id }
        }
        try reader.resolve(&items, new, new: Set(new.keys))
        return new
    }

    mutating func mergeChanges(
        _ items: inout [ReadItem], _ reader: ItemReader, _ data: inout FileData
    ) throws {
        let new = try resolve(&items, reader, data), ids = reader.ids
        // Records without links are written at once; links need all records.
        var made: Set<RecordID> = [], written: Set<Int> = []
        for index in items.indices {
            let item = items[index]
            guard let id = new[ExactString(item.id)], made.insert(id).inserted else { continue }
            try create(id, item, ids, &data)
            guard item.links.isEmpty else { continue }
            try apply(item, id, &data)
            written.insert(index)
            items[index].giveUp()
        }
        for (index, item) in items.enumerated() where !written.contains(index) {
            let id = new[ExactString(item.id)] ?? item.target
            if let id { try apply(item, id, &data) }
        }
        try forceRefused(reader, data)
    }

    /// Has the device get the records of refused changes as they are.
    mutating func forceRefused(_ reader: ItemReader, _ data: FileData) throws {
        let ids = reader.ids
        for id in reader.failures.keys {
            let local = try ids.record(id.text, data.records)
            for target in local.map({ [$0] }) ?? view.candidates(id.text) {
                if try view.record(target) != nil || known(target, data) != nil { force(target) }
            }
        }
    }

    mutating func force(_ id: RecordID) {
        if let text = view.text(of: id) { forced.insert(ExactString("\(id.entity) \(text)")) }
    }

    /// The key of a record that an item makes; nil if it makes none.
    private mutating func newRecord(_ item: ReadItem, _ data: FileData) throws -> RecordID? {
        guard let target = item.target else {
            var random = SystemRandomNumberGenerator()
            return RecordID(
                entity: item.entity, key: view.newKey(of: item.entity, random.next(), random.next()))
        }
        // A record that others have erased stays erased, and the device gets the deletion; unless it has had that.
        return try view.record(target) == nil && known(target, data) == nil ? target : nil
    }

    /// Records the device's id of a record.
    mutating func give(_ local: String, to id: RecordID, _ ids: LocalIDs, _ data: inout FileData) throws {
        _ = try ids.set(local, id, &data.records)
        erased.remove(ExactString(local))
    }

    mutating func create(
        _ id: RecordID, _ item: ReadItem, _ ids: LocalIDs, _ data: inout FileData
    ) throws {
        try writer.create(id)
        if item.target == id { revived.insert(id) }
        knownRecords[id] = KnownRecord(fields: [:])
        try give(item.id, to: id, ids, &data)
        let entity = dataclass.entities[id.entity]
        guard let container = entity.container, !item.links.contains(where: { $0.name == container }),
            let text = sync["filter"]?["default_container"]?.string,
            let target = try data.serverID(text, dataclass)
        else { return }
        try writer.set(container, toLinks: [target], of: id)
        force(id)
    }

    /// Carries out an item on a record.
    mutating func apply(_ item: ReadItem, _ id: RecordID, _ data: inout FileData) throws {
        guard try writer.record(id) != nil else {
            // Others have erased it.
            force(id)
            return
        }
        settled.remove(id)
        if let known = item.known, try view.record(id) != nil { knownRecords[id] = known }
        do {
            switch item.kind {
            case .delete:
                // If a filter hides the record, the device has only deleted its own copy.
                guard try known(id, data) != nil || pull.mode == .slow else { return }
                try writer.erase(id)
                knownRecords[id] = KnownRecord(fields: nil)
                return
            case .record(let unchanged): try replace(item, id, unchanged, data)
            case .add: try change(item, id, clear: [], data)
            case .modify(let clear): try change(item, id, clear: clear, data)
            }
        } catch let error as ApplyError where error.code == .objectTooLarge {
            throw ItemTooLarge(uri: pull.uri, id: item.id)
        }
        // The rest of a new record, which was not sent, is told until it has arrived.
        guard let known = knownRecords[id]?.fields else { return }
        if try !writer.has(known, as: id), try view.record(id) == nil { force(id) }
    }

    /// Sets the fields of a new record, which is then exactly as the device has sent it.
    mutating func settle(_ id: RecordID, _ item: ReadItem) throws {
        try writer.fill(id, with: item, keepsFields: keepsSettled)
        knownRecords[id] = KnownRecord(fields: keepsSettled ? item.told : [:])
        settled.insert(id)
    }

    /// Compares a whole record with the one that the device knew, and writes the differences.
    private mutating func replace(
        _ item: ReadItem, _ id: RecordID, _ unchanged: Set<ExactString>, _ data: FileData
    ) throws {
        let before = try known(id, data), supported = supported[id.entity]
        func counts(_ name: String) -> Bool {
            !unchanged.contains(ExactString(name)) && supported?.contains(ExactString(name)) ?? true
        }
        for name in item.sent.keys where counts(name) && (before == nil || before?[name] != item.told[name]) {
            try set(name, of: item, before, id)
        }
        for (name, links) in item.linked where counts(name) && (before?[name] ?? []) != .texts(links) {
            try set(name, links, before, id)
        }
        guard let before else { return }
        let said = Set((item.sent.keys + item.links.map(\.name)).map { ExactString($0) })
        for name in before.keys where counts(name) && !said.contains(ExactString(name)) {
            try recordConflict(name, nil, before, id)
            try writer.clear(name, of: id)
            try learn(name, of: id)
        }
    }

    private mutating func change(_ item: ReadItem, _ id: RecordID, clear: [String], _ data: FileData) throws {
        let before = try known(id, data)
        if before?.isEmpty ?? false, item.links.isEmpty, clear.isEmpty, try writer.record(id)?.isEmpty ?? false {
            try settle(id, item)
            return
        }
        for name in item.sent.keys { try set(name, of: item, before, id) }
        for (name, links) in item.linked { try set(name, links, before, id) }
        for name in clear {
            try recordConflict(name, nil, before, id)
            try writer.clear(name, of: id)
            try learn(name, of: id)
        }
    }

    /// Records that others have changed a field that the device is about to set, or to clear: their value loses.
    private mutating func recordConflict(
        _ name: String, _ value: PropertyList?, _ before: RecordFields?, _ id: RecordID
    ) throws {
        guard dataclass.tellsConflicts, let before, view.part(name, of: id.entity)?.isField ?? false,
            let now = try writer.record(id), now[name] != before[name], now[name] != value,
            let text = view.text(of: id)
        else { return }
        var values: PropertyListDictionary = [:]
        (values["server"], values["device"]) = (now[name], value)
        conflicts[ExactString("\(id.entity) \(text)"), default: [:]][name] = .dictionary(values)
    }

    private mutating func set(_ name: String, of item: ReadItem, _ before: RecordFields?, _ id: RecordID) throws {
        let told = item.told[name]
        try recordConflict(name, told, before, id)
        if let value = item.sent[name] { try writer.set(name, to: value, told: told, of: id) }
        try learn(name, of: id)
    }

    private mutating func set(_ name: String, _ links: [String], _ before: RecordFields?, _ id: RecordID) throws {
        let base = before?[name]?.array?.compactMap(\.string) ?? []
        let current = try writer.record(id)?[name]?.array?.compactMap(\.string) ?? []
        let isMany = view.part(name, of: id.entity)?.isMany ?? false
        let merged = isMany ? RecordWriter.merged(base, links, over: current) : links
        try writer.set(name, toLinks: merged, of: id)
        // The device has its own array, and gets the merged one if that differs.
        knownRecords[id]?.fields?[name] = links.isEmpty ? nil : .texts(links)
        if PropertyList.texts(merged) != .texts(links) { force(id) }
    }

    /// Records that the device, which has just sent a field of a record, has it as it is now.
    private mutating func learn(_ name: String, of id: RecordID) throws {
        let now = try writer.record(id)?[name]
        knownRecords[id]?.fields?[name] = now
    }
}
