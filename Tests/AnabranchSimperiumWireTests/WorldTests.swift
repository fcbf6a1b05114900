import Foundation
import Testing

/// Models of the wire's clients, Realm clients of several releases, and the server's own writes on one file, with
/// everything that may go wrong: at rest, all have what the server has (`Spec/Simperium.md`).
@Suite(.timeLimit(.minutes(30))) struct WorldTests {
    private static let usualCount: UInt64 = 40
    /// From so many on, everything has happened that may go wrong.
    private static let wholeCount: UInt64 = 100
    /// How many worlds go on beside each other: one waits for the loopback interface most of the time.
    private static let width = 4

    private struct Outcome: Sendable {
        let seed: UInt64
        let problem: String?
        let events: [String]
        let counts: [WorldLedger.Event: Int]
    }

    private static func run(_ seed: UInt64, serverCount: Int) async -> Outcome {
        let world = World(seed: seed, serverCount: serverCount), problem = await world.run()
        return Outcome(
            seed: seed, problem: problem, events: problem == nil ? [] : world.events, counts: world.ledger.counts)
    }

    /// `ANABRANCH_SEED` and `ANABRANCH_COUNT` choose others.
    @Test func allAgreeAtRest() async throws { try await Self.run(serverCount: 1) }

    /// Clients come to any of them (`Spec/Nodes.md`, section 6).
    @Test func twoServersAgreeAtRest() async throws { try await Self.run(serverCount: 2) }

    private static func run(serverCount: Int) async throws {
        let environment = ProcessInfo.processInfo.environment
        let first = environment["ANABRANCH_SEED"].flatMap(UInt64.init) ?? 1
        let count = environment["ANABRANCH_COUNT"].flatMap(UInt64.init) ?? usualCount
        let (failed, counts) = await withTaskGroup(of: Outcome.self) { group -> (Outcome?, [WorldLedger.Event: Int]) in
            var next = first, failed: Outcome?, counts: [WorldLedger.Event: Int] = [:]
            while next < first + min(UInt64(width), count) {
                let seed = next
                group.addTask { await run(seed, serverCount: serverCount) }
                next += 1
            }
            while let outcome = await group.next() {
                counts.merge(outcome.counts, uniquingKeysWith: +)
                if outcome.problem != nil, failed.map({ outcome.seed < $0.seed }) ?? true { failed = outcome }
                guard failed == nil, next < first + count else { continue }
                let seed = next
                group.addTask { await run(seed, serverCount: serverCount) }
                next += 1
            }
            return (failed, counts)
        }
        if let failed {
            Issue.record(
                """
                seed \(failed.seed): \(failed.problem ?? "")
                \(failed.events.joined(separator: "\n"))
                again: ANABRANCH_SEED=\(failed.seed) ANABRANCH_COUNT=1 scripts/check --filter WorldTests
                """)
        } else if count >= wholeCount {
            let missing = WorldLedger.Event.allCases.filter { counts[$0] == nil }
            #expect(missing.isEmpty, "in \(count) worlds, these never happened: \(missing.map(\.rawValue))")
        }
    }
}
