import Foundation
import Synchronization

/// The lines that a process prints, until it ends.
struct ProcessLines {
    fileprivate let handle: FileHandle

    func all() async -> [String] {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                let bytes = (try? handle.readToEnd()) ?? Data()
                var lines = String(decoding: bytes, as: UTF8.self).split(
                    separator: "\n", omittingEmptySubsequences: false)
                // An unfinished line says nothing.
                lines.removeLast()
                continuation.resume(returning: lines.map(String.init))
            }
        }
    }
}

/// A process of this program that is killed.
final class TortureProcess: Sendable {
    private let process = Mutex(Process())
    private let isOver = Mutex(false)
    private let errors: String

    init(_ arguments: [String], errors: String) {
        self.errors = errors
        process.withLock { process in
            process.executableURL = URL(fileURLWithPath: Bundle.main.executablePath ?? CommandLine.arguments[0])
            process.arguments = arguments
        }
    }

    /// The end of its standard error.
    var errorOutput: String { String(((try? String(contentsOfFile: errors, encoding: .utf8)) ?? "").suffix(500)) }

    func start() throws -> ProcessLines {
        try process.withLock { process in
            let output = Pipe()
            _ = FileManager.default.createFile(atPath: errors, contents: nil)
            process.standardOutput = output
            process.standardError = FileHandle(forWritingAtPath: errors)
            try process.run()
            return ProcessLines(handle: output.fileHandleForReading)
        }
    }

    func send(_ signal: Int32) { process.withLock { _ = Foundation.kill($0.processIdentifier, signal) } }

    /// Kills it when its time is up, unless it is over before.
    func kill(after time: Duration) async {
        let end = ContinuousClock.now + time
        while ContinuousClock.now < end, !isOver.withLock({ $0 }) {
            try? await Task.sleep(for: min(.milliseconds(20), end - .now))
        }
        if !isOver.withLock({ $0 }) { send(SIGKILL) }
    }

    func forget() { isOver.withLock { $0 = true } }

    /// - Throws: `DrillFailure` if it has ended in another way.
    func checkWasKilled() throws {
        try process.withLock { process in
            process.waitUntilExit()
            guard process.terminationReason == .uncaughtSignal, process.terminationStatus == SIGKILL else {
                throw DrillFailure(
                    description: "a replica has ended with \(process.terminationStatus): \(errorOutput)")
            }
        }
    }
}

/// A server that is killed, and starts again at the same place.
final class TortureServer: Sendable {
    private let binary: String
    private let directory: URL
    private let arguments: [String]
    private let state = Mutex((process: Process?.none, port: 0))

    /// - Parameter arguments: arguments of `anabranch serve`, besides where its data are and where it listens.
    init(_ binary: String, _ arguments: [String] = [], in directory: URL) {
        (self.binary, self.arguments, self.directory) = (binary, arguments, directory)
    }

    /// The path of its data.
    var data: String { directory.appendingPathComponent("data").path }

    /// Nil while there is none.
    var processIdentifier: Int32? { state.withLock { $0.process?.processIdentifier } }

    /// Starts the server.
    /// - Returns: its URL.
    func start() async throws -> String {
        let log = directory.appendingPathComponent("server.log").path
        if !FileManager.default.fileExists(atPath: log) {
            _ = FileManager.default.createFile(atPath: log, contents: nil)
        }
        let output = Pipe(), port = state.withLock(\.port), process = Process()
        process.executableURL = URL(fileURLWithPath: binary)
        process.arguments =
            [
                "serve", "--dev", "--data", data, "--listen", "127.0.0.1:\(port)",
            ] + arguments
        process.standardOutput = output
        let errors = FileHandle(forWritingAtPath: log)
        try errors?.seekToEnd()
        process.standardError = errors
        try process.run()
        state.withLock { $0.process = process }
        let line = await Self.firstLine(of: output.fileHandleForReading)
        guard let port = line.split(separator: ":").last.flatMap({ Int($0) }) else {
            let words = (try? String(contentsOfFile: log, encoding: .utf8))?.suffix(500) ?? ""
            throw DrillFailure(description: "the server does not start: \(words)")
        }
        state.withLock { $0.port = port }
        return "ws://127.0.0.1:\(port)"
    }

    func send(_ signal: Int32) {
        state.withLock { state in
            if let process = state.process { _ = Foundation.kill(process.processIdentifier, signal) }
        }
    }

    func kill() { end(with: SIGKILL) }

    /// Ends it, and waits until it has ended.
    func end(with signal: Int32) {
        state.withLock { state in
            guard let process = state.process else { return }
            Foundation.kill(process.processIdentifier, signal)
            process.waitUntilExit()
            state.process = nil
        }
    }

    private static func firstLine(of handle: FileHandle) async -> String {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                var line: [UInt8] = []
                while let byte = try? handle.read(upToCount: 1)?.first, byte != UInt8(ascii: "\n") { line.append(byte) }
                continuation.resume(returning: String(decoding: line, as: UTF8.self))
            }
        }
    }
}
