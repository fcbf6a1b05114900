import AnabranchCore
import AnabranchProtocol
import AnabranchTestClient
import AnabranchTesting
import Foundation
import NIOCore
import Synchronization

/// One drill: a server under load, backups in the middle, the server killed, the last backup restored, and all clients
/// come back (`Spec/Durability.md`, section 6).
struct Drill {
    /// The outcome of a drill.
    struct Result: Sendable {
        var seed: UInt64
        /// Clients that continued after a restoration, and those that had to reset, by error.
        var wentOn = 0
        var refused: [Int: Int] = [:]
        /// The number of backups that were made on top of another one.
        var incrementCount = 0
        /// The fault that was found; nil if there is none.
        var problem: String?
    }

    /// The end of a command that others wait for.
    private final class End: Sendable {
        let isThere = Atomic(false)
    }

    /// The part of one client in a drill.
    private struct Plan: Sendable {
        /// The time when it is away: from before or after the backup until the restoration, or during the backup.
        enum Absence: CaseIterable { case fromBackup, afterBackup, duringBackup, never }

        var client: DrillClient
        var absence: Absence
        var isNewAfterBackup: Bool
        /// In one file nobody writes before the backup is done, so that it has no version; in one nobody writes after
        /// it, so that what gets lost made no version.
        var writesBefore: Bool
        var writesAfter: Bool
        var stepsBefore: Int
        var stepsAfter: Int

        var isAwayDuringBackup: Bool { isNewAfterBackup || absence == .fromBackup || absence == .duringBackup }
    }

    private static let refusals: Set = [208, 209, 210, 211, 222]
    /// The time that a drill may take.
    private static let patience = Duration.seconds(180)
    private static let clientsPerFile = 4

    let seed: UInt64
    let binary: String
    let directory: URL
    private let eventLoop: any EventLoop
    private let plans: [Plan]
    private let isCrowded: Bool
    private let restorations: Int
    /// The paths of the backups. Each is made on top of the one before; the last one is restored.
    private let backups: [String]
    /// The arguments of the servers. Half of them maintain their files all the time.
    private let arguments: [String]

    /// - Parameter directory: that of its backup; it does not exist yet.
    init(seed: UInt64, binary: String, directory: URL, on eventLoop: any EventLoop) {
        (self.seed, self.binary, self.directory, self.eventLoop) = (seed, binary, directory, eventLoop)
        var random = SeededRandom(scrambling: seed), plans: [Plan] = []
        for file in 0..<4 {
            for _ in 0..<Self.clientsPerFile {
                plans.append(
                    Plan(
                        client: DrillClient(of: "drill-\(file)", seed: random.next(), on: eventLoop),
                        absence: random.pick(Plan.Absence.allCases), isNewAfterBackup: random.isOne(in: 5),
                        writesBefore: file > 0, writesAfter: file < 3, stepsBefore: random.below(16),
                        stepsAfter: random.below(12)))
            }
        }
        self.plans = plans
        isCrowded = random.isOne(in: 3)
        restorations = random.isOne(in: 3) ? 2 : 1
        let maintaining = [
            "--history-seal-entries", "4", "--history-generation-bytes", "1", "--history-generation-ratio", "0",
        ]
        arguments = ["--dev"] + (random.isOne(in: 2) ? maintaining : [])
        backups = (0...random.below(3)).map { directory.appendingPathComponent("backup-\($0)").path }
    }

    func run() async -> Result {
        var result = Result(seed: seed)
        do {
            defer { try? FileManager.default.removeItem(at: directory) }
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
            try await backUp()
            result.incrementCount = backups.count - 1
            for _ in 0..<restorations { try await restore(&result) }
        } catch {
            result.problem = "\(error)"
        }
        for plan in plans { await plan.client.leave() }
        return result
    }

    private var command: ServerCommand { ServerCommand(binary: binary) }

    // MARK: The first life

    private func backUp() async throws {
        let server = try await ServerUnderLoad.start(binary, arguments)
        defer { server.kill() }
        try await Self.limiting(server) {
            let target = try SyncTarget(url: server.url)
            let crowd = try await crowd(at: target)
            try await all { plan in
                guard !plan.isNewAfterBackup else { return }
                try await plan.client.join(at: target)
                try await work(plan, plan.stepsBefore, at: target, writes: plan.writesBefore)
                if plan.isAwayDuringBackup { await plan.client.leave() }
            }
            try await backUp(server, target)
            try await all { plan in
                switch plan.absence {
                case .afterBackup: await plan.client.leave()
                case .fromBackup: if plan.writesAfter { try await plan.client.write() }
                case .duringBackup, .never:
                    try await plan.client.join(at: target)
                    try await work(plan, plan.stepsAfter, at: target, writes: plan.writesAfter)
                }
            }
            await crowd?.close()
        }
    }

