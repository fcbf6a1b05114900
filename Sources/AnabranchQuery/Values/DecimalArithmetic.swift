package import AnabranchCore

/// A Decimal by its parts, to calculate with: 34 digits, rounded half to even (IEEE 754-2008).
struct DecimalParts {
    enum Kind: Equatable {
        case finite, infinite, nan
    }

    var kind: Kind
    var isNegative: Bool
    /// Below 10^34.
    var coefficient: UInt128
    var exponent: Int

    static let exponents = -6176...6111
    static let precision = 34

    init(_ kind: Kind = .finite, isNegative: Bool, coefficient: UInt128 = 0, exponent: Int = 0) {
        self.kind = kind
        self.isNegative = isNegative
        self.coefficient = coefficient
        self.exponent = exponent
    }

    init(_ value: Decimal128) {
        let kind: Kind = value.isNaN ? .nan : value.isInfinite ? .infinite : .finite
        self.init(kind, isNegative: value.isNegative)
        guard kind == .finite else { return }
        exponent = Int(value.high >> 49 & 0x3FFF) + Self.exponents.lowerBound
        coefficient = UInt128(value.high & (1 << 49 - 1)) << 64 | UInt128(value.low)
        // A coefficient of too many digits counts as zero.
        if value.high >> 61 & 3 == 3 || coefficient >= Self.power(Self.precision) { (coefficient, exponent) = (0, 0) }
    }

    var value: Decimal128 {
        let sign: UInt64 = isNegative ? 1 << 63 : 0
        switch kind {
        case .nan: return Decimal128(low: 0, high: sign | 0x7C00_0000_0000_0000)
        case .infinite: return Decimal128(low: 0, high: sign | 0x7800_0000_0000_0000)
        case .finite:
            let biased = UInt64(exponent - Self.exponents.lowerBound)
            return Decimal128(
                low: UInt64(truncatingIfNeeded: coefficient), high: sign | biased << 49 | UInt64(coefficient >> 64))
        }
    }

    static func power(_ digits: Int) -> UInt128 { (0..<digits).reduce(1) { power, _ in power * 10 } }

    // MARK: Rounding

    /// The number nearest to a longer coefficient and an exponent.
    init(isNegative: Bool, wide coefficient: WideNumber, exponent: Int, isInexact: Bool = false) {
        var (coefficient, exponent) = (coefficient, exponent)
        // Everything that was cut off: its first digit, and whether anything else is not 0.
        var (cut, hasRest) = (0, isInexact)
        while coefficient.digitCount > Self.precision
            || exponent < Self.exponents.lowerBound && !(coefficient.isZero && cut == 0)
        {
            hasRest = hasRest || cut != 0
            cut = coefficient.divideByTen()
            exponent += 1
        }
        var kept = coefficient.low
        if cut > 5 || cut == 5 && (hasRest || !kept.isMultiple(of: 2)) { kept += 1 }
        if kept == Self.power(Self.precision) { (kept, exponent) = (kept / 10, exponent + 1) }
        while exponent > Self.exponents.upperBound, kept < Self.power(Self.precision - 1), kept > 0 {
            (kept, exponent) = (kept * 10, exponent - 1)
        }
        let limited = min(max(exponent, Self.exponents.lowerBound), Self.exponents.upperBound)
        self.init(isNegative: isNegative, coefficient: kept, exponent: kept == 0 ? limited : exponent)
        if kept > 0, exponent > Self.exponents.upperBound { self.init(.infinite, isNegative: isNegative) }
    }
}

extension Decimal128 {
    // MARK: Arithmetic

