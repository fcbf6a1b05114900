import AnabranchHistory
import AnabranchSQLite
import Foundation
import Testing

/// A server that is killed while it migrates: what it leaves behind are write-ahead logs that nobody has closed.
@Suite(.serialized, .timeLimit(.minutes(30)), .enabled(if: Fixture.command != nil, "needs the command"))
struct MigrationCrashTests {
    private let folder = NSTemporaryDirectory() + "/anabranch-crash-\(UUID().uuidString)"

    /// - Parameter line: the line of its log, of those that tell of the migration, at which the server is killed.
    @Test(arguments: ["stopped", "killed"], [1, 2]) func nothingIsLost(_ name: String, _ line: Int) async throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try await Fixture.unpack("store-format-2/\(name)", to: folder)
        // The second one goes on with what the first one has left.
        for _ in 0..<2 { try await killServer(atLine: line) }
        try SQLiteStore(directory: folder).close()
        let verification = try StoreVerification(directory: folder)
        #expect(try verification.checkDatabase() == [])
        var fileCount = 0
        try verification.checkFiles {
            #expect($0.damages == [])
            fileCount += 1
        }
        #expect(fileCount == 7 || name == "killed" && fileCount > 0)
        #expect(try verification.checkMigratedStore() == [])
    }

    private func killServer(atLine count: Int) async throws {
        let process = Process(), log = Pipe()
        process.executableURL = Fixture.command
        process.arguments = ["serve", "--dev", "--listen", "127.0.0.1:0", "--data", folder]
        process.standardOutput = FileHandle.nullDevice
        process.standardError = log
        let (ending, end) = AsyncStream.makeStream(of: Never.self)
        process.terminationHandler = { _ in end.finish() }
        try process.run()
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                var text = "", found = 0
                // A server that has nothing to migrate says at last that everybody may log in.
                while found < count, !text.contains("development mode"),
                    let bytes = try? log.fileHandleForReading.read(upToCount: 1), !bytes.isEmpty
                {
                    text += String(decoding: bytes, as: UTF8.self)
                    guard text.hasSuffix("\n") else { continue }
                    if text.contains("new format") { found += 1 }
                    text = ""
                }
                continuation.resume()
            }
        }
        kill(process.processIdentifier, SIGKILL)
        for await _ in ending {}
    }
}
