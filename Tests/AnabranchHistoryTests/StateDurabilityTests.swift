import GRDB
import AnabranchCore
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// The states that the SQLite store keeps (`Spec/Durability.md`).
@Suite struct StateDurabilityTests {
    /// A file with some objects, and a write of the server.
    private static func fixture() throws -> TestStore {
        let fixture = try StateTests.Fixture(.sqlite)
        let changeset = try fixture.changeset { tx in
            for key in 2..<5 as Range<Int64> { try tx.create("T", key: .int(key), ["n": .int(key)]) }
        }
        #expect(try fixture.file.integrate(Upload([changeset], from: 9, base: 1), from: 3) == nil)
        try fixture.file.write(idempotencyKey: "k", at: 1) { try $0.create("T", key: 9) }
        return fixture.test
    }

    @Test func everyDamageOfAStateIsNamed() throws {
        let damages: [(sql: String, kind: StoreDamage.Kind, place: String)] = [
            ("DELETE FROM state_row WHERE class = 1", .state, "state"),
            ("DELETE FROM state_row WHERE class = 1 AND key = (SELECT MAX(key) FROM state_row)", .state, "state"),
            ("DELETE FROM state_row WHERE class = 0", .state, "state"),
            ("UPDATE state_row SET content = x'00' WHERE class = 1", .state, "state"),
            ("UPDATE state_row SET content = x'00' WHERE class = 0", .state, "state"),
            ("UPDATE state_row SET content = substr(content, 1, 3) WHERE class = 1", .state, "state"),
            // Only the checksum tells.
            ("UPDATE state_row SET content = x'01' || substr(content, 2) WHERE class = 1", .state, "state"),
            (
                "UPDATE state_row SET content = (SELECT content FROM state_row WHERE class = 1) WHERE class = 1",
                .state, "state"
            ),
            (
                "UPDATE state_row SET key = x'09' WHERE class = 1 AND key = (SELECT MAX(key) FROM state_row)", .state,
                "state"
            ),
            ("UPDATE synced_file SET state_version = 1", .state, "state"),
            ("UPDATE synced_file SET state_version = 9", .state, "state"),
            ("UPDATE idempotency_key SET version = 9", .continuity, "keys of writes"),
        ]
        for (sql, kind, place) in damages {
            let test = try Self.fixture()
            let store = try #require(test.store as? SQLiteStore)
            try store.shards[0].pool.writeWithoutTransaction { db in
                try db.execute(sql: sql)
                #expect(db.changesCount > 0, "\(sql)")
            }
            try store.close()
            let found = try StoppedStore.damages(in: test.path)
            #expect(found.contains { $0.kind == kind && $0.place == place }, "\(sql): \(found)")
        }
    }

    /// Wherever a crash cuts the write-ahead log off: log and state are those of one commit.
    @Test func aLogThatWasCutOffAnywhereHasItsState() throws {
        let test = try Self.fixture()
        let file = try SyncedFile.open(in: test.store, keepsState: true, cachedObjectsMax: 2)
        for number in 10..<16 as Range<UInt64> {
            var changes = ChangesetWriter()
            changes.create(Int64(number))
            changes.set(Int64(number % 3 + 2), to: Int64(number))
            try file.write(idempotencyKey: "\(number)", at: ChangesetTime(number)) { tx in
                let list = try #require(try tx.object("T", key: 1)).list("l")
                for value in 0..<200 as Range<Int64> { try list.append(.int(value)) }
            }
            let upload = Upload([changes.bytes], from: ClientVersion(number), base: file.version)
            #expect(try file.integrate(upload, from: 3) == nil)
        }
        let names = ["shard-00.sqlite", "shard-00.sqlite-wal"]
        let content = try names.map { try Data(contentsOf: URL(fileURLWithPath: test.path + "/" + $0)) }
        var versions: Set<ServerVersion> = []
        for cut in stride(from: 0, through: content[1].count, by: max(1, content[1].count / 100)) {
            let copy = try TemporaryDirectory(copyingManifestOf: test.path)
            for (name, bytes) in zip(names, [content[0], content[1].prefix(cut)]) {
                try bytes.write(to: URL(fileURLWithPath: copy.path + "/" + name))
            }
            try SQLiteStore(oneShardIn: copy.path).close()
            #expect(try StoppedStore.damages(in: copy.path) == [], "cut at \(cut)")
            for file in try StoreReader(directory: copy.path).files() {
                #expect(file.head.stateVersion == file.head.version, "cut at \(cut)")
                versions.insert(file.head.version)
            }
        }
        #expect(versions.count > 3)
    }

    /// Objects that are not what was written are no reason to refuse a client.
    @Test func aDamagedRowIsTransient() throws {
        let test = try Self.fixture()
        let store = try #require(test.store as? SQLiteStore)
        try store.shards[0].pool.writeWithoutTransaction { db in
            try db.execute(sql: "UPDATE state_row SET content = x'00' WHERE class = 1")
        }
        let file = try SyncedFile.open(in: store, keepsState: true)
        try file.enqueue(Upload([ChangesetWriter.setting(2, to: 5)], from: 20, base: 3), from: 3)
        let outcome = try #require(try file.integrate(at: 1).outcomes.first)
        #expect(outcome.refusal?.code == .storeDamaged && outcome.refusal?.isTransient == true)
        #expect(outcome.refusal?.reason.contains("T[2]: the row is not what was written") == true)
        #expect(try file.clientFile(3)?.uploadCursor.clientVersion ?? 20 < 20)
    }

    @Test func earlierStatesAreMadeFromTheLog() throws {
        let test = try Self.fixture()
        try #require(test.store as? SQLiteStore).close()
        let file = try #require(try StoreReader(directory: test.path).files().first)
        #expect(file.path == VirtualPath("/a") && file.head.version == 3)
        var replayed = ObjectGraph()
        for version in [0, 1, 2, 3] as [ServerVersion] {
            if let entry = try file.entry(version) { try replayed.replay([entry]) }
            #expect(try file.state(at: version).canonicalJSON() == replayed.canonicalJSON(), "version \(version)")
        }
        #expect(throws: HistoryError(.badServerVersion, "")) { try file.state(at: 4) }
        var versions: [ServerVersion] = []
        try file.forEachEntry(newest: 2) { versions.append($0.version) }
        #expect(versions == [3, 2])
    }
    /// The entries of a long log are read in steps, the next ones while those before are applied.
    @Test func earlierStatesOfALongLogAreMadeInSteps() throws {
        let test = try Self.fixture()
        var entries: [LogEntry] = []
        do {
            let file = try SyncedFile.open(in: test.store, keepsState: true)
            for number in UInt64(1)...400 {
                var changeset = ChangesetWriter()
                for key in Int64(100)..<200 {
                    if number == 1 { changeset.create(key) } else { changeset.set(key, to: Int64(number)) }
                }
                try file.enqueue(Upload([changeset.bytes], from: 20 + number, base: 3), from: 3)
                #expect(try file.integrate(at: number).outcomes.allSatisfy { $0.refusal == nil })
            }
            entries = try file.log()
        }
        #expect(entries.reduce(0) { $0 + $1.changeset.count } > 300_000)
        try #require(test.store as? SQLiteStore).close()
        let file = try #require(try StoreReader(directory: test.path).files().first)
        for version in [4, 5, 60, 61, 203, 402, 403] {
            var replayed = ObjectGraph()
            try replayed.replay(Array(entries.prefix(version)))
            let state = try file.state(at: ServerVersion(version))
            #expect(try state.canonicalJSON() == replayed.canonicalJSON(), "version \(version)")
        }
    }
}
