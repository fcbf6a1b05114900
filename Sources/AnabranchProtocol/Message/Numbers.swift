/// Reads the decimal numbers of which heads and entries consist (`Spec/Protocol.md`, section 3).
struct NumberReader {
    let bytes: [UInt8]
    private(set) var position: Int

    init(_ bytes: [UInt8], from position: Int) {
        self.bytes = bytes
        self.position = position
    }

    var remaining: Int { bytes.count - position }

    /// Steps over one byte if it is the expected one.
    mutating func skip(_ byte: UInt8) -> Bool {
        guard position < bytes.count, bytes[position] == byte else { return false }
        position += 1
        return true
    }

    /// Steps over bytes that the caller knows to exist.
    mutating func skip(count: Int) -> ArraySlice<UInt8> {
        let start = position
        position += count
        return bytes[start..<position]
    }

    /// A number of 0 … 2^63 − 1: digits only.
    mutating func number() -> UInt64? {
        guard let magnitude = digits(), magnitude <= UInt64(Int64.max) else { return nil }
        return magnitude
    }

    /// A signed number of 64 bits.
    mutating func signedNumber() -> Int64? {
        guard skip(UInt8(ascii: "-")) else { return digits().flatMap { Int64(exactly: $0) } }
        guard let magnitude = digits(), magnitude <= Int64.min.magnitude else { return nil }
        return Int64(truncatingIfNeeded: 0 &- magnitude)
    }

    /// A real number as C prints it.
    mutating func real() -> Double? {
        let characters = bytes[position...].prefix(Self.realBytes).prefix {
            UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 || "+-.eE".utf8.contains($0)
        }
        position = characters.endIndex
        return Double(String(decoding: characters, as: UTF8.self))
    }

    /// Characters of the longest real number: 17 digits, and what stands around them.
    private static let realBytes = 24

    private mutating func digits() -> UInt64? {
        let start = position
        let limit = min(bytes.count, start + Limits.numberBytesMax)
        var value: UInt64 = 0
        while position < limit {
            let digit = bytes[position] &- UInt8(ascii: "0")
            guard digit <= 9 else { break }
            let (tens, overflow) = value.multipliedReportingOverflow(by: 10)
            let (sum, carry) = tens.addingReportingOverflow(UInt64(digit))
            guard !overflow, !carry else { return nil }
            value = sum
            position += 1
        }
        return position > start ? value : nil
    }
}

extension [UInt8] {
    /// Appends a number of at most 64 bits in decimal digits.
    mutating func append(decimal number: some FixedWidthInteger) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: Limits.numberBytesMax) { digits in
            var start = digits.endIndex
            var rest = UInt64(number.magnitude)
            repeat {
                start -= 1
                digits[start] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
                rest /= 10
            } while rest > 0
            if number < 0 {
                start -= 1
                digits[start] = UInt8(ascii: "-")
            }
            append(contentsOf: digits[start...])
        }
    }
}
