import Foundation
import Testing

@testable import AnabranchOverTheAirWire

/// Random worlds of devices in one process: at rest all have the same, nothing is lost, and nothing is there twice.
@Suite(.timeLimit(.minutes(30))) struct DevicesAtRestTests {
    private static let usualCount: UInt64 = 60
    /// How many worlds are run at once.
    private static let width: UInt64 = 4

    private struct Outcome: Sendable {
        let seed: UInt64
        var problem: String?
        var events: [String] = []
        var counts: [DeviceWorld.Event: Int] = [:]
    }

    private static func run(_ seed: UInt64) async -> Outcome {
        do {
            let dataclasses = try DeviceWorld.registrations.map { try Dataclass(parsing: Array($0.utf8)) }
            return try await DeviceRig.run {
                $0.apps[DeviceRig.app] = OverTheAirApp(url: "/ota", dataclasses: dataclasses)
            } _: { rig in
                let world = DeviceWorld(rig, seed: seed)
                do { try await world.run() } catch {
                    return Outcome(seed: seed, problem: "\(error)", events: world.events)
                }
                return Outcome(seed: seed, counts: world.counts)
            }
        } catch {
            return Outcome(seed: seed, problem: "\(error)")
        }
    }

    /// `ANABRANCH_SEED` and `ANABRANCH_COUNT` choose others.
    @Test func allAgreeAtRest() async throws {
        let environment = ProcessInfo.processInfo.environment
        let first = environment["ANABRANCH_SEED"].flatMap(UInt64.init) ?? 1
        let count = environment["ANABRANCH_COUNT"].flatMap(UInt64.init) ?? Self.usualCount
        let (failed, counts) = await withTaskGroup(of: Outcome.self) { group -> (Outcome?, [DeviceWorld.Event: Int]) in
            var next = first, failed: Outcome?, counts: [DeviceWorld.Event: Int] = [:]
            while next < first + min(Self.width, count) {
                let seed = next
                group.addTask { await Self.run(seed) }
                next += 1
            }
            while let outcome = await group.next() {
                counts.merge(outcome.counts, uniquingKeysWith: +)
                if outcome.problem != nil, failed.map({ outcome.seed < $0.seed }) ?? true { failed = outcome }
                guard failed == nil, next < first + count else { continue }
                let seed = next
                group.addTask { await Self.run(seed) }
                next += 1
            }
            return (failed, counts)
        }
        if let failed {
            Issue.record(
                """
                seed \(failed.seed): \(failed.problem ?? "")
                \(failed.events.joined(separator: "\n"))
                again: ANABRANCH_SEED=\(failed.seed) ANABRANCH_COUNT=1 scripts/check --filter DevicesAtRestTests
                """)
        } else if count >= Self.usualCount {
            let missing = DeviceWorld.Event.allCases.filter { counts[$0] == nil }
            #expect(missing.isEmpty, "in \(count) worlds, these never happened: \(missing.map(\.rawValue))")
        }
    }
}
