import AnabranchCore
import AnabranchProtocol
import AnabranchTestClient
import AnabranchTesting

/// Subscription sets that are expensive to answer, however small they are.
extension Attack {
    static let queryAttacks =
        DearQuery.allCases.map(query) + [queryAndSIGTERM, uploadsBehindQuery, queries]

    /// A set of 100 KB about each object of the class.
    private enum DearQuery: String, CaseIterable {
        case containsAnyCase = "contains-c"
        case contains, arithmetic, like, or, fractions

        var text: String {
            switch self {
            case .containsAnyCase: terms(4_000) { "t CONTAINS[c] \"x\($0 + 10_000)\"" }
            case .contains: terms(4_000) { "t CONTAINS \"x\($0 + 10_000)\"" }
            case .arithmetic: terms(1_500) { "n * 2 + n * 3 - n == -\($0 + 1)" }
            case .like: terms(4_000) { "t LIKE \"*x\($0 + 10_000)*\"" }
            case .or: terms(4_900) { "n == -\($0 + 1)" }
            case .fractions:
                "d IN {" + (0..<9_900).map { "-\($0).5" }.joined(separator: ", ") + "}"
            }
        }

        private func terms(_ count: Int, _ term: (Int) -> String) -> String {
            (0..<count).map(term).joined(separator: " OR ")
        }
    }

    private static func query(_ query: DearQuery) -> Attack {
        Attack(
            name: "query-\(query.rawValue)", summary: "one QUERY of about 100 KB over 5,000 objects: \(query.rawValue)",
            plan: Plan(server: AttackedServer(objects: AttackedObjects(count: 5_000)))
        ) { run in
            try await send(query, run)
        }
    }

    private static let queryAndSIGTERM = Attack(
        name: "query-sigterm", summary: "the server gets SIGTERM 2 s into query-contains-c",
        plan: Plan(hasBystanders: false, server: AttackedServer(objects: AttackedObjects(count: 5_000)))
    ) { run in
        try await send(.containsAnyCase, run, isEndedAfter: .seconds(2))
    }

    private static func send(_ query: DearQuery, _ run: AttackRun, isEndedAfter delay: Duration? = nil) async throws {
        let attacker = try await run.client(of: run.user(of: .flexible))
        let predicates = [AttackedObjects.className: query.text]
        try await run.measure {
            try await run.during(delay) {
                let (version, sent) = try await attacker.subscribe(predicates)
                let answered = try await attacker.wait { $0.isAnswered(version) }
                run.report.figure("answered", (answered - sent).inMilliseconds, "ms")
                if let refusal = await attacker.refused { run.report.figure("attacker_told", refusal.message) }
            }
        }
    }

    private static let uploadsBehindQuery = Attack(
        name: "uploads-after-query",
        summary: "UPLOADs of 300 objects for 20 s after such a set, which was made while the class was empty",
        counts: ["objects": 300, "seconds": 20]
    ) { run in
        let attacker = try await run.client(of: run.user(of: .flexible))
        try await attacker.store([AttackedObjects.schema])
        // A term in the middle holds: in either order half of the terms are evaluated, and the objects are taken.
        let set = try await attacker.subscribe([AttackedObjects.className: DearQuery.containsAnyCase.text]).version
        _ = try await attacker.wait { $0.isAnswered(set) }
        if let refusal = await attacker.refused { throw LoadError("the set is refused: \(refusal.message)") }
        let text = Payload.string([UInt8](repeating: UInt8(ascii: "a"), count: 194) + Array("x12000".utf8))
        let count = run.count("objects"), seconds = run.count("seconds")
        try await run.measure {
            var times: [Duration] = []
            defer {
                run.report.figure("uploads", Double(times.count))
                run.report.figure("acknowledged_p50", Percentiles(times).p50 ?? 0, "ms")
            }
            let end = ContinuousClock.now + .seconds(seconds)
            while ContinuousClock.now < end {
                let first = times.count * count
                times.append(try await attacker.store([AttackedObjects.creating(first..<first + count, "t", text)]))
            }
        }
    }

    private static let queries = Attack(
        name: "queries-at-once", summary: "3,000 QUERYs sent at once", counts: ["queries": 3_000],
        plan: Plan(server: AttackedServer(objects: AttackedObjects(count: 400)))
    ) { run in
        let attacker = try await run.client(of: run.user(of: .flexible)), count = run.count("queries")
        try await run.measure {
            var last: QueryVersion = 0
            for number in 0..<count {
                last = try await attacker.subscribe([AttackedObjects.className: "n == \(number % 400)"]).version
            }
            let version = last
            _ = try await attacker.wait { $0.isAnswered(version) }
        }
    }
}
