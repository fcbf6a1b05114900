import Testing

@testable import AnabranchCore

@Suite struct Decimal128Tests {
    @Test(
        arguments: [
            (1, 0, false, "1"), (1, -1, false, "1E-1"), (314159, -5, false, "3.14159"), (15, -1, true, "-1.5"),
            (999, 6109, false, "9.99E6111"), (1050, 0, false, "1050"), (12, 5, false, "1.2E6"), (0, -3, false, "0E-3"),
            (314159, -7, false, "3.14159E-2"), (0, 0, true, "-0"), (0, 0, false, "0"), (1050, -2, false, "10.50"),
            (1, 3, true, "-1E3"), (1, -6176, false, "1E-6176"), (10, 1, false, "1.0E2"),
            (UInt128(UInt64.max), 0, false, "18446744073709551615"),
            (UInt128(UInt64.max), -19, false, "1.8446744073709551615"),
            (UInt128(UInt64.max), 2, false, "1.8446744073709551615E21"),
            (UInt128(UInt64.max) + 1, 0, false, "+18446744073709551616E+0"),
            (123_456_789_012_345_678_901_234_567_890, 0, false, "+123456789012345678901234567890E+0"),
            (123_456_789_012_345_678_901_234_567_890, -5, true, "-123456789012345678901234567890E-5"),
        ] as [(UInt128, Int, Bool, String)])
    func decimalHasTheReferencesText(_ coefficient: UInt128, _ exponent: Int, _ isNegative: Bool, _ text: String) {
        #expect(decimal(coefficient, exponent, isNegative).description == text)
    }

    @Test(
        arguments: [
            (0x7800_0000_0000_0000, 0, "Inf"), (0xF800_0000_0000_0000, 0, "-Inf"), (0x7C00_0000_0000_0000, 0, "NaN"),
            (0xFC00_0000_0000_0000, 0, "-NaN"), (0x7C00_0000_0000_0000, 0xAA, "NaN"), (0x7E00_0000_0000_0000, 0, "NaN"),
        ] as [(UInt64, UInt64, String)])
    func specialValueHasTheReferencesText(_ high: UInt64, _ low: UInt64, _ text: String) {
        #expect(Decimal128(low: low, high: high).description == text)
    }

    @Test func equalNumbersAreEqual() {
        let tenAndAHalf = decimal(105, -1)
        #expect(tenAndAHalf.isEqualNumber(to: decimal(1050, -2)))
        #expect(tenAndAHalf != decimal(1050, -2))
        #expect(!tenAndAHalf.isEqualNumber(to: decimal(105, -1, true)))
        #expect(!tenAndAHalf.isEqualNumber(to: decimal(105, -2)))
        #expect(decimal(0, 0).isEqualNumber(to: decimal(0, 5, true)))
        #expect(decimal(1, 6111).isEqualNumber(to: decimal(10, 6110)))
        #expect(!decimal(1, 6111).isEqualNumber(to: decimal(1, 6110)))
    }

    @Test func coefficientsOfMoreThan34DigitsCountAsZero() {
        let tenTo34 = (0..<34).reduce(UInt128(1)) { power, _ in power * 10 }
        #expect(decimal(tenTo34, 0).isEqualNumber(to: decimal(0, 0)))
        #expect(decimal(tenTo34, 3, true).isEqualNumber(to: decimal(tenTo34 + 1, 0)))
        #expect(!decimal(tenTo34 - 1, 0).isEqualNumber(to: decimal(0, 0)))
        #expect(decimal(tenTo34 / 10, 1).isEqualNumber(to: decimal(1, 34)))
        // Bits 62 and 61 set, short of an infinity.
        #expect(Decimal128(low: 1, high: 0x6000_0000_0000_0000).isEqualNumber(to: decimal(0, 0)))
        #expect(Decimal128(low: 1, high: 0x7700_0000_0000_0000).isEqualNumber(to: decimal(0, 0)))
    }

    @Test func infinitiesAndNaNsEqualTheirLikes() {
        let infinity = Decimal128(low: 0, high: 0x7800_0000_0000_0000)
        let otherInfinity = Decimal128(low: 7, high: 0x7800_0000_0000_0001)
        let negativeInfinity = Decimal128(low: 0, high: 0xF800_0000_0000_0000)
        let nan = Decimal128(low: 0, high: 0x7C00_0000_0000_0000)
        let nullMarker = Decimal128(low: 0xAA, high: 0x7C00_0000_0000_0000)
        #expect(infinity.isEqualNumber(to: otherInfinity))
        #expect(!infinity.isEqualNumber(to: negativeInfinity))
        #expect(!infinity.isEqualNumber(to: decimal(0, 0)))
        #expect(nan.isEqualNumber(to: nan))
        #expect(!nan.isEqualNumber(to: nullMarker))
        #expect(!nan.isEqualNumber(to: infinity) && !infinity.isEqualNumber(to: nan))
    }

    private func decimal(_ coefficient: UInt128, _ exponent: Int, _ isNegative: Bool = false) -> Decimal128 {
        let biased = UInt64(exponent + Decimal128.exponentBias)
        return Decimal128(
            low: UInt64(truncatingIfNeeded: coefficient),
            high: UInt64(coefficient >> 64) | biased << 49 | (isNegative ? 1 << 63 : 0))
    }
}
