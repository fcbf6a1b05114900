import AnabranchCore
import AnabranchProtocol
import AnabranchTestClient
import AnabranchTesting

/// Attacks by a device that was away and brings little, which meets the log pair by pair.
extension Attack {
    static let mergeAttacks = [nan, nanInBothApps, nanAndSIGTERM, lists, nanInPartition]

    private static let nan = Attack(
        name: "merge-nan", summary: "31,623 increments meet as many changesets that set a field to NaN: 1.0 G pairs",
        counts: ["changesets": 31_623]
    ) { run in
        try await merge(.nan, run)
    }

    private static let nanInBothApps = Attack(
        name: "merge-nan-twice", summary: "the same with 15,000, in both apps of flexible sync at once",
        counts: ["changesets": 15_000],
        plan: Plan(attackedPlaces: [AttackedApp.flexible.rawValue, AttackedApp.otherFlexible.rawValue])
    ) { run in
        try await merge(.nan, run, in: [.flexible, .otherFlexible])
    }

    private static let nanAndSIGTERM = Attack(
        name: "merge-nan-sigterm", summary: "the server gets SIGTERM 2 s into merge-nan",
        counts: ["changesets": 31_623], plan: Plan(hasBystanders: false)
    ) { run in
        try await merge(.nan, run, isEndedAfter: .seconds(2))
    }

    private static let lists = Attack(
        name: "merge-lists", summary: "an element is made a list 92,000 times on both sides: 8.5 G pairs",
        counts: ["changesets": 92_000]
    ) { run in
        try await merge(.lists, run)
    }

    private static let nanInPartition = Attack(
        name: "merge-nan-partition", summary: "merge-nan with 15,000 in a partition where others write",
        counts: ["changesets": 15_000], plan: Plan(attackedPlaces: ["bystander-0"], measuresLaterCommit: false)
    ) { run in
        try await merge(.nan, run, in: [.partitions], partition: "bystander-0")
    }

    private static func merge(
        _ shape: MergeShape, _ run: AttackRun, in apps: [AttackedApp] = [.flexible], partition: String = "",
        isEndedAfter delay: Duration? = nil
    ) async throws {
        let count = run.count("changesets")
        let devices = try await concurrentMap(apps, limit: apps.count) { app in
            try await device(shape, count, run, app, partition)
        }
        try await run.measure {
            let times = try await withThrowingTaskGroup(of: Duration?.self) { group in
                for (device, user) in devices {
                    group.addTask {
                        let connection = try await run.connection(to: user), sent = ContinuousClock.now
                        try await device.identify(on: connection, uploading: [shape.brought(count)], timestamp: 1)
                        let version = await device.uploadedVersion
                        return try await device.wait { $0.isAcknowledged(version) } - sent
                    }
                }
                if let delay {
                    group.addTask {
                        try await Task.sleep(for: delay)
                        await run.terminate()
                        return nil
                    }
                }
                var times: [Duration] = []
                for try await case let time? in group { times.append(time) }
                return times
            }
            for time in times { run.report.figure("acknowledged", time.inMilliseconds, "ms") }
        }
    }

    /// Writes the changes that the device will meet to the log.
    ///
    /// - Returns: the device, which has seen nothing of it, and the target of its user.
    private static func device(
        _ shape: MergeShape, _ count: Int, _ run: AttackRun, _ app: AttackedApp, _ partition: String
    ) async throws -> (LoadClient, SyncTarget) {
        let (schema, object) = (AttackChangesets.schema, AttackChangesets.firstObject)
        let everything = [AttackChangesets.className: "TRUEPREDICATE"]
        let writer = try await run.client(of: run.user(of: app), partition: partition)
        try await writer.store([schema])
        if app.isFlexible {
            let set = try await writer.subscribe(everything).version
            _ = try await writer.wait { $0.isAnswered(set) }
        }
        try await writer.store([object])
        let user = try await run.user(of: app)
        let device = try await run.client(of: user, partition: partition, asking: everything)
        try await device.catchUp()
        await device.leave()
        var rest = shape.logged(count)[...]
        while !rest.isEmpty {
            try await writer.store(Array(rest.prefix(10_000)))
            rest = rest.dropFirst(10_000)
        }
        await writer.leave()
        run.tell("the log has what is met")
        return (device, user)
    }
}