    static func adding(_ left: Decimal128, _ right: Decimal128, negatingRight: Bool = false) -> Decimal128 {
        var (left, right) = (DecimalParts(left), DecimalParts(right))
        if right.kind != .nan, negatingRight { right.isNegative.toggle() }
        if let nan = firstNaN(left, right) { return nan }
        switch (left.kind, right.kind) {
        case (.infinite, .infinite) where left.isNegative != right.isNegative: return notANumber
        case (.infinite, _): return left.value
        case (_, .infinite): return right.value
        default: break
        }
        if left.exponent < right.exponent { swap(&left, &right) }
        // The higher exponent comes down as far as digits can matter; anything that is still lower is a remainder.
        let top = WideNumber(left.coefficient)
        let shift =
            left.coefficient == 0
            ? 0 : min(left.exponent - right.exponent, 3 + 2 * DecimalParts.precision - top.digitCount)
        let exponent = left.coefficient == 0 ? right.exponent : left.exponent - shift
        var low = WideNumber(right.coefficient)
        var isInexact = false
        for _ in 0..<min(max(exponent - right.exponent, 0), 40) where !low.isZero {
            isInexact = low.divideByTen() != 0 || isInexact
        }
        let high = top.shifted(by: shift)
        guard left.isNegative != right.isNegative else {
            return DecimalParts(
                isNegative: left.isNegative, wide: high.adding(low), exponent: exponent, isInexact: isInexact
            ).value
        }
        // A remainder is subtracted: one less, and a remainder again.
        if isInexact { low = low.adding(WideNumber(1)) }
        let isLess = high.isLess(than: low)
        let difference = isLess ? low.subtracting(high) : high.subtracting(low)
        let isNegative = !difference.isZero && (isLess ? right.isNegative : left.isNegative)
        return DecimalParts(isNegative: isNegative, wide: difference, exponent: exponent, isInexact: isInexact).value
    }

    static func multiplying(_ left: Decimal128, _ right: Decimal128) -> Decimal128 {
        let (left, right) = (DecimalParts(left), DecimalParts(right))
        if let nan = firstNaN(left, right) { return nan }
        let isNegative = left.isNegative != right.isNegative
        if left.kind == .infinite || right.kind == .infinite {
            let isZero =
                left.kind == .finite && left.coefficient == 0 || right.kind == .finite && right.coefficient == 0
            return isZero ? notANumber : DecimalParts(.infinite, isNegative: isNegative).value
        }
        return DecimalParts(
            isNegative: isNegative, wide: WideNumber(left.coefficient, times: right.coefficient),
            exponent: left.exponent + right.exponent
        ).value
    }

    static func dividing(_ left: Decimal128, by right: Decimal128) -> Decimal128 {
        let (left, right) = (DecimalParts(left), DecimalParts(right))
        if let nan = firstNaN(left, right) { return nan }
        let isNegative = left.isNegative != right.isNegative
        switch (left.kind, right.kind) {
        case (.infinite, .infinite): return notANumber
        case (.infinite, _): return DecimalParts(.infinite, isNegative: isNegative).value
        case (_, .infinite):
            return DecimalParts(isNegative: isNegative, exponent: DecimalParts.exponents.lowerBound).value
        default: break
        }
        guard right.coefficient != 0 else {
            return left.coefficient == 0 ? notANumber : DecimalParts(.infinite, isNegative: isNegative).value
        }
        var exponent = left.exponent - right.exponent
        guard left.coefficient != 0 else {
            return DecimalParts(isNegative: isNegative, wide: WideNumber(0), exponent: exponent).value
        }
        // One digit at a time, until nothing is left or there is one digit too many.
        var (quotient, remainder) = left.coefficient.quotientAndRemainder(dividingBy: right.coefficient)
        while remainder != 0, quotient < DecimalParts.power(DecimalParts.precision) {
            let (digit, rest) = (remainder * 10).quotientAndRemainder(dividingBy: right.coefficient)
            (quotient, remainder, exponent) = (quotient * 10 + digit, rest, exponent - 1)
        }
        return DecimalParts(
            isNegative: isNegative, wide: WideNumber(quotient), exponent: exponent, isInexact: remainder != 0
        ).value
    }

    static let notANumber = DecimalParts(.nan, isNegative: false).value

    private static func firstNaN(_ left: DecimalParts, _ right: DecimalParts) -> Decimal128? {
        left.kind == .nan ? left.value : right.kind == .nan ? right.value : nil
    }

    /// An integer, exactly.
    init(_ value: Int64) {
        self = DecimalParts(isNegative: value < 0, coefficient: UInt128(value.magnitude)).value
    }

    // MARK: Text

