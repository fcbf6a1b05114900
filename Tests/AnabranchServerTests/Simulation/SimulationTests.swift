import AnabranchCore
import AnabranchServer
import AnabranchTesting
import Testing

@testable import AnabranchSimulation

/// Whole worlds (`anabranch-lab simulate`), of which `scripts/test` runs more.
@Suite struct SimulationTests {
    /// Each has shown a bug, of the server, the client or the simulation (`Tests/Known.md`).
    @Test(arguments: [
        1104, 1124, 1246, 1392, 1519, 20_002, 26, 144, 101_504, 102_222, 100_082, 302_298, 307_317, 311_079, 311_858,
        316_188, 305_959, 600_241, 87, 804_437, 300_303, 310_966, 313_355, 316_173, 25, 178,
    ])
    func seedsThatHaveFoundSomethingPass(seed: UInt64) {
        let tally = Simulation.tally(of: seed, twice: true)
        #expect(tally.failures.isEmpty, "repeat: anabranch-lab simulate --seed \(seed)\n\(tally.failures)")
    }

    /// Several machines over one store: each seed is one world, as `anabranch-lab simulate --nodes` says.
    @Test(arguments: 2...3, 1...4 as ClosedRange<UInt64>)
    func severalNodesKeepThePromises(nodes: Int, seed: UInt64) {
        let tally = Simulation.tally(of: seed, nodeCount: nodes, twice: true)
        #expect(
            tally.failures.isEmpty,
            "repeat: anabranch-lab simulate --nodes \(nodes) --seed \(seed)\n\(tally.failures)")
    }

    /// Each has shown a bug of flexible files with several nodes.
    @Test(arguments: zip([2, 2, 2, 3, 3], [71, 144, 271, 42, 327] as [UInt64]))
    func seedsThatHaveFoundSomethingOfSeveralNodesPass(nodes: Int, seed: UInt64) {
        let tally = Simulation.tally(of: seed, nodeCount: nodes, twice: false)
        #expect(
            tally.failures.isEmpty,
            "repeat: anabranch-lab simulate --nodes \(nodes) --seed \(seed)\n\(tally.failures)")
    }

    /// A write that is acknowledged and gone, or there twice, is found.
    @Test func writesAreCounted() throws {
        var ledger = WriteLedger()
        let kept = ledger.begin(by: 1, in: 0, as: 2), waiting = ledger.begin(by: 1, in: 0, as: 3)
        #expect(ledger.acknowledge(through: 2, of: 1) == 1)
        try ledger.check([kept: 1], of: 0)
        try ledger.check([kept: 1, waiting: 1], of: 0)
        #expect(throws: SimulationFailure.self) { try ledger.check([waiting: 1], of: 0) }
        #expect(throws: SimulationFailure.self) { try ledger.check([kept: 2], of: 0) }
        #expect(throws: SimulationFailure.self) { try ledger.check([kept: 1, 99: 1], of: 0) }
        // A backup has both, and the client knows of the first one alone that it has arrived.
        var restored = ledger
        restored.restored(0, with: [kept, waiting])
        try restored.check([kept: 1, waiting: 2], of: 0)
        #expect(throws: SimulationFailure.self) { try restored.check([kept: 2, waiting: 1], of: 0) }
        // Another client has its file now: what was acknowledged before stays.
        var doubted = ledger
        doubted.doubt(1)
        try doubted.check([kept: 1, waiting: 2], of: 0)
        #expect(throws: SimulationFailure.self) { try doubted.check([:], of: 0) }
        ledger.reset(1, isRecovered: true)
        try ledger.check([kept: 1, waiting: 2], of: 0)
        ledger.restored(0, with: [])
        try ledger.check([:], of: 0)
    }

    private static func upload(
        _ versions: [ClientVersion], to ledger: PermissionLedger, since moment: Int? = nil, connection: UInt64 = 1
    ) -> PermissionLedger.Upload {
        PermissionLedger.Upload(
            client: 1, clientFile: SaltedFileID(ident: 5, salt: 1), versions: versions, node: 0,
            connection: connection, since: moment ?? ledger.moment, answer: nil)
    }

    private static func integrate(_ version: ClientVersion, salt: Salt = 1, in ledger: PermissionLedger) throws {
        try ledger.checkIntegration(
            of: version, from: SaltedFileID(ident: 5, salt: salt), of: "a", as: 9, at: 0)
    }

    /// The log has only what its user could write at some time since it arrived.
    @Test func whatIsInTheLogWasPermitted() throws {
        var ledger = PermissionLedger()
        #expect(throws: SimulationFailure.self, "nobody has uploaded it") { try Self.integrate(2, in: ledger) }
        ledger.arrived(Self.upload([2, 3], to: ledger), of: "a", at: 0)
        try Self.integrate(2, in: ledger)
        ledger.set(.read, of: "a", at: 1)
        try Self.integrate(3, in: ledger)
        ledger.arrived(Self.upload([4], to: ledger), of: "a", at: 2)
        ledger.set(.none, of: "a", at: 3)
        ledger.set(.write, of: "b", at: 3)
        let failure = #expect(throws: SimulationFailure.self) { try Self.integrate(4, in: ledger) }
        #expect(
            failure?.description == """
                P8: version 9 is client version 4 of client file 5, and a could not write when it arrived, nor since
                  0.0 s: a has the permission 'write'
                  0.0 s: a uploads 2, 3 as client 1 by connection 1 to node 0, as client file 5, salt 1; the server \
                asks and hears nothing
                  0.001 s: a has the permission 'read'
                  0.002 s: a uploads 4 as client 1 by connection 1 to node 0, as client file 5, salt 1; the server \
                asks and hears nothing
                  0.003 s: a has the permission 'none'
                  0.0 s: version 9 is committed
                """)
        // A restored backup has no such client file, and another client gets its number.
        #expect(throws: SimulationFailure.self) { try Self.integrate(2, salt: 2, in: ledger) }
        ledger.set(.write, of: "a", at: 4)
        try Self.integrate(4, in: ledger)
        ledger.end(0)
        #expect(throws: SimulationFailure.self, "the process has ended") { try Self.integrate(4, in: ledger) }
        // The server has not followed roles that have changed.
        ledger.set(.read, of: "a", at: 5)
        ledger.arrived(Self.upload([5], to: ledger, since: ledger.moment - 1), of: "a", at: 6)
        try Self.integrate(5, in: ledger)
    }

    /// Nobody is refused what was permitted all the time.
    @Test func whatIsRefusedWasNotPermitted() throws {
        var ledger = PermissionLedger()
        let beginning = ledger.moment
        ledger.arrived(Self.upload([2], to: ledger), of: "a", at: 0)
        func refuse(_ version: ClientVersion, _ connection: UInt64) throws {
            try ledger.checkRefusal(of: version, by: connection, of: "a", at: 9)
        }
        func deny(since moment: Int) throws { try ledger.checkDenial(of: "a", since: moment, at: 9) }
        #expect(throws: SimulationFailure.self) { try refuse(2, 1) }
        ledger.set(.read, of: "a", at: 1)
        try refuse(2, 1)
        #expect(throws: SimulationFailure.self, "the user can read") { try deny(since: beginning) }
        ledger.set(.none, of: "a", at: 2)
        try deny(since: beginning)
        try deny(since: ledger.moment)
        ledger.set(.write, of: "a", at: 3)
        try deny(since: beginning)
        #expect(throws: SimulationFailure.self) { try deny(since: ledger.moment) }
        // It has come once more, by another connection.
        ledger.arrived(Self.upload([2], to: ledger, connection: 2), of: "a", at: 4)
        try refuse(2, 1)
        #expect(throws: SimulationFailure.self) { try refuse(2, 2) }
        #expect(throws: SimulationFailure.self, "it has never come") { try refuse(3, 2) }
    }

    /// Devices have clocks from 50 years ago to 100 years ahead, some of which stand still, and all can be set right.
    @Test func clocksOfDevicesGoWrong() {
        var random = SeededRandom(scrambling: 1), shown: [ChangesetTime] = [], standCount = 0
        let right = DeviceClock(offset: 0), year: UInt64 = 31_536_000_000
        for _ in 0..<200 {
            var clock = right
            clock.goWrong(at: 7, using: &random)
            #expect(!clock.isRight)
            shown.append(clock.time(at: 8))
            if clock.time(at: 8) > 1, clock.time(at: 8) == clock.time(at: 1_000_008) { standCount += 1 }
            clock.setRight()
            #expect(clock.isRight && clock.time(at: 8) == right.time(at: 8))
        }
        // The beginning of 2015 is the earliest that can be said.
        #expect(shown.contains(1) && standCount > 20)
        #expect(shown.contains { $0 > right.time(at: 8) + 90 * year })
        #expect(shown.allSatisfy { $0 <= right.time(at: 8) + 100 * year })
    }

    /// `--faults`: in each world that alone goes wrong, and its writes compete in the end.
    @Test func onlyWhatIsNamedGoesWrong() throws {
        for seed in 1...20 as ClosedRange<UInt64> {
            let plan = try Simulation(seed: seed, faults: [.clientClock, .cut]).plan
            #expect(Set(plan.rates.keys) == [.clientClock, .cut] && plan.workload == .counted)
        }
        for seed in 1...2 as ClosedRange<UInt64> {
            let tally = Simulation.tally(of: seed, faults: [.clientClock], twice: false)
            #expect(tally.failures.isEmpty && tally.missing([.clientClock]).isEmpty)
            #expect(tally.missing([.clientClock, .cut]) == ["cut"])
            #expect(["client's", "server's"].contains { tally.marks["\($0) last word", default: 0] > 0 })
        }
    }

    @Test func aRunThatProvesLittleSaysSo() {
        var tally = SimulationTally()
        tally.passed = 200
        #expect(tally.missing() == SimulationTally.expected)
        for mark in SimulationTally.expected.dropFirst() { tally.marks[mark] = 5 }
        #expect(tally.missing() == [SimulationTally.expected[0]])
        tally.marks[SimulationTally.expected[1]] = 4
        #expect(tally.missing() == Array(SimulationTally.expected.prefix(2)))
    }
}
