import Foundation

/// A server of our own: a process, and a temporary directory that is gone afterwards.
final class ServerUnderLoad: Sendable {
    /// Where it listens.
    let url: String
    let place: ServerSampler.Place
    private let process: Process
    private let directory: URL

    /// Starts the binary and waits until it listens.
    ///
    /// - Parameter arguments: say who is let in; everybody in development mode.
    /// - Throws: `LoadError` with the end of the server's log, if it does not start.
    static func start(_ binary: String, _ arguments: [String] = ["--dev"]) async throws -> ServerUnderLoad {
        guard FileManager.default.isExecutableFile(atPath: binary) else {
            throw LoadError("--serve: there is no program \(binary)")
        }
        let directory = FileManager.default.temporaryDirectory
            .appendingPathComponent("anabranch-load-\(UInt32.random(in: 0 ... .max))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        do {
            return try await start(binary, arguments, in: directory)
        } catch {
            try? FileManager.default.removeItem(at: directory)
            throw error
        }
    }

    private static func start(
        _ binary: String, _ arguments: [String], in directory: URL
    ) async throws -> ServerUnderLoad {
        let data = directory.appendingPathComponent("data").path
        let log = directory.appendingPathComponent("server.log").path
        try Data().write(to: URL(fileURLWithPath: log))
        let process = Process(), output = Pipe()
        process.executableURL = URL(fileURLWithPath: binary)
        process.arguments = ["serve", "--data", data, "--listen", "127.0.0.1:0"] + arguments
        process.environment = ProcessInfo.processInfo.environment
            .merging(["ANABRANCH_CONNECTIONS": "1000000"]) { $1 }
        process.standardOutput = output
        process.standardError = FileHandle(forWritingAtPath: log)
        try process.run()
        let line = await firstLine(of: output.fileHandleForReading)
        guard let port = line.split(separator: ":").last.flatMap({ Int($0) }) else {
            process.waitUntilExit()
            let words = (try? String(contentsOfFile: log, encoding: .utf8))?.suffix(500) ?? ""
            throw LoadError("\(binary) does not start: \(words)")
        }
        return ServerUnderLoad(
            url: "ws://127.0.0.1:\(port)", process: process, directory: directory,
            place: ServerSampler.Place(process: process.processIdentifier, dataDirectory: data, log: log))
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

    private init(url: String, process: Process, directory: URL, place: ServerSampler.Place) {
        self.url = url
        self.process = process
        self.directory = directory
        self.place = place
    }

    /// Ends it with SIGTERM, with SIGKILL if that takes longer than `patience`, and removes its directory.
    ///
    /// - Returns: how long it took, in seconds.
    func stop(patience: Duration = .seconds(60)) async -> Double {
        let start = ContinuousClock.now
        process.terminate()
        while process.isRunning, ContinuousClock.now - start < patience {
            try? await Task.sleep(for: .milliseconds(10))
        }
        kill()
        return (ContinuousClock.now - start) / .seconds(1)
    }

    /// Ends it at once and removes its directory.
    func kill() {
        if process.isRunning {
            Foundation.kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
        }
        try? FileManager.default.removeItem(at: directory)
    }
}
