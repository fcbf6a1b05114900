import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchQuery

/// Queries that can be read, and the places of mistakes in others.
@Suite struct ParserTests {
    @Test(arguments: [
        // The text, its kind of error, and the byte that the error is about.
        ("", QueryError.Kind.syntax, 0), ("a ==", .syntax, 4), ("a == 1 b", .syntax, 7), ("(a == 1", .syntax, 7),
        ("a -1 == 2", .syntax, 2), ("a == 'x", .syntax, 5), ("a == 1 ^ 2", .syntax, 7), ("é == 1 ~", .syntax, 8),
        ("a IN {,1}", .syntax, 6), ("(a) BEGINSWITH 'x'", .syntax, 4), ("a + 1 BEGINSWITH 'x'", .syntax, 6),
        ("a == 1 SORT(b)", .syntax, 13), ("a == 1 LIMIT(-1)", .syntax, 13), ("nosuch == 1", .query, 0),
        ("int == 1 and nosuch == 1", .query, 13), ("string == 'é' and string IN 'a'", .query, 29),
        ("int == T1:-1", .syntax, 7), ("int == T0:-9223372036854775808", .query, 7),
        ("string == B64\"YQ\"", .syntax, 10), ("int BETWEEN {1}", .query, 12),
        ("1 == 1", .query, 0), ("int == $0", .query, 7), ("int == O12", .query, 7), ("int IN 1", .query, 7),
        ("timestamp == 1899-01-01@00:00:00", .query, 13), ("link == obj('Nosuch', 1)", .query, 8),
        ("int < inf", .query, 6), ("-inf < int", .query, 0), ("string == inf", .query, 10),
        ("int IN {1, inf}", .query, 7), ("int < 1.5 / 0", .query, 6), ("int / inf < 1", .query, 6),
    ])
    func anErrorSaysWhere(text: String, kind: QueryError.Kind, offset: Int) throws {
        let state = try QueryWorld.state(seed: 1)
        let error = #expect(throws: QueryError.self) { try Query(text, on: QueryWorld.className, of: state) }
        #expect(error?.kind == kind, "\(text): \(String(describing: error))")
        #expect(error?.offset == offset, "\(text): \(String(describing: error))")
        #expect(error?.reason.isEmpty == false)
    }

    @Test(arguments: [
        // What was written, and how this library writes it.
        ("not a=1&&b<>2||c=<3", "!a == 1 and b != 2 or c <= 3"), ("(a == 1) and (b == 2)", "a == 1 and b == 2"),
        ("a == 1 and (b == 2 or c == 3)", "a == 1 and (b == 2 or c == 3)"),
        ("(a == 1 and b == 2) and c == 3", "a == 1 and b == 2 and c == 3"),
        ("a == 1 and (b == 2 and c == 3)", "a == 1 and (b == 2 and c == 3)"),
        ("!(a == 1 or b == 2)", "!(a == 1 or b == 2)"), ("a-1 == 2", "a-1 == 2"), ("a - 1 == 2", "a - 1 == 2"),
        ("(a + 1) * 2 - (3 - b) == 0", "(a + 1) * 2 - (3 - b) == 0"),
        ("some a.b[first] in {1,2}", "ANY a.b[FIRST] IN {1, 2}"),
        ("my\\ field == nil", "my\\ field == nil"), ("d['k'] == d.k", "d['k'] == d.k"),
        ("a[size] == 1", "a.@size == 1"),
        ("a.@max.b > 1", "a.@max.b > 1"), ("a.@type == 'int'", "a.@type == 'int'"),
        ("a between {1,2}", "a BETWEEN {1, 2}"),
        ("l == obj('class_A', 1)", "l == obj('A',1)"), ("b == bin('x')", "b == binary('x')"),
        ("subquery(l, $x, $x.a == 1 or $x.b == 2).@count > 0", "SUBQUERY(l, $x, $x.a == 1 or $x.b == 2).@size > 0"),
        (
            "a == 1 sort(b asc, c.d descending) distinct(b) limit(5)",
            "a == 1 SORT(b ASC, c.d DESC) DISTINCT(b) LIMIT(5)"
        ),
        ("p geowithin geobox([1,2],[3.5,4])", "p GEOWITHIN GeoBox([1, 2], [3.5, 4])"),
        ("in == 1", "in == 1"), ("contains contains[c] 'x'", "contains CONTAINS[c] 'x'"),
        ("a == ANY $0", "a == ANY $0"),
        ("$K0 == $1", "$K0 == $1"), ("a == 1\t\r\nAND truepredicate", "a == 1 and TRUEPREDICATE"),
    ])
    func whatIsReadCanBeWrittenAgain(text: String, written: String) throws {
        let parsed = try ParsedQuery(text)
        #expect(parsed.description == written)
        #expect(try ParsedQuery(written) == parsed)
    }

    @Test func notBindsTightestAndOrLoosest() throws {
        let one = try ParsedQuery("a == 1").predicate, two = try ParsedQuery("b == 2").predicate
        #expect(try ParsedQuery("not a == 1 and b == 2 or a == 1").predicate == .or([.and([.not(one), two]), one]))
    }

    private static func repeated(_ count: Int, _ start: String, _ step: (String) -> String) -> String {
        (0..<count).reduce(start) { inner, _ in step(inner) }
    }

