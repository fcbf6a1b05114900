import AnabranchTesting
import Foundation
import Testing

/// Commands as somebody types them, with what each prints and its exit status, in a tracked file:
///
///     # Words for the reader.
///     $ anabranch log --data store --path /none
///     ! Error: store: there is no partition /none
///     = 1
///
/// `$` begins a command and `>` continues it; `|` is a line of standard output and `!` one of standard error; the last
/// one has no end if a `\` follows; `=` gives the exit status. The commands of a file run in one shell
/// (`Tests/Fixtures/session.bash`), in a folder of their own that is called SANDBOX where it is printed.
struct CommandSnapshot {
    private struct Step {
        /// Comments and empty lines before the command.
        var heading: [String] = []
        var command: [String] = []
        /// Its output and its exit status.
        var result: [String] = []

        var lines: [String] { heading + command + result }
    }

    private let file: URL
    private let steps: [Step]
    private let ending: [String]

    /// - Parameter path: of the file, from `Tests/Fixtures` on.
    init(_ path: String) throws {
        file = Fixture.folder.appendingPathComponent(path)
        var steps: [Step] = [], step = Step()
        for line in try String(contentsOf: file, encoding: .utf8).dropLast().split(
            separator: "\n", omittingEmptySubsequences: false
        ).map(String.init) {
            switch line.first {
            case "$":
                step.command = [line]
                steps.append(step)
                step = Step()
            case ">": steps[steps.count - 1].command.append(line)
            case "|", "!", "\\", "=": steps[steps.count - 1].result.append(line)
            default: step.heading.append(line)
            }
        }
        self.steps = steps
        ending = step.heading
    }

    /// Runs the commands and compares; with `ANABRANCH_SNAPSHOTS=record` in the environment the file becomes what they
    /// print now.
    func check() async throws {
        let found = try await run()
        if Fixture.isRecording {
            let text = (found.flatMap(\.lines) + ending).map { $0 + "\n" }.joined()
            return try Data(text.utf8).write(to: file)
        }
        for (found, expected) in zip(found, steps) where found.result != expected.result {
            Issue.record("\(Self.comparison(found, expected))\nin \(file.path)")
        }
    }

    private static func comparison(_ found: Step, _ expected: Step) -> String {
        let index = zip(found.result, expected.result).enumerated().first { $1.0 != $1.1 }?.offset
        let first = index ?? min(found.result.count, expected.result.count)
        let lines = [found, expected].map { first < $0.result.count ? $0.result[first] : "no such line" }
        return """
            \(expected.command.joined(separator: "\n"))
            line \(first + 1) of what it prints is
              \(lines[0])
            in place of
              \(lines[1])
            """
    }

    // MARK: Running

    private func run() async throws -> [Step] {
        let folder = FileManager.default.temporaryDirectory.resolvingSymlinksInPath()
            .appendingPathComponent("snapshot-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        let files = folder.appendingPathComponent("steps"), sandbox = folder.appendingPathComponent("sandbox")
        for folder in [files, sandbox] {
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        }
        for (number, step) in steps.enumerated() {
            let command = step.command.map { $0.dropFirst(2) + "\n" }.joined()
            try Data(command.utf8).write(to: files.appendingPathComponent("\(number)"))
        }
        try await Self.runSession([files.path, "\(steps.count)"], in: sandbox)
        return try steps.enumerated().map { number, step in
            func text(_ suffix: String) throws -> String {
                let bytes = try Data(contentsOf: files.appendingPathComponent("\(number)\(suffix)"))
                return String(decoding: bytes, as: UTF8.self).replacing(sandbox.path, with: "SANDBOX")
            }
            var step = step
            step.result = Self.lines(try text(".out"), prefix: "|") + Self.lines(try text(".err"), prefix: "!")
            step.result.append("= " + (try text(".status").dropLast()))
            return step
        }
    }

    private static func lines(_ text: String, prefix: String) -> [String] {
        guard !text.isEmpty else { return [] }
        let isWhole = text.hasSuffix("\n")
        let lines = (isWhole ? text.dropLast() : text[...]).split(separator: "\n", omittingEmptySubsequences: false)
        return lines.map { $0.isEmpty ? prefix : "\(prefix) \($0)" } + (isWhole ? [] : ["\\"])
    }

    /// The folder of the commands under test: the one of the tests, unless `ANABRANCH_BIN` names another one.
    private static var commands: String? {
        if let folder = ProcessInfo.processInfo.environment["ANABRANCH_BIN"] {
            return URL(fileURLWithPath: folder).path
        }
        return BuiltProducts.folder?.path
    }

    private static func runSession(_ arguments: [String], in folder: URL) async throws {
        let commands: String = try #require(Self.commands)
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["bash", Fixture.folder.appendingPathComponent("session.bash").path] + arguments
        process.currentDirectoryURL = folder
        process.environment = [
            "PATH": "\(commands):/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "FIXTURES": Fixture.folder.path,
            "HOME": folder.path, "LC_ALL": "C", "TZ": "UTC",
        ]
        try await process.runToItsEnd()
    }
}
