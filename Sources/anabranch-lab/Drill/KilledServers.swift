import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import AnabranchTestClient
import AnabranchTesting
import Foundation
import NIOCore

/// Servers that are killed one after another on the same data, and clients that notice nothing but lost connections.
struct KilledServers {
    private static let clientsPerFile = 3
    /// The longest life of a server, in milliseconds.
    private static let lifeMax = 300

    private let binary: String
    private let data: URL
    private let eventLoop: any EventLoop
    private let clients: [DrillClient]
    private let seed: UInt64

    /// - Parameter directory: the place of the data between two servers.
    init(_ seed: UInt64, binary: String, in directory: URL, on eventLoop: any EventLoop) {
        (self.seed, self.binary, self.eventLoop) = (seed, binary, eventLoop)
        data = directory.appendingPathComponent("data")
        var random = SeededRandom(scrambling: seed)
        clients = (0..<2 * Self.clientsPerFile).map { number in
            DrillClient(of: "kills-\(number % 2)", seed: random.next(), on: eventLoop)
        }
    }

    private var command: ServerCommand { ServerCommand(binary: binary) }

    /// True if entries that leave the log are archived.
    private var isArchived: Bool { seed.isMultiple(of: 2) }

    /// The arguments of a server. With fewer entries in a segment servers would be killed before they have sealed all
    /// that they can, and would never trim.
    private var arguments: [String] {
        [
            "--dev", "--history-seal-entries", "64", "--history-generation-bytes", "1", "--history-generation-ratio",
            "0", "--history-keep", isArchived ? "archive" : "drop",
        ]
    }

    func run(_ cycles: Int) async throws {
        var random = SeededRandom(scrambling: ~seed)
        for _ in 0..<cycles {
            try await withServer { server in
                try await work(on: server, for: random.below(Self.lifeMax), isMaintained: random.isOne(in: 3))
            }
            try await check()
        }
        try await withServer { server in
            try await finish(at: try SyncTarget(url: server.url))
            for client in clients { await client.leave() }
        }
        try await check()
    }

    private func check() async throws {
        try await command.run(["verify", "--data", data.path])
        if isArchived { try checkArchives() }
    }

    /// Checks that the logs and the archives together have all versions.
    private func checkArchives() throws {
        for file in try StoreReader(directory: data.path).files() {
            var version = file.head.version
            try file.forEachEntry { entry in
                if entry.version == version { version = version - 1 }
            }
            guard version == 0 else {
                throw DrillFailure(description: "\(file.path): version \(version) is neither in the log nor archived")
            }
        }
    }

    /// Starts a server on the data, and kills it in the end.
    private func withServer(_ body: (ServerUnderLoad) async throws -> Void) async throws {
        let server = try await ServerUnderLoad.start(binary, arguments) { place in
            if FileManager.default.fileExists(atPath: data.path) {
                try FileManager.default.moveItem(at: data, to: place)
            }
        }
        defer { server.kill() }
        try await body(server)
        server.killProcess()
        guard let place = server.place.dataDirectory else { throw DrillFailure(description: "no data directory") }
        try FileManager.default.moveItem(at: URL(fileURLWithPath: place), to: data)
        // Otherwise integrations that were under way when two servers were killed would be put off.
        try? FileManager.default.removeItem(at: data.appendingPathComponent("suspects"))
    }

    private func work(on server: ServerUnderLoad, for milliseconds: Int, isMaintained: Bool) async throws {
        let target = try SyncTarget(url: server.url), end = ContinuousClock.now + .milliseconds(milliseconds)
        try await withThrowingTaskGroup(of: Void.self) { group in
            if isMaintained, let place = server.place.dataDirectory {
                // It fails if the server is killed during it.
                group.addTask { try? await command.run(["admin", "maintain", "--data", place]) }
            }
            group.addTask {
                try await Task.sleep(until: end)
                server.killProcess()
            }
            for client in clients {
                group.addTask { while ContinuousClock.now < end { try await work(client, at: target) } }
            }
            try await group.waitForAll()
        }
        for client in clients { await client.leave() }
    }

    private func work(_ client: DrillClient, at target: SyncTarget) async throws {
        do {
            try await client.work(at: target, writes: true)
        } catch let error as TestClientError where error.told == nil {
            await client.leave()
        } catch {
            // If it is not connected, the server is gone.
            if await client.isThere { throw error }
        }
    }

    private func finish(at target: SyncTarget) async throws {
        let readers = (0..<2).map { DrillClient(of: "kills-\($0)", seed: seed, on: eventLoop) }
        // The uploads of the first clients reach all others in the second round.
        for _ in 0..<2 { for client in clients + readers { try await client.join(at: target, isFinishing: true) } }
        for client in clients {
            guard let reader = readers.first(where: { $0.partition == client.partition }) else { continue }
            guard try await client.digest() == reader.digest() else {
                throw DrillFailure(description: "a client of \(client.partition) has another state than a new one has")
            }
        }
        for reader in readers { await reader.leave() }
    }
}
