import AnabranchPropertyList
import Testing

/// The written bytes, the same for the same value, and values that are never written.
@Suite struct WritingTests {
    private static func text(_ value: PropertyList) throws -> String {
        String(decoding: try value.encoded(as: .xml), as: UTF8.self)
    }

    private static func error(_ value: PropertyList, _ form: PropertyList.Form) -> PropertyListError? {
        do throws(PropertyListError) {
            _ = try value.encoded(as: form)
            return nil
        } catch { return error }
    }

    @Test func xml() throws {
        let date = try #require(PropertyListDate(seconds: -62_135_596_800))
        let value: PropertyList = [
            "é": "", "e\u{301}": .data([]), "": [], "b": [:], "a": "<&>\"'\r\n",
            "z": [
                true, false, -5, .real(0.1), .real(-0.0), .real(1e300), .date(date),
                .data(Array(repeating: 0, count: 58)),
            ],
        ]
        #expect(
            try Self.text(value) == """
                <?xml version="1.0" encoding="UTF-8"?>
                <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
                <plist version="1.0">
                <dict>
                <key></key>
                <array/>
                <key>a</key>
                <string>&lt;&amp;&gt;"'&#13;
                </string>
                <key>b</key>
                <dict/>
                <key>e\u{301}</key>
                <data>
                </data>
                <key>z</key>
                <array>
                <true/>
                <false/>
                <integer>-5</integer>
                <real>0.1</real>
                <real>-0.0</real>
                <real>1e+300</real>
                <date>0001-01-01T00:00:00Z</date>
                <data>
                AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
                AA==
                </data>
                </array>
                <key>é</key>
                <string></string>
                </dict>
                </plist>

                """)
    }

    /// By hand: the whole first, keys before values, equal leaves of one type once, all widths the least.
    @Test func binary() throws {
        let value: PropertyList = ["b": [1, true, .real(1), 1], "a": "b", "ü": -1]
        let objects: [[UInt8]] = [
            [0xD3, 1, 2, 3, 2, 4, 8], [0x51, 0x61], [0x51, 0x62], [0x61, 0x00, 0xFC], [0xA4, 5, 6, 7, 5], [0x10, 1],
            [9],
            [0x23, 0x3F, 0xF0, 0, 0, 0, 0, 0, 0], [0x13, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
        ]
        var expected = Array("bplist00".utf8)
        var offsets: [UInt8] = []
        for object in objects {
            offsets.append(UInt8(expected.count))
            expected += object
        }
        let start = UInt8(expected.count)
        expected += offsets + [0, 0, 0, 0, 0, 0, 1, 1]
        for number in [UInt8(objects.count), 0, start] { expected += [0, 0, 0, 0, 0, 0, 0, number] }
        #expect(try value.encoded(as: .binary) == expected)
    }

    @Test(arguments: [
        (0, 2), (255, 2), (256, 3), (65_535, 3), (65_536, 5), (4_294_967_295, 5), (4_294_967_296, 9), (Int64.max, 9),
        (-1, 9),
        (.min, 9),
    ])
    func integersTakeTheLeastWidth(number: Int64, count: Int) throws {
        let bytes = try PropertyList.integer(number).encoded(as: .binary)
        #expect(bytes.count == 8 + count + 1 + 32)
        #expect(try PropertyList(parsing: bytes) == .integer(number))
    }

    /// 256 objects have the numbers to 255.
    @Test(arguments: [14, 15, 254, 255, 256, 65_534, 65_535, 65_536]) func countsAndReferences(count: Int) throws {
        for value: PropertyList in [
            .array((0..<Int64(count)).map { .integer($0) }), .string(String(repeating: "a", count: count)),
            .string(String(repeating: "ü", count: count)), .data(Array(repeating: 1, count: count)),
            .dictionary(PropertyListDictionary((0..<count).map { ("k\($0)", 1) }) { $1 }),
        ] {
            for form in PropertyList.Form.allCases {
                #expect(try PropertyList(parsing: value.encoded(as: form)) == value)
            }
        }
    }

    @Test func equalLeavesOfOneTypeAreOne() throws {
        let date = PropertyList.date(try #require(PropertyListDate(seconds: 978_307_201)))
        let leaves: [PropertyList] = [
            1, true, .real(1), "1", .data([0x31]), date, .real(0), .real(-0.0), "é", "e\u{301}",
        ]
        let bytes = try PropertyList.array(leaves + leaves).encoded(as: .binary)
        #expect(bytes[bytes.count - 17] == UInt8(leaves.count + 1))
        #expect(try PropertyList(parsing: bytes) == .array(leaves + leaves))
    }

    @Test func whatIsNeverWritten() throws {
        let fraction = try #require(PropertyListDate(seconds: 0, nanoseconds: 1))
        let refused = try PropertyList(parsing: "<plist><date/></plist>".utf8)
        for value: PropertyList in [
            .largeInteger(1 << 63), .real(.nan), .real(.infinity), .date(fraction), refused, "\u{0}",
            .illFormedString([0xD800, 0]),
        ] {
            for form in PropertyList.Form.allCases {
                let error = try #require(Self.error(["a": ["b", value]], form), "\(value)")
                #expect(error.code == .badValue && error.place.path == "/a/1", "\(error)")
            }
        }
    }

    @Test(arguments: ["\u{1}", "\u{1f}", "\u{FFFE}", "\u{FFFF}"]) func theBinaryFormAlone(text: String) throws {
        for value: PropertyList in [[.string(text)], [[text: true]]] {
            #expect(try PropertyList(parsing: value.encoded(as: .binary)) == value)
            #expect(Self.error(value, .xml)?.code == .badValue)
        }
    }

    @Test func halfAPairOfSurrogates() throws {
        let value: PropertyList = ["a": .illFormedString([0x61, 0xD83D])]
        #expect(try PropertyList(parsing: value.encoded(as: .binary)) == value)
        #expect(Self.error(value, .xml)?.place.path == "/a")
    }

    /// All texts of up to three pieces, of those that XML treats in a way of its own.
    @Test func allShortTexts() throws {
        let pieces = [
            "", "a", "&", "<", ">", "]", "\"", "'", "\r", "\n", "\t", " ", "é", "\u{301}", "😀", "&#13;", "-",
        ]
        var texts: [PropertyList] = []
        for first in pieces {
            for second in pieces { texts += pieces.map { .string(first + second + $0) } }
        }
        let value = PropertyList.array(texts)
        for form in PropertyList.Form.allCases { #expect(try PropertyList(parsing: value.encoded(as: form)) == value) }
    }

    @Test(arguments: UInt64(1)...20) func randomDocumentsComeBack(seed: UInt64) throws {
        var generator = RandomPropertyList(seed: seed)
        for number in 0..<200 {
            let value = generator.document()
            for form in PropertyList.Form.allCases {
                let bytes = try value.encoded(as: form)
                #expect(PropertyList.Form(sniffing: bytes) == form)
                #expect(try PropertyList(parsing: bytes) == value, "seed \(seed), document \(number), \(form)")
                #expect(try PropertyList(parsing: bytes).encoded(as: form) == bytes)
            }
        }
    }
}
