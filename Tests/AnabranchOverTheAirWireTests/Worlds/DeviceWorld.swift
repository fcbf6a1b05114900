import AnabranchClient
import AnabranchCore
import AnabranchHistory
import AnabranchPropertyList
import AnabranchServer
import AnabranchTesting
import Synchronization

@testable import AnabranchOverTheAirDevice
@testable import AnabranchOverTheAirWire

/// Devices of all kinds on one account, and others who write at the head of its file, with everything that may go wrong
/// between them. One seed decides what happens, but for the keys and names that server and devices draw.
final class DeviceWorld {
    /// Something that random worlds have to come to.
    enum Event: String, CaseIterable, Sendable {
        case added, changed, cleared, linked, deleted, writtenByOthers, erasedByOthers
        case cut, repeated, fast, slow, severalMessages, sessionsLost, daysPassed
    }

    static let uri = "world.things"
    static let registration = """
        {"dataclass": "\(uri)", "entities": {
          "item": {"class": "Item", "identity": [["tag"]],
            "fields": {"tag": {"property": "tag", "type": "string"}, "a": {"property": "a", "type": "string"},
              "b": {"property": "b", "type": "string"}, "n": {"property": "n", "type": "integer"}},
            "relationships": {"groups": {"property": "groups", "entity": "group", "many": true}}},
          "group": {"class": "Group", "identity": [["tag"]],
            "fields": {"tag": {"property": "tag", "type": "string"}, "a": {"property": "a", "type": "string"},
              "b": {"property": "b", "type": "string"}, "n": {"property": "n", "type": "integer"}},
            "relationships": {"parent": {"property": "parent", "entity": "group"}}}}}
        """
    private static let known = DeviceDataclass(
        uri: uri,
        entities: [
            .init(name: "item", fields: fields + ["tag"], relationships: ["groups"]),
            .init(name: "group", fields: fields + ["tag"], relationships: ["parent"]),
        ])
    private static let fields = ["a", "b", "n"]

    /// A field of the record with a tag.
    private struct Place: Hashable {
        let tag: String, field: String
    }

    /// Those who have written a field, and the value that came last.
    private struct Writing {
        var writers: Set<Int> = []
        var value: PropertyList?
    }

    /// The number of those who are no devices.
    private static let others = -1

    private let rig: DeviceRig
    private var random: SeededRandom
    private var devices: [PropertyListDevice] = []
    private var tagCount = 0
    private var made: Set<String> = [], erased: Set<String> = []
    private var writings: [Place: Writing] = [:]
    private(set) var events: [String] = []
    private(set) var counts: [Event: Int] = [:]

    init(_ rig: DeviceRig, seed: UInt64) { (self.rig, random) = (rig, SeededRandom(scrambling: seed)) }

    /// Something that is not as it should be.
    struct Problem: Error, CustomStringConvertible {
        let description: String
    }

