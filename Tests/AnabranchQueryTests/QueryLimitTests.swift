import Testing

@testable import AnabranchQuery

/// The limits of a query (`Spec/Limits.md`, section 8).
@Suite struct QueryLimitTests {
    private static func repeated(_ text: String, _ count: Int) -> String { String(repeating: text, count: count) }

    private static func text(bytes: Int) -> String { "a == '\(repeated("x", bytes - "a == ''".utf8.count))'" }

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
            Self.text(bytes: QueryLimits.textBytesMax + more), Self.negations(QueryLimits.depthMax + more),
            Self.subqueries(QueryLimits.depthMax + more),
            Self.calculations(QueryLimits.depthMax + more), Self.ring(QueryLimits.cornerCountMax + more),
        ] {
            #expect(Self.refusal(of: text) == (more > 0 ? .limit : nil), "\(text.prefix(100))")
        }
    }

    /// How many values a list or a disjunction has is nobody's limit.
    @Test(arguments: [
        "1", "-9223372036854775808", "oid(64b7f0aa0000000000000001)", "uuid(00112233-4455-6677-8899-aabbccddeeff)",
        "T1700000000:0", "2024-01-01@00:00:00", "\"text\"", "1.5", "true",
    ])
    func valuesAreLimitedByTheTextAlone(value: String) throws {
        let valueCount = (QueryLimits.textBytesMax - "a IN {}".utf8.count) / (value.utf8.count + 1)
        let list = try ParsedQuery("a IN {\(Array(repeating: value, count: valueCount).joined(separator: ","))}")
        guard case .comparison(let comparison) = list.predicate, case .list(let constants) = comparison.right else {
            Issue.record("no list")
            return
        }
        #expect(constants.constants.count == valueCount)
        let partCount = QueryLimits.textBytesMax / "a==\(value)||".utf8.count
        let parts = Array(repeating: "a==\(value)", count: partCount).joined(separator: "||")
        guard case .or(let read) = try ParsedQuery(parts).predicate else {
            Issue.record("no disjunction")
            return
        }
        #expect(read.count == partCount)
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
