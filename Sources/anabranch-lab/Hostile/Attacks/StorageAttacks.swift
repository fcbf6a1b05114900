import AnabranchCore
import AnabranchProtocol
import AnabranchTestClient
import AnabranchTesting
import Foundation
import Synchronization

/// Attacks that fill the disk and the memory for good.
extension Attack {
    static let storageAttacks = [ingested, bootstraps, bootstrapsWhenFull, sets, slowReaders]

    private static let everything = [AttackedObjects.className: "TRUEPREDICATE"]

    // MARK: Asymmetric objects

    private static let ingested = Attack(
        name: "ingested", summary: "objects of an asymmetric class until there is no more room for any",
        counts: ["megabytes": 16]
    ) { run in
        let name = "Event"
        let schema = ChangesetWriter([
            .addTable(name, .topLevelAsymmetric), .addColumn(name, "t", .string),
        ]).bytes
        @Sendable func events(_ keys: Range<Int>, bytes: Int) -> [UInt8] {
            var changeset = ChangesetWriter()
            for key in keys {
                let object = ObjectName(className: name, key: .int(Int64(key)))
                changeset.write(.createObject(object))
                let text = [UInt8](repeating: 1, count: bytes)  // six times as many in JSON
                changeset.write(.update(FieldPath(object: object, field: "t"), .string(text)))
            }
            return changeset.bytes
        }
        let user = try await run.user(of: .flexible)
        try await run.client(of: user).store([schema])
        let victim = try await run.client(of: run.user(of: .flexible))
        let before = run.storeBytes
        try await run.measure {
            // Uploads for which there is no room are halved, until there is hardly any room left.
            var bytes = run.count("megabytes") * 1_000_000, key = 0
            while bytes > 50 {
                let attacker = try await run.client(of: user), count = max(1, bytes / 1_000_000)
                do {
                    while true {
                        try await attacker.store([events(key..<key + count, bytes: bytes / count)])
                        key += count
                    }
                } catch {
                    if bytes < 100 { run.report.figure("attacker_told", "\(error)") }
                    bytes /= 2
                }
            }
        }
        run.report.figure("store_growth", Double(run.storeBytes - before) / 1e6, "MB")
        // The answer may be an error, and must not keep the measurement waiting.
        let isTaken = try? await run.withPatience { try await victim.store([events(-2 ..< -1, bytes: 1_000)]) }
        run.report.bound("upload_of_another_taken", isTaken == nil ? 0 : 1, atLeast: 1)
    }

    // MARK: Bootstraps

    private static let bootstraps = Attack(
        name: "bootstraps", summary: "100 client files of one user ask for the same 5 MB, and confirm nothing",
        counts: ["files": 100, "seconds": 20],
        plan: Plan(
            isJudgedByWaits: false, server: AttackedServer(objects: AttackedObjects(count: 50, dataBytes: 100_000)))
    ) { run in
        let before = run.storeBytes
        try await run.measure {
            try await bootstrap(run, run.count("files"), for: .seconds(run.count("seconds")))
        }
        run.report.bound("store_growth", Double(run.storeBytes - before) / 1e6, atMost: 50, "MB")
    }

    private static let bootstrapsWhenFull = Attack(
        name: "bootstraps-when-full", summary: "40 client files say in IDENT that they ask for 5 MB, of a full store",
        counts: ["files": 40, "seconds": 20],
        plan: Plan(
            hasBystanders: false, measuresLaterCommit: false,
            server: AttackedServer(
                settings: "\(AttackedServer.manyClients)\nstore-bytes: 1000000",
                objects: AttackedObjects(count: 50, dataBytes: 100_000)))
    ) { run in
        let before = run.storeBytes
        try await run.measure {
            try await bootstrap(run, run.count("files"), for: .seconds(run.count("seconds")))
        }
        run.report.bound("store_growth", Double(run.storeBytes - before) / 1e6, atMost: 5, "MB")
    }

    /// Has new client files of one user claim to have had a set, which the server takes for a new one.
    private static func bootstrap(_ run: AttackRun, _ count: Int, for duration: Duration) async throws {
        let user = try await run.user(of: .flexible), served = Served()
        let end = ContinuousClock.now + duration
        try await withThrowingTaskGroup { group in
            for _ in 0..<count {
                group.addTask {
                    do {
                        let connection = try await run.connection(to: user)
                        let client = LoadClient(of: "", on: connection.eventLoop, mode: .flexible)
                        await client.stopConfirming()
                        try await client.claim(everything)
                        try await client.bind(on: connection)
                        try await client.identify()
                        try await client.catchUp()
                        served.record(nil)
                    } catch {
                        served.record(error)
                    }
                }
            }
            try await Task.sleep(until: end)
            await run.disconnect()
            try await group.waitForAll()
        }
        run.report.figure("bootstraps_served", Double(served.count))
        if let words = served.words { run.report.figure("attacker_told", words) }
    }

