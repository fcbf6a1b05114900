import AnabranchCore
import AnabranchHistory
import AnabranchTesting
import Synchronization
import Testing

@testable import AnabranchServer

/// An operator's view of doors, and the end of one (`Spec/Doors.md`, section 5).
@Suite struct AdminDoorsTests {
    /// A door that serves one file, and keeps nothing by itself.
    private struct Door: RecordDoor, RecordObserver {
        let name = "toy"
        let space: UInt16 = 7
        let kindNames: [UInt8: String] = [1: "entity"]
        let connectionCount = 3
        let endings = Endings()

        func recheckLogins(of user: String) { endings.users.withLock { $0.append(user) } }
        func channels(of path: VirtualPath) -> [DoorChannel] {
            guard path == AdminDoorsTests.path else { return [] }
            return [
                DoorChannel(user: nil, client: "two", openedAt: 9),
                DoorChannel(user: "ann", client: "one", bucket: "note", library: "toys 1", openedAt: 8),
            ]
        }
        func observer(of path: VirtualPath) -> (any RecordObserver)? { path == AdminDoorsTests.path ? self : nil }
        func observe(_ step: RecordStep, _ records: inout PendingRecords) {}
    }

    private final class Endings: Sendable {
        let users = Mutex<[String]>([])
    }

    private static let path = VirtualPath("demo/\"a\""), other = VirtualPath("demo/\"b\"")

    /// Two files with records of the door, of another one, and of the server.
    private static func store() throws -> InMemoryStore {
        let store = InMemoryStore()
        for path in [path, other] {
            let opened = try store.open(path)
            var commit = Commit(file: opened.id, lease: opened.lease, head: opened.head)
            let kinds: [(UInt16, UInt8, Int)] = [(0, 1, 1), (7, 1, 2_500), (7, 2, 1), (9, 4, 1)]
            commit.records = kinds.flatMap { space, kind, count in
                (0..<count).map { number in
                    let key = [UInt8(number / 256), UInt8(number % 256)]
                    return RecordChange(place: RecordPlace(space: space, kind: kind, key: key), value: [0])
                }
            }
            try store.commit([commit])
        }
        return store
    }

    private static func records(_ kind: String, _ files: Int64, _ count: Int64) -> JSONValue {
        [
            "kind": .string(kind), "files": .integer(files), "records": .integer(count),
            "bytes": .integer(3 * count),
        ]
    }

    @Test func clientsOfDoorsAreListedBesideClientFiles() async throws {
        try await AppServicesRig.run(store: try Self.store(), doors: [Door()]) { rig async throws in
            func listing(_ query: String) async throws -> JSONValue? {
                try await rig.admin("GET", "/v1/clients?path=demo%2F%22\(query)").json
            }
            let one: JSONValue = [
                "door": "toy", "user": "ann", "client": "one", "bucket": "note", "library": "toys 1", "since": 8,
            ]
            let two: JSONValue = [
                "door": "toy", "user": .null, "client": "two", "bucket": .null, "library": .null, "since": 9,
            ]
            #expect(try await listing("a%22") == ["clients": [], "channels": [one, two]])
            #expect(try await listing("a%22&limit=1") == ["clients": [], "channels": [one]])
            #expect(try await listing("a%22&after=1") == ["clients": []])
            #expect(try await listing("b%22") == ["clients": []])
        }
    }

    @Test func doorsHearOfLoginsThatAnOperatorEnds() async throws {
        let door = Door()
        try await AppServicesRig.run(doors: [door]) { rig async throws in
            let user = try await rig.newUser("ann@example.com").user
            #expect(try await rig.admin("/v1/users/revoke", ["user": .string(user)]).status == 200)
            #expect(door.endings.users.withLock { $0 } == [user])
        }
    }

    @Test func doorsAreListedAndDropped() async throws {
        try await AppServicesRig.run(store: try Self.store(), doors: [Door()]) { rig async throws in
            func toy(_ query: String) async throws -> JSONValue? {
                let doors = try await rig.admin("GET", "/v1/doors\(query)").json?["doors"]?.array
                return doors?.first { $0["door"] == "toy" }?["records"]
            }
            let toys: JSONValue = [Self.records("entity", 2, 5_000), Self.records("2", 2, 2)]
            let all: JSONValue = [
                ["door": "server", "connections": .null, "records": [Self.records("times", 2, 2)]],
                ["door": "toy", "connections": 3, "records": toys],
                ["door": "9", "connections": .null, "records": [Self.records("4", 2, 2)]],
            ]
            #expect(try await rig.admin("GET", "/v1/doors").json?["doors"] == all)
            #expect(
                try await toy("?path=demo%2F%22b%22") == [Self.records("entity", 1, 2_500), Self.records("2", 1, 1)])

            func drop(_ path: VirtualPath, _ door: JSONValue) async throws -> (status: Int, json: JSONValue?) {
                let answer = try await rig.admin(
                    "/v1/doors/drop", ["path": .string(path.description), "door": door])
                return (answer.status, answer.json)
            }
            let inUse = try await drop(Self.path, "toy")
            #expect(inUse.status == 409 && inUse.json?["error_code"] == "DoorInUse")
            for door in ["server", "0", "none", "8"] as [JSONValue] {
                #expect(try await drop(Self.other, door).status == 404, "\(door)")
            }
            #expect(try await drop(VirtualPath("demo/\"c\""), "toy").status == 404)
            #expect(try await drop(Self.other, "toy").json == ["erased": 2_501])
            #expect(try await toy("") == [Self.records("entity", 1, 2_500), Self.records("2", 1, 1)])
            #expect(try await drop(Self.other, "toy").status == 404)
            #expect(try await drop(Self.other, "9").json == ["erased": 1])
        }
    }
}
