import AnabranchCore
import AnabranchTesting
import GRDB
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// Everything that the log determines is made again, and nothing else is touched (`Spec/Durability.md`, section 4).
@Suite struct RepairTests {
    /// A store with the files /a and /b, each with a state.
    private struct Fixture {
        let directory: TemporaryDirectory
        let states: [String: String]

        init() throws {
            directory = try TemporaryDirectory()
            let store = try SQLiteStore(oneShardIn: directory.path)
            var states: [String: String] = [:]
            for path in ["/a", "/b"] {
                let file = try SyncedFile.open(path, in: store, keepsState: true)
                for number in 1...20 as ClosedRange<Int64> {
                    try file.write(at: 1) { tx in
                        try tx.addClass("T", key: "_id", .int)
                        try tx.addColumn("n", .int, to: "T")
                        try tx.create("T", key: .int(number % 4), ["n": .int(number)])
                    }
                }
                states[path] = try Self.state(of: file)
            }
            self.states = states
            try store.close()
        }

        static func state(of file: SyncedFile) throws -> String {
            try file.withState { String(decoding: try $0.canonicalJSON(), as: UTF8.self) }
        }

        /// Damages /a behind the back of the store.
        func damage(_ sql: String) throws {
            let queue = try DatabaseQueue(path: directory.path + "/shard-00.sqlite")
            try queue.write { db in
                try db.execute(sql: sql + " AND file = (SELECT id FROM synced_file WHERE path = CAST('/a' AS BLOB))")
                #expect(db.changesCount > 0, "\(sql)")
            }
            try queue.close()
        }

        func repair(_ paths: [VirtualPath]? = nil) throws -> [RepairedFile] {
            let repair = try StoreRepair(directory: directory.path)
            var files: [RepairedFile] = []
            try repair.run(paths) { files.append($0) }
            try repair.close()
            return files
        }

        func damageCount() throws -> Int {
            var count = 0
            try StoreVerification(directory: directory.path).checkFiles { count += $0.damages.count }
            return count
        }
    }

    @Test(arguments: [
        ("UPDATE state_row SET content = x'00' WHERE class = 0", RepairedFile.Parts.state),
        ("UPDATE state_row SET content = x'0d01' || content WHERE class = 1", .state),
        ("DELETE FROM state_row WHERE class = 1", .state),
        ("UPDATE state_row SET content = x'01' || substr(content, 2) WHERE class = 1", .state),
        ("DELETE FROM state_row WHERE 1", .state),
        ("UPDATE state_row SET key = key || x'00' WHERE class = 1", .state),
        ("DELETE FROM conflict_key WHERE version = 3", .conflictKeys),
        ("UPDATE conflict_key SET key = key + 1 WHERE version = 3", .conflictKeys),
        ("UPDATE conflict_key SET origin = 5 WHERE 1", .conflictKeys),
    ])
    func whatTheLogDeterminesIsMadeAnew(_ sql: String, _ parts: RepairedFile.Parts) throws {
        let fixture = try Fixture()
        try fixture.damage(sql)
        #expect(try fixture.damageCount() > 0)
        let files = try fixture.repair()
        #expect(files.map(\.path.description) == ["/a", "/b"])
        #expect(files.map(\.repaired) == [parts, []])
        #expect(files.allSatisfy { $0.damages.isEmpty && $0.goodVersion == 20 })
        #expect(try fixture.damageCount() == 0)
        #expect(try fixture.repair().allSatisfy { $0.repaired.isEmpty && $0.damages.isEmpty })
        let store = try SQLiteStore(oneShardIn: fixture.directory.path)
        for (path, state) in fixture.states {
            #expect(try Fixture.state(of: SyncedFile.open(path, in: store, keepsState: true)) == state)
        }
        try store.close()
    }

    @Test func aFileWhoseRecordCannotBeReadDoesNotStopTheRepairOfOthers() throws {
        let fixture = try Fixture()
        try fixture.damage("DELETE FROM state_row WHERE class = 1")
        let queue = try DatabaseQueue(path: fixture.directory.path + "/shard-00.sqlite")
        try queue.write { db in
            // It comes first.
            let first = "version_salt = 'x', path = CAST('/0' AS BLOB)"
            try db.execute(sql: "UPDATE synced_file SET \(first) WHERE path = CAST('/b' AS BLOB)")
        }
        try queue.close()
        let files = try fixture.repair()
        #expect(files.map(\.path.description) == ["/0", "/a"])
        #expect(files.map(\.repaired) == [[], .state])
        #expect(files.map { $0.damages.map(\.kind) } == [[.value], []])
    }

    /// Also the damaged state stays, since there is nothing to make it from.
    @Test func aDamagedLogIsNamedAndNothingIsChanged() throws {
        let fixture = try Fixture()
        try fixture.damage("UPDATE log_entry SET changeset = x'00' WHERE version = 8")
        try fixture.damage("DELETE FROM state_row WHERE class = 1")
        let count = try fixture.damageCount()
        let file = try #require(try fixture.repair([VirtualPath("/a")]).first)
        #expect(file.repaired.isEmpty && file.goodVersion == 7 && file.damages.count == count)
        #expect(file.damages.contains { $0.kind == .checksum && $0.place == "log entry 8" })
        #expect(try fixture.damageCount() == count)
        #expect(try fixture.repair([VirtualPath("/b")]).map(\.damages) == [[]])
    }

    @Test func aFileThatIsNotThereIsAnErrorBeforeAnythingIsDone() throws {
        let fixture = try Fixture()
        try fixture.damage("DELETE FROM state_row WHERE class = 1")
        #expect(throws: HistoryError.self) { try fixture.repair([VirtualPath("/a"), VirtualPath("/c")]) }
        #expect(try fixture.damageCount() > 0)
    }
}
