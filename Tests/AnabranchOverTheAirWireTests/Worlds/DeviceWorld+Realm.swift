import AnabranchCore
import AnabranchHistory
import AnabranchPropertyList
import AnabranchServer
import AnabranchTesting

@testable import AnabranchOverTheAirWire

/// The Realm client of a world.
extension DeviceWorld {
    /// Its number among those who write.
    private static let realmNumber = -2

    func actAsRealmClient() async throws {
        if random.isOne(in: 3) { return try await syncRealmClient() }
        let time = ChangesetTime(secondsSince1970: Double(rig.clock.now)), uri = random.pick(Self.uris)
        switch try await realm.write(random.next(), in: uri, at: time) {
        case .changed(let tag, let field, let value):
            record(.string(value), of: tag, field, by: Self.realmNumber)
            count(.writtenByRealm, "the Realm client writes \(field) of \(tag): \(value)")
        case .linked(let tag, let group): count(.linkedByRealm, "the Realm client links \(tag) to \(group)")
        case .erased(let tag):
            erased.insert(tag)
            count(.erasedByRealm, "the Realm client erases \(tag)")
        case .revived(let tag):
            erased.insert(tag)
            count(.revivedByRealm, "the Realm client makes \(tag) again")
        case nil: break
        }
    }

    func syncRealmClient() async throws {
        events.append("the Realm client syncs")
        if try await realm.sync() { return }
        events.append("it begins anew")
        for (place, writing) in writings where writing.writers.contains(Self.realmNumber) {
            writings[place]?.writers.insert(Self.others)
        }
    }

    /// Checks that the Realm client has the records of the server.
    func checkRealmClient() async throws {
        try await syncRealmClient()
        let state = await realm.state
        for uri in Self.uris {
            let mine = try Self.records(of: RecordView(dataclass(uri), state)), theirs = try await records(of: uri)
            for tag in Set(mine.keys).union(theirs.keys).sorted() where mine[tag] != theirs[tag] {
                throw Problem(
                    description: """
                        the Realm client has \(tag) as \(mine[tag].map { "\($0)" } ?? "nothing"), \
                        the server as \(theirs[tag].map { "\($0)" } ?? "nothing")
                        """)
            }
        }
    }

    /// The records of the server in a dataclass, by their tags.
    func records(of uri: String) async throws -> [String: RecordFields] {
        let dataclass = try dataclass(uri)
        return try await rig.wire.server().readHead(of: rig.path) { transaction, _ in
            try Self.records(of: RecordView(dataclass, transaction.state))
        } ?? [:]
    }

    private static func records(of view: RecordView) throws -> [String: RecordFields] {
        var records: [String: RecordFields] = [:]
        try view.forEach { id, object in
            let record = try view.record(object, of: id.entity)
            records[record["tag"]?.string ?? view.text(of: id) ?? ""] = record
        }
        return records
    }
}
