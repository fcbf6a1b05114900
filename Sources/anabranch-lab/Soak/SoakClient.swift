import AnabranchClient
import AnabranchCore
import AnabranchProtocol
import AnabranchReplica
import AnabranchTesting
import Foundation

/// A client of a soak, with all the files that it has one after another.
actor SoakClient {
    let number: Int
    let isFlexible: Bool
    private let url: String
    private let directory: URL
    private var random: SeededRandom
    private var fileCount = 0
    private var current: (replica: SyncedReplica, sync: SyncClient)?
    private var isOffline = false

    init(_ number: Int, isFlexible: Bool, url: String, in directory: URL, seed: UInt64) {
        self.number = number
        self.isFlexible = isFlexible
        self.url = url
        self.directory = directory
        random = SeededRandom(scrambling: seed &+ UInt64(number))
    }

    private var app: String { isFlexible ? "soak-flexible" : "soak" }

    /// The synced file, as the server calls it.
    var file: String { isFlexible ? app : app + "/\"soak\"" }

    private var path: String { directory.appendingPathComponent("replica-\(number)-\(fileCount)").path }

    /// Begins with an empty file.
    func begin() async throws {
        fileCount += 1
        let replica = try SyncedReplica(path: path)
        if isFlexible {
            // The classes are uploaded before subscriptions to them are sent.
            try await replica.write { try SoakWorkload.declare($0) }
            try await replica.subscribe([Subscription(SoakWorkload.className)])
        }
        let target = "\(url)/api/client/v2.0/app/\(app)/realm-sync?baas_at="
        var configuration = SyncConfiguration(FixedRoute(target), mode: isFlexible ? .flexible : .partition)
        configuration.timers.connectMilliseconds = 5_000
        let sync = SyncClient(configuration)
        try await add(replica, to: sync)
        if isFlexible { try await replica.waitForSubscriptions() }
        current = (replica, sync)
        isOffline = false
    }

    private func add(_ replica: SyncedReplica, to sync: SyncClient) async throws {
        if isFlexible { try await sync.add(replica) } else { try await sync.add(replica, partition: "\"soak\"") }
    }

    func write() async throws {
        guard let (replica, sync) = current else { return }
        do {
            random = try await replica.write { [random] transaction in
                var random = random
                try SoakWorkload.write(&random, to: transaction)
                return random
            }
        } catch {
            // It may have been thrown away in the meantime.
            guard current?.replica !== replica else { throw error }
            return
        }
        if await replica.syncStatus == .offline, !isOffline { await sync.connectNow() }
        guard random.isOne(in: 300) else { return }
        if isOffline { try await add(replica, to: sync) } else { await sync.remove(replica) }
        isOffline.toggle()
    }

    /// Closes its file and deletes it.
    /// - Returns: the number that the server had given it.
    func leave() async throws -> ClientFileID? {
        guard let (replica, sync) = current else { return nil }
        current = nil
        let ident = await replica.record.file?.ident
        await sync.stop()
        try await replica.close()
        for suffix in ["", "-wal", "-shm", ".lock"] { try? FileManager.default.removeItem(atPath: path + suffix) }
        return ident
    }

    /// Waits until everything is uploaded.
    func finishUpload() async throws {
        guard let (replica, sync) = current else { return }
        if isOffline { try await add(replica, to: sync) }
        isOffline = false
        await sync.connectNow()
        try await replica.waitForUpload()
    }

    /// The digest of its state once everything is downloaded.
    func digest() async throws -> StateDigest? {
        guard let (replica, _) = current else { return nil }
        try await replica.waitForDownload()
        return try StateDigest(of: try await replica.snapshot().state)
    }
}
