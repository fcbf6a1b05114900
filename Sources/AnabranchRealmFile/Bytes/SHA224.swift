/// SHA-224 (FIPS 180-4): SHA-256 with other initial values, and without the last word. Crypto does not have it, and a
/// hash function of its kind needs Foundation.
enum SHA224 {
    static let blockBytes = 64
    private static let wordCount = 7

    static func hash(_ message: [UInt8]) -> [UInt8] {
        var padded = message
        padded.append(0x80)
        while padded.count % blockBytes != blockBytes - 8 { padded.append(0) }
        let bitCount = UInt64(message.count) * 8
        padded += (0..<8).map { UInt8(truncatingIfNeeded: bitCount >> (56 - 8 * $0)) }

        var state: [UInt32] = [
            0xc105_9ed8, 0x367c_d507, 0x3070_dd17, 0xf70e_5939, 0xffc0_0b31, 0x6858_1511, 0x64f9_8fa7, 0xbefa_4fa4,
        ]
        var schedule = [UInt32](repeating: 0, count: 64)
        for start in stride(from: 0, to: padded.count, by: blockBytes) {
            for index in 0..<16 {
                let word = padded[start + 4 * index..<start + 4 * index + 4]
                schedule[index] = word.reduce(0) { $0 << 8 | UInt32($1) }
            }
            compress(&schedule, into: &state)
        }
        return state.prefix(wordCount).flatMap { word in
            (0..<4).map { UInt8(truncatingIfNeeded: word >> (24 - 8 * $0)) }
        }
    }

    private static func compress(_ schedule: inout [UInt32], into state: inout [UInt32]) {
        for index in 16..<64 {
            let (late, early) = (schedule[index - 2], schedule[index - 15])
            let first = rotate(late, 17) ^ rotate(late, 19) ^ late >> 10
            let second = rotate(early, 7) ^ rotate(early, 18) ^ early >> 3
            schedule[index] = first &+ schedule[index - 7] &+ second &+ schedule[index - 16]
        }
        var (a, b, c, d) = (state[0], state[1], state[2], state[3])
        var (e, f, g, h) = (state[4], state[5], state[6], state[7])
        for index in 0..<64 {
            let mixed = h &+ (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) &+ (e & f ^ ~e & g)
            let first = mixed &+ constants[index] &+ schedule[index]
            let second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) &+ (a & b ^ a & c ^ b & c)
            (h, g, f, e, d, c, b, a) = (g, f, e, d &+ first, c, b, a, first &+ second)
        }
        for (index, word) in [a, b, c, d, e, f, g, h].enumerated() { state[index] &+= word }
    }

    private static func rotate(_ word: UInt32, _ count: UInt32) -> UInt32 { word >> count | word << (32 - count) }

    /// The first 32 bits of the fractions of the cube roots of the first 64 primes.
    private static let constants: [UInt32] = [
        0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
        0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
        0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
        0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
        0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
        0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
        0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
        0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
    ]
}

/// HMAC (RFC 2104) with SHA-224, with which Realm signs its pages.
enum HMACSHA224 {
    static func code(of message: [UInt8], key: [UInt8]) -> [UInt8] {
        let short = key.count > SHA224.blockBytes ? SHA224.hash(key) : key
        let block = short + [UInt8](repeating: 0, count: SHA224.blockBytes - short.count)
        return SHA224.hash(block.map { $0 ^ 0x5c } + SHA224.hash(block.map { $0 ^ 0x36 } + message))
    }
}
