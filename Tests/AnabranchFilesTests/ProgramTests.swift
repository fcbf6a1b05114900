import AnabranchTesting
import Foundation
import Testing

/// `anabranch files` and `anabranch serve` as processes that are killed, and that find no room: `Tests/Fixtures/files`.
@Suite(.timeLimit(.minutes(30))) struct ProgramTests {
    private static let tree = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// Devices and servers that are killed at one of their writes. `ANABRANCH_SEED` and `ANABRANCH_FILE_KILLS` choose
    /// other runs.
    @Test func nothingIsLostAtAKill() async throws {
        let environment = ProcessInfo.processInfo.environment
        let seed = environment["ANABRANCH_SEED"] ?? "1", count = environment["ANABRANCH_FILE_KILLS"] ?? "2"
        let (status, text) = try await Self.run("kills.py", seed, count)
        #expect(
            status == 0,
            """
            \(text)
            again: ANABRANCH_SEED=\(seed) ANABRANCH_FILE_KILLS=\(count) scripts/check --filter nothingIsLostAtAKill
            """)
    }

    @Test func aFullDiskIsTold() async throws {
        let (status, text) = try await Self.run("full.py")
        #expect(status == 0, "\(text)")
    }

    /// Files and folders without the right to read them, pipes, and files that are missing.
    @Test func whatCannotBeReadIsTold() async throws {
        let (status, text) = try await Self.run("refused.py")
        #expect(status == 0, "\(text)")
    }

    /// Git, archives, editors and a log, in one of two folders at a time, and mirrors that are killed.
    @Test func programsWorkInMirroredFolders() async throws {
        let (status, text) = try await Self.run("programs.py")
        #expect(status == 0, "\(text)")
    }

    /// A disk on which names that differ in capital letters are one: `fold.c`.
    @Test func namesThatADiskCannotTellApartAreTold() async throws {
        let (status, text) = try await Self.run("letters.py")
        #expect(status == 0, "\(text)")
    }

    /// The example, in which a mirror between two machines is written with the calls of the library.
    @Test func theExampleKeepsTwoFoldersEqual() async throws {
        let example = try #require(BuiltProducts.command("FilesMirror")).path()
        let (status, text) = try await Self.run("example.py", example)
        #expect(status == 0, "\(text)")
    }

    private static func run(_ script: String, _ words: String...) async throws -> (status: Int32, text: String) {
        let program = try #require(BuiltProducts.command("anabranch")).path()
        let script = tree.appending(path: "Tests/Fixtures/files/\(script)").path()
        return try await onOwnThread {
            let process = Process(), output = Pipe()
            process.executableURL = URL(filePath: "/usr/bin/env")
            process.arguments = ["PYTHONDONTWRITEBYTECODE=1", "python3", script, program] + words
            process.standardOutput = output
            process.standardError = output
            try process.run()
            let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
            process.waitUntilExit()
            return (process.terminationStatus, text)
        }
    }
}
