import Testing

@testable import AnabranchQuery

/// What a query may have at most (`Spec/Limits.md`, section 8).
@Suite struct QueryLimitTests {
    private static func repeated(_ text: String, _ count: Int) -> String { String(repeating: text, count: count) }

    private static func text(bytes: Int) -> String { "a == '\(repeated("x", bytes - "a == ''".utf8.count))'" }

    /// An alternative has three tokens, the word before it is one, and each "!" is one.
    private static func text(tokens: Int) -> String {
        repeated("!", (tokens - 3) % 4) + "a == 1" + repeated(" or a == 1", (tokens - 3) / 4)
    }

    private static func negations(_ count: Int) -> String { repeated("!", count) + "a == 1" }

    private static func subqueries(_ count: Int) -> String {
        (0..<count).reduce("a == 1") { inner, _ in "SUBQUERY(l, $x, \(inner)).@count > 0" }
    }

    private static func calculations(_ count: Int) -> String { "a\(repeated(" + 1", count)) == 1" }

    private static func ring(_ corners: Int) -> String {
        "a GEOWITHIN geoPolygon({[0, 0]\(repeated(", [0, 0]", corners - 1))})"
    }

    @Test("what has as much as a limit allows is read, and what has more is not", arguments: -1...1)
    func texts(more: Int) {
        for text in [
            Self.text(bytes: QueryLimits.textBytesMax + more), Self.text(tokens: QueryLimits.tokenCountMax + more),
            Self.negations(QueryLimits.depthMax + more), Self.subqueries(QueryLimits.depthMax + more),
            Self.calculations(QueryLimits.depthMax + more), Self.ring(QueryLimits.cornerCountMax + more),
        ] {
            #expect(Self.refusal(of: text) == (more > 0 ? .limit : nil), "\(text.prefix(100))")
        }
    }

    private static func refusal(of text: String) -> QueryError.Kind? {
        do throws(QueryError) {
            _ = try ParsedQuery(text)
            return nil
        } catch {
            return error.kind
        }
    }

    @Test("for each object as many values are looked at", arguments: [(9, true), (10, true), (11, false)])
    func looks(count: Int, isAllowed: Bool) {
        let budget = LookBudget(looksMax: 10)
        for _ in 0..<2 {
            budget.beginObject()
            #expect(((try? budget.count(count)) != nil) == isAllowed)
        }
    }
}
