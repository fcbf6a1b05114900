import Foundation
import Testing

/// Lines of text as they come.
struct LineStream {
    let lines: AsyncStream<String>

    init(_ file: FileHandle) {
        let (lines, arrive) = AsyncStream.makeStream(of: String.self)
        self.lines = lines
        Thread.detachNewThread {
            var line: [UInt8] = []
            while let bytes = try? file.read(upToCount: 1), let byte = bytes.first {
                if byte != 10 {
                    line.append(byte)
                    continue
                }
                arrive.yield(String(decoding: line, as: UTF8.self))
                line = []
            }
            arrive.finish()
        }
    }

    /// The next line with a text in it.
    func first(with text: String = "") async throws -> String {
        try #require(await lines.first { text.isEmpty || $0.contains(text) }, "there is no line with '\(text)'")
    }
}

/// A program in Python that answers on ports of its own, for as long as somebody has it.
final class PythonServer {
    let output: LineStream
    private let process = Process()
    private let input = Pipe()

    static let fixtures = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "Fixtures")

    /// - Parameter script: its path in `Tests/Fixtures`.
    init(_ script: String, _ arguments: [String]) throws {
        let root = Self.fixtures.deletingLastPathComponent().deletingLastPathComponent()
        let python = root.appending(path: ".build/python/bin/python3")
        try #require(FileManager.default.isExecutableFile(atPath: python.path()), "scripts/test makes \(python.path())")
        process.executableURL = python
        process.arguments = ["-B", Self.fixtures.appending(path: script).path()] + arguments
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardInput = input
        output = LineStream(pipe.fileHandleForReading)
        try process.run()
    }

    deinit { process.terminate() }
}
