import AnabranchCore

/// Values as the XML form has them between the tags, references expanded (`Spec/PropertyLists.md`, section 2). Blanks
/// around a number and a date do not count. Each is nil for invalid text.
enum ScalarText {
    /// Decimal, or hexadecimal after `0x`; −2^63 to 2^64−1.
    static func integer(_ text: [UInt8]) -> PropertyList? {
        var digits = trimmed(text)
        let isNegative = digits.first == UInt8(ascii: "-")
        if isNegative || digits.first == UInt8(ascii: "+") { digits.removeFirst() }
        let isHexadecimal = digits.starts(with: "0x".utf8) || digits.starts(with: "0X".utf8)
        if isHexadecimal { digits.removeFirst(2) }
        guard !digits.isEmpty else { return nil }
        let base: UInt64 = isHexadecimal ? 16 : 10
        var magnitude: UInt64 = 0
        for character in digits {
            guard let digit = Hex.value(of: character), digit < base else { return nil }
            let (product, overflows) = magnitude.multipliedReportingOverflow(by: base)
            let (sum, overflowsToo) = product.addingReportingOverflow(UInt64(digit))
            guard !overflows, !overflowsToo else { return nil }
            magnitude = sum
        }
        return .integer(of: isNegative ? -Int128(magnitude) : Int128(magnitude))
    }

    /// Digits with a point and a power of ten, `nan`, `inf` and `infinity` in letters of either case.
    static func real(_ text: [UInt8]) -> PropertyList? {
        let trimmed = trimmed(text)
        let unsigned =
            trimmed.first == UInt8(ascii: "-") || trimmed.first == UInt8(ascii: "+")
            ? trimmed.dropFirst() : trimmed
        let isNegative = trimmed.first == UInt8(ascii: "-")
        if unsigned.first.map({ $0 | 0x20 >= UInt8(ascii: "a") }) ?? true {
            let magnitude: Double
            switch String(decoding: unsigned.prefix(9), as: UTF8.self).lowercased() {
            case "nan": magnitude = .nan
            case "inf", "infinity": magnitude = .infinity
            default: return nil
            }
            return .real(isNegative ? -magnitude : magnitude)
        }
        guard let number = decimal(unsigned) else { return nil }
        return .real(isNegative ? -number : number)
    }

    /// Base64 with blanks anywhere.
    static func data(_ text: [UInt8]) -> PropertyList? {
        Base64.decode(text.filter { !isBlank($0) }).map { .data($0) }
    }

    static func date(_ text: [UInt8]) -> PropertyList? {
        PropertyListDate(trimmed(text)).map { .date($0) }
    }

    static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x0a || byte == 0x09 || byte == 0x0d }

    private static func trimmed(_ text: [UInt8]) -> ArraySlice<UInt8> {
        let start = text.firstIndex { !isBlank($0) } ?? text.endIndex
        let end = text.lastIndex { !isBlank($0) }.map { $0 + 1 } ?? start
        return text[start..<end]
    }

    /// A number without a sign; infinite if it is larger than all others.
    private static func decimal(_ text: ArraySlice<UInt8>) -> Double? {
        let whole = text.prefix { isDigit($0) }
        var rest = text.dropFirst(whole.count)
        var digitCount = whole.count
        if rest.first == UInt8(ascii: ".") {
            let fraction = rest.dropFirst().prefix { isDigit($0) }
            digitCount += fraction.count
            rest = rest.dropFirst(1 + fraction.count)
        }
        guard digitCount > 0 else { return nil }
        if let mark = rest.first {
            guard mark | 0x20 == UInt8(ascii: "e") else { return nil }
            var power = rest.dropFirst()
            if power.first == UInt8(ascii: "-") || power.first == UInt8(ascii: "+") { power.removeFirst() }
            guard !power.isEmpty, power.allSatisfy(isDigit) else { return nil }
        }
        return Double(String(decoding: text, as: UTF8.self))
    }

    private static func isDigit(_ byte: UInt8) -> Bool { 0x30...0x39 ~= byte }
}

extension PropertyList {
    /// An integer; nil below −2^63 and beyond 2^64−1.
    static func integer(of number: Int128) -> PropertyList? {
        if let integer = Int64(exactly: number) { return .integer(integer) }
        return UInt64(exactly: number).map { .largeInteger($0) }
    }
}