    /// Makes the backups while clients work.
    private func backUp(_ server: ServerUnderLoad, _ target: SyncTarget) async throws {
        let end = End()
        guard let data = server.place.dataDirectory else { throw DrillFailure(description: "no data directory") }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                defer { end.isThere.store(true, ordering: .relaxed) }
                var base: [String] = []
                for backup in backups {
                    try await command.run(["backup", "--data", data, "--to", backup, "--verify"] + base)
                    base = ["--base", backup]
                }
            }
            for plan in plans where !plan.isAwayDuringBackup {
                group.addTask {
                    repeat {
                        try await work(plan, 1, at: target, writes: plan.writesBefore)
                    } while !end.isThere.load(ordering: .relaxed)
                }
            }
            try await group.waitForAll()
        }
    }

    /// Opens enough sessions of one file to make the server defer writing their progress.
    private func crowd(at target: SyncTarget) async throws -> TestConnection? {
        guard isCrowded else { return nil }
        let connection = try await TestConnection.opened(to: target, on: eventLoop)
        for _ in 0..<65 { try await LoadClient(of: "drill-1", on: eventLoop).join(connection) }
        return connection
    }

    private func work(_ plan: Plan, _ steps: Int, at target: SyncTarget, writes: Bool) async throws {
        for _ in 0..<steps { try await plan.client.work(at: target, writes: writes) }
    }

    // MARK: The second life

    private func restore(_ result: inout Result) async throws {
        for plan in plans { await plan.client.leave() }
        let server = try await ServerUnderLoad.start(binary, arguments) { data in
            try command.runNow(["restore", "--from", backups[backups.count - 1], "--data", data.path])
            try command.runNow(["verify", "--data", data.path])
        }
        defer { server.kill() }
        result = try await Self.limiting(server) { [result] in
            var result = result
            let target = try SyncTarget(url: server.url)
            for plan in plans {
                let isNew = await !plan.client.hasFile
                if let code = try await comeBack(plan.client, to: target) {
                    result.refused[code, default: 0] += 1
                    await plan.client.reset()
                    try await plan.client.join(at: target)
                } else if !isNew {
                    result.wentOn += 1
                }
            }
            try await all { plan in try await work(plan, plan.stepsBefore, at: target, writes: true) }
            try await checkConvergence(at: target)
            return result
        }
        let ending = await server.end()
        guard ending.exitStatus == 0 else {
            throw DrillFailure(description: "the server ends with \(ending.exitStatus)")
        }
        try await command.run(["verify", "--data", server.place.dataDirectory ?? ""])
    }

    /// - Returns: the error code that makes the client reset; nil if it continues.
    private func comeBack(_ client: DrillClient, to target: SyncTarget) async throws -> Int? {
        do {
            try await client.join(at: target)
            return nil
        } catch let error as TestClientError {
            guard let code = error.told?.code.rawValue, Self.refusals.contains(code) else {
                throw DrillFailure(description: "\(error) (\(client.partition), \(await client.place))")
            }
            return code
        }
    }

    private func checkConvergence(at target: SyncTarget) async throws {
        let readers = (0..<4).map { DrillClient(of: "drill-\($0)", seed: seed, on: eventLoop) }
        // The uploads of the first clients reach all others in the second round.
        for _ in 0..<2 {
            for client in plans.map(\.client) + readers { try await client.join(at: target, isFinishing: true) }
        }
        var digests: [String: StateDigest] = [:]
        for client in readers { digests[client.partition] = try await client.digest() }
        for client in plans.map(\.client) {
            guard try await client.digest() == digests[client.partition] else {
                throw DrillFailure(description: "a client of \(client.partition) has another state than a new one has")
            }
        }
        for reader in readers { await reader.leave() }
    }

    // MARK: Helpers

    private func all(_ body: @escaping @Sendable (Plan) async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for plan in plans { group.addTask { try await body(plan) } }
            try await group.waitForAll()
        }
    }

    /// Ends a server that does not answer, so that those who wait for it get an error.
    private static func limiting<Value: Sendable>(
        _ server: ServerUnderLoad, _ body: () async throws -> Value
    ) async throws -> Value {
        let timer = Task {
            try await Task.sleep(for: patience)
            await server.end(patience: .seconds(1))
        }
        defer { timer.cancel() }
        do {
            return try await body()
        } catch {
            if server.wasEnded { throw DrillFailure(description: "no answer within \(patience)") }
            // If the server has ended by itself, that is the reason.
            try server.checkIsRunning()
            throw error
        }
    }
}
