// Equality and order of values, which decide what a set treats as the same element (`Spec/State.md`, A7).

extension Content {
    /// Negative, zero or positive. Like the reference's, not transitive where a Decimal is between Float and Double.
    /// Only the kind of a stored value counts: callers read such values first.
    static func compare(_ left: Content, _ right: Content) -> Int {
        switch (left, right) {
        case (.null, .null): return 0
        case (.bool(let left), .bool(let right)): return (left ? 1 : 0) - (right ? 1 : 0)
        case (.string(let left), .string(let right)), (.binary(let left), .binary(let right)):
            return left.compare(right)
        case (.timestamp(let left), .timestamp(let right)):
            return left.seconds != right.seconds
                ? order(left.seconds, right.seconds) : order(left.nanoseconds, right.nanoseconds)
        case (.objectID(let left), .objectID(let right)): return order(left.order, right.order)
        case (.uuid(let left), .uuid(let right)): return order(left.order, right.order)
        case (.link(let left), .link(let right)): return order(left, right)
        default: break
        }
        if let left = left.number, let right = right.number { return Number.compare(left, right) }
        return left.rank - right.rank
    }

    /// True if writing `other` here keeps the present value, because both are equal numbers of one kind (B5).
    func isEqualNumber(to other: Content) -> Bool {
        switch (self, other) {
        case (.float, .float), (.double, .double), (.decimal, .decimal): Content.compare(self, other) == 0
        default: false
        }
    }

    /// True if the kinds of the two values do not decide their order.
    func isOfKind(of other: Content) -> Bool { rank == other.rank }

    /// The rank of the kind in the order of kinds.
    private var rank: Int {
        switch self {
        case .null: 0
        case .bool: 1
        case .int, .float, .double, .decimal: 2
        case .string: 3
        case .binary: 4
        case .timestamp: 5
        case .objectID: 6
        case .uuid: 7
        case .link: 8
        case .stored(let value): value.isText ? 3 : 4
        case .object, .list, .dictionary, .set: 9
        }
    }

    fileprivate var number: Number? {
        switch self {
        case .int(let value): .int(value)
        case .float(let value): .binary(Double(value), digits: 7)
        case .double(let value): .binary(value, digits: 15)
        case .decimal(let value): .decimal(value)
        default: nil
        }
    }
}

/// A number of any kind.
private enum Number {
    case int(Int64)
    /// A Float, widened, or a Double, and to how many digits it is rounded before a Decimal is compared with it.
    case binary(Double, digits: Int)
    case decimal(Decimal128)

    static func compare(_ left: Number, _ right: Number) -> Int {
        switch (left, right) {
        case (.int(let left), .int(let right)): return order(left, right)
        case (.int(let left), .binary(let right, _)): return compare(left, right)
        case (.binary(let left, _), .int(let right)): return -compare(right, left)
        case (.binary(let left, _), .binary(let right, _)):
            if left.isNaN || right.isNaN { return compareNaN(.binary(left, digits: 0), .binary(right, digits: 0)) }
            return order(left, right)
        default:
            if let order = compareRoughly(left, right) ?? compareRoughly(right, left).map({ -$0 }) { return order }
            guard let leftValue = left.decimal, let rightValue = right.decimal else { return compareNaN(left, right) }
            return DecimalNumber.compare(leftValue, rightValue)
        }
    }

    /// The integer is not rounded; NaN is below every integer.
    private static func compare(_ left: Int64, _ right: Double) -> Int {
        if right.isNaN || right < -0x1p63 { return 1 }
        if right >= 0x1p63 { return -1 }
        let whole = Int64(right)
        return left != whole ? order(left, whole) : order(Double(0), right - Double(whole))
    }

    /// A Double against a Decimal by signs and orders of magnitude; nil if that does not decide. Only neighbours are
    /// worth the long work of rounding to decimal digits, which never crosses a power of ten.
    private static func compareRoughly(_ left: Number, _ right: Number) -> Int? {
        guard case .binary(let binary, _) = left, binary.isFinite, binary != 0, case .decimal(let value) = right,
            let decimal = DecimalNumber(value)
        else { return nil }
        let sign = binary < 0 ? -1 : 1
        if decimal.isInfinite { return decimal.isNegative ? 1 : -1 }
        if decimal.coefficient == 0 || decimal.isNegative != (binary < 0) { return sign }
        let decadesPerOctave = 0.3010299956639812
        let top = Double(decimal.exponent + decimal.digitCount)
        if Double(binary.exponent + 1) * decadesPerOctave < top - 1.5 { return -sign }
        if Double(binary.exponent) * decadesPerOctave > top + 0.5 { return sign }
        return nil
    }

    /// Compares two numbers where at least one is NaN: NaNs are below all others, and ordered by their bits.
    private static func compareNaN(_ left: Number, _ right: Number) -> Int {
        switch (left.bitsOfNaN, right.bitsOfNaN) {
        case (nil, _?): 1
        case (_?, nil): -1
        case (let left?, let right?): order(left, right)
        case (nil, nil): 0
        }
    }

    private var bitsOfNaN: UInt128? {
        switch self {
        case .binary(let value, _) where value.isNaN: UInt128(value.bitPattern)
        case .decimal(let value) where value.isNaN: UInt128(value.high) << 64 | UInt128(value.low)
        default: nil
        }
    }

    /// The decimal number to compare with a Decimal; nil for NaN.
    private var decimal: DecimalNumber? {
        switch self {
        case .int(let value): DecimalNumber(isNegative: value < 0, coefficient: UInt128(value.magnitude), exponent: 0)
        case .binary(let value, let digits): DecimalNumber(value, digits: digits)
        case .decimal(let value): DecimalNumber(value)
        }
    }
}

