import AnabranchCore
import AnabranchHistory
import Testing

@testable import AnabranchServer

/// A door of a running server (`Spec/Doors.md`).
@Suite(.timeLimit(.minutes(30))) struct RecordDoorTests {
    private static let path = VirtualPath("//notes"), other = VirtualPath("//other")

    /// Counts the changes of each object of class Note, whoever makes them.
    private struct VersionDoor: RecordDoor, RecordObserver {
        static func place(_ key: PrimaryKey) -> RecordPlace {
            RecordPlace(space: 1, kind: 1, key: Array("\(key)".utf8))
        }

        static func version(of key: PrimaryKey, _ records: PendingRecords) throws(HistoryError) -> UInt8 {
            try records.value(at: place(key))?.first ?? 0
        }

        let name = "versions"
        let space: UInt16 = 1
        let kindNames: [UInt8: String] = [1: "version"]
        let connectionCount = 3

        func observer(of path: VirtualPath) -> (any RecordObserver)? { path == RecordDoorTests.path ? self : nil }

        func observe(_ step: RecordStep, _ records: inout PendingRecords) throws(HistoryError) {
            for object in try step.touched().objects where object.className.elementsEqual("Note".utf8) {
                records.set([try Self.version(of: object.key, records) + 1], at: Self.place(object.key))
            }
        }
    }

    private struct Stale: Error {}

    private static func makeClass(_ server: SyncServer, in path: VirtualPath) async throws {
        try await server.write(to: path) { tx in
            try tx.addClass("Note", key: "_id", .int)
            try tx.addColumn("count", .int, to: "Note")
            try tx.create("Note", key: 1)
        }
    }

    /// Adds one if the object has the version; else nothing is written.
    private static func increment(at version: UInt8) -> HeadWrite {
        HeadWrite(at: 1) { tx, records in
            guard try VersionDoor.version(of: 1, records) == version else { throw Stale() }
            try tx.object("Note", key: 1)?.add(1, to: "count")
            return []
        }
    }

    @Test func conditionalWritesLoseNothingBesideOthers() async throws {
        let store = InMemoryStore()
        let (made, refused) = try await withServer(store: store, doors: [VersionDoor()]) { server in
            let server = server.server
            try await Self.makeClass(server, in: Self.path)
            let outcomes = try await withThrowingTaskGroup(of: [Bool].self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        var outcomes: [Bool] = []
                        for _ in 0..<20 {
                            let version = try await server.readHead(of: Self.path) { _, records in
                                try VersionDoor.version(of: 1, records)
                            }
                            let writes = [version ?? 0, (version ?? 0) + 1].map { Self.increment(at: $0) }
                            outcomes += try await server.write(writes, atHeadOf: Self.path).map { outcome in
                                switch outcome {
                                case .success: true
                                case .failure(let error) where error is Stale: false
                                case .failure(let error): throw error
                                }
                            }
                        }
                        return outcomes
                    }
                }
                // Others change the object too, and know nothing of its version.
                group.addTask {
                    for number in 0..<10 {
                        try await server.write(to: Self.path) { tx in
                            try tx.object("Note", key: 1)?.add(Int64(number) * 1_000, to: "count")
                        }
                    }
                    return []
                }
                return try await group.reduce([], +)
            }
            return (outcomes.count { $0 }, outcomes.count { !$0 })
        }
        #expect(made + refused == 160 && made > 0)
        let file = try SyncedFile(path: Self.path, store: store)
        let (count, version) = try file.readHead { tx, records in
            (try tx.object("Note", key: 1)?.value("count"), try VersionDoor.version(of: 1, records))
        }
        #expect(count == .int(Int64(made) + 45_000))
        // Adding nothing is a change too, as the log has it.
        #expect(version == UInt8(1 + made + 10))
    }

    @Test func clientsAndFollowersAreToldAndOtherFilesAreNot() async throws {
        try await withServer(doors: [VersionDoor()]) { server in
            let client = SyncClient(partition: "/notes") { server.port }
            try await client.reconnect()
            let follower = try server.server.follow(Self.path)
            try await Self.makeClass(server.server, in: Self.path)
            try await Self.makeClass(server.server, in: Self.other)
            let outcomes = try await server.server.write(
                [Self.increment(at: 1), Self.increment(at: 1)], atHeadOf: Self.path)
            #expect(outcomes.map { (try? $0.get()) != nil } == [true, false])
            #expect(await follower.wait())
            while client.received.count < 2 { try await client.receive() }
            #expect(client.received.map(\.tag.ident) == [1, 1])
            for (path, version) in [(Self.path, 2), (Self.other, 0)] as [(VirtualPath, UInt8)] {
                let found = try await server.server.readHead(of: path) { try VersionDoor.version(of: 1, $1) }
                #expect(found == version)
            }
            #expect(try await server.server.readHead(of: VirtualPath("//none")) { _, _ in 1 } == nil)
        }
    }

    @Test func aServerThatHasEndedWritesNothing() async throws {
        let server = try await withServer { $0.server }
        await #expect(throws: SyncServerError.self) {
            _ = try await server.write([Self.increment(at: 0)], atHeadOf: Self.path)
        }
        #expect(throws: SyncServerError.self) { _ = try server.follow(Self.path) }
    }
}
