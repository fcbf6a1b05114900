import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import Foundation
import Testing

/// Stored data stay as they are: the tables that a workload writes, and the states of stores that older programs have
/// written.
@Suite struct StoreFormatTests {
    /// The workload, run anew, writes the tables that it wrote, row by row and byte by byte; but for the name of the
    /// store, which is random.
    @Test func theWorkloadWritesTheTablesOfTheFixture() async throws {
        try await Self.withFolder { folder in
            let store = try SQLiteStore(directory: folder, options: .init(shards: 1))
            try StoredWorkload(store: store).run()
            try store.close()
            let written = try StoredTables(database: folder + "/shard-00.sqlite").tables
            try Fixture.expect(
                written.filter { $0.name != "store_meta" }.map(\.summary), equals: "store-format-7/tables.tsv")
        }
    }

    /// Of every version of every file of a store that an older program has written; the newest states come from their
    /// rows, the others from the log.
    @Test func everyVersionOfTheFixtureHasItsState() async throws {
        try await Self.withFolder { folder in
            try await Fixture.unpack("store-format-7/stopped", to: folder)
            var lines: [String] = []
            for file in try StoreReader(directory: folder).files() {
                for version in 0...file.head.version.rawValue {
                    let version = ServerVersion(rawValue: version)
                    lines.append("\(file.path)\t\(version)\t\(try StateDigest(of: file.state(at: version)))")
                }
            }
            try Fixture.expect(lines, equals: "store-format-7/stopped-digests.tsv")
        }
    }

    private static func withFolder(_ body: (String) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("store-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try await body(folder)
    }
}
