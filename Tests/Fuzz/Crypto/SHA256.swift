/// A hash in the place of the real one, which the fuzzer does not need.
public enum SHA256 {
    /// - Returns: eight bytes.
    public static func hash(data: [UInt8]) -> [UInt8] {
        let hash = data.reduce(0xCBF2_9CE4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
        return (0..<8).map { UInt8(truncatingIfNeeded: hash >> (8 * $0)) }
    }
}
