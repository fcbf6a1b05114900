/// A decimal floating-point number, kept exactly as it arrived: nothing is normalised (`Spec/Changeset.md`, section
/// 6.3).
///
/// The two words are those of IEEE 754-2008 in binary integer decimal form. Equality of the type is equality of the
/// bits; `isEqualNumber(to:)` compares numbers.
public struct Decimal128: Hashable, Sendable {
    static let exponentBias = 6176

    /// The low word: the lower 64 bits of the coefficient.
    public let low: UInt64
    /// The high word: sign, biased exponent and the upper 49 bits of the coefficient.
    public let high: UInt64

    /// Creates a number from its two words; every pair of words is valid.
    public init(low: UInt64, high: UInt64) {
        self.low = low
        self.high = high
    }

    /// True if the sign bit is set, even that of a zero or a NaN.
    public var isNegative: Bool { high >> 63 == 1 }
    /// True if it is not a number.
    public var isNaN: Bool { high >> 58 & 0x1F == 0x1F }
    /// True for an infinity of either sign.
    public var isInfinite: Bool { high >> 59 & 0xF == 0xF && !isNaN }
    /// The 113 bits of the coefficient field; meaningless for an infinity, a payload for a NaN.
    var coefficient: (low: UInt64, high: UInt64) { (low, high & (1 << 49 - 1)) }
    /// The exponent of ten, −6176 … 10207.
    var exponent: Int { Int(high >> 49 & 0x3FFF) - Self.exponentBias }

    /// True if both are the same number, as 10.5 and 10.50 are, or 0, −0 and 0 × 10^5.
    ///
    /// A coefficient of more than 34 digits counts as 0. A NaN equals only a NaN with the same bits.
    public func isEqualNumber(to other: Decimal128) -> Bool {
        if isNaN || other.isNaN || isInfinite || other.isInfinite {
            if isInfinite && other.isInfinite { return isNegative == other.isNegative }
            return isNaN && self == other
        }
        let (left, right) = (normalised, other.normalised)
        if left.coefficient == 0 && right.coefficient == 0 { return true }
        return isNegative == other.isNegative && left.coefficient == right.coefficient
            && left.exponent == right.exponent
    }

    /// Coefficient without trailing zeros and its exponent; 0 and 0 for everything that counts as zero.
    var normalised: (coefficient: UInt128, exponent: Int) {
        // The form whose bits 62 and 61 are set always has too many digits.
        guard high >> 61 & 3 != 3 else { return (0, 0) }
        var value = UInt128(coefficient.high) << 64 | UInt128(low)
        guard value != 0, value < Self.tooManyDigits else { return (0, 0) }
        var exponent = exponent
        while true {
            let (quotient, remainder) = value.quotientAndRemainder(dividingBy: 10)
            if remainder != 0 { return (value, exponent) }
            value = quotient
            exponent += 1
        }
    }

    /// 10^34.
    static let tooManyDigits = (0..<34).reduce(UInt128(1)) { power, _ in power * 10 }
}

extension Decimal128: CustomStringConvertible {
    /// The reference's text: digits with a point after the first as far as the exponent reaches, `E` and the rest of
    /// it.
    ///
    /// From 2^64 on a sign, all digits and the signed exponent; `Inf`, `-Inf`, `NaN`, `-NaN`.
    public var description: String {
        let sign = isNegative ? "-" : ""
        if isNaN { return sign + "NaN" }
        if isInfinite { return sign + "Inf" }
        let value = UInt128(coefficient.high) << 64 | UInt128(low)
        if coefficient.high > 0 {
            return (isNegative ? "-" : "+") + "\(value)E" + (exponent < 0 ? "" : "+") + "\(exponent)"
        }
        var digits = String(value)
        var exponent = exponent
        let fraction = exponent == 0 ? 0 : min(digits.utf8.count - 1, exponent < 0 ? -exponent : Int.max)
        if fraction > 0 {
            exponent += fraction
            digits.insert(".", at: digits.index(digits.endIndex, offsetBy: -fraction))
        }
        return sign + digits + (exponent == 0 ? "" : "E\(exponent)")
    }
}
