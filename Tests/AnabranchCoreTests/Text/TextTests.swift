import Testing

@testable import AnabranchCore

@Suite struct TextTests {
    @Test func everyByteHasTwoDigits() {
        let bytes = Array(UInt8.min...UInt8.max)
        let text = AnabranchCore.Hex.encode(bytes)
        #expect(text.hasPrefix("000102") && text.hasSuffix("fdfeff") && text.utf8.count == 512)
        #expect(AnabranchCore.Hex.decode(text) == bytes)
        #expect(AnabranchCore.Hex.decode(text.uppercased()) == bytes)
    }

    @Test(arguments: ["0", "000", "0g", "0x", " 00", "٠٠", "００", "/0", ":0", "@0", "`0"])
    func otherTextIsNoHex(_ text: String) {
        #expect(AnabranchCore.Hex.decode(text) == nil)
    }

    @Test func aUUIDHasFiveGroupsOrOne() throws {
        let text = "00112233-4455-6677-8899-aabbccddeeff", plain = text.replacing("-", with: "")
        let id = try #require(UUIDBytes(text: text))
        #expect(UUIDBytes(text: plain) == id && UUIDBytes(text: text.uppercased()) == id && id.description == text)
        #expect(id.bytes == AnabranchCore.Hex.decode(plain))
        for wrong in [
            "", "-", plain + "0", String(plain.dropLast()), text + "-", "0-" + text.dropFirst(2), plain + "----",
            "0011223-34455-6677-8899-aabbccddeeff", "00112233-4455-6677-8899-aabbccddee\u{301}",
            "00112233-4455-6677-8899+aabbccddeeff", "0011223g-4455-6677-8899-aabbccddeeff",
        ] { #expect(UUIDBytes(text: wrong) == nil, "\(wrong)") }
    }

    @Test func base64IsPadded() {
        for bytes: [UInt8] in [[], [0], [0, 255], [0, 255, 1], [0, 255, 1, 2]] {
            #expect(Base64.decode(Base64.encode(bytes).utf8) == bytes)
        }
        for text in ["A", "A===", "AAAAA===", "AA", "AA=", "AAA", "AAA==", "AAAA=", "====", "=", "A=AA", "AA A"] {
            #expect(Base64.decode(text.utf8) == nil, "\(text)")
        }
    }

    /// Text is bytes: "é" is another one than "e" with an accent after it, as a value and as a name.
    @Test func textsOfJSONThatOnlyLookTheSameDiffer() throws {
        let texts = ["\u{e9}", "e\u{301}"]
        let values = try texts.map { try JSONValue(parsing: #"{"a":["\#($0)"]}"#.utf8) }
        let objects = try texts.map { try JSONValue(parsing: #"{"\#($0)":1}"#.utf8) }
        #expect(values[0] != values[1] && objects[0] != objects[1])
        #expect(try values[0] == JSONValue(parsing: #"{ "a" : [ "\u00e9" ] }"#.utf8))
        let both = try JSONValue(parsing: #"{"\#(texts[0])":1,"\#(texts[1])":2}"#.utf8)
        #expect(both[texts[0]] == 1 && both[texts[1]] == 2)
        #expect(throws: JSONError.self) { try JSONValue(parsing: #"{"\#(texts[0])":1,"\u00e9":2}"#.utf8) }
        let ones: [JSONValue] = [.real(1), .integer(1), .bool(true), .string("1")]
        #expect(ones.count { $0 == .real(1) } == 1)
    }

    /// Claims of foreign tokens have them, for instance.
    @Test(arguments: ["9223372036854775808", "-9223372036854775809", "123456789012345678901234567890"])
    func anIntegerBeyond64BitsIsPassedOnAndIsNoNumber(_ digits: String) throws {
        let value = try JSONValue(parsing: #"{"a":\#(digits)}"#.utf8)
        #expect(value["a"] == .largeInteger(digits) && value["a"]?.integer == nil)
        #expect(value.encoded == #"{"a":\#(digits)}"#)
        #expect(PartitionValue(extendedJSON: Array(digits.utf8)) == nil)
        #expect(StateValue(argument: .largeInteger(digits)) == nil)
    }

    @Test(arguments: [
        ("", #""""#), ("a/ä\u{7f}\u{2028}", "\"a/ä\u{7f}\u{2028}\""), (#"\" "#, #""\\\" ""#),
        ("\u{0}\n\u{1f}", #""\u0000\u000a\u001f""#),
    ])
    func stringsOfJSONAreEscaped(text: String, json: String) {
        #expect(JSONText.quoted(text) == json)
    }

    /// The style decides about strings that are not UTF-8 and decimals whose text lacks bits, and about nothing else.
    @Test func valuesHaveOneFormOfJSON() {
        func json(_ payload: Payload, _ style: ValueJSONStyle) -> [UInt8] {
            var text: [UInt8] = []
            JSONText.append(payload, style, to: &text)
            return text
        }
        let damaged = Payload.string([0x61, 0xff])
        #expect(json(damaged, .canonical) == [0x22, 0x61, 0xff, 0x22])
        #expect(json(damaged, .exact) == Array(#"{"bytes":"61ff"}"#.utf8))
        let values: [(Payload, String)] = [
            (.null, "null"), (.bool(true), "true"), (.int(-5), #"{"int":"-5"}"#), (.string([0x61]), #""a""#),
            (.binary([0, 255]), #"{"bin":"00ff"}"#), (.double(1), #"{"double":"3ff0000000000000"}"#),
            (.timestamp(Timestamp(seconds: -1, nanoseconds: -2)), #"{"ts":["-1",-2]}"#),
            (.link(className: [0x41], key: .int(1)), #"{"link":["A",{"int":"1"}]}"#),
            (.link(className: [0x41], key: .globalKey(GlobalKey(high: 2, low: 255))), #"{"link":["A",{"gk":"2-ff"}]}"#),
            (.objectValue, #"{"type":"ObjectValue"}"#),
        ]
        for (value, text) in values {
            #expect(json(value, .canonical) == Array(text.utf8))
            #expect(json(value, .exact) == Array(text.utf8))
        }
    }
}
