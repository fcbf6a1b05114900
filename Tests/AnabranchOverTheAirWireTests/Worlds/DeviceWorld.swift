import AnabranchClient
import AnabranchCore
import AnabranchHistory
import AnabranchOverTheAir
import AnabranchPropertyList
import AnabranchServer
import AnabranchTesting
import Synchronization

@testable import AnabranchOverTheAirDevice
@testable import AnabranchOverTheAirWire

/// Devices of all kinds on one account, a Realm client and others who write at the head of its file, with everything
/// that may go wrong between them. One seed decides what happens, but for the keys and names that server and devices
/// draw.
final class DeviceWorld {
    /// Something that random worlds have to come to.
    enum Event: String, CaseIterable, Sendable {
        case added, changed, cleared, linked, deleted, writtenByOthers, erasedByOthers, filtered
        case cut, repeated, fast, slow, reset, severalMessages, sessionsLost, dayPassed, daysPassed
        case severalDataclasses, committed, conflict
        case writtenByRealm, linkedByRealm, erasedByRealm, revivedByRealm
    }

    static let uri = "world.things", committed = "world.places", chosen = "world.plans"
    /// All dataclasses: of the second, devices commit their changes, and of the third, they choose between values.
    static let uris = [uri, committed, chosen]
    static var registrations: [String] {
        [registration(uri, ""), registration(committed, #""commit": "device","#)]
            + [registration(chosen, #""conflicts": "device","#)]
    }

    private static func registration(_ uri: String, _ settings: String) -> String {
        """
        {"dataclass": "\(uri)", \(settings) "entities": {
          "item": {"class": "item_\(uri.dropFirst(6))", "identity": [["tag"]],
            "fields": {"tag": {"property": "tag", "type": "string"}, "a": {"property": "a", "type": "string"},
              "b": {"property": "b", "type": "string"}, "n": {"property": "n", "type": "integer"},
              "d": {"property": "d", "type": "date"}},
            "relationships": {"groups": {"property": "groups", "entity": "group", "many": true}},
            "container": "groups", "date": "d"},
          "group": {"class": "group_\(uri.dropFirst(6))", "identity": [["tag"]],
            "fields": {"tag": {"property": "tag", "type": "string"}, "a": {"property": "a", "type": "string"},
              "b": {"property": "b", "type": "string"}, "n": {"property": "n", "type": "integer"},
              "d": {"property": "d", "type": "date"}},
            "relationships": {"parent": {"property": "parent", "entity": "group"}}}}}
        """
    }

    private static let known = uris.map { uri in
        DeviceDataclass(
            uri: uri,
            entities: [
                .init(name: "item", fields: fields + ["tag"], relationships: ["groups"]),
                .init(name: "group", fields: fields + ["tag"], relationships: ["parent"]),
            ])
    }
    static let fields = ["a", "b", "d", "n"]

    /// A field of the record with a tag.
    struct Place: Hashable {
        let tag: String, field: String
    }

    /// A dataclass on a device.
    struct Corner: Hashable {
        let device: Int, uri: String
    }

    /// Those who have written a field, and the value that came last.
    struct Writing {
        var writers: Set<Int> = []
        var value: PropertyList?
    }

    /// A filter of a device: the tags of groups, and how many days items are shown; nil for all.
    struct Filter {
        var groups: Set<String>?
        var days: Int64?
    }

    /// The number of those who are no devices.
    static let others = -1

    let rig: DeviceRig
    let realm: WorldRealmClient
    var random: SeededRandom
    private(set) var devices: [PropertyListDevice] = []
    /// The dataclasses of records, by their tags.
    private(set) var homes: [String: String] = [:]
    private(set) var made: Set<String> = []
    var erased: Set<String> = []
    var writings: [Place: Writing] = [:]
    private(set) var filters: [Corner: Filter] = [:]
    /// The devices whose last session was a whole one.
    private(set) var synced: Set<Int> = []
    /// Those without a whole session since a reset, and those to be reset in the next one.
    private var beforeReset: Set<Corner> = [], toBeReset: Set<Corner> = []
    /// The fields that a device has edited since its last whole session, and the records that it had then.
    private(set) var edited: [Int: Set<Place>] = [:]
    private(set) var before: [Int: [String: PropertyListDictionary]] = [:]
    /// True once the file has all classes.
    private var hasClasses = false
    var events: [String] = []
    private(set) var counts: [Event: Int] = [:]

    init(_ rig: DeviceRig, seed: UInt64) {
        (self.rig, realm, random) = (rig, WorldRealmClient(rig), SeededRandom(scrambling: seed))
    }

    /// Something that is not as it should be.
    struct Problem: Error, CustomStringConvertible {
        let description: String
    }

    func run() async throws {
        for _ in 0..<2 + random.below(2) { try addDevice() }
        for _ in 0..<5 + random.below(20) {
            let device = random.below(devices.count)
            for _ in 0..<random.below(6) { try edit(device) }
            if random.isOne(in: 12) { try await setFilter(device) }
            try await sync(device, faultsAreOff: false)
            switch random.below(24) {
            case 0..<4: try await writeAsOthers()
            case 4:
                count(.sessionsLost, "the sessions are lost")
                rig.clock.advance(by: 601)
            case 5 where counts[.daysPassed] == nil:
                // Once: a device that stays away for twice as long is forgotten.
                count(.daysPassed, "95 days pass")
                rig.clock.advance(by: 95 * 86_400)
                forgetUncommitted()
            case 6..<9:
                count(.dayPassed, "a day passes")
                rig.clock.advance(by: 86_400)
            case 9 where random.isOne(in: 3): try await reset()
            case 10..<17: try await actAsRealmClient()
            default: break
            }
        }
        try await syncRealmClient()
        for _ in 0..<3 {
            for device in devices.indices { try await sync(device, faultsAreOff: true) }
        }
        try addDevice()
        try await sync(devices.count - 1, faultsAreOff: true)
        try check()
        try await checkRealmClient()
    }

    /// Changes that have waited for a commit for too long are forgotten.
    private func forgetUncommitted() {
        for (place, writing) in writings where homes[place.tag] == Self.committed {
            guard !writing.writers.isSubset(of: synced) else { continue }
            writings[place]?.writers.insert(Self.others)
        }
    }

    func dataclass(_ uri: String) throws -> Dataclass {
        let dataclass = rig.wire.settings.apps[DeviceRig.app]?.dataclasses.first { $0.uri == uri }
        guard let dataclass else { throw Problem(description: "there is no \(uri)") }
        return dataclass
    }

    func count(_ event: Event, _ text: String) {
        counts[event, default: 0] += 1
        events.append(text)
    }

    // MARK: Devices

    private func addDevice() throws {
        var options = DeviceOptions()
        options.form = random.pick(DeviceOptions.Form.allCases)
        (options.mapsIDs, options.isBinary) = (random.isOne(in: 2), random.isOne(in: 2))
        let itemsMax: [Int?] = [nil, nil, 1, 2, 5]
        options.itemsMax = random.pick(itemsMax)
        var device = try PropertyListDevice(store: ":memory:", dataclasses: Self.known, options: options)
        device.limits.itemsMax = random.pick([2_000, 2_000, 1, 3])
        devices.append(device)
        events.append("device \(devices.count - 1): \(options)")
    }

    private func edit(_ number: Int) throws {
        let device = devices[number], uri = random.pick(Self.uris), records = try device.records(of: uri)
        let corner = Corner(device: number, uri: uri)
        if records.isEmpty || random.isOne(in: 3) {
            let tag = "t\(homes.count + 1)", entity = random.isOne(in: 3) ? "group" : "item"
            var fields: PropertyListDictionary = ["tag": .string(tag)]
            for name in Self.fields where random.isOne(in: 2) { fields[name] = value(of: name) }
            homes[tag] = uri
            for name in Self.fields { if let value = fields[name] { record(value, of: tag, name, by: number) } }
            let (name, links) = links(of: entity, records)
            if !links.isEmpty { fields[name] = .array(links) }
            try device.edit([.add(id: nil, entity: entity, fields: fields)], of: uri)
            made.insert(tag)
            if beforeReset.contains(corner) { erased.insert(tag) }
            return count(.added, "device \(number) adds \(entity) \(fields)")
        }
        let chosen = random.pick(records), tag = chosen.fields["tag"]?.string ?? "?"
        if random.isOne(in: 6) {
            erased.insert(tag)
            try device.edit([.delete(id: chosen.id)], of: uri)
            return count(.deleted, "device \(number) deletes \(tag)")
        }
        var set: PropertyListDictionary = [:], clear: [String] = []
        for name in Self.fields where random.isOne(in: 3) {
            let value = random.isOne(in: 4) ? nil : value(of: name)
            set[name] = value
            if value == nil { clear.append(name) }
            record(value, of: tag, name, by: number)
        }
        if random.isOne(in: 3) {
            let (name, links) = links(of: chosen.entity, records)
            set[name] = .array(links)
            count(.linked, "device \(number) links \(tag) to \(links)")
        }
        if !clear.isEmpty { count(.cleared, "device \(number) clears \(clear) of \(tag)") }
        if set.isEmpty, clear.isEmpty { return }
        try device.edit([.modify(id: chosen.id, set: set, clear: clear)], of: uri)
        count(.changed, "device \(number) changes \(tag): \(set)")
    }

    private func value(of name: String) -> PropertyList {
        let number = random.below(1_000)
        switch name {
        case "n": return .integer(Int64(number))
        case "d":
            // Some days ago, or to come.
            let seconds = Int64(rig.clock.now) + Int64(number % 10 - 5) * 86_400
            return PropertyListDate(seconds: seconds).map { PropertyList.date($0) } ?? 0
        default: return .string("\(name)\(number)")
        }
    }

    /// A relationship of an entity, and some of the groups that the device has.
    private func links(of entity: String, _ records: [DeviceRecord]) -> (name: String, links: [PropertyList]) {
        var groups = records.filter { $0.entity == "group" }.map { PropertyList.string($0.id) }
        groups.shuffle(using: &random)
        return entity == "item"
            ? ("groups", Array(groups.prefix(random.below(4)))) : ("parent", Array(groups.prefix(random.below(2))))
    }

    func record(_ value: PropertyList?, of tag: String, _ field: String, by writer: Int) {
        let place = Place(tag: tag, field: field), corner = Corner(device: writer, uri: homes[tag] ?? "")
        writings[place, default: Writing()].writers.insert(writer)
        // A device gives up edits of what its filter begins to hide, and all of them when it is reset.
        if filters[corner] != nil || beforeReset.contains(corner) { writings[place]?.writers.insert(Self.others) }
        writings[place]?.value = value
        edited[writer, default: []].insert(place)
    }

    // MARK: Sync

    private func sync(_ number: Int, faultsAreOff: Bool) async throws {
        let cut = faultsAreOff || random.isOne(in: 2) ? nil : 1 + random.below(10)
        let link = DeviceLink(rig, cutAt: cut, repeats: !faultsAreOff && random.isOne(in: 3))
        let service = PropertyListService(
            url: "http://127.0.0.1/ota", userID: rig.user, token: try await rig.token(), sender: link)
        let expected = try await expectedConflicts(number), head = try await head()
        let commits = try !synced.contains(number) || devices[number].pendingCount(of: Self.committed) > 0
        do {
            let report = try await devices[number].sync(with: service)
            try check(report, expected, of: number)
            for outcome in report.outcomes {
                guard outcome.failure == nil, outcome.refused.isEmpty else {
                    throw Problem(description: "device \(number): \(outcome)")
                }
                let event = ["fast": Event.fast, "reset": .reset][outcome.mode] ?? .slow
                count(event, "device \(number) syncs: \(outcome)")
                if toBeReset.remove(Corner(device: number, uri: outcome.uri)) != nil, event != .reset {
                    throw Problem(description: "device \(number) is not reset")
                }
                // One that began before the reset goes on without it.
                if event == .reset { beforeReset.remove(Corner(device: number, uri: outcome.uri)) }
                if !outcome.conflicts.isEmpty { count(.conflict, "values that have lost are told") }
                if outcome.uri == Self.committed, outcome.sent > 0 { count(.committed, "it commits its changes") }
            }
            if report.outcomes.count(where: { $0.sent > 0 }) > 1 {
                count(.severalDataclasses, "of several dataclasses")
            }
            synced.insert(number)
            edited[number] = nil
            // Edits made after a cut may be left for the next session: the server never had those.
            let isWhole = try devices[number].pendingCount(of: Self.chosen) == 0
            before[number] = isWhole ? try chosenRecords(of: number) : nil
            if report.messages > 2 { count(.severalMessages, "in \(report.messages) messages") }
        } catch let error as DeviceError where error.code == .offline && link.isCut {
            count(.cut, "device \(number) is cut at \(cut ?? 0)")
            // How far it has come is not known.
            synced.remove(number)
            toBeReset = toBeReset.filter { $0.device != number }
        }
        // All that a session brings is merged at once; what the device commits, when it does.
        let entries = try await self.head() - head
        if hasClasses, entries > (commits ? 2 : 1) {
            throw Problem(description: "a session of device \(number) makes \(entries) entries")
        }
        hasClasses = hasClasses || synced.contains(number)
        if let problem = link.problem { throw Problem(description: "device \(number): \(problem)") }
        if link.repeats { count(.repeated, "its messages came twice") }
    }

    // MARK: Filters and resets

    /// Has a device show only the items of some groups, or those that are not old.
    private func setFilter(_ number: Int) async throws {
        let uri = random.pick(Self.uris)
        let groups = try devices[number].records(of: uri).filter { $0.entity == "group" && random.isOne(in: 2) }
        var filter = Filter(), value: PropertyListDictionary = [:]
        if random.isOne(in: 2) {
            filter.groups = Set(groups.compactMap { $0.fields["tag"]?.string })
            value["constrain_containers"] = .array(groups.map { .string($0.id) })
        }
        if random.isOne(in: 2) {
            let days = Int64(random.below(5))
            (filter.days, value["discard_after_days"]) = (days, .integer(days))
        }
        for (place, writing) in writings where homes[place.tag] == uri && writing.writers.contains(number) {
            writings[place]?.writers.insert(Self.others)
        }
        try await set(filter, value, of: Corner(device: number, uri: uri))
        count(.filtered, "device \(number) filters \(uri): \(value)")
    }

    private func set(_ filter: Filter, _ value: PropertyListDictionary, of corner: Corner) async throws {
        filters[corner] = filter
        var talker = Talker(rig, try devices[corner.device].id)
        let put = Command.put(uri: "\(corner.uri)/filter", value: .dictionary(value), itemType: nil)
        guard try await talker.send(put).codes(1) == [.ok] else { throw Problem(description: "no filter is taken") }
    }

    /// Has all devices give up what the server does not have of a dataclass.
    private func reset() async throws {
        let uri = random.pick(Self.uris)
        _ = try await rig.wire.act("reset", on: rig.path, ["dataclass": .string(uri)])
        func corners(_ numbers: some Sequence<Int>) -> [Corner] { numbers.map { Corner(device: $0, uri: uri) } }
        toBeReset = toBeReset.filter { $0.uri != uri }.union(corners(synced))
        beforeReset.formUnion(corners(devices.indices))
        synced = []
        // What was on its way is lost.
        erased.formUnion(made.filter { homes[$0] == uri })
        for place in writings.keys where homes[place.tag] == uri { writings[place]?.writers.insert(Self.others) }
        // The groups of filters get other ids.
        for corner in corners(devices.indices) where filters[corner] != nil {
            try await set(Filter(), [:], of: corner)
        }
        events.append("\(uri) is reset")
    }

    // MARK: Others

    /// Changes a field of a record, or erases it, as a client of another wire does.
    private func writeAsOthers() async throws {
        let dataclass = try dataclass(random.pick(Self.uris))
        let choice = Int(random.next() >> 33), erases = random.isOne(in: 4)
        let field = random.pick(["a", "b"]), value = value(of: field)
        let done = Mutex<String?>(nil)
        let time = ChangesetTime(secondsSince1970: Double(rig.clock.now))
        let write = HeadWrite(at: time) { transaction, _ in
            let view = RecordView(dataclass, transaction.state)
            var ids: [RecordID] = []
            try view.forEach { id, _ in ids.append(id) }
            guard !ids.isEmpty else { return [] }
            let id = ids[choice % ids.count]
            done.withLock { $0 = nil }
            let tag = try view.record(id)?["tag"]?.string
            var writer = RecordWriter(transaction, view)
            if erases { try writer.erase(id) } else { try writer.set(field, to: value, told: value, of: id) }
            done.withLock { $0 = tag }
            return []
        }
        _ = try await rig.wire.server().write([write], atHeadOf: rig.path).first?.get()
        guard let tag = done.withLock({ $0 }) else { return }
        if erases {
            erased.insert(tag)
            count(.erasedByOthers, "others erase \(tag)")
        } else {
            record(value, of: tag, field, by: Self.others)
            count(.writtenByOthers, "others write \(field) of \(tag): \(value)")
        }
    }
}
