import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import Foundation
import Testing

/// What is stored stays as it is: the tables that a workload writes, and the states of stores that older programs have
/// written.
@Suite struct StoreFormatTests {
    private static let fixture = "store-format-2"

    /// The workload, run anew, writes the tables that the fixture holds, row by row and byte by byte.
    @Test func theWorkloadWritesTheTablesOfTheFixture() async throws {
        try await Self.withFolder { folder in
            let store = try SQLiteStore(directory: folder + "/new")
            try StoredWorkload(store: store).run()
            try store.close()
            let written = try StoredTables(database: folder + "/new/anabranch.sqlite")
            try await Fixture.unpack(Self.fixture + "/stopped", to: folder + "/old")
            let stored = try StoredTables(database: folder + "/old/anabranch.sqlite")
            let difference = StoredTables.difference(written, stored)
            #expect(difference == nil, "\(difference ?? "")")
            try Fixture.expect(written.tables.map(\.summary), equals: Self.fixture + "/tables.tsv")
        }
    }

    /// Of every version of every file; the newest states come from their rows, the others from the log.
    @Test(arguments: ["stopped", "killed"])
    func everyVersionOfAFixtureHasItsState(_ name: String) async throws {
        try await Self.withFolder { folder in
            try await Fixture.unpack("\(Self.fixture)/\(name)", to: folder)
            var lines: [String] = []
            for file in try StoreReader(directory: folder).files() {
                for version in 0...file.head.version.rawValue {
                    let version = ServerVersion(rawValue: version)
                    lines.append("\(file.path)\t\(version)\t\(try StateDigest(of: file.state(at: version)))")
                }
            }
            try Fixture.expect(lines, equals: "\(Self.fixture)/\(name)-digests.tsv")
        }
    }

    private static func withFolder(_ body: (String) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("store-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try await body(folder)
    }
}
