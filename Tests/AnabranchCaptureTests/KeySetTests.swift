import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchCapture

/// The keys of objects that others have changed.
@Suite struct KeySetTests {
    @Test(arguments: [1, 2, 3] as [UInt64]) func keysAreInOrderEachOnce(_ seed: UInt64) {
        var random = SeededRandom(seed: seed), keys = KeySet(), known = Set<PrimaryKey>()
        #expect(keys.isEmpty)
        for _ in 0..<20_000 {
            let key = PrimaryKey.int(Int64.random(in: 0..<9_000, using: &random))
            keys.insert(key)
            known.insert(key)
        }
        #expect(!keys.isEmpty)
        #expect(keys.ordered() == known.sorted())
    }

    @Test func aKeyThatIsOftenInsertedTakesNoMemory() {
        var keys = KeySet()
        for _ in 0..<100_000 { keys.insert(.int(1)) }
        #expect(keys.count < 10_000)
        #expect(keys.ordered() == [.int(1)])
        #expect(KeySet().ordered() == [])
    }
}
