import AnabranchCore
import AnabranchQuery

/// Random texts for the parser: queries, queries with damage, and texts that are larger or deeper than is allowed.
///
/// A text that can be read, if written again, has to read as the same query. If it can be checked against the class, it
/// can also be answered, and its canonical text is a query again.
package struct QueryFuzz: Sendable {
    private let state: ObjectGraph

    package init() throws { state = try QueryWorld.state(seed: 1) }

    /// The text of a seed.
    package func text(seed: UInt64) -> [UInt8] {
        var random = SeededRandom(scrambling: seed)
        guard let schema = state.schema(ofClass: Array(QueryWorld.className.utf8)) else { return [] }
        if random.isOne(in: 40) { return Self.oversized(&random) }
        var queries = RandomQuery(seed: seed, about: schema, of: state, .all)
        var text = Array(queries.next().utf8)
        guard !random.isOne(in: 3) else { return text }
        for _ in 0...random.below(3) { Self.damage(&text, &random) }
        return text
    }

    /// The fault found with a seed's text, in words; nil if there is none.
    package func problem(seed: UInt64) throws -> String? { try problem(of: text(seed: seed)) }

    /// The fault found with a text, in words; nil if there is none.
    package func problem(of text: [UInt8]) throws -> String? {
        let parsed: ParsedQuery
        do {
            parsed = try ParsedQuery(text)
        } catch {
            return (0...text.count).contains(error.offset) ? nil : "an error outside the text: \(error)"
        }
        if text.count > QueryLimits.textBytesMax { return "a text of \(text.count) bytes was read" }
        do {
            let again = try ParsedQuery(parsed.text)
            if again != parsed { return "written, it reads as another query: \(parsed)" }
        } catch {
            return "written, it cannot be read: \(parsed): \(error)"
        }
        return try checkedProblem(parsed)
    }

    private func checkedProblem(_ parsed: ParsedQuery) throws -> String? {
        guard let schema = state.schema(ofClass: Array(QueryWorld.className.utf8)) else { return "no class" }
        guard let query = try? Query(parsed, on: schema, of: state, [.value(.int(1)), .list([.null, .bool(true)])])
        else { return nil }
        _ = try query.objects(in: state)
        do {
            _ = try Query(query.canonicalText, on: QueryWorld.className, of: state)
        } catch  where !Self.comparesNumberWithoutCase(query.canonicalText) {
            return "the canonical text is no query: \(query.canonicalText): \(error)"
        } catch {}
        return nil
    }

    /// True for canonical texts that need not be queries: the whole number that is compared with a real property is
    /// printed without a point and read as an Int, which `[c]` refuses there (`Spec/Query.md`, section 8).
    private static func comparesNumberWithoutCase(_ text: String) -> Bool { text.contains(/[=!]=\[c\] -?[0-9]/) }

    // MARK: Texts

    private static func oversized(_ random: inout SeededRandom) -> [UInt8] {
        let count = random.below(300)
        let text =
            switch random.below(6) {
            case 0: String(repeating: "(", count: count) + "int == 1" + String(repeating: ")", count: count)
            case 1: String(repeating: "!", count: count) + "int == 1"
            case 2: String(repeating: "(", count: count) + "int" + String(repeating: " + 1)", count: count) + " == 1"
            case 3: "!(" + (0...count).map { "int == \($0)" }.joined(separator: " or ") + ")"
            case 4: "int IN {" + String(repeating: "1, ", count: 100 * count) + "1}"
            default: "string == '" + String(repeating: "x", count: 1_000 * count) + "'"
            }
        return Array(text.utf8)
    }

    private static let pieces = [
        "(", ")", "{", "}", "[", "]", "'", "\"", "\\", "@", ".", ",", "$", "!", "not ", " and ", " or ", "ANY ", "[c]",
        "[FIRST]", "B64\"", "T1:-1", "0x", "-", "\u{0}", "é", "uuid(", "SUBQUERY(int, $x, ", "SORT(",
    ]

    private static func damage(_ text: inout [UInt8], _ random: inout SeededRandom) {
        let place = random.upTo(text.count)
        let end = min(text.count, place + random.below(6))
        switch random.below(4) {
        case 0: text.removeSubrange(place..<end)
        case 1: text.insert(contentsOf: Array(text[place..<end]), at: random.upTo(text.count))
        case 2: text.insert(contentsOf: Array(random.pick(pieces).utf8), at: place)
        default: if place < text.count { text[place] = UInt8(random.below(256)) }
        }
    }
}
