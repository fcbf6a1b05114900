/// A number as a text has it: sign, digits with a point among them, and a power of ten.
package struct DecimalText: Equatable, Sendable {
    package private(set) var isNegative = false
    /// The digits as one number, without the zeros at their end.
    package private(set) var significand: UInt128 = 0
    /// The power of ten that the significand is multiplied by.
    package private(set) var exponent = 0
    /// The number of zeros at the end of the digits as they are written.
    private(set) var zeroCount = 0
    /// True if the digits are more than 128 bits hold.
    private var isTooLong = false

    /// - Returns: nil for another text, for digits that 128 bits do not hold, and for powers that no number needs.
    package init?(_ text: some Sequence<UInt8>) {
        var rest = Array(text)[...]
        isNegative = rest.first == UInt8(ascii: "-")
        if isNegative || rest.first == UInt8(ascii: "+") { rest.removeFirst() }
        guard takeDigits(&rest) > 0 else { return nil }
        if rest.first == UInt8(ascii: ".") {
            rest.removeFirst()
            let count = takeDigits(&rest)
            guard count > 0 else { return nil }
            exponent = -count
        }
        if let mark = rest.first {
            guard mark | 0x20 == UInt8(ascii: "e"), rest.count < 16,
                let power = Int(String(decoding: rest.dropFirst(), as: UTF8.self)), abs(power) < 100_000
            else { return nil }
            exponent += power
        }
        guard !isTooLong else { return nil }
        exponent += zeroCount
    }

    /// The exact value of a Double.
    ///
    /// - Returns: nil if it is not finite, or has more digits than 128 bits hold.
    package init?(exactly value: Double) {
        guard value.isFinite else { return nil }
        isNegative = value.sign == .minus
        guard value != 0 else { return }
        significand = UInt128(value.significandBitPattern) | (value.isNormal ? 1 << 52 : 0)
        var power = Int(max(value.exponentBitPattern, 1)) - 1075
        while power != 0 {
            // 2 = 10 / 5, and 1/2 = 5 / 10.
            let (step, divisor, factor): (Int, UInt128, UInt128) = power > 0 ? (1, 5, 2) : (-1, 2, 5)
            power -= step
            if significand.isMultiple(of: divisor) {
                significand /= divisor
                if step > 0 { exponent += 1 }
            } else {
                let (product, isTooLarge) = significand.multipliedReportingOverflow(by: factor)
                guard !isTooLarge else { return nil }
                significand = product
                if step < 0 { exponent -= 1 }
            }
        }
        while significand.isMultiple(of: 10) {
            significand /= 10
            exponent += 1
        }
    }

    /// Takes the digits that come next, and returns their number.
    private mutating func takeDigits(_ rest: inout ArraySlice<UInt8>) -> Int {
        let start = rest.startIndex
        while let byte = rest.first, 0x30...0x39 ~= byte {
            rest.removeFirst()
            if byte == 0x30 {
                zeroCount += 1
            } else {
                append(byte - 0x30)
            }
        }
        return rest.startIndex - start
    }

    private mutating func append(_ digit: UInt8) {
        for _ in 0...(significand == 0 ? 0 : zeroCount) where !isTooLong {
            let (product, isTooLarge) = significand.multipliedReportingOverflow(by: 10)
            (significand, isTooLong) = (product, isTooLarge)
        }
        zeroCount = 0
        let (sum, isTooLarge) = significand.addingReportingOverflow(UInt128(digit))
        (significand, isTooLong) = (sum, isTooLong || isTooLarge)
    }

    /// True if both are the same number except for its sign.
    package func hasValue(of other: DecimalText) -> Bool {
        significand == other.significand && (significand == 0 || exponent == other.exponent)
    }

    /// The number as an integer; nil if it is not one of 64 bits.
    package var integer: Int64? {
        guard significand > 0 else { return 0 }
        guard 0...18 ~= exponent, let whole = scaled(by: exponent) else { return nil }
        return isNegative ? Int64(exactly: -Int128(clamping: whole)) : Int64(exactly: whole)
    }

    fileprivate func scaled(by power: Int) -> UInt128? {
        var value = significand
        for _ in 0..<power {
            let (product, isTooLarge) = value.multipliedReportingOverflow(by: 10)
            guard !isTooLarge else { return nil }
            value = product
        }
        return value
    }
}

extension Decimal128 {
    private static let exponents = -exponentBias...12_287 - exponentBias

    /// The number with the coefficient and the exponent that a text has (`Spec/State.md`, E3); nil for another text,
    /// and for a number that has no such form: beyond 34 digits or -6176...6111 the same bits mean zero, an infinity or
    /// no number.
    init?(exactly text: String) {
        guard let parts = DecimalText(text.utf8) else {
            let infinite: UInt64 = 0x7800 << 48, nan: UInt64 = 0x7C00 << 48, sign: UInt64 = 1 << 63
            let high = ["Inf": infinite, "-Inf": infinite | sign, "NaN": nan, "-NaN": nan | sign][text]
            guard let high else { return nil }
            self.init(low: 0, high: high)
            return
        }
        let zeroCount = parts.significand == 0 ? 0 : parts.zeroCount
        let exponent = parts.exponent - parts.zeroCount
        guard let coefficient = parts.scaled(by: zeroCount), coefficient < Self.tooManyDigits,
            Self.exponents ~= exponent
        else { return nil }
        self.init(isNegative: parts.isNegative, coefficient, exponent)
    }

    /// The same number; its last digit is that of the text wherever the number of digits allows it. Nil if it has more
    /// than 34 digits or is out of range.
    package init?(_ text: DecimalText) {
        var (exponent, zeroCount) = (text.exponent, text.significand == 0 ? 0 : text.zeroCount)
        if text.significand == 0 {
            exponent = min(max(exponent - text.zeroCount, Self.exponents.lowerBound), Self.exponents.upperBound)
        } else {
            zeroCount = min(
                max(zeroCount, exponent - Self.exponents.upperBound), exponent - Self.exponents.lowerBound, 34)
        }
        while zeroCount > 0, text.scaled(by: zeroCount).map({ $0 >= Self.tooManyDigits }) ?? true { zeroCount -= 1 }
        exponent -= zeroCount
        guard zeroCount >= 0, let coefficient = text.scaled(by: zeroCount), coefficient < Self.tooManyDigits,
            Self.exponents ~= exponent
        else { return nil }
        self.init(isNegative: text.isNegative, coefficient, exponent)
    }

    private init(isNegative: Bool, _ coefficient: UInt128, _ exponent: Int) {
        self.init(
            low: UInt64(truncatingIfNeeded: coefficient),
            high: (isNegative ? 1 << 63 : 0) | UInt64(exponent + Self.exponentBias) << 49 | UInt64(coefficient >> 64))
    }

    /// The digits and the exponent; nil for an infinity or NaN.
    package var text: DecimalText? { isNaN || isInfinite ? nil : DecimalText(normalised, isNegative: isNegative) }
}

extension DecimalText {
    fileprivate init(_ parts: (coefficient: UInt128, exponent: Int), isNegative: Bool) {
        (significand, exponent, self.isNegative) = (parts.coefficient, parts.exponent, isNegative)
    }
}
