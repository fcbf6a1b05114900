import Foundation
import Testing

@testable import AnabranchOverTheAirWire

/// Random worlds of devices in one process: at rest all have the same, nothing is lost, and nothing is there twice.
@Suite(.timeLimit(.minutes(30))) struct DevicesAtRestTests {
    private static let usualCount: UInt64 = 60

    private struct Outcome: Sendable {
        let seed: UInt64
        var problem: String?
        var events: [String] = []
        var counts: [DeviceWorld.Event: Int] = [:]
    }

    private static func run(_ seed: UInt64) async throws -> Outcome {
        let dataclass = try Dataclass(parsing: Array(DeviceWorld.registration.utf8))
        return try await DeviceRig.run {
            $0.apps[DeviceRig.app] = OverTheAirApp(url: "/ota", dataclasses: [dataclass])
        } _: { rig in
            let world = DeviceWorld(rig, seed: seed)
            do { try await world.run() } catch {
                return Outcome(seed: seed, problem: "\(error)", events: world.events)
            }
            return Outcome(seed: seed, counts: world.counts)
        }
    }

    /// `ANABRANCH_SEED` and `ANABRANCH_COUNT` choose others.
    @Test func allAgreeAtRest() async throws {
        let environment = ProcessInfo.processInfo.environment
        let first = environment["ANABRANCH_SEED"].flatMap(UInt64.init) ?? 1
        let count = environment["ANABRANCH_COUNT"].flatMap(UInt64.init) ?? Self.usualCount
        var counts: [DeviceWorld.Event: Int] = [:]
        for seed in first..<first + count {
            let outcome = try await Self.run(seed)
            counts.merge(outcome.counts, uniquingKeysWith: +)
            guard let problem = outcome.problem else { continue }
            Issue.record(
                """
                seed \(seed): \(problem)
                \(outcome.events.joined(separator: "\n"))
                again: ANABRANCH_SEED=\(seed) ANABRANCH_COUNT=1 scripts/check --filter DevicesAtRestTests
                """)
            return
        }
        guard count >= Self.usualCount else { return }
        let missing = DeviceWorld.Event.allCases.filter { counts[$0] == nil }
        #expect(missing.isEmpty, "in \(count) worlds, these never happened: \(missing.map(\.rawValue))")
    }
}
