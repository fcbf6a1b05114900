import AnabranchPropertyList
import Testing

/// The XML form, rule by rule (`Spec/PropertyLists.md`, section 2).
@Suite struct XMLReadingTests {
    private static func read(_ body: String) throws -> PropertyList {
        try PropertyList(parsing: "<plist version=\"1.0\">\(body)</plist>".utf8)
    }

    private static func error(_ document: some Collection<UInt8>) -> PropertyListError? {
        do throws(PropertyListError) {
            _ = try PropertyList(parsing: document)
            return nil
        } catch { return error }
    }

    // MARK: Leaves

    @Test(arguments: [
        ("0", 0), ("-0", 0), ("010", 10), ("+7", 7), (" 12\n", 12), ("0x1F", 31), ("-0x1F", -31), ("0XfF", 255),
        ("9223372036854775807", .max), ("-9223372036854775808", .min), ("-0x8000000000000000", .min),
        ("1&#50;<!-- 0 -->3", 123), ("<![CDATA[4]]>2", 42), ("000000000000000000000000000001", 1),
    ])
    func integers(text: String, number: Int64) throws {
        #expect(try Self.read("<integer>\(text)</integer>") == .integer(number))
    }

    @Test(arguments: [
        ("9223372036854775808", 1 << 63), ("18446744073709551615", UInt64.max), ("0xffffffffffffffff", .max),
    ])
    func largeIntegers(text: String, number: UInt64) throws {
        #expect(try Self.read("<integer>\(text)</integer>") == .largeInteger(number))
    }

    @Test(arguments: [
        ("1", 1), ("-1.5", -1.5), ("+.5", 0.5), ("3.", 3), ("1e3", 1000), ("1E+3", 1000), ("25e-1", 2.5), (" 2 ", 2),
        ("0", 0), ("1e400", .infinity), ("-1e400", -.infinity), ("1e-400", 0), ("5e-324", .leastNonzeroMagnitude),
        ("inf", .infinity), ("-inf", -.infinity), ("+infinity", .infinity), ("Infinity", .infinity), ("NaN", .nan),
        ("0.1000000000000000055511151231257827021181583404541015625", 0.1),
    ])
    func reals(text: String, number: Double) throws {
        #expect(try Self.read("<real>\(text)</real>") == .real(number))
    }

    @Test func zeroKeepsItsSign() throws {
        #expect(try Self.read("<real>-0</real>") == .real(-0.0))
        #expect(try Self.read("<real>-0</real>") != .real(0))
    }

    @Test(arguments: [
        ("2001-01-01T00:00:00Z", 978_307_200, 0), ("1970-01-01T00:00:00Z", 0, 0),
        ("2020-02-29T12:34:56Z", 1_582_979_696, 0),
        ("0001-01-01T00:00:00Z", -62_135_596_800, 0), ("9999-12-31T23:59:59Z", 253_402_300_799, 0),
        ("1970-01-01T01:00:00+01:00", 0, 0), ("1969-12-31T22:30:00-01:30", 0, 0),
        ("1970-01-01T00:00:00.5Z", 0, 500_000_000), ("1969-12-31T23:59:59.999999999Z", -1, 999_999_999),
        ("1970-01-01T00:00:00.1234567890000Z", 0, 123_456_789), ("1970-01-01T00:00:00.000Z", 0, 0),
        ("\n1970-01-01T00:00:00Z ", 0, 0), ("1970&#45;01-01T00:00:00Z", 0, 0),
    ])
    func dates(text: String, seconds: Int64, nanoseconds: Int32) throws {
        let date = try #require(PropertyListDate(seconds: seconds, nanoseconds: nanoseconds))
        #expect(try Self.read("<date>\(text)</date>") == .date(date))
    }

    @Test(arguments: [
        ("", []), ("QUI=", [65, 66]), (" Q U\nI\t=\r\n", [65, 66]), ("&#81;UI&#x3D;", [65, 66]),
        ("+/+/", [251, 255, 191]),
        ("<![CDATA[QUJD]]>", [65, 66, 67]),
    ])
    func data(text: String, bytes: [UInt8]) throws {
        #expect(try Self.read("<data>\(text)</data>") == .data(bytes))
    }

