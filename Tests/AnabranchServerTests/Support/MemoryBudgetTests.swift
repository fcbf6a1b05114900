import AnabranchTesting
import Synchronization
import Testing

@testable import AnabranchServer

/// Memory that all connections share (`Spec/Limits.md`, section 7).
@Suite(.timeLimit(.minutes(30))) struct MemoryBudgetTests {
    /// The permits that were given later, by what they were asked for.
    private final class Grants: Sendable {
        private let permits = Mutex<[(name: Int, permit: MemoryPermit)]>([])
        private let waits = Mutex<[Int: MemoryWait]>([:])

        var names: [Int] { permits.withLock { $0.map(\.name) } }

        /// Asks for a permit that is not to be had at once.
        func wait(_ name: Int, for bytes: Int, of budget: MemoryBudget) {
            #expect(budget.permit(for: bytes) == nil)
            keep(budget.wait(for: bytes) { permit in self.permits.withLock { $0.append((name, permit)) } }, as: name)
        }

        func keep(_ wait: MemoryWait, as name: Int) { waits.withLock { $0[name] = wait } }

        /// Does not wait any more.
        func leave(_ name: Int) { _ = waits.withLock { $0.removeValue(forKey: name) } }

        func takeAll() -> [(name: Int, permit: MemoryPermit)] {
            var taken: [(name: Int, permit: MemoryPermit)] = []
            permits.withLock { swap(&$0, &taken) }
            return taken
        }
    }

    @Test(arguments: [(39, true), (40, true), (41, false)])
    func aPermitIsGivenAtOnceUpToTheLimit(bytes: Int, isGiven: Bool) {
        let budget = MemoryBudget(bytesMax: 100)
        budget.reserve(60)
        #expect(budget.hasRoom(for: bytes) == isGiven)
        let permit = budget.permit(for: bytes)
        #expect((permit != nil) == isGiven)
        #expect(budget.bytesInUse == (isGiven ? 60 + bytes : 60))
    }

    @Test func oneThatIsTooLargeForTheBudgetIsGivenWhenNothingElseIsInUse() {
        let budget = MemoryBudget(bytesMax: 100), grants = Grants()
        let other = budget.permit(for: 1)
        grants.wait(1, for: 1_000, of: budget)
        withExtendedLifetime(other) { #expect(grants.names.isEmpty) }
        _ = consume other
        #expect(grants.names == [1])
        #expect(!budget.hasRoom(for: 1))
    }

    @Test func asManyGoOnAsThereIsRoomForInTheirOrder() {
        let waits = Mutex(0), grants = Grants()
        let budget = MemoryBudget(bytesMax: 100) { waits.withLock { $0 += 1 } }
        budget.reserve(100)
        for (name, bytes) in [30, 20, 60, 1].enumerated() { grants.wait(name, for: bytes, of: budget) }
        #expect(waits.withLock { $0 } == 4 && budget.waitingCount == 4)
        budget.release(60)
        #expect(grants.names == [0, 1], "the third has to wait, and no later one goes before it")
        #expect(budget.permit(for: 1) == nil)
        budget.release(30)
        #expect(grants.names == [0, 1])
        budget.release(10)
        #expect(grants.names == [0, 1], "50 bytes are in use")
        withExtendedLifetime(grants.takeAll()) {}
        #expect(grants.names == [2, 3] && budget.bytesInUse == 61)
    }

    @Test func whatTurnsOutToBeLessLetsOthersGoOn() {
        let budget = MemoryBudget(bytesMax: 100), grants = Grants()
        let permit = budget.permit(for: 100)
        grants.wait(1, for: 40, of: budget)
        permit?.resize(to: 61)
        #expect(grants.names.isEmpty)
        permit?.resize(to: 60)
        #expect(grants.names == [1])
        permit?.resize(to: 70)
        #expect(budget.bytesInUse == 110)
    }

    /// Each permit is let go of as soon as it is given: that must need no stack.
    @Test func manyMayGoOnAtOnce() {
        let budget = MemoryBudget(bytesMax: 1), count = Mutex(0)
        budget.reserve(1)
        let waits = (0..<100_000).map { _ in budget.wait(for: 1) { _ in count.withLock { $0 += 1 } } }
        budget.release(1)
        #expect(count.withLock { $0 } == 100_000 && budget.bytesInUse == 0)
        withExtendedLifetime(waits) {}
    }

    @Test func whoLeavesGetsNothingAndMakesWayForThoseBehind() {
        let budget = MemoryBudget(bytesMax: 100), grants = Grants()
        budget.reserve(90)
        for (name, bytes) in [50, 10, 50].enumerated() { grants.wait(name, for: bytes, of: budget) }
        grants.leave(0)
        #expect(grants.names == [1] && budget.waitingCount == 1)
        grants.leave(2)
        budget.release(90)
        #expect(grants.names == [1] && budget.waitingCount == 0 && budget.bytesInUse == 10)
    }

    @Test func whoeverLeavesBeforeTheirTurnStayNowhere() {
        let budget = MemoryBudget(bytesMax: 1), grants = Grants()
        budget.reserve(1)
        for name in 0..<100_000 { grants.wait(name, for: 1, of: budget) }
        for name in 0..<99_999 { grants.leave(name) }
        #expect(budget.waitingCount == 1)
        budget.release(1)
        #expect(grants.names == [99_999])
    }

    @Test func whatIsWaitedForMayHaveBecomeFreeMeanwhile() {
        let budget = MemoryBudget(bytesMax: 1), count = Mutex(0)
        let wait = budget.wait(for: 1) { _ in count.withLock { $0 += 1 } }
        withExtendedLifetime(wait) { #expect(count.withLock { $0 } == 1 && budget.bytesInUse == 0) }
    }

    @Test func aWaitMayBeTheLastToHoldAPermit() {
        let budget = MemoryBudget(bytesMax: 1)
        var wait: MemoryWait?
        do {
            let permit = budget.permit(for: 1)
            #expect(permit != nil)
            wait = budget.wait(for: 1) { _ in withExtendedLifetime(permit) {} }
        }
        #expect(budget.bytesInUse == 1 && wait != nil)
        wait = nil
        #expect(budget.bytesInUse == 0 && budget.waitingCount == 0)
    }

    @Test("whatever is asked for and let go of, nobody waits for ever", arguments: 1...200 as ClosedRange<UInt64>)
    func randomSequences(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let budget = MemoryBudget(bytesMax: 100), grants = Grants()
        var permits: [MemoryPermit] = [], waiting: [Int] = []
        for step in 0..<500 {
            switch Int.random(in: 0..<5, using: &random) {
            case 0, 1:
                let bytes = Int.random(in: 1...60, using: &random)
                if let permit = budget.permit(for: bytes) {
                    permits.append(permit)
                } else {
                    grants.wait(step, for: bytes, of: budget)
                    waiting.append(step)
                }
            case 2 where !permits.isEmpty:
                let permit = permits[Int.random(in: permits.indices, using: &random)]
                permit.resize(to: Int.random(in: 0...60, using: &random))
            case 3 where !waiting.isEmpty:
                grants.leave(waiting.remove(at: Int.random(in: waiting.indices, using: &random)))
            default:
                if let index = permits.indices.randomElement(using: &random) { permits.remove(at: index) }
            }
            for (name, permit) in grants.takeAll() {
                #expect(name == waiting.removeFirst(), "seed \(seed)")
                permits.append(permit)
            }
            #expect(budget.bytesInUse == permits.reduce(0) { $0 + $1.bytes }, "seed \(seed), step \(step)")
        }
        while !permits.isEmpty {
            permits.removeLast()
            permits += grants.takeAll().map(\.permit)
        }
        #expect(budget.waitingCount == 0 && budget.bytesInUse == 0, "seed \(seed)")
    }

    @Test("many threads at once: all are served, and nothing stays in use")
    func threads() async {
        let budget = MemoryBudget(bytesMax: 100), grants = Grants()
        await withTaskGroup { group in
            for number in 0..<2_000 {
                group.addTask {
                    await withCheckedContinuation { (served: CheckedContinuation<Void, Never>) in
                        guard budget.permit(for: number % 70) == nil else { return served.resume() }
                        grants.keep(budget.wait(for: number % 70) { _ in served.resume() }, as: number)
                    }
                }
            }
        }
        #expect(budget.waitingCount == 0 && budget.bytesInUse == 0)
    }
}