/// A decimal number by its parts, to compare and to round.
struct DecimalNumber {
    var isNegative: Bool
    var isInfinite = false
    /// The coefficient, below 10^34.
    var coefficient: UInt128
    var exponent: Int

    init(isNegative: Bool, isInfinite: Bool = false, coefficient: UInt128, exponent: Int) {
        self.isNegative = isNegative
        self.isInfinite = isInfinite
        self.coefficient = coefficient
        self.exponent = exponent
    }

    /// The number of a Decimal, without trailing zeros; nil for NaN. A coefficient of more than 34 digits counts as 0.
    init?(_ value: Decimal128) {
        guard !value.isNaN else { return nil }
        let (coefficient, exponent) = value.isInfinite ? (0, 0) : value.normalised
        self.init(
            isNegative: value.isNegative, isInfinite: value.isInfinite, coefficient: coefficient, exponent: exponent)
    }

    /// The exact binary number, rounded half to even to some significant digits; nil for NaN.
    init?(_ value: Double, digits: Int) {
        guard !value.isNaN else { return nil }
        let isNegative = value.sign == .minus
        guard value.isFinite, value != 0 else {
            self.init(isNegative: isNegative, isInfinite: value.isInfinite, coefficient: 0, exponent: 0)
            return
        }
        let significand = value.significandBitPattern | (value.isNormal ? 1 << 52 : 0)
        let exponent = Int(max(value.exponentBitPattern, 1)) - 1075
        // m × 2^e; with a negative e it is m × 5^−e × 10^e.
        var number = Magnitude(significand)
        number.multiply(by: exponent < 0 ? 5 : 2, power: abs(exponent))
        let text = number.decimalDigits
        var kept = text.prefix(digits).reduce(UInt128(0)) { $0 * 10 + UInt128($1) }
        let rest = text.dropFirst(digits)
        if let next = rest.first {
            let isTie = next == 5 && rest.dropFirst().allSatisfy { $0 == 0 }
            if isTie ? !kept.isMultiple(of: 2) : next >= 5 { kept += 1 }
        }
        self.init(isNegative: isNegative, coefficient: kept, exponent: min(exponent, 0) + rest.count)
    }

    static func compare(_ left: DecimalNumber, _ right: DecimalNumber) -> Int {
        let (leftSign, rightSign) = (left.signum, right.signum)
        if leftSign != rightSign || leftSign == 0 { return leftSign - rightSign }
        return leftSign * compareMagnitudes(left, right)
    }

    private var signum: Int { !isInfinite && coefficient == 0 ? 0 : isNegative ? -1 : 1 }

    /// Both are infinite or have a coefficient above 0.
    private static func compareMagnitudes(_ left: DecimalNumber, _ right: DecimalNumber) -> Int {
        if left.isInfinite || right.isInfinite { return (left.isInfinite ? 1 : 0) - (right.isInfinite ? 1 : 0) }
        let (leftDigits, rightDigits) = (left.digitCount, right.digitCount)
        let (leftTop, rightTop) = (left.exponent + leftDigits, right.exponent + rightDigits)
        if leftTop != rightTop { return leftTop < rightTop ? -1 : 1 }
        // The same number of digits on both sides: still below 10^34.
        let digits = max(leftDigits, rightDigits)
        let (leftValue, rightValue) = (left.scaled(to: digits), right.scaled(to: digits))
        return leftValue < rightValue ? -1 : leftValue == rightValue ? 0 : 1
    }

    fileprivate var digitCount: Int { String(coefficient).utf8.count }

    private func scaled(to digits: Int) -> UInt128 {
        (digitCount..<digits).reduce(coefficient) { value, _ in value * 10 }
    }
}

/// A natural number of any size, as large as a Double needs: fewer than 2,600 bits.
private struct Magnitude {
    /// The lowest word first.
    private var words: [UInt32]

    init(_ value: UInt64) { words = [UInt32(truncatingIfNeeded: value), UInt32(value >> 32)] }

    /// Multiplies by a power of 2 or 5, as much of it at a time as a word holds.
    mutating func multiply(by base: UInt32, power: Int) {
        let (large, count): (UInt32, Int) = base == 5 ? (1_220_703_125, 13) : (1 << 31, 31)
        for _ in 0..<power / count { multiply(by: large) }
        for _ in 0..<power % count { multiply(by: base) }
    }

    private mutating func multiply(by factor: UInt32) {
        var carry: UInt64 = 0
        for index in words.indices {
            carry += UInt64(words[index]) * UInt64(factor)
            words[index] = UInt32(truncatingIfNeeded: carry)
            carry >>= 32
        }
        if carry > 0 { words.append(UInt32(carry)) }
    }

    /// The digits without leading zeros, the most significant first.
    var decimalDigits: [UInt8] {
        var rest = words
        var digits: [UInt8] = []
        while let top = rest.last {
            guard top > 0 else {
                rest.removeLast()
                continue
            }
            var remainder: UInt64 = 0
            for index in rest.indices.reversed() {
                let part = remainder << 32 | UInt64(rest[index])
                rest[index] = UInt32(part / 1_000_000_000)
                remainder = part % 1_000_000_000
            }
            for _ in 0..<9 {
                digits.append(UInt8(remainder % 10))
                remainder /= 10
            }
        }
        while digits.last == 0 { digits.removeLast() }
        return digits.reversed()
    }
}