    /// Reads digits with a point and an exponent, `inf`, `infinity` or `nan`, each with or without a sign; rounded to
    /// 34 digits. Nil for another text.
    package init?(text: [UInt8]) {
        var rest = text[...]
        let isNegative = rest.first == UInt8(ascii: "-")
        if isNegative || rest.first == UInt8(ascii: "+") { rest.removeFirst() }
        switch String(decoding: rest.map(\.lowercased), as: UTF8.self) {
        case "inf", "infinity":
            self = DecimalParts(.infinite, isNegative: isNegative).value
            return
        case "nan":
            self = DecimalParts(.nan, isNegative: isNegative).value
            return
        default: break
        }
        var exponent = 0
        if let mark = rest.firstIndex(where: { $0.lowercased == UInt8(ascii: "e") }) {
            let digits = String(decoding: rest[rest.index(after: mark)...], as: UTF8.self)
            guard let number = Int(digits) else { return nil }
            exponent = min(max(number, -100_000), 100_000)
            rest = rest[..<mark]
        }
        if let point = rest.firstIndex(of: UInt8(ascii: ".")) {
            exponent -= rest.endIndex - point - 1
            rest = rest[..<point] + rest[rest.index(after: point)...]
        }
        guard !rest.isEmpty, rest.allSatisfy(\.isDigit) else { return nil }
        let digits = rest.drop { $0 == UInt8(ascii: "0") }
        let kept = digits.prefix(DecimalParts.precision + 1)
        let coefficient = kept.reduce(UInt128(0)) { $0 * 10 + UInt128($1 - UInt8(ascii: "0")) }
        self =
            DecimalParts(
                isNegative: isNegative, wide: WideNumber(coefficient), exponent: exponent + digits.count - kept.count,
                isInexact: digits.dropFirst(kept.count).contains { $0 != UInt8(ascii: "0") }
            ).value
    }
}

/// A natural number below 2^256.
struct WideNumber {
    var high: UInt128
    var low: UInt128

    init(_ value: UInt128) { (high, low) = (0, value) }

    init(_ left: UInt128, times right: UInt128) { (high, low) = left.multipliedFullWidth(by: right) }

    private init(high: UInt128, low: UInt128) { (self.high, self.low) = (high, low) }

    var isZero: Bool { high == 0 && low == 0 }

    /// The number of decimal digits; 1 for zero.
    var digitCount: Int {
        if high == 0 { return low == 0 ? 1 : low.digitCount }
        var number = self
        var count = 0
        while number.high > 0 {
            _ = number.divideByTen()
            count += 1
        }
        return count + number.low.digitCount
    }

    /// Divides by ten and returns the remainder.
    mutating func divideByTen() -> Int {
        guard high > 0 else {
            let (quotient, remainder) = low.quotientAndRemainder(dividingBy: 10)
            low = quotient
            return Int(remainder)
        }
        let (upper, carried) = high.quotientAndRemainder(dividingBy: 10)
        let (lower, remainder) = UInt128(10).dividingFullWidth((carried, low))
        (high, low) = (upper, lower)
        return Int(remainder)
    }

    /// The product with a power of ten that it has room for.
    func shifted(by digits: Int) -> WideNumber {
        (0..<digits).reduce(self) { number, _ in
            let (carried, low) = number.low.multipliedFullWidth(by: 10)
            return WideNumber(high: number.high &* 10 &+ carried, low: low)
        }
    }

    func adding(_ other: WideNumber) -> WideNumber {
        let (low, carries) = low.addingReportingOverflow(other.low)
        return WideNumber(high: high &+ other.high &+ (carries ? 1 : 0), low: low)
    }

    /// The difference from a number that is not larger.
    func subtracting(_ other: WideNumber) -> WideNumber {
        let (low, borrows) = low.subtractingReportingOverflow(other.low)
        return WideNumber(high: high &- other.high &- (borrows ? 1 : 0), low: low)
    }

    func isLess(than other: WideNumber) -> Bool { high != other.high ? high < other.high : low < other.low }
}

extension UInt128 {
    fileprivate var digitCount: Int {
        var (rest, count) = (self, 0)
        while rest > 0 { (rest, count) = (rest / 10, count + 1) }
        return count
    }
}
