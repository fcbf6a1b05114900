import AnabranchCore
import Testing

@testable import AnabranchRules

/// A number in a field of another numeric type is the same number, or is refused.
@Suite struct NumberConversionTests {
    /// - Returns: the value as lines of an export have it; nil if no such field holds it.
    private static func value(_ json: String, as type: PayloadType) throws -> String? {
        let value = try DocumentValue(line: Array(json.utf8))
        return value.converted(to: type).map { String(decoding: ExportedValue.value($0).text, as: UTF8.self) }
    }

    private static func double(_ value: Double) -> String {
        #"{"double":"\#(String(value.bitPattern, radix: 16))"}"#
    }

    private static func float(_ value: Float) -> String { #"{"float":"\#(String(value.bitPattern, radix: 16))"}"# }

    @Test(
        arguments: [
            ("7", 7), ("7.0", 7), ("7e2", 700), ("0.07e2", 7), ("-0", 0), ("-0.0", 0), ("1.5", nil), ("1e19", nil),
            ("9223372036854775807", .max), ("9223372036854775808", nil), ("-9223372036854775808", .min),
            ("-9223372036854775809", nil), (#"{"$numberLong":"9223372036854775807"}"#, .max),
            (#"{"$numberDouble":"3.0"}"#, 3), (#"{"$numberDouble":"-0.0"}"#, 0), (#"{"$numberDouble":"3.5"}"#, nil),
            (#"{"$numberDouble":"9223372036854775808"}"#, nil), (#"{"$numberDouble":"-9223372036854775808"}"#, .min),
            (#"{"$numberDouble":"NaN"}"#, nil), (#"{"$numberDouble":"Infinity"}"#, nil),
            (#"{"$numberDecimal":"7"}"#, 7), (#"{"$numberDecimal":"7.00"}"#, 7), (#"{"$numberDecimal":"7E+2"}"#, 700),
            (#"{"$numberDecimal":"7.5"}"#, nil), (#"{"$numberDecimal":"9223372036854775807"}"#, .max),
            (#"{"$numberDecimal":"9223372036854775808"}"#, nil), (#"{"$numberDecimal":"-9223372036854775808"}"#, .min),
            (#"{"$numberDecimal":"0E+6000"}"#, 0), (#"{"$numberDecimal":"1E+6000"}"#, nil),
            (#"{"$numberDecimal":"NaN"}"#, nil), (#"{"$numberDecimal":"-Infinity"}"#, nil),
            // A bare number is what its digits say, however large or small a Double can be.
            ("9007199254740993", 0x20_0000_0000_0001), ("9007199254740992.0", 0x20_0000_0000_0000),
            ("9007199254740991.5", nil), ("9007199254740990.7", nil), ("9007199254740993.0", 0x20_0000_0000_0001),
            ("-9.007199254740993e15", -0x20_0000_0000_0001), ("1e18", 1_000_000_000_000_000_000),
            ("9223372036854775807.0", .max), ("9223372036854775808.0", nil), ("4503599627370496.5", nil),
            ("1e400", nil), ("1e-400", nil), ("0e400", 0), ("0.99999999999999999999", nil), ("1e100000", nil),
            ("1.00000000000000000000000000000000000000001", nil), ("5.0000000000000000000000000000000000000000000", 5),
            (#"{"$numberDouble":"1e18"}"#, 1_000_000_000_000_000_000),
        ] as [(String, Int64?)])
    func asInt(_ json: String, _ value: Int64?) throws {
        #expect(try Self.value(json, as: .int) == value.map { #"{"int":"\#($0)"}"# })
    }

    @Test(
        arguments: [
            ("1", 1), ("9007199254740992", 0x1p53), ("9007199254740993", nil), ("-9007199254740993", nil),
            ("9223372036854775807", nil), ("-9223372036854775808", -0x1p63), ("18446744073709551616", 0x1p64),
            ("18446744073709551617", nil), ("0.1", 0.1), ("0.1000000000000000055511151231257827", 0.1), ("1e400", nil),
            ("-0.0", -0.0), (#"{"$numberLong":"9007199254740993"}"#, nil), (#"{"$numberInt":"5"}"#, 5),
            (#"{"$numberDecimal":"0.5"}"#, 0.5), (#"{"$numberDecimal":"0.1"}"#, nil),
            (#"{"$numberDecimal":"1E+22"}"#, 1e22),
            (#"{"$numberDecimal":"1E+23"}"#, nil), (#"{"$numberDecimal":"-0"}"#, -0.0),
            (#"{"$numberDecimal":"9007199254740993"}"#, nil), (#"{"$numberDecimal":"1E-6176"}"#, nil),
            (#"{"$numberDecimal":"Infinity"}"#, .infinity), (#"{"$numberDecimal":"-Infinity"}"#, -.infinity),
        ] as [(String, Double?)])
    func asDouble(_ json: String, _ value: Double?) throws {
        #expect(try Self.value(json, as: .double) == value.map(Self.double))
    }

    @Test(
        arguments: [
            ("1", 1), ("16777216", 0x1p24), ("16777217", nil), ("0.5", 0.5), ("0.1", nil), ("1e39", nil),
            (#"{"$numberDouble":"0.10000000149011612"}"#, 0.1), (#"{"$numberDouble":"-Infinity"}"#, -.infinity),
            (#"{"$numberDecimal":"0.25"}"#, 0.25), (#"{"$numberDecimal":"16777217"}"#, nil), ("-0.0", -0.0),
        ] as [(String, Float?)])
    func asFloat(_ json: String, _ value: Float?) throws {
        #expect(try Self.value(json, as: .float) == value.map(Self.float))
    }

    @Test(
        arguments: [
            ("5", "5"), ("0.10", "1.0E-1"), ("1e2", "1E2"),
            (#"{"$numberLong":"-9223372036854775808"}"#, "-9223372036854775808"),
            (#"{"$numberDouble":"0.5"}"#, "5E-1"), (#"{"$numberDouble":"0.1"}"#, nil),
            (#"{"$numberDouble":"-0.0"}"#, "-0"),
            (#"{"$numberDouble":"1e300"}"#, nil), (#"{"$numberDouble":"NaN"}"#, "NaN"),
            (#"{"$numberDouble":"-Infinity"}"#, "-Inf"), (#"{"$numberDecimal":"1.50"}"#, "1.50"),
            ("1234567890123456789012345678901234", "+1234567890123456789012345678901234E+0"),
            ("12345678901234567890123456789012345", nil),
            (#"{"$numberDecimal":"12345678901234567890123456789012345"}"#, nil),
            (#"{"$numberDecimal":"1E-6177"}"#, nil),
            (#"{"$numberDecimal":"10E-6177"}"#, "1E-6176"), (#"{"$numberDecimal":"1E+6145"}"#, nil),
        ] as [(String, String?)])
    func asDecimal(_ json: String, _ text: String?) throws {
        #expect(try Self.value(json, as: .decimal) == text.map { #"{"dec":"\#($0)"}"# })
    }

    /// BSON has more of them than texts.
    @Test(arguments: [.nan, -.nan, .signalingNaN, Double(bitPattern: 0xFFF0_0000_0000_0001)] as [Double])
    func everyNaNIsOneInOtherTypes(value: Double) {
        let value = DocumentValue.scalar(.double(value))
        let texts = [PayloadType.decimal, .float, .int].map { type in
            value.converted(to: type).map { String(decoding: ExportedValue.value($0).text, as: UTF8.self) }
        }
        #expect(texts == [#"{"dec":"NaN"}"#, Self.float(.nan), nil])
    }

    /// In a Mixed, and where a schema is found, a number has the type that its form says.
    @Test(
        arguments: [
            ("5", Payload.int(5)), ("5.0", .double(5)), ("5e0", .double(5)), ("-0", .int(0)),
            ("18446744073709551616", .double(0x1p64)), ("18446744073709551617", nil), ("1e400", nil),
            (#"{"$numberDouble":"0x10"}"#, nil), (#"{"$numberInt":"2147483648"}"#, nil),
        ] as [(String, Payload?)])
    func typesOfNumbers(_ json: String, _ payload: Payload?) throws {
        #expect(try DocumentValue(line: Array(json.utf8)).payload == payload)
    }

    @Test func aDecimalIsWhatItsTextSays() throws {
        for (text, words) in [
            ("0", (0, 0x3040)), ("1.50", (150, 0x303C)), ("-1", (1, 0xB040)), ("1E+3", (1, 0x3046)),
        ] as [(String, (UInt64, UInt64))] {
            let value = try DocumentValue(line: Array(#"{"$numberDecimal":"\#(text)"}"#.utf8))
            #expect(value == .scalar(.decimal(Decimal128(low: words.0, high: words.1 << 48))))
        }
        let largest = try DocumentValue(line: Array(#"{"$numberDecimal":"1E+6144"}"#.utf8))
        guard case .scalar(.decimal(let value)) = largest else {
            Issue.record("no decimal")
            return
        }
        #expect("\(value)" == "+1000000000000000000000000000000000E+6111")
    }
}
