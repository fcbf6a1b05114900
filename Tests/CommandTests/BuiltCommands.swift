import AnabranchTesting
import Foundation
import Testing

/// The built commands, as a shell calls them.
enum BuiltCommands {
    struct Answer {
        var status: Int32
        var output: String
        var complaint: String
    }

    /// Runs a line in bash; the commands are in its path.
    /// - Parameter words: `$1`, `$2` and so on.
    static func bash(_ line: String, _ words: String...) throws -> Answer { try bash(line, words) }

    /// The same on a thread of its own: all tests share a few, and some lines wait for most of their time.
    static func bashBeside(_ line: String, _ words: String...) async throws -> Answer {
        try await onOwnThread { try bash(line, words) }
    }

    private static func bash(_ line: String, _ words: [String]) throws -> Answer {
        let process = Process(), output = Pipe(), complaints = Pipe()
        process.executableURL = URL(fileURLWithPath: "/bin/bash")
        process.arguments = ["-c", "PATH=\"$0:$PATH\"; " + line, try #require(BuiltProducts.folder).path] + words
        process.standardOutput = output
        process.standardError = complaints
        try process.run()
        // None of them says more on standard error than a pipe takes.
        let text = try output.fileHandleForReading.readToEnd() ?? Data()
        let complaint = try complaints.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return Answer(
            status: process.terminationStatus, output: String(decoding: text, as: UTF8.self),
            complaint: String(decoding: complaint, as: UTF8.self))
    }

    static func succeeds(_ line: String) -> Bool { (try? bash(line))?.status == 0 }
}
