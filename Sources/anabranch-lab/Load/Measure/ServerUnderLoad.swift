import Foundation
import Synchronization

/// A server of our own: a process, and a temporary directory that is removed afterwards.
final class ServerUnderLoad: Sendable {
    /// The URL at which it listens.
    let url: String
    let place: ServerSampler.Place
    private let process: Process
    private let binary: String
    private let arguments: [String]
    /// The directory that exists until the end, with the data, the log and, perhaps, the configuration.
    let directory: URL
    private let ending = Mutex<Ending?>(nil)
    /// All processes that were started and whose directories are still there.
    private static let begun = Mutex<[URL: Process]>([:])

    /// The end of a process.
    struct Ending: Sendable {
        /// The time from SIGTERM on.
        var seconds: Double
        /// The exit status, or the number of the signal that has ended it.
        var status: Int32
        var hasFallenToSignal: Bool

        /// The exit status that a shell would show.
        var exitStatus: Int32 { hasFallenToSignal ? 128 + status : status }
    }

    /// The time that a server may take until it listens.
    private static let startPatience = Duration.seconds(60)

    /// Starts the binary and waits until it listens.
    ///
    /// - Parameters:
    ///   - arguments: arguments that say who is let in; everybody in development mode.
    ///   - configuration: the file that says so in their place, in YAML.
    ///   - fill: fills the data directory, which does not exist yet, before the server starts; the configuration is
    ///     next to it.
    /// - Throws: `StartError` with the end of the server's log, if it does not start.
    static func start(
        _ binary: String, _ arguments: [String] = ["--dev"], configuration: String? = nil,
        fill: (URL) throws -> Void = { _ in }
    ) async throws -> ServerUnderLoad {
        guard FileManager.default.isExecutableFile(atPath: binary) else {
            throw LoadError("--serve: there is no program \(binary)")
        }
        let directory = FileManager.default.temporaryDirectory
            .appendingPathComponent("anabranch-load-\(UInt32.random(in: 0 ... .max))")
        let process = Process()
        do {
            try begun.withLock { servers in
                servers[directory] = process
                try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
            }
            try fill(directory.appendingPathComponent("data"))
            guard let configuration else { return try await start(process, binary, arguments, in: directory) }
            let file = directory.appendingPathComponent("anabranch.yaml")
            try Data(configuration.utf8).write(to: file)
            return try await start(process, binary, ["--config", file.path], in: directory)
        } catch {
            end(process, in: directory)
            throw error
        }
    }

    private static func start(
        _ process: Process, _ binary: String, _ arguments: [String], in directory: URL
    ) async throws -> ServerUnderLoad {
        let data = directory.appendingPathComponent("data").path
        let log = directory.appendingPathComponent("server.log").path
        try Data().write(to: URL(fileURLWithPath: log))
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: binary)
        process.arguments = ["serve", "--data", data, "--listen", "127.0.0.1:0"] + arguments
        process.environment = ProcessInfo.processInfo.environment
            .merging(["ANABRANCH_CONNECTIONS": "1000000"]) { $1 }
        process.standardOutput = output
        process.standardError = FileHandle(forWritingAtPath: log)
        try begun.withLock { _ in try process.run() }
        let timer = Task {
            try await Task.sleep(for: startPatience)
            Foundation.kill(process.processIdentifier, SIGKILL)
        }
        let port = await port(in: output.fileHandleForReading)
        timer.cancel()
        guard let port else {
            process.waitUntilExit()
            let words = (try? String(contentsOfFile: log, encoding: .utf8))?.suffix(500) ?? ""
            let signal = process.terminationReason == .uncaughtSignal ? process.terminationStatus : nil
            throw StartError(binary: binary, words: String(words), signal: signal)
        }
        return ServerUnderLoad(
            url: "ws://127.0.0.1:\(port)", process: process, binary: binary, arguments: arguments, in: directory,
            place: ServerSampler.Place(process: process.processIdentifier, dataDirectory: data, log: log))
    }

    /// The port at the end of the first line that ends with one; nil if the server ends without such a line.
    private static func port(in handle: FileHandle) async -> Int? {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                var line: [UInt8] = [], port: Int?
                while port == nil, let byte = try? handle.read(upToCount: 1)?.first {
                    line.append(byte)
                    guard byte == UInt8(ascii: "\n") else { continue }
                    let words = String(decoding: line.dropLast(), as: UTF8.self).split(separator: ":")
                    port = words.last.flatMap { Int($0) }
                    line = []
                }
                continuation.resume(returning: port)
            }
        }
    }

    private init(
        url: String, process: Process, binary: String, arguments: [String], in directory: URL,
        place: ServerSampler.Place
    ) {
        self.url = url
        self.process = process
        self.binary = binary
        self.arguments = arguments
        self.directory = directory
        self.place = place
    }

    /// True once `end` has ended it.
    var wasEnded: Bool { ending.withLock { $0 != nil } }

    /// - Throws: `LoadError` with the end of its log if it no longer runs.
    func checkIsRunning() throws(LoadError) {
        guard !process.isRunning else { return }
        let log = place.log.flatMap { try? String(contentsOfFile: $0, encoding: .utf8) } ?? ""
        throw LoadError("the server has ended: \(log.suffix(500))")
    }

    /// Ends it with SIGTERM, with SIGKILL if that takes longer than `patience`. Its directory stays.
    ///
    /// - Returns: the end of the process, the first time that it was asked to.
    @discardableResult
    func end(patience: Duration = .seconds(60)) async -> Ending {
        if let ending = ending.withLock({ $0 }) { return ending }
        let start = ContinuousClock.now
        process.terminate()
        while process.isRunning, ContinuousClock.now - start < patience {
            try? await Task.sleep(for: .milliseconds(10))
        }
        Self.kill(process)
        let ending = Ending(
            seconds: ((ContinuousClock.now - start) / .seconds(1)).rounded(places: 3),
            status: process.terminationStatus, hasFallenToSignal: process.terminationReason == .uncaughtSignal)
        return self.ending.withLock { known in
            known = known ?? ending
            return known ?? ending
        }
    }

    /// Starts another server on the data of this one, which has ended.
    func restarted() async throws -> ServerUnderLoad {
        let process = Process()
        Self.begun.withLock { $0[directory] = process }
        return try await Self.start(process, binary, arguments, in: directory)
    }

    /// Ends it with SIGKILL. Its directory stays.
    func killProcess() { Self.kill(process) }

    /// Ends it at once and removes its directory.
    func kill() { Self.end(process, in: directory) }

    /// Ends all at once, removes their directories, and ends this process, so that no further one begins.
    static func endAll(exitStatus: Int32, cleanUp: () -> Void) -> Never {
        begun.withLock { servers -> Never in
            for (directory, process) in servers {
                kill(process)
                // Another thread may be filling it; that ends with an error when the directory is gone.
                repeat {
                    try? FileManager.default.removeItem(at: directory)
                } while FileManager.default.fileExists(atPath: directory.path)
            }
            cleanUp()
            exit(exitStatus)
        }
    }

    private static func end(_ process: Process, in directory: URL) {
        kill(process)
        try? FileManager.default.removeItem(at: directory)
        begun.withLock { $0[directory] = nil }
    }

    private static func kill(_ process: Process) {
        guard process.isRunning else { return }
        Foundation.kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    /// The error of a server that has ended before it listened.
    struct StartError: Error, CustomStringConvertible {
        var binary: String
        /// The end of its log.
        var words: String
        /// The signal that has ended it; nil if it has refused to start.
        var signal: Int32?

        var description: String { "\(binary) does not start: \(words)" }
    }
}
