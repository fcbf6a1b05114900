import AnabranchCore
import Testing

/// Texts from outside are what their bytes are. Those of each pair are one `String`.
@Suite struct ExactStringTests {
    private static let pairs = [
        ("\u{e9}", "e\u{301}"), ("K", "\u{212a}"), (";", "\u{37e}"), ("\u{ac00}", "\u{1100}\u{1161}"),
        ("a\u{323}\u{301}", "a\u{301}\u{323}"),
    ]

    @Test(arguments: pairs) func textsThatLookAlikeAreTwo(one: String, other: String) {
        #expect(one == other)
        #expect(!one.hasBytes(of: other) && one.hasBytes(of: one))
        #expect(!String?.some(one).hasBytes(of: other) && String?.some(one).hasBytes(of: one))
        #expect(!String?.none.hasBytes(of: one) && String?.none.hasBytes(of: nil))
        #expect(Set([ExactString(one), ExactString(other), ExactString(one)]).count == 2)
        #expect((ExactString(one) < ExactString(other)) != (ExactString(other) < ExactString(one)))
        #expect([one: 1][exactly: one] == 1 && [one: 1][exactly: other] == nil && ["x": 1][exactly: one] == nil)
        let members: Set = [one]
        #expect(members.contains(exactly: one) && !members.contains(exactly: other) && !members.contains(exactly: "x"))
    }

    /// An accent makes one `Character` of itself and what it follows.
    @Test func whatEndsATextIsEscapedBeforeAnAccentToo() {
        let text = "a\"\u{301}b\\\u{301}\"\"c"
        #expect(text.escaping("\"").hasBytes(of: "a\"\"\u{301}b\\\u{301}\"\"\"\"c"))
        let mark = UInt8(ascii: "\\")
        #expect(text.escaping("\\\"", with: mark).hasBytes(of: "a\\\"\u{301}b\\\\\u{301}\\\"\\\"c"))
        #expect("".escaping("\"").isEmpty)
    }

    /// Two subscriptions, and two classes.
    @Test func subscriptionSetsKeepBoth() throws {
        let text = Array(#"{"\u00e9":"a == \"\u00e9\"","e\u0301":"a == \"e\u0301\""}"#.utf8)
        let predicates = try #require(SubscriptionSet(version: 1, query: text).predicates)
        #expect(predicates == ["\u{e9}": "a == \"\u{e9}\"", "e\u{301}": "a == \"e\u{301}\""])
        #expect(predicates != ["\u{e9}": "a == \"e\u{301}\"", "e\u{301}": "a == \"e\u{301}\""])
        #expect(Predicates(try JSONValue(parsing: predicates.json.encoded.utf8)) == predicates)
    }
}
