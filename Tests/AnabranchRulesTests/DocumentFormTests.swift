import AnabranchCore
import Foundation
import Testing

@testable import AnabranchRules

/// Lines of extended JSON and documents of BSON.
@Suite struct DocumentFormTests {
    // MARK: JSON

    @Test(arguments: [
        ("", 1, "a value is missing"), ("{", 2, "a string is missing"), (#"{"a":1,}"#, 8, "a string is missing"),
        ("[1,]", 4, "a value is missing"),
        (#"{"a":1 "b":2}"#, 8, "an object does not end"), (#"{"a" 1}"#, 6, "no colon"), ("[1 2]", 4, "an array"),
        (#"{"a":1,"a":2}"#, 1, "the name a is there twice"), (#"{"$oid":1,"$oid":2}"#, 1, "twice"),
        ("01", 1, "a leading zero"), ("1.", 3, "no digit"), (".5", 1, "a value is missing"), ("1e", 3, "no digit"),
        ("+1", 1, "a value is missing"), ("-", 2, "a value is missing"), ("NaN", 1, "a value is missing"),
        ("tru", 1, "an unknown word"),
        (#""a"#, 1, "a string does not end"), ("\"a\u{1}\"", 3, "a control character"),
        (#""\x""#, 4, "an unknown escape"),
        (#""\ud800""#, 8, "half a character"), (#""\udc00""#, 8, "half a character"),
        (#""\ud800\u0041""#, 14, "half a character"), ("1 2", 3, "something follows"), ("{} x", 4, "something follows"),
    ])
    func whatIsNoJSONIsNamedWithItsColumn(_ text: String, _ column: Int, _ reason: String) {
        let error = #expect(throws: LineError.self) { try DocumentValue(line: Array(text.utf8)) }
        #expect(error?.reason.hasPrefix("not JSON at column \(column): ") == true, "\(error?.reason ?? "")")
        #expect(error?.reason.contains(reason) == true, "\(error?.reason ?? "")")
    }

    @Test func depthAndBytesAreChecked() throws {
        let depth = ExportLine.depthMax
        let deep = Array(repeating: UInt8(ascii: "["), count: depth) + Array(repeating: UInt8(ascii: "]"), count: depth)
        #expect(throws: Never.self) { try DocumentValue(line: deep) }
        #expect(throws: LineError.self) { try DocumentValue(line: [UInt8(ascii: "[")] + deep + [UInt8(ascii: "]")]) }
        #expect(throws: LineError.self) { try DocumentValue(line: Array(repeating: UInt8(ascii: "["), count: 1 << 20)) }
        for bytes in [[0xff], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xe2, 0x82]] as [[UInt8]] {
            #expect(throws: LineError.self) {
                try DocumentValue(line: [UInt8(ascii: "\"")] + bytes + [UInt8(ascii: "\"")])
            }
        }
        let text = try DocumentValue(line: Array(#" "\u00e4\ud83d\ude00\n\/" "#.utf8))
        #expect(text == .scalar(.string(Array("ä😀\n/".utf8))))
    }

    // MARK: BSON

    private static func document(_ elements: [UInt8]) -> [UInt8] {
        let count = UInt32(elements.count + 5)
        return (0..<4).map { UInt8(truncatingIfNeeded: count >> (8 * $0)) } + elements + [0]
    }

    /// An element of a document, called `v`.
    private static func element(_ type: UInt8, _ hex: String) throws -> [UInt8] {
        [type, UInt8(ascii: "v"), 0] + (try #require(Hex.decode(hex)))
    }

    @Test(
        arguments: [
            (0x01, "0000000000000440", #"{"$numberDouble":"2.5"}"#), (0x02, "0300000061c3a400", nil),
            (0x02, "04000000c3a46200", #""äb""#), (0x03, "0c0000001061000100000000", #"{"a":{"$numberInt":"1"}}"#),
            (0x04, "0c0000001030000100000000", #"[{"$numberInt":"1"}]"#),
            (0x05, "020000000000ff", #"{"$binary":{"base64":"AP8=","subType":"00"}}"#),
            (0x05, "06000000020200000000ff", #"{"$binary":{"base64":"AP8=","subType":"02"}}"#),
            (
                0x05, "100000000400112233445566778899aabbccddeeff",
                #"{"$binary":{"base64":"ABEiM0RVZneImaq7zN3u/w==","subType":"04"}}"#
            ),
            (0x05, "020000000400ff", nil), (0x06, "", #"{"$undefined":true}"#),
            (0x07, "64b7f0aa0000000000000001", #"{"$oid":"64b7f0aa0000000000000001"}"#), (0x08, "01", "true"),
            (0x08, "02", nil), (0x09, "ffffffffffffffff", #"{"$date":{"$numberLong":"-1"}}"#), (0x0A, "", "null"),
            (0x0B, "61006900", #"{"$regularExpression":{"pattern":"a","options":"i"}}"#),
            (
                0x0C, "020000006100" + "64b7f0aa0000000000000001",
                #"{"$dbPointer":{"$ref":"a","$id":{"$oid":"64b7f0aa0000000000000001"}}}"#
            ),
            (0x0D, "020000006100", #"{"$code":"a"}"#), (0x0E, "020000006100", #"{"$symbol":"a"}"#),
            (0x0F, "0f000000" + "020000006100" + "0500000000", #"{"$code":"a","$scope":{}}"#),
            (0x10, "ffffffff", #"{"$numberInt":"-1"}"#), (0x11, "0100000002000000", #"{"$timestamp":{"t":2,"i":1}}"#),
            (0x12, "ffffffffffffff7f", #"{"$numberLong":"9223372036854775807"}"#),
            (0x13, "96000000000000000000000000003c30", #"{"$numberDecimal":"1.50"}"#),
            (0x7F, "", #"{"$maxKey":1}"#), (0xFF, "", #"{"$minKey":1}"#), (0x14, "", nil), (0x01, "00", nil),
        ] as [(UInt8, String, String?)])
    func aValueOfBSONIsWhatItsExtendedJSONIs(_ type: UInt8, _ hex: String, _ json: String?) throws {
        let bytes = Self.document(try Self.element(type, hex))
        guard let json else {
            #expect(throws: LineError.self) { try DocumentValue(bson: bytes) }
            return
        }
        #expect(try DocumentValue(bson: bytes) == DocumentValue(line: Array(#"{"v":\#(json)}"#.utf8)))
    }

    /// Documents of all types, as PyMongo writes them in both forms (`Tests/Fixtures/documents`).
    @Test func filesOfPyMongoAreTheSameInBothForms() throws {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Fixtures/documents")
        var bytes = [UInt8](try Data(contentsOf: folder.appendingPathComponent("types.bson")))[...]
        let lines = try Data(contentsOf: folder.appendingPathComponent("types.jsonl")).split(separator: 10)
        #expect(lines.count == 3)
        for line in lines {
            let length = bytes.prefix(4).reversed().reduce(0) { $0 << 8 | Int($1) }
            let read = try DocumentValue(bson: Array(bytes.prefix(length)))
            #expect(try read.json == DocumentValue(line: Array(line)).json)
            bytes = bytes.dropFirst(length)
        }
        #expect(bytes.isEmpty)
    }

    @Test func damagedBSONIsRefused() throws {
        let whole = Self.document(try Self.element(0x03, "0c0000001061000100000000") + [0x0A, UInt8(ascii: "w"), 0])
        #expect(throws: Never.self) { try DocumentValue(bson: whole) }
        for count in 0..<whole.count {
            #expect(throws: LineError.self) { try DocumentValue(bson: Array(whole.prefix(count))) }
        }
        for position in whole.indices {
            var damaged = whole
            damaged[position] ^= 0xFF
            // Whatever it is now, it neither traps nor reads beyond its end.
            _ = try? DocumentValue(bson: damaged)
        }
        #expect(throws: LineError.self) { try DocumentValue(bson: whole + [0]) }
        let twice = try Self.element(0x0A, "") + Self.element(0x0A, "")
        #expect(throws: LineError.self) { try DocumentValue(bson: Self.document(twice)) }
        var deep = Self.document([])
        for _ in 0...ExportLine.depthMax { deep = Self.document([0x03, UInt8(ascii: "v"), 0] + deep) }
        #expect(throws: LineError.self) { try DocumentValue(bson: deep) }
    }
}
