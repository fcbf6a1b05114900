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
        #expect(try await killServer(atLine: line) == line)
        // The second one goes on with what the first one has left, which may be nothing.
        _ = try await killServer(atLine: line)
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

    /// - Returns: how many lines there were: fewer if the server has nothing to migrate, and is killed when it listens.
    private func killServer(atLine count: Int) async throws -> Int {
        let process = Process(), output = Pipe()
        process.executableURL = Fixture.command
        process.arguments = ["serve", "--dev", "--listen", "127.0.0.1:0", "--data", folder]
        process.standardOutput = output
        process.standardError = output
        let (ending, end) = AsyncStream.makeStream(of: Never.self)
        process.terminationHandler = { _ in end.finish() }
        try process.run()
        let found = await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                var line = "", found = 0
                while found < count, let bytes = try? output.fileHandleForReading.read(upToCount: 1), !bytes.isEmpty {
                    line += String(decoding: bytes, as: UTF8.self)
                    guard line.hasSuffix("\n") else { continue }
                    if line.hasPrefix("listening") { break }
                    if line.contains("new format") { found += 1 }
                    line = ""
                }
                continuation.resume(returning: found)
            }
        }
        kill(process.processIdentifier, SIGKILL)
        for await _ in ending {}
        return found
    }
}
