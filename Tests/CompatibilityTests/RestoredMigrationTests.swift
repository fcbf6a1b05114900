import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import Foundation
import Testing

/// A backup of an older format is migrated and restored; no server comes between the two (`Spec/Durability.md`,
/// section 6).
@Suite struct RestoredMigrationTests {
    private struct Killed: Error {}

    private let folder = NSTemporaryDirectory() + "/anabranch-restored-\(UUID().uuidString)"

    private func refusal() -> String? {
        do {
            try SQLiteStore(directory: folder).close()
            return nil
        } catch {
            return error.reason
        }
    }

    private func salts() throws -> [UInt64] {
        try StoreReader(directory: folder).files().filter { $0.head.version > 0 }.map(\.head.versionSalt.rawValue)
    }

    /// - Parameter isServed: whether a server has begun the migration.
    @Test(arguments: [false, true])
    func aBackupOfAnOlderFormatIsNotServedBeforeItIsRestored(isServed: Bool) async throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try await Fixture.unpack("store-format-2/stopped", to: folder)
        if isServed { _ = try? SQLiteStore(directory: folder) { if $0.fileCount == 1 { throw Killed() } } }
        for fileCount in [0, 3] {
            #expect(throws: HistoryError(.storeFailed, "")) {
                try StoreRestoration(directory: folder) { if $0.fileCount == fileCount { throw Killed() } }
            }
            #expect(refusal()?.contains("`anabranch restore` was interrupted here") == true)
        }
        // It has been migrated, and that is all.
        let first = try StoreRestoration(directory: folder)
        #expect(first.isUnfinished)
        try first.close()
        #expect(refusal()?.contains("`anabranch restore` was interrupted here") == true)
        let again = try StoreRestoration(directory: folder)
        try again.run { _ in }
        #expect(!again.isUnfinished)
        try again.close()
        let restored = try salts()
        #expect(refusal() == nil)
        try FileManager.default.removeItem(atPath: folder)
        try await Fixture.unpack("store-format-2/stopped", to: folder)
        try SQLiteStore(directory: folder).close()
        let before = try salts()
        #expect(restored.count == 6 && Set(restored).isDisjoint(with: before))
    }

    @Test(.enabled(if: Fixture.command != nil, "needs the command"))
    func theCommandSaysThatAMigrationGoesOn() async throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try await Fixture.unpack("store-format-2/stopped", to: folder)
        try Data().write(to: URL(fileURLWithPath: folder + "/anabranch.sqlite.migrated"))
        let process = Process(), output = Pipe()
        process.executableURL = Fixture.command
        process.arguments = ["restore", "--data", folder]
        process.standardError = output
        try process.run()
        let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        process.waitUntilExit()
        #expect(process.terminationStatus == 1)
        #expect(text.contains("not everything is in the new format, so no server starts: run it again"), "\(text)")
        #expect(text.contains("anabranch.sqlite.migrated: File exists"), "\(text)")
    }
}
