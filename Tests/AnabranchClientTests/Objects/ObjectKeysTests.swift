import AnabranchClient
import AnabranchCore
import Testing

@Suite struct ObjectKeysTests {
    /// Keys of version 7 that ascend, within a millisecond and while the clock goes back.
    @Test func eachKeyIsAboveTheLast() {
        var keys = ObjectKeys(), made: [[UInt8]] = []
        for milliseconds in [1_000, 1_000, 1_001, 900, 1_002] as [UInt64] {
            for _ in 0..<5_000 { made.append(keys.next(ChangesetTime(rawValue: milliseconds)).bytes) }
        }
        #expect(zip(made, made.dropFirst()).allSatisfy { $0.lexicographicallyPrecedes($1) })
        #expect(made.allSatisfy { $0[6] >> 4 == 7 && $0[8] >> 6 == 2 })
    }

    /// The first six bytes are milliseconds since 1970.
    @Test func aKeyBeginsWithTheTime() {
        var keys = ObjectKeys()
        let bytes = keys.next(ChangesetTime(rawValue: 0)).bytes
        #expect(bytes.prefix(6).reduce(0) { $0 << 8 | Int($1) } == 1_420_070_400_000)
    }
}
