import AnabranchTesting
import Foundation
import Testing

/// The pages in a real browser, over a server with real uploads: `Tests/Fixtures/inspector`.
@Suite struct BrowserTests {
    private static let tree = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    @Test func anOperatorLooksAround() async throws {
        let python = Self.tree.appending(path: ".build/python/bin/python3").path()
        try #require(FileManager.default.isExecutableFile(atPath: python), "scripts/test makes \(python)")
        let program = try #require(BuiltProducts.folder).appending(path: "anabranch").path()
        let script = Self.tree.appending(path: "Tests/Fixtures/inspector/inspector_test.py").path()
        let (status, text) = try await onOwnThread {
            let process = Process(), output = Pipe()
            process.executableURL = URL(filePath: python)
            process.arguments = ["-B", script, program]
            process.standardOutput = output
            process.standardError = output
            try process.run()
            let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
            process.waitUntilExit()
            return (process.terminationStatus, text)
        }
        // What failed stands first: a log is cut after some lines.
        let lines = text.split(separator: "\n")
        let report = lines.filter { !$0.hasPrefix("ok ") } + lines.filter { $0.hasPrefix("ok ") }
        #expect(status == 0, "\(python) -B \(script) \(program)\n\(report.joined(separator: "\n"))")
        #expect(lines.count { $0.hasPrefix("ok ") } >= 15, "\(text)")
    }
}