    @Test(arguments: [
        ("", ""), (" a ", " a "), ("&lt;&gt;&amp;&quot;&apos;", "<>&\"'"), ("&#65;&#x42;&#x1F600;", "AB😀"),
        ("a<![CDATA[<b>&amp;]]>c<!-- d -->e<?f g?>h", "a<b>&amp;ceh"), ("<![CDATA[]]]]><![CDATA[>]]>", "]]>"),
        ("a\r\nb\rc\n\r\r\n", "a\nb\nc\n\n\n"), ("<![CDATA[\r\n]]>", "\n"), ("&#13;&#10;", "\r\n"), ("é", "é"),
        ("e\u{301}", "e\u{301}"),
        ("\u{7f}\u{85}\u{FFFD}\u{10FFFF}", "\u{7f}\u{85}\u{FFFD}\u{10FFFF}"), ("]]", "]]"),
        ("&#000000000000000000065;", "A"),
    ])
    func strings(text: String, value: String) throws {
        #expect(try Self.read("<string>\(text)</string>") == .string(value))
        #expect(try Self.read("<dict><key>\(text)</key><true/></dict>") == .dictionary([value: true]))
    }

    @Test func emptyElements() throws {
        let text = "<dict><key/><string/><key>a</key><data/><key>b</key><array/><key>c</key><dict/></dict>"
        #expect(try Self.read(text) == ["": "", "a": .data([]), "b": [], "c": [:]])
        #expect(try Self.read("<array><true></true><false> </false></array>") == [true, false])
    }

    /// The rest of the document is read, and the place says which leaf it was.
    @Test(arguments: [
        "<integer>18446744073709551616</integer>", "<integer>-9223372036854775809</integer>", "<integer/>",
        "<integer>1.0</integer>", "<integer>1 2</integer>", "<integer>0x</integer>", "<integer>A</integer>",
        "<integer>--1</integer>", "<integer>١</integer>", "<real/>", "<real>0x1p3</real>", "<real>1e</real>",
        "<real>.</real>", "<real>nan(1)</real>", "<real>1,5</real>", "<real>infinit</real>",
        "<date>2020-02-30T00:00:00Z</date>", "<date>2019-02-29T00:00:00Z</date>", "<date>2020-01-01T24:00:00Z</date>",
        "<date>2020-01-01T00:00:60Z</date>", "<date>2020-01-01T00:00:00</date>", "<date>2020-01-01</date>",
        "<date>0000-01-01T00:00:00Z</date>", "<date>10000-01-01T00:00:00Z</date>", "<date/>",
        "<date>0001-01-01T00:00:00+00:01</date>", "<date>9999-12-31T23:59:59-00:01</date>",
        "<date>2020-01-01T00:00:00+0100</date>", "<date>2020-01-01t00:00:00z</date>",
        "<date>2020-01-01 00:00:00Z</date>", "<date>2020-01-01T00:00:00.Z</date>",
        "<date>2020-01-01T00:00:00.0000000001Z</date>",
        "<data>QUI</data>", "<data>QUI==</data>", "<data>QU I</data>", "<data>QUI=QUI=</data>", "<data>Q-I=</data>",
        "<data>&amp;QUI=</data>", "<string>&#0;</string>", "<string>&#xD800;</string>", "<string>&#x110000;</string>",
        "<string>&#99999999999999999999;</string>", "<string>\u{0}</string>", "<string>a\u{1}</string>",
        "<string><![CDATA[\u{1f}]]></string>", "<string>\u{FFFE}</string>", "<string>&#xFFFF;</string>",
    ])
    func whatIsNoValueStaysWithItsReason(leaf: String) throws {
        let value = try Self.read("<array>\n<true/>\n\(leaf)\n<string>behind</string></array>")
        let values = try #require(value.array)
        #expect(values.count == 3 && values.first == true && values.last == "behind")
        let error = try #require(values[1].refusal)
        #expect(error.code == .badValue && error.place.line == 3 && !error.reason.isEmpty)
    }

    // MARK: Documents

    @Test(arguments: [
        "<plist><true/></plist>", "\n \t<plist><true/></plist>\r\n", "\u{FEFF}<plist version='1.0'><true/></plist>",
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><plist><true/></plist>",
        "<?xml version='1.0' encoding='utf-8' standalone='yes' ?>\n<plist ><true /></plist >",
        "<!-- a --><?b?><!-- c --><plist><!-- d --><true/><?e f?></plist><!-- g -->",
        "  <?xml version=\"1.0\"?><!DOCTYPE plist><plist><true/></plist>",
        """
        <?xml version="1.0" encoding="UTF-8"?><!-- a -->
        <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
        <plist version="1.0"><true/></plist>
        """,
        "<!DOCTYPE plist PUBLIC \"-//Apple Computer//DTD PLIST 1.0//EN\" \"\"><plist><true/></plist>",
        "<!DOCTYPE plist PUBLIC '-//GNUstep//DTD plist 0.9//EN' 'x' ><plist><true/></plist>",
    ])
    func heads(document: String) throws {
        #expect(try PropertyList(parsing: document.utf8) == true)
    }

