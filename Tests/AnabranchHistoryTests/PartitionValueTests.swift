import AnabranchCore
import AnabranchHistory
import AnabranchTesting
import Testing

@Suite struct PartitionValueTests {
    private static let id = ObjectID((0..<12).map { UInt8($0) })
    private static let uuid = UUIDBytes((0..<16).map { UInt8($0) })

    /// The one text of each value (`Spec/Protocol.md`, section 4.2).
    @Test func aPathHasTheValueInItsOneText() throws {
        let paths: [(PartitionValue, String)] = [
            ("my partition", #""my partition""#), ("ü \u{7f}/", "\"ü \u{7f}/\""),
            ("a\"b\\c\n\r\t\u{8}\u{c}\u{1}\0", #""a\"b\\c\n\r\t\b\f\u0001\u0000""#),
            (7, #"{"$numberLong":"7"}"#), (.int64(.min), #"{"$numberLong":"-9223372036854775808"}"#),
            (.objectID(try #require(Self.id)), #"{"$oid":"000102030405060708090a0b"}"#),
            (
                .uuid(try #require(Self.uuid)),
                #"{"$binary":{"base64":"AAECAwQFBgcICQoLDA0ODw==","subType":"04"}}"#
            ), (nil, "null"),
        ]
        for (value, text) in paths {
            #expect(VirtualPath(app: "my-app", partition: value) == VirtualPath("my-app/" + text))
            #expect(VirtualPath("my-app/" + text).canonical == VirtualPath("my-app/" + text))
        }
        #expect(VirtualPath(app: "pets") == VirtualPath("pets"))
    }

    /// The texts that `bson.json_util` of pymongo 4.20 writes with its canonical, its relaxed and its legacy options,
    /// and the SDKs for .NET, Java, JavaScript and Swift.
    @Test func allSpellingsOfLibrariesAreRead() throws {
        let id = try #require(Self.id), uuid = try #require(Self.uuid)
        let spellings: [(PartitionValue, [String])] = [
            (
                "a\"b\\c\n\té€😀/\u{2028}\u{1}\u{7f}",
                [
                    #""a\"b\\c\n\t\u00e9\u20ac\ud83d\ude00/\u2028\u0001\u007f""#,
                    "\"a\\\"b\\\\c\\u000a\\u0009é€😀\\/\u{2028}\\u0001\u{7f}\"",
                ]
            ),
            (
                42,
                [
                    #"{"$numberInt": "42"}"#, #"{"$numberLong": "42"}"#, "42", "42.0", #"{"$numberDouble": "42.0"}"#,
                    #"{ "$numberLong" : "42" }"#, #"{"$numberLong":"42"}"#, #"{"$numberInt":"42"}"#, " 42\n",
                ]
            ),
            (.int64(9_007_199_254_740_993), [#"{"$numberLong": "9007199254740993"}"#, "9007199254740993"]),
            (.int64(.min), [#"{"$numberLong": "-9223372036854775808"}"#, "-9223372036854775808"]),
            (
                .objectID(id),
                [#"{"$oid": "000102030405060708090a0b"}"#, #"{ "$oid" : "000102030405060708090A0B" }"#]
            ),
            (
                .uuid(uuid),
                [
                    #"{"$binary": {"base64": "AAECAwQFBgcICQoLDA0ODw==", "subType": "04"}}"#,
                    #"{ "$binary" : { "base64" : "AAECAwQFBgcICQoLDA0ODw==", "subType" : "04" } }"#,
                    #"{"$binary":{"subType":"4","base64":"AAECAwQFBgcICQoLDA0ODw=="}}"#,
                    #"{"$uuid": "000102030405060708090a0b0c0d0e0f"}"#,
                    #"{"$uuid":"00010203-0405-0607-0809-0A0B0C0D0E0F"}"#,
                    #"{"$type":"04","$binary":"AAECAwQFBgcICQoLDA0ODw=="}"#,
                ]
            ),
            (nil, ["null", " null "]),
        ]
        for (value, texts) in spellings {
            for text in texts {
                #expect(PartitionValue(extendedJSON: text.utf8) == value, "\(text)")
                #expect(VirtualPath("a/" + text).canonical == VirtualPath(app: "a", partition: value), "\(text)")
            }
        }
    }

    @Test func tenThousandRandomSpellingsLeadToTheFileOfTheirValue() {
        let seed = UInt64.random(in: 0 ... .max)
        var speller = PartitionSpeller(seed: seed)
        for round in 0..<10_000 {
            let value = speller.value(), text = speller.spelling(of: value), path = VirtualPath(Array("a/".utf8) + text)
            #expect(
                path.canonical == VirtualPath(app: "a", partition: value),
                "seed \(seed), round \(round): \(String(decoding: text, as: UTF8.self))")
        }
    }

    /// Bytes that are no value keep their own file, byte for byte.
    @Test(arguments: [
        "", "default", "/test", "42x", "042", "+1", "-", "NaN", "true", "[1]", "{}", "42.5", "1e400",
        "9223372036854775808",
        "9007199254740994.0", "\"half", "\"a\u{1}\"", #""\ud83d""#, #""\x""#, "'a'", #"{"a":1}"#,
        #"{"$oid":"64b7"}"#, #"{"$oid":"64b7f0aa000000000000000g"}"#, #"{"$numberInt":"2147483648"}"#,
        #"{"$numberLong":"9223372036854775808"}"#, #"{"$numberLong":42}"#, #"{"$numberLong":"4.2"}"#,
        #"{"$numberDecimal":"42"}"#, #"{"$uuid":"0001"}"#, #"{"$numberDouble":"0x2a"}"#, #"{"$numberDouble":"1e400"}"#,
        #"{"$uuid":"000102030405-060708090a0b0c0d0e0f"}"#,
        #"{"$binary":{"base64":"AAECAwQFBgcICQoLDA0ODw==","subType":"+4"}}"#,
        #"{"$binary":{"base64":"AAE=","subType":"04"}}"#,
        #"{"$binary":{"base64":"AAECAwQFBgcICQoLDA0ODw==","subType":"00"}}"#,
        #"{"$binary":{"base64":"AAECAwQFBgcICQoLDA0ODw==","subType":"04","x":1}}"#,
        #"{"$oid":"000102030405060708090a0b","$oid":"000102030405060708090a0b"}"#,
        #"{"$date":{"$numberLong":"1"}}"#, #"{"$binary":{"base64":{"a":1},"subType":"04"}}"#,
    ])
    func whatIsNoValueIsBytes(text: String) {
        #expect(PartitionValue(extendedJSON: text.utf8) == nil)
        #expect(VirtualPath("a/" + text).canonical == VirtualPath("a/" + text))
    }

    @Test func bytesThatAreNoUTF8AndDeepTextsAreNoValues() {
        for bytes in [[0x22, 0xff, 0x22], [0xef, 0xbb, 0xbf, 0x34], [UInt8](repeating: 0x5b, count: 65_536)]
            as [[UInt8]]
        {
            #expect(VirtualPath(Array("a/".utf8) + bytes).canonical.bytes == Array("a/".utf8) + bytes)
        }
    }

    /// Texts that look the same are different partitions if their bytes are.
    @Test func textsAreNotNormalized() {
        #expect(PartitionValue.string("é") != PartitionValue.string("e\u{301}"))
        #expect(Set<PartitionValue>(["é", "e\u{301}", "é"]).count == 2)
    }
}
