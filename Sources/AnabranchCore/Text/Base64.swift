/// Base64 (RFC 4648, section 4).
package enum Base64 {
    private static let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    /// The value of each digit by its character; 64 for any other character.
    private static let values: [UInt8] = {
        var values = [UInt8](repeating: 64, count: 256)
        for (value, digit) in digits.enumerated() { values[Int(digit)] = UInt8(value) }
        return values
    }()

    package static func encode(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let group = bytes[start..<min(start + 3, bytes.count)]
            let bits = group.reduce(UInt32(0)) { $0 << 8 | UInt32($1) } << UInt32(8 * (3 - group.count))
            for position in 0..<4 {
                let digit = digits[Int(bits >> UInt32(18 - 6 * position) & 63)]
                text.append(position > group.count ? UInt8(ascii: "=") : digit)
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// - Returns: nil if it is not Base64, padding included. Bits of the last digit beyond the last byte do not count.
    package static func decode(_ text: some BidirectionalCollection<UInt8>) -> [UInt8]? {
        let padding = text.reversed().prefix { $0 == UInt8(ascii: "=") }.count
        var bytes: [UInt8] = []
        var (bits, count): (UInt32, Int) = (0, 0)
        for character in text.dropLast(padding) {
            let digit = values[Int(character)]
            guard digit < 64 else { return nil }
            (bits, count) = (bits << 6 | UInt32(digit), count + 6)
            guard count >= 8 else { continue }
            count -= 8
            bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
        }
        // A single digit does not make a byte.
        return text.count.isMultiple(of: 4) && padding == count / 2 && count < 6 ? bytes : nil
    }
}