    private static let tooLarge: [String] = [
        repeated(101, "a == 1") { "(b == 2 or (c == 3 and \($0)))" },
        repeated(101, "int == 1") { "SUBQUERY(linkL, $x, \($0)).@count > 0" },
        repeated(60, "int == 1") { "SUBQUERY(linkL, $x, !\($0)).@count > 0" },
        repeated(101, "a == 1") { "!\($0)" }, repeated(101, "a") { "(\($0) + 1)" } + " == 1",
        repeated(101, "a") { "\($0) + 1" } + " == 1",
        "a == '\(String(repeating: "x", count: 262_144))'",
        // Calculations of a comparison are counted on both sides of a subquery in it.
        repeated(60, repeated(60, "int") { "\($0) + int" } + " + SUBQUERY(linkL, $x, $x.int + 1 == 2).@count") {
            "\($0) + int"
        } + " == 1",
        // And those of all comparisons that are within each other.
        repeated(2, "int == 1") { "SUBQUERY(linkL, $x, \($0)).@count\(plus(60)) > 0" },
        repeated(60, "int == 1") { "SUBQUERY(linkL, $x, \($0)).@count\(plus(90)) > 0" },
        repeated(100, "int BETWEEN {1, 2}") { "!\($0)" },
        "place GEOWITHIN geoPolygon({\(repeated(1_000, "[0, 0]") { "\($0), [0, 0]" })})",
        "SUBQUERY(linkL, $x, SUBQUERY($x.linkL, $y, $y.int == 1).@size BETWEEN {0, 9}).@size BETWEEN {0, 9}",
    ]

    private static func plus(_ count: Int) -> String { String(repeating: " + 1", count: count) }

    @Test(arguments: tooLarge)
    func whatIsTooLargeIsRefused(text: String) throws {
        let state = try QueryWorld.state(seed: 1)
        let error = #expect(throws: QueryError.self) { try Query(text, on: QueryWorld.className, of: state) }
        #expect(error?.kind == .limit, "\(String(describing: error))")
    }

    @Test(arguments: [
        String(repeating: "(", count: 9_900) + "int == 1" + String(repeating: ")", count: 9_900),
        String(repeating: "!", count: 99) + "int == 1", "int\(plus(100)) == 1",
        "SUBQUERY(linkL, $x, $x.int\(plus(49)) == 1).@count\(plus(50)) > 0",
        "int IN {" + String(repeating: "1,", count: 130_000) + "1}",
        String(repeating: "int == 1 or ", count: 21_000) + "int == 1",
    ])
    func whatIsJustSmallEnoughIsAnswered(text: String) throws {
        let state = try QueryWorld.state(seed: 1)
        #expect(throws: Never.self) { try Query(text, on: QueryWorld.className, of: state).objects(in: state) }
    }

    /// It has a parenthesis for each of them.
    @Test(arguments: [2, 100, 3_000]) func theCanonicalTextOfManyAlternativesIsAQuery(count: Int) throws {
        let state = try QueryWorld.state(seed: 1)
        let text = "!(" + (0..<count).map { "int == \($0)" }.joined(separator: " or ") + ")"
        let canonical = try Query(text, on: QueryWorld.className, of: state).canonicalText
        #expect(canonical.hasPrefix("!(" + String(repeating: "(", count: count - 1)))
        #expect(try Query(canonical, on: QueryWorld.className, of: state).canonicalText == canonical)
    }

    /// Each parenthesis could be read as numbers first, and all in it twice.
    @Test func nestedSubqueriesAreReadInOneGo() throws {
        let text = (0..<30).reduce("int == 1") { inner, _ in "(SUBQUERY(linkL, $x, (\(inner))).@count > 0)" }
        let parsed = try ParsedQuery(text)
        #expect(try ParsedQuery(parsed.text) == parsed)
    }

    @Test(arguments: [
        "(contains + 1) == 2", "(like) == 1", "((a.between - in) * text) > 1", "(a contains 'x')", "((contains) == 1)",
        "(a in {1})", "(a between {1, 2} and b == 1)", "(a[first] + b) < 1", "((a + 1) == 1)", "(in in {1})",
    ])
    func parenthesesHoldNumbersOrPredicates(text: String) throws {
        #expect(throws: Never.self) { try ParsedQuery(text) }
    }

    /// They are as deep as they are long if each part is within the next.
    @Test func longPredicatesAreNotDeep() throws {
        let state = try QueryWorld.state(seed: 1)
        for word in [" or ", " and "] {
            let parts = Array(repeating: "int == 1", count: 4_900).joined(separator: word)
            for text in [parts, "!(\(parts))"] {
                let query = try Query(text, on: QueryWorld.className, of: state)
                #expect(throws: Never.self) { try query.objects(in: state) }
                #expect(throws: Never.self) { try ParsedQuery(text).text }
            }
        }
    }

    @Test func bytesThatAreNoTextAreAnErrorOutsideStrings() throws {
        #expect(throws: QueryError(.syntax, at: 0, "")) { try ParsedQuery([0xFF] + Array(" == 1".utf8)) }
        #expect(throws: Never.self) { try ParsedQuery(Array("a == '".utf8) + [0xFF] + Array("'".utf8)) }
    }

    @Test(arguments: 0..<8 as Range<UInt64>) func randomTextsAreReadOrRefused(part: UInt64) throws {
        let fuzz = try QueryFuzz(), seeds = part * 500..<(part + 1) * 500
        for seed in seeds {
            #expect(try fuzz.problem(seed: seed) == nil, "repeat: anabranch-lab fuzz queries --seed \(seed) --count 1")
        }
        let readCount = seeds.count { (try? ParsedQuery(fuzz.text(seed: $0))) != nil }
        #expect(readCount > 100 && readCount < 480)
    }
}