    // MARK: Sets

    private static let sets = Attack(
        name: "sets-restart", summary: "27 users have 38 client files each, each with another set of 78 KB; restart",
        counts: ["users": 27, "files": 38], plan: Plan(memoryGrowthBound: 64, cutOffSeconds: 240)
    ) { run in
        let first = try await run.client(of: run.user(of: .flexible))
        try await first.store([AttackedObjects.schema])
        let before = try run.sampler.snapshot().residentBytes, files = run.count("files")
        try await run.measure {
            var stored = 0
            for user in 0..<run.count("users") {
                do {
                    let target = try await run.user(of: .flexible)
                    for file in 0..<files {
                        let base = 1_000_000 + 8_000 * (user * files + file)
                        let text = "n IN {\((base..<base + 9_900).map { "\($0)" }.joined(separator: ","))}"
                        let client = try await run.client(of: target, asking: [AttackedObjects.className: text])
                        await client.leave()
                        stored += 1
                    }
                } catch {
                    // Another user goes on.
                    run.report.figure("attacker_told", "\(error)")
                }
                if user % 5 == 4 { run.tell("\(stored) sets are there") }
            }
            run.report.figure("sets", Double(stored))
        }
        await run.bystanders?.end(patience: AttackRun.patience)
        try await run.restart()
        let start = ContinuousClock.now
        _ = try await run.client(of: run.user(of: .flexible), asking: everything)
        run.report.bound("first_client_after_restart", (ContinuousClock.now - start) / .seconds(1), atMost: 2, "s")
        let growth = try run.sampler.snapshot().residentBytes - before
        run.report.bound("rss_growth_after_restart", Double(growth) / 1_048_576, atMost: 64, "MiB")
    }

    // MARK: Slow readers

    private static let slowReaders = Attack(
        name: "slow-readers", summary: "20 connections with 4 sessions each ask for 8 MB, and never read",
        counts: ["connections": 20, "sessions": 4],
        plan: Plan(
            isJudgedByWaits: false, memoryGrowthBound: 80, cutOffSeconds: 120,
            server: AttackedServer(objects: AttackedObjects(count: 80, dataBytes: 100_000)))
    ) { run in
        let sessions = run.count("sessions"), count = run.count("connections")
        let groups = try await concurrentMap(0..<count, limit: 8) { _ in
            let connection = try await run.connection(to: run.user(of: .flexible))
            let clients = (0..<sessions).map { _ in LoadClient(of: "", on: connection.eventLoop, mode: .flexible) }
            for client in clients { try await client.join(connection) }
            return (connection: connection, clients: clients)
        }
        try await run.measure {
            for (connection, clients) in groups {
                try await connection.setReading(false)
                for client in clients { _ = try await client.subscribe(everything) }
            }
            let start = ContinuousClock.now
            var closed = 0
            while closed < count, ContinuousClock.now - start < .seconds(110) {
                for (connection, _) in groups { await connection.send(.ping(timestamp: 1, roundTripMilliseconds: 0)) }
                try await Task.sleep(for: .seconds(5))
                closed = 0
                for (connection, _) in groups where await connection.end != nil { closed += 1 }
            }
            run.report.bound("closed", Double(closed), atLeast: Double(count))
        }
    }
}

/// The number of clients that were served, and the first error of one that was not.
private final class Served: Sendable {
    private let state = Mutex((count: 0, words: String?.none))

    var count: Int { state.withLock { $0.count } }
    var words: String? { state.withLock { $0.words } }

    func record(_ error: (any Error)?) {
        state.withLock { state in
            if let error { state.words = state.words ?? "\(error)" } else { state.count += 1 }
        }
    }
}

extension AttackRun {
    /// The size of all files of the store, in bytes.
    var storeBytes: Int {
        let folder = server.place.dataDirectory ?? ""
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return names.reduce(0) { sum, name in
            let attributes = try? FileManager.default.attributesOfItem(atPath: "\(folder)/\(name)")
            return sum + ((attributes?[.size] as? Int) ?? 0)
        }
    }

    /// Cuts everybody off if something takes too long.
    func withPatience<Value: Sendable>(_ body: () async throws -> Value) async throws -> Value {
        let cut = Task {
            try await Task.sleep(for: Self.patience)
            await disconnect()
        }
        defer { cut.cancel() }
        return try await body()
    }
}