    func run() async throws {
        for _ in 0..<2 + random.below(2) { try addDevice() }
        for _ in 0..<5 + random.below(20) {
            let device = random.below(devices.count)
            for _ in 0..<random.below(4) { try edit(device) }
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
            default: break
            }
        }
        for _ in 0..<3 {
            for device in devices.indices { try await sync(device, faultsAreOff: true) }
        }
        try addDevice()
        try await sync(devices.count - 1, faultsAreOff: true)
        try check()
    }

    private func count(_ event: Event, _ text: String) {
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
        devices.append(
            try PropertyListDevice(store: ":memory:", dataclasses: [Self.known], options: options))
        events.append("device \(devices.count - 1): \(options)")
    }

    private func edit(_ number: Int) throws {
        let device = devices[number], records = try device.records(of: Self.uri)
        if records.isEmpty || random.isOne(in: 3) {
            tagCount += 1
            let tag = "t\(tagCount)", entity = random.isOne(in: 3) ? "group" : "item"
            var fields: PropertyListDictionary = ["tag": .string(tag)]
            for name in Self.fields where random.isOne(in: 2) { fields[name] = value(of: name) }
            for name in Self.fields { if let value = fields[name] { record(value, of: tag, name, by: number) } }
            let (name, links) = links(of: entity, records)
            if !links.isEmpty { fields[name] = .array(links) }
            try device.edit([.add(id: nil, entity: entity, fields: fields)], of: Self.uri)
            made.insert(tag)
            return count(.added, "device \(number) adds \(entity) \(fields)")
        }
        let chosen = random.pick(records), tag = chosen.fields["tag"]?.string ?? "?"
        if random.isOne(in: 6) {
            erased.insert(tag)
            try device.edit([.delete(id: chosen.id)], of: Self.uri)
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
        try device.edit([.modify(id: chosen.id, set: set, clear: clear)], of: Self.uri)
        count(.changed, "device \(number) changes \(tag): \(set)")
    }

    private func value(of name: String) -> PropertyList {
        let number = random.below(1_000)
        return name == "n" ? .integer(Int64(number)) : .string("\(name)\(number)")
    }

    /// A relationship of an entity, and some of the groups that the device has.
    private func links(of entity: String, _ records: [DeviceRecord]) -> (name: String, links: [PropertyList]) {
        var groups = records.filter { $0.entity == "group" }.map { PropertyList.string($0.id) }
        groups.shuffle(using: &random)
        return entity == "item"
            ? ("groups", Array(groups.prefix(random.below(4)))) : ("parent", Array(groups.prefix(random.below(2))))
    }

    private func record(_ value: PropertyList?, of tag: String, _ field: String, by writer: Int) {
        let place = Place(tag: tag, field: field)
        writings[place, default: Writing()].writers.insert(writer)
        writings[place]?.value = value
    }

    // MARK: Sync

    private func sync(_ number: Int, faultsAreOff: Bool) async throws {
        let cut = faultsAreOff || random.isOne(in: 2) ? nil : 1 + random.below(10)
        let link = DeviceLink(rig, cutAt: cut, repeats: !faultsAreOff && random.isOne(in: 3))
        let service = PropertyListService(
            url: "http://127.0.0.1/ota", userID: rig.user, token: try await rig.token(), sender: link)
        do {
            let report = try await devices[number].sync(with: service)
            for outcome in report.outcomes {
                guard outcome.failure == nil, outcome.refused.isEmpty else {
                    throw Problem(description: "device \(number): \(outcome)")
                }
                count(outcome.mode == "fast" ? .fast : .slow, "device \(number) syncs: \(outcome)")
            }
            if report.messages > 2 { count(.severalMessages, "in \(report.messages) messages") }
        } catch let error as DeviceError where error.code == .offline && link.isCut {
            count(.cut, "device \(number) is cut at \(cut ?? 0)")
        }
        if let problem = link.problem { throw Problem(description: "device \(number): \(problem)") }
        if link.repeats { count(.repeated, "its messages came twice") }
    }

    // MARK: Others

    /// Changes a field of a record, or erases it, as a client of another wire does.
    private func writeAsOthers() async throws {
        guard let dataclass = rig.wire.settings.apps[DeviceRig.app]?.dataclasses.first else { return }
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

    // MARK: The end

    /// The records of a device by their tags, with tags in place of ids.
    private func content(of number: Int) throws -> [String: PropertyListDictionary] {
        let records = try devices[number].records(of: Self.uri)
        var tags: [String: PropertyList] = [:]
        for record in records { tags[record.id] = record.fields["tag"] }
        var content: [String: PropertyListDictionary] = [:]
        for record in records {
            var fields = record.fields
            for name in ["groups", "parent"] {
                guard let links = fields[name]?.array else { continue }
                fields[name] = .array(links.map { tags[$0.string ?? ""] ?? "nothing" })
            }
            let tag = record.fields["tag"]?.string ?? record.id
            guard content.updateValue(fields, forKey: tag) == nil else {
                throw Problem(description: "device \(number) has \(tag) twice")
            }
        }
        return content
    }

    private func check() throws {
        let expected = try content(of: devices.count - 1)
        for number in devices.indices.dropLast() {
            let found = try content(of: number)
            for tag in Set(found.keys).union(expected.keys).sorted() where found[tag] != expected[tag] {
                throw Problem(
                    description: """
                        device \(number) has \(tag) as \(found[tag].map { "\($0)" } ?? "nothing"), \
                        the server as \(expected[tag].map { "\($0)" } ?? "nothing")
                        """)
            }
            guard try devices[number].pendingCount(of: Self.uri) == 0 else {
                throw Problem(description: "device \(number) has edits left")
            }
        }
        let lost = made.subtracting(erased).subtracting(expected.keys)
        guard lost.isEmpty else { throw Problem(description: "lost: \(lost.sorted())") }
        // A field that one alone has written is as it came last.
        for (place, writing) in writings where writing.writers.count == 1 && !erased.contains(place.tag) {
            guard expected[place.tag]?[place.field] == writing.value else {
                throw Problem(
                    description: """
                        \(place.field) of \(place.tag) was written by \(writing.writers) alone, as \
                        \(writing.value.map { "\($0)" } ?? "nothing"), and is \
                        \(expected[place.tag]?[place.field].map { "\($0)" } ?? "nothing")
                        """)
            }
        }
    }
}
