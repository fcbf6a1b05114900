import AnabranchTesting
import Synchronization
import Testing

@testable import AnabranchServer

/// Memory that all connections share (`Spec/Limits.md`, section 7).
@Suite(.timeLimit(.minutes(5))) struct MemoryBudgetTests {
    /// The permits that were given later, by what they were asked for.
    private final class Grants: Sendable {
        private let permits = Mutex<[(name: Int, permit: MemoryPermit)]>([])

        var names: [Int] { permits.withLock { $0.map(\.name) } }

        func taker(_ name: Int) -> MemoryBudget.Grant {
            { permit in self.permits.withLock { $0.append((name, permit)) } }
        }

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
        let permit = budget.permitAtOnce(for: bytes)
        #expect((permit != nil) == isGiven)
        #expect(budget.bytesInUse == (isGiven ? 60 + bytes : 60))
    }

    @Test func oneThatIsTooLargeForTheBudgetIsGivenWhenNothingElseIsInUse() {
        let budget = MemoryBudget(bytesMax: 100), grants = Grants()
        let other = budget.permitAtOnce(for: 1)
        #expect(budget.permit(for: 1_000, orElse: grants.taker(1)) == nil)
        withExtendedLifetime(other) { #expect(grants.names.isEmpty) }
        _ = consume other
        #expect(grants.names == [1])
        #expect(!budget.hasRoom(for: 1))
    }

    @Test func asManyGoOnAsThereIsRoomForInTheirOrder() {
        let waits = Mutex(0), grants = Grants()
        let budget = MemoryBudget(bytesMax: 100) { waits.withLock { $0 += 1 } }
        budget.reserve(100)
        for (name, bytes) in [30, 20, 60, 1].enumerated() {
            #expect(budget.permit(for: bytes, orElse: grants.taker(name)) == nil)
        }
        #expect(waits.withLock { $0 } == 4 && budget.waitingCount == 4)
        budget.release(60)
        #expect(grants.names == [0, 1], "the third has to wait, and no later one goes before it")
        #expect(budget.permitAtOnce(for: 1) == nil)
        budget.release(30)
        #expect(grants.names == [0, 1])
        budget.release(10)
        #expect(grants.names == [0, 1], "50 bytes are in use")
        withExtendedLifetime(grants.takeAll()) {}
        #expect(grants.names == [2, 3] && budget.bytesInUse == 61)
    }

    @Test func whatTurnsOutToBeLessLetsOthersGoOn() {
        let budget = MemoryBudget(bytesMax: 100), grants = Grants()
        let permit = budget.permitAtOnce(for: 100)
        #expect(budget.permit(for: 40, orElse: grants.taker(1)) == nil)
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
        for _ in 0..<100_000 {
            #expect(budget.permit(for: 1, orElse: { _ in count.withLock { $0 += 1 } }) == nil)
        }
        budget.release(1)
        #expect(count.withLock { $0 } == 100_000 && budget.bytesInUse == 0)
    }

    @Test("whatever is asked for and let go of, nobody waits for ever", arguments: 1...200 as ClosedRange<UInt64>)
    func randomSequences(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let budget = MemoryBudget(bytesMax: 100), grants = Grants()
        var permits: [MemoryPermit] = [], waiting: [Int] = []
        for step in 0..<500 {
            switch Int.random(in: 0..<4, using: &random) {
            case 0, 1:
                let bytes = Int.random(in: 1...60, using: &random)
                if let permit = budget.permit(for: bytes, orElse: grants.taker(step)) {
                    permits.append(permit)
                } else {
                    waiting.append(step)
                }
            case 2 where !permits.isEmpty:
                let permit = permits[Int.random(in: permits.indices, using: &random)]
                permit.resize(to: Int.random(in: 0...60, using: &random))
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
        let budget = MemoryBudget(bytesMax: 100)
        await withTaskGroup { group in
            for number in 0..<2_000 {
                group.addTask {
                    await withCheckedContinuation { (served: CheckedContinuation<Void, Never>) in
                        let permit = budget.permit(for: number % 70) { _ in served.resume() }
                        if permit != nil { served.resume() }
                    }
                }
            }
        }
        #expect(budget.waitingCount == 0 && budget.bytesInUse == 0)
    }
}
