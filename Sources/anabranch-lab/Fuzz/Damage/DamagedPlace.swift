import AnabranchProtocol
import AnabranchTestClient
import Foundation
import NIOCore
import Synchronization

/// The behaviour of a server with a store in which one bit is inverted.
struct DamagedPlace: Sendable {
    var seed: UInt64
    var flip: BitFlip
    var outcome = Outcome.served
    /// The number of files that were refused, by error code.
    var refusals: [Int: Int] = [:]

    enum Outcome: Sendable, Equatable {
        /// All files were served as they were written.
        case served
        /// One was refused, the others were served; several were refused; the server did not even start.
        case oneFileRefused, someFilesRefused, allFilesRefused, serverRefused
        /// A fault of the server.
        case failed(String)
    }

    /// The time that a server may take for all clients.
    private static let patience = Duration.seconds(60)

    /// Starts a server on a copy of a store, has clients read, and compares what they are given.
    ///
    /// - Parameter keeps: the folder for a copy of the damaged data directory if the server fails; nil for no copy.
    init(
        seed: UInt64, store: IntactStore, binary: String, on eventLoop: any EventLoop, keeps: URL?
    ) async throws {
        self.seed = seed
        flip = try BitFlip(seed: seed, in: store.directory)
        try await serve(store, by: binary, on: eventLoop)
        if case .failed = outcome, let keeps {
            let copy = keeps.appendingPathComponent("\(seed)")
            try? FileManager.default.removeItem(at: copy)  // of an earlier run
            try FileManager.default.createDirectory(at: keeps, withIntermediateDirectories: true)
            try FileManager.default.copyItem(at: store.directory, to: copy)
            try flip.apply(in: copy)
        }
    }

    private mutating func serve(_ store: IntactStore, by binary: String, on eventLoop: any EventLoop) async throws {
        let server: ServerUnderLoad
        do {
            server = try await ServerUnderLoad.start(binary) { [flip] directory in
                try FileManager.default.copyItem(at: store.directory, to: directory)
                try flip.apply(in: directory)
            }
        } catch let error as ServerUnderLoad.StartError {
            outcome = error.signal.map { .failed("signal \($0) ends the server as it starts") } ?? .serverRefused
            return
        }
        defer { server.kill() }
        let (readings, problem) = try await Self.read(store.files, from: server, on: eventLoop)
        judge(readings, expected: store.readings, problem)
    }

    /// - Returns: the readings of the clients of each file, and the fault of the server itself.
    static func read(
        _ files: [StoreHistory.File], from server: ServerUnderLoad, on eventLoop: any EventLoop
    ) async throws -> (readings: [StoreReading], problem: String?) {
        let isLate = Atomic(false)
        let timer = Task {
            try await Task.sleep(for: patience)
            isLate.store(true, ordering: .relaxed)
            await server.end(patience: .seconds(1))
        }
        defer { timer.cancel() }
        let target = try SyncTarget(url: server.url)
        var readings: [StoreReading] = []
        for file in files { readings.append(await StoreReading.read(file, from: target, on: eventLoop)) }
        if isLate.load(ordering: .relaxed) { return (readings, "no answer within \(patience)") }
        do { try server.checkIsRunning() } catch { return (readings, error.description) }
        return (readings, nil)
    }

    private mutating func judge(_ readings: [StoreReading], expected: [StoreReading], _ problem: String?) {
        for reading in readings {
            if let told = reading.refusal?.told { refusals[told.code.rawValue, default: 0] += 1 }
        }
        let wrong = zip(readings, expected).enumerated().compactMap { number, pair in
            pair.0.problem(expected: pair.1).map { "file \(number): \($0)" }
        }
        let refused = readings.count { $0.refusal != nil }
        if let problem = problem ?? wrong.first {
            outcome = .failed(problem)
        } else if refused == 0 {
            outcome = .served
        } else if refused == readings.count, refused > 1 {
            outcome = .allFilesRefused
        } else {
            outcome = refused == 1 ? .oneFileRefused : .someFilesRefused
        }
    }
}

/// A store without damage, and the readings of clients from a server on a copy of it.
struct IntactStore: Sendable {
    var directory: URL
    var files: [StoreHistory.File]
    var readings: [StoreReading]
}
