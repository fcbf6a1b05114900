import AnabranchCore
@testable import AnabranchQuery
import AnabranchTesting
import Foundation
import Testing

/// The answers of the reference: recorded, and by the model of the language.
@Suite struct ReferenceTests {
    private static let vectors = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Vectors/Queries/queries.jsonl.zst").path()

    @Test func recordedQueriesAreAnsweredLikeTheReference() throws {
        var count = 0
        try QueryVector.forEach(in: Self.vectors) { number, vector in
            for query in vector.cases {
                count += 1
                let problem = try vector.problem(of: query)
                #expect(problem == nil, "line \(number): \(query.query)")
            }
        }
        #expect(count == 5_000)
    }

    /// Objects of the records, other queries.
    @Test(arguments: 0..<4 as Range<UInt64>) func randomQueriesAreAnsweredLikeTheModel(seed: UInt64) throws {
        var worlds: [(vector: QueryVector, line: String, texts: [String])] = []
        try JSONLines.forEachLine(in: Self.vectors) { number, line in
            guard number % 10 == Int(seed) else { return }
            let vector = try QueryVector(parsing: line)
            let schema = try #require(vector.state.schema(ofClass: Array(vector.className.utf8)))
            var queries = RandomQuery(seed: seed << 32 | UInt64(number), about: schema, of: vector.state, .model)
            worlds.append((vector, String(decoding: line, as: UTF8.self), (0..<50).map { _ in queries.next() }))
        }
        let requests = worlds.map { world in
            let texts = world.texts.map(JSONText.quoted).joined(separator: ",")
            return "{\"vector\":\(world.line),\"texts\":[\(texts)]}"
        }
        let answers = try PythonModel.lines(of: "query_bridge.py", answering: requests)
        try #require(answers.count == worlds.count)
        var matching = 0
        for (world, answer) in zip(worlds, answers) {
            let models = try #require(try JSONValue(parsing: answer.utf8).array)
            for (text, model) in zip(world.texts, models) where model != .null {
                let expected =
                    model.array.map { QueryVector.Answer.matches(Set($0.map(\.encoded))) }
                    ?? .error(model.string ?? "")
                let (ours, query) = try world.vector.answer(to: text)
                if case .matches(let keys) = ours, !keys.isEmpty { matching += 1 }
                #expect(ours == expected, "\(text)\nseed \(seed), canonical text: \(query?.canonicalText ?? "none")")
            }
        }
        #expect(matching > 200)
    }

    @Test func decimalsAreCalculatedToThirtyFourDigits() throws {
        var random = SeededRandom(scrambling: 34)
        func number() -> String {
            if random.isOne(in: 12) { return random.pick(["0", "-0", "inf", "-inf", "nan", "0E-6000", "1E6111"]) }
            let digits = (0...random.below(34)).map { _ in String(random.isOne(in: 3) ? 9 : random.below(10)) }.joined()
            let exponent = random.isOne(in: 5) ? random.below(12_000) - 6_176 : random.below(80) - 40
            return "\(random.isOne(in: 2) ? "-" : "")\(digits)E\(max(exponent, -6_176))"
        }
        let operations = Arithmetic.allCases.map(\.rawValue)
        let requests = (0..<20_000).map { _ in "\(number()) \(random.pick(operations)) \(number())" }
        let answers = try PythonModel.lines(of: "decimal_bridge.py", answering: requests)
        try #require(answers.count == requests.count)
        for (request, answer) in zip(requests, answers) {
            let parts = request.split(separator: " ")
            let left = try #require(Decimal128(text: Array(parts[0].utf8)))
            let right = try #require(Decimal128(text: Array(parts[2].utf8)))
            let operation = try #require(Arithmetic(rawValue: String(parts[1])))
            guard case .decimal(let result) = operation(.decimal(left), .decimal(right)) else {
                Issue.record("\(request): no decimal")
                continue
            }
            #expect(Self.text(result) == answer, "\(request)")
        }
    }

    private static func text(_ value: Decimal128) -> String {
        let parts = DecimalParts(value)
        switch parts.kind {
        case .nan: return "nan"
        case .infinite: return parts.isNegative ? "-inf" : "inf"
        case .finite: return "\(parts.isNegative ? 1 : 0) \(parts.coefficient) \(parts.exponent)"
        }
    }
}