    @Test(arguments: [true, false]) func utf16(isBigEndian: Bool) throws {
        for encoding in ["", " encoding=\"UTF-16\""] {
            let text = "\u{FEFF}<?xml version=\"1.0\"\(encoding)?><plist><string>é😀</string></plist>"
            let bytes = text.utf16.flatMap { unit in
                isBigEndian ? [UInt8(unit >> 8), UInt8(unit & 255)] : [UInt8(unit & 255), UInt8(unit >> 8)]
            }
            #expect(try PropertyList(parsing: bytes) == "é😀")
            #expect(Self.error(bytes.dropLast())?.code == .malformed)
        }
    }

    @Test(arguments: [
        ("", 1), ("\n", 2), ("text", 1), ("<plist>", 1), ("<plist/>", 1), ("<plist></plist>", 1), ("<true/>", 1),
        ("<plist><true/>\n<true/></plist>", 2), ("<plist><true/></plist>\n<plist/>", 2), ("<plist><true/></plst>", 1),
        ("<plist>\n<dict>\n<key>a</key></dict></plist>", 3), ("<plist><dict><true/></dict></plist>", 1),
        ("<plist><dict>\n<key>a</key><true/>\n<key>&#97;</key><true/></dict></plist>", 3),
        ("<plist><dict><key>a</key><key>b</key></dict></plist>", 1),
        ("<plist><dict>\n<key>&#0;</key><true/></dict></plist>", 2), ("<plist><key>a</key></plist>", 1),
        ("<plist><array>\ntext</array></plist>", 2), ("<plist><array><true/></dict></plist>", 1),
        ("<plist><set/></plist>", 1), ("<plist><string><b/></string></plist>", 1),
        ("<plist><string>a</strin></plist>", 1), ("<plist><string>]]></string></plist>", 1),
        ("<plist><string>&unknown;</string></plist>", 1), ("<plist><string>&#;</string></plist>", 1),
        ("<plist><string>&#65</string></plist>", 1), ("<plist><string>&amp</string></plist>", 1),
        ("<plist><string>\n<![CDATA[a</string></plist>", 2), ("<plist><!-- a -- b --><true/></plist>", 1),
        ("<plist><!-- a <true/></plist>", 1), ("<plist><true>a</true></plist>", 1), ("<plist><true/", 1),
        ("<plist a><true/></plist>", 1), ("<plist a='b><true/></plist>", 1), ("<plist a='<'><true/></plist>", 1),
        ("<?xml version=\"1.1\"?><plist><true/></plist>", 1), ("<plist><?xml version=\"1.0\"?><true/></plist>", 1),
        ("<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><plist><true/></plist>", 1),
        ("<?xml version=\"1.0\" encoding=\"UTF-16\"?><plist><true/></plist>", 1),
        ("<!DOCTYPE html><plist><true/></plist>", 1), ("<!DOCTYPE plist [<!ENTITY a \"b\">]><plist><true/></plist>", 1),
        ("<!DOCTYPE plist SYSTEM \"plist.dtd\"><plist><true/></plist>", 1),
        ("<!DOCTYPE plist PUBLIC \"-//W3C//DTD XHTML 1.0//EN\" \"\"><plist><true/></plist>", 1),
        (
            "<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"\" [<!ENTITY a \"b\">]><plist><true/></plist>", 1
        ),
        ("<!DOCTYPE plist><!DOCTYPE plist><plist><true/></plist>", 1),
    ])
    func whatIsNoPropertyListIsRefusedWithItsLine(document: String, line: Int) throws {
        let error = try #require(Self.error(document.utf8))
        #expect(error.code == .malformed && error.place.line == line, "\(error)")
    }

    @Test func otherBytesAreNoText() throws {
        let error = try #require(Self.error(Array("<plist>\n<string>".utf8) + [0xFF] + Array("</string></plist>".utf8)))
        #expect(error.place.line == 2 && error.place.offset == 16)
        #expect(error.description == "line 2, byte 16: not UTF-8")
    }

    @Test func everyBeginningIsRefused() throws {
        let value: PropertyList = ["a": ["é", 1, .real(2.5), true, .data([1, 2])], "b": [:], "c": "&<>\r"]
        let bytes = try value.encoded(as: .xml)
        for count in 0..<bytes.count - 1 { #expect(Self.error(bytes.prefix(count))?.code == .malformed, "\(count)") }
    }

    /// Nothing traps, and what can be read can be written.
    @Test func everyOtherByteIsReadOrRefused() throws {
        let value: PropertyList = ["a": ["é", 1, .real(2.5)], "c": .data([1, 2])]
        let bytes = try value.encoded(as: .xml)
        for index in bytes.indices {
            for byte in UInt8.min...UInt8.max {
                var changed = bytes
                changed[index] = byte
                try expectToComeBack(changed)
            }
        }
    }
}
