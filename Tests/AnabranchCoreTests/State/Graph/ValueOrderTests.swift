import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchCore

/// Which values a set takes for equal, and their order (`Spec/State.md`, A7).
@Suite struct ValueOrderTests {
    @Test func kindsAreOrdered() {
        let ascending: [Content] = [
            .null, .bool(false), .bool(true), .double(-.infinity), .int(.min), .double(-0.5), .int(0), .float(0.5),
            .int(7), .double(.infinity), .string([]), .string([97]), .string([97, 0]), .string([98]), .binary([]),
            .binary([97]), .timestamp(Timestamp(seconds: -1, nanoseconds: -5)),
            .timestamp(Timestamp(seconds: 0, nanoseconds: 7)), .timestamp(Timestamp(seconds: 1, nanoseconds: 0)),
            .objectID(ObjectID(low: 0, high: 0)), .objectID(ObjectID(low: 1, high: 0)),
            .uuid(UUIDBytes(low: 0, high: 1)), .uuid(UUIDBytes(low: 1, high: 0)),
            .link(ObjectReference(classID: ClassID(1), key: .int(1))),
        ]
        for (left, first) in ascending.enumerated() {
            for (right, second) in ascending.enumerated() {
                #expect(Content.compare(first, second).signum() == (left - right).signum(), "\(first) \(second)")
            }
        }
    }

    @Test(arguments: [
        (Content.int(1), Content.double(1)), (.int(1), .decimal(decimal(10, -1))), (.double(0), .double(-0.0)),
        (.float(0.5), .double(0.5)), (.decimal(decimal(1, 0)), .decimal(decimal(100, -2))),
        (.float(0.1), .decimal(decimal(1, -1))), (.double(0.1), .decimal(decimal(1, -1))),
        (.double(3.14159), .decimal(decimal(314159, -5))), (.double(1e22), .decimal(decimal(1, 22))),
        (.double(.leastNonzeroMagnitude), .decimal(decimal(494_065_645_841_247, -338))),
        (.decimal(decimal(0, 5)), .int(0)), (.double(.infinity), .decimal(Decimal128(low: 0, high: 0x7800 << 48))),
        (.double(.nan), .double(.nan)), (.float(.nan), .double(.nan)),
    ])
    func numbersOfAllKindsAreEqual(_ left: Content, _ right: Content) {
        #expect(Content.compare(left, right) == 0)
        #expect(Content.compare(right, left) == 0)
    }

    @Test(arguments: [
        (Content.double(0x1p53), Content.int(1 << 53 + 1)), (.double(0.1), .float(0.1)), (.double(.nan), .int(.min)),
        (.int(.max), .double(0x1p63)), (.double(-0x1p63 - 2048), .int(.min)), (.double(0.5), .int(1)),
        (.int(0), .double(0.5)), (.double(-0.5), .int(0)), (.decimal(decimal(1, -1)), .int(1)),
        (.decimal(Decimal128(low: 0, high: 0x7C00 << 48)), .decimal(Decimal128(low: 0, high: 0xF800 << 48))),
        (.decimal(decimal(9, 6000)), .double(.infinity)), (.double(0.123456789012345), .decimal(decimal(124, -3))),
    ])
    func theLeftNumberIsBelow(_ left: Content, _ right: Content) {
        #expect(Content.compare(left, right) < 0)
        #expect(Content.compare(right, left) > 0)
    }

    /// Half to even at the fifteenth digit, from the exact binary value.
    @Test func aDoubleIsRoundedToFifteenDigits() throws {
        // 0.12345678901234549528… is below the tie that its shortest text suggests.
        let value = try #require(DecimalNumber(0.1234567890123455, digits: 15))
        #expect(value.coefficient == 123_456_789_012_345 && value.exponent == -15)
        for (tie, even) in [
            (1_000_000_000_000_005.0, UInt128(100_000_000_000_000)), (1_000_000_000_000_015, 100_000_000_000_002),
        ] {
            let rounded = try #require(DecimalNumber(tie, digits: 15))
            #expect(rounded.coefficient == even && rounded.exponent == 1)
        }
        let large = try #require(DecimalNumber(0x1p1023, digits: 15))
        #expect(large.coefficient == 898_846_567_431_158 && large.exponent == 293)
    }

    /// As the C library rounds, which is exact: all orders of magnitude, subnormal numbers too.
    @Test func everyMagnitudeIsRoundedAlike() throws {
        var generator = SeededRandom(seed: 1)
        for exponent in 0..<2_047 as Range<UInt64> {
            let value = Double(bitPattern: exponent << 52 | UInt64.random(in: 1..<1 << 52, using: &generator))
            let rounded = try #require(DecimalNumber(value, digits: 15))
            let parts = String(format: "%.14e", value).split(separator: "e")
            let digits = parts[0].filter { $0 != "." }
            let expected = DecimalNumber(
                isNegative: false, coefficient: try #require(UInt128(digits)),
                exponent: try #require(Int(parts[1])) - 14)
            #expect(DecimalNumber.compare(rounded, expected) == 0, "\(value)")
        }
    }

    /// Where the order of magnitude decides, rounding would decide alike.
    @Test func magnitudesAndDigitsAgree() throws {
        var generator = SeededRandom(seed: 2)
        for _ in 0..<5_000 {
            var value = Double(bitPattern: .random(in: 0..<0x7FF << 52, using: &generator))
            if generator.isOne(in: 2) { value.negate() }
            let rounded = try #require(DecimalNumber(value, digits: 15))
            let digitCount = Int.random(in: 0...15, using: &generator)
            let scale = rounded.exponent + 15 - digitCount + Int.random(in: -2...2, using: &generator)
            var other = decimal(rounded.coefficient == 0 ? 0 : UInt64(rounded.coefficient) % .pow10(digitCount), scale)
            if generator.isOne(in: 2) { other = Decimal128(low: other.low, high: other.high | 1 << 63) }
            let exact = DecimalNumber.compare(rounded, try #require(DecimalNumber(other)))
            #expect(Content.compare(.double(value), .decimal(other)).signum() == exact.signum(), "\(value) \(other)")
            #expect(Content.compare(.decimal(other), .double(value)).signum() == -exact.signum(), "\(value) \(other)")
        }
    }
}

extension UInt64 {
    fileprivate static func pow10(_ exponent: Int) -> UInt64 { (0..<exponent).reduce(1) { power, _ in power * 10 } }
}

private func decimal(_ coefficient: UInt64, _ exponent: Int) -> Decimal128 {
    Decimal128(low: coefficient, high: UInt64(exponent + Decimal128.exponentBias) << 49)
}

extension Content: CustomTestStringConvertible {
    public var testDescription: String { "\(self)" }
}
