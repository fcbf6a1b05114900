import AnabranchTesting
import Foundation
import Testing

/// Published clients, unmodified, with a server as a process of its own: `Tests/Fixtures/simperium`.
@Suite(.timeLimit(.minutes(30))) struct ProgramTests {
    private static let tree = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// Runs a script that says `ok` so many times.
    private static func run(_ interpreter: String, _ script: String, okCount: Int) async throws {
        let program = try #require(BuiltProducts.command("anabranch")).path()
        let script = tree.appending(path: "Tests/Fixtures/simperium/\(script)").path()
        // Debian's modules, also for a Node.js that is not Debian's; no compiled Python beside the scripts.
        let words = ["NODE_PATH=/usr/share/nodejs", "PYTHONDONTWRITEBYTECODE=1", interpreter, script, program]
        let (status, text) = try await onOwnThread {
            let process = Process(), output = Pipe()
            process.executableURL = URL(filePath: "/usr/bin/env")
            process.arguments = words
            process.standardOutput = output
            process.standardError = output
            try process.run()
            let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
            process.waitUntilExit()
            return (process.terminationStatus, text)
        }
        #expect(status == 0, "\(words.joined(separator: " "))\n\(text)")
        #expect(text.split(separator: "\n").count { $0.hasPrefix("ok ") } == okCount, "\(text)")
    }

    /// Simperium3 and simplenote (`Spec/Simperium.md`, section 12).
    @Test func clientsOfTheDataAPI() async throws {
        let python = Self.tree.appending(path: ".build/python/bin/python3").path()
        try #require(FileManager.default.isExecutableFile(atPath: python), "scripts/test makes \(python)")
        try await Self.run(python, "data_clients_test.py", okCount: 18)
    }

    /// Debian's node-sockjs-client (`Spec/Simperium.md`, section 13).
    @Test func aClientOfSockJS() async throws {
        try await Self.run("node", "sockjs_client_test.js", okCount: 4)
    }
}
