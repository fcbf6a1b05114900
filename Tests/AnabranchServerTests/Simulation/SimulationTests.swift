import AnabranchCore
import Testing

@testable import AnabranchSimulation

/// Whole worlds (`anabranch-lab simulate`), of which `scripts/test` runs more.
@Suite struct SimulationTests {
    /// Each has shown a bug, of the server, the client or the simulation (`Tests/Known.md`).
    @Test(arguments: [
        1104, 1124, 1246, 1392, 1519, 20_002, 26, 144, 101_504, 102_222, 100_082, 302_298, 307_317, 311_079, 311_858,
        316_188, 305_959, 600_241, 87, 804_437,
    ])
    func seedsThatHaveFoundSomethingPass(seed: UInt64) {
        let tally = Simulation.tally(of: seed, twice: true)
        #expect(tally.failures.isEmpty, "repeat: anabranch-lab simulate --seed \(seed)\n\(tally.failures)")
    }

    /// What is acknowledged and gone, or there twice, is found.
    @Test func writesAreCounted() throws {
        var ledger = WriteLedger()
        let kept = ledger.begin(by: 1, in: 0, as: 2), waiting = ledger.begin(by: 1, in: 0, as: 3)
        #expect(ledger.acknowledge(through: 2, of: 1) == 1)
        try ledger.check([kept: 1], of: 0)
        try ledger.check([kept: 1, waiting: 1], of: 0)
        #expect(throws: SimulationFailure.self) { try ledger.check([waiting: 1], of: 0) }
        #expect(throws: SimulationFailure.self) { try ledger.check([kept: 2], of: 0) }
        #expect(throws: SimulationFailure.self) { try ledger.check([kept: 1, 99: 1], of: 0) }
        ledger.reset(1, isRecovered: true)
        try ledger.check([kept: 1, waiting: 2], of: 0)
        ledger.restored(0, with: [])
        try ledger.check([:], of: 0)
    }

    @Test func aRunThatProvesLittleSaysSo() {
        var tally = SimulationTally()
        tally.passed = 200
        #expect(tally.missing == SimulationTally.expected)
        for mark in SimulationTally.expected.dropFirst() { tally.marks[mark] = 10 }
        #expect(tally.missing == [SimulationTally.expected[0]])
    }
}
