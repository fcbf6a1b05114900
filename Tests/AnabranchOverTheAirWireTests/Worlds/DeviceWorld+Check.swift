import AnabranchCore
import AnabranchHistory
import AnabranchOverTheAir
import AnabranchOverTheAirDevice
import AnabranchPropertyList
import AnabranchServer

@testable import AnabranchOverTheAirWire

/// The promises of the server that are looked at in a world.
extension DeviceWorld {
    /// The version at the head of the file.
    func head() async throws -> UInt64 {
        try await rig.wire.server().readHead(of: rig.path) { _, records in try records.headVersion().rawValue } ?? 0
    }

    // MARK: Conflicts

    /// The conflicts that a device has to be told in a whole session after another one: fields that others have changed
    /// otherwise than it has.
    func expectedConflicts(_ number: Int) async throws -> Set<PropertyList> {
        guard synced.contains(number), filters[Corner(device: number, uri: Self.chosen)] == nil else { return [] }
        let records = try await records(of: Self.chosen)
        let mine = try chosenRecords(of: number), sendsRecords = devices[number].options.form == .records
        var expected: Set<PropertyList> = []
        for place in edited[number] ?? [] {
            guard let theirs = records[place.tag], let mine = mine[place.tag], let old = before[number]?[place.tag]
            else { continue }
            let (server, device, former) = (theirs[place.field], mine[place.field], old[place.field])
            guard server != former, server != device, !sendsRecords || device != former else { continue }
            var conflict: PropertyListDictionary = [:]
            (conflict["server"], conflict["device"]) = (server, device)
            expected.insert([.string(place.field), .dictionary(conflict)])
        }
        return expected
    }

    /// The records of a device in the dataclass in which it chooses, by their tags.
    func chosenRecords(of number: Int) throws -> [String: PropertyListDictionary] {
        let records = try devices[number].records(of: Self.chosen)
        return Dictionary(records.map { ($0.fields["tag"]?.string ?? $0.id, $0.fields) }) { $1 }
    }

    /// Checks that a whole session has told the conflicts that there were.
    func check(_ report: DeviceReport, _ expected: Set<PropertyList>, of number: Int) throws {
        var told: Set<PropertyList> = []
        for outcome in report.outcomes where outcome.uri == Self.chosen {
            guard outcome.mode == "fast" else { return }
            for (_, fields) in outcome.conflicts {
                for (field, conflict) in fields.dictionary ?? [:] { told.insert([.string(field), conflict]) }
            }
        }
        let missing = expected.subtracting(told)
        guard missing.isEmpty else {
            throw Problem(description: "device \(number) is not told what has lost: \(missing)")
        }
    }

    // MARK: The end

    /// True if a device shows a record of an entity, whose links are tags; nil if that is not known, as a group that
    /// was deleted and has come again may have another id than the filter names.
    func shows(_ fields: PropertyListDictionary, of entity: String?, _ number: Int) -> Bool? {
        let uri = fields["tag"]?.string.flatMap { homes[$0] } ?? ""
        guard entity == "item", let filter = filters[Corner(device: number, uri: uri)] else { return true }
        let groups = fields["groups"]?.array?.compactMap(\.string) ?? []
        let containers = filter.groups.map { $0.intersection(groups) }
        if containers?.isEmpty ?? false { return false }
        if let days = filter.days, let date = fields["d"]?.date,
            date.seconds < (Int64(rig.clock.now / 86_400) - days) * 86_400
        {
            return false
        }
        return containers?.isSubset(of: erased) ?? false ? nil : true
    }

    /// The records of a device by their tags, with tags in place of ids.
    func content(of number: Int) throws -> [String: PropertyListDictionary] {
        let records = try Self.uris.flatMap { try devices[number].records(of: $0) }
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

    func check() throws {
        let all = try content(of: devices.count - 1)
        var entities: [String: String] = [:]
        for uri in Self.uris {
            for record in try devices[devices.count - 1].records(of: uri) {
                entities[record.fields["tag"]?.string ?? record.id] = record.entity
            }
        }
        for number in devices.indices.dropLast() {
            let found = try content(of: number)
            let expected = all.filter {
                shows($0.value, of: entities[$0.key], number) ?? (found[$0.key] != nil)
            }
            for tag in Set(found.keys).union(expected.keys).sorted() where found[tag] != expected[tag] {
                throw Problem(
                    description: """
                        device \(number) has \(tag) as \(found[tag].map { "\($0)" } ?? "nothing"), \
                        the server as \(expected[tag].map { "\($0)" } ?? "nothing")
                        """)
            }
            for uri in Self.uris {
                guard try devices[number].pendingCount(of: uri) == 0 else {
                    throw Problem(description: "device \(number) has edits left of \(uri)")
                }
            }
        }
        let lost = made.subtracting(erased).subtracting(all.keys)
        guard lost.isEmpty else { throw Problem(description: "lost: \(lost.sorted())") }
        // A field that one alone has written is as it came last.
        for (place, writing) in writings where writing.writers.count == 1 && !erased.contains(place.tag) {
            guard all[place.tag]?[place.field] == writing.value else {
                throw Problem(
                    description: """
                        \(place.field) of \(place.tag) was written by \(writing.writers) alone, as \
                        \(writing.value.map { "\($0)" } ?? "nothing"), and is \
                        \(all[place.tag]?[place.field].map { "\($0)" } ?? "nothing")
                        """)
            }
        }
    }
}
