import AnabranchTesting
import Foundation
import Testing

/// Published clients, unmodified, with a server as a process of its own: `Tests/Fixtures/simperium`.
@Suite(.timeLimit(.minutes(30))) struct ProgramTests {
    private static let tree = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// Runs a script that says `ok` so many times.
    private static func run(_ interpreter: String, _ script: String, okCount: Int) throws {
        let program = try #require(BuiltProducts.command("anabranch")).path()
        let script = tree.appending(path: "Tests/Fixtures/simperium/\(script)").path()
        let process = Process(), output = Pipe()
        process.executableURL = URL(filePath: "/usr/bin/env")
        // Debian's modules, also for a Node.js that is not Debian's; no compiled Python beside the scripts.
        process.arguments = [
            "NODE_PATH=/usr/share/nodejs", "PYTHONDONTWRITEBYTECODE=1", interpreter, script, program,
        ]
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        process.waitUntilExit()
        let command = process.arguments?.joined(separator: " ") ?? ""
        #expect(process.terminationStatus == 0, "\(command)\n\(text)")
        #expect(text.split(separator: "\n").count { $0.hasPrefix("ok ") } == okCount, "\(text)")
    }

    /// Simperium3 and simplenote (`Spec/Simperium.md`, section 12).
    @Test func clientsOfTheDataAPI() throws {
        let python = Self.tree.appending(path: ".build/python/bin/python3").path()
        try #require(FileManager.default.isExecutableFile(atPath: python), "scripts/test makes \(python)")
        try Self.run(python, "data_clients_test.py", okCount: 17)
    }

    /// Debian's node-sockjs-client (`Spec/Simperium.md`, section 13).
    @Test func aClientOfSockJS() throws {
        try Self.run("node", "sockjs_client_test.js", okCount: 4)
    }
}
