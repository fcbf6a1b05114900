import AnabranchTesting
import Foundation
import Testing

/// Published clients, unmodified, with a server as a process of its own: `Tests/Fixtures/simperium`.
@Suite struct ProgramTests {
    private static let tree = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// Simperium3 and simplenote (`Spec/Simperium.md`, section 12).
    @Test func clientsOfTheDataAPI() throws {
        let python = Self.tree.appending(path: ".build/python/bin/python3").path()
        try #require(FileManager.default.isExecutableFile(atPath: python), "scripts/test makes \(python)")
        let program = try #require(BuiltProducts.command("anabranch")).path()
        let script = Self.tree.appending(path: "Tests/Fixtures/simperium/data_clients_test.py").path()
        let process = Process(), output = Pipe()
        process.executableURL = URL(filePath: python)
        process.arguments = ["-B", script, program]
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        process.waitUntilExit()
        #expect(process.terminationStatus == 0, "\(python) -B \(script) \(program)\n\(text)")
        #expect(text.split(separator: "\n").count { $0.hasPrefix("ok ") } == 17, "\(text)")
    }
}
