import AnabranchCore
import AnabranchTesting

/// Attacks with writes that are refused one by one.
extension Attack {
    static let refusalAttacks = [refusals, refusalsAndSIGTERM]

    private static let refusals = Attack(
        name: "refusals", summary: "one UPLOAD of 8,000 changesets, each with an object that does not match",
        counts: ["changesets": 8_000]
    ) { run in
        try await sendRefusals(run)
    }

    private static let refusalsAndSIGTERM = Attack(
        name: "refusals-sigterm", summary: "the server gets SIGTERM 2 s into refusals",
        counts: ["changesets": 8_000], plan: Plan(hasBystanders: false)
    ) { run in
        try await sendRefusals(run, isEndedAfter: .seconds(2))
    }

    private static func sendRefusals(_ run: AttackRun, isEndedAfter delay: Duration? = nil) async throws {
        let attacker = try await run.client(of: run.user(of: .flexible))
        try await attacker.store([AttackedObjects.schema])
        let set = try await attacker.subscribe(nothingOfHis).version
        _ = try await attacker.wait { $0.isAnswered(set) }
        let changesets = (0..<run.count("changesets")).map { AttackedObjects.creating([$0]) }
        try await run.measure {
            try await run.during(delay) {
                let time = try await attacker.store(changesets)
                run.report.figure("acknowledged", time.inMilliseconds, "ms")
            }
        }
        run.report.figure("rejections", Double(await attacker.rejectionCount))
    }
}

extension AttackRun {
    /// Runs `body`, and ends the server after `delay`, unless that is nil.
    func during(_ delay: Duration?, _ body: @escaping @Sendable () async throws -> Void) async throws {
        guard let delay else { return try await body() }
        let work = Task { try await body() }
        try await Task.sleep(for: delay)
        await terminate()
        try await work.value
    }
}
