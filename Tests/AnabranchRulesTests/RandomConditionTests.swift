import AnabranchCore
import AnabranchQuery
import AnabranchRules
import AnabranchTesting
import Testing

/// Random conditions, answered by the rules and by a plain model of MongoDB's matching.
@Suite struct RandomConditionTests {
    @Test func conditionsAreAnsweredAsTheModelAnswers() throws {
        let state = try RuleWorld.state()
        let schema = try #require(state.schema(ofClass: Array("Task".utf8)))
        let user = try RuleWorld.ada()
        var tasks: [(object: StateObject, document: Document)] = []
        try state.forEachObject(of: schema.number) { object throws(ApplyError) in
            tasks.append((object, Document(object, schema)))
        }
        #expect(tasks.count == 4)
        var (matchCount, indexCount) = (0, 0)
        for seed in 0..<4_000 as Range<UInt64> {
            var random = SeededRandom(scrambling: seed)
            let condition = Condition.random(&random, depth: 3)
            let text = condition.json.encoded
            let mine = try RuleWorld.rules(read: text).rules(for: user)
            #expect(try UserRules(text: mine.text) == mine, "\(text)")
            let query = mine.role(for: schema, of: state).read
            for (object, document) in tasks {
                let matches = try query.matches(object, in: state)
                #expect(matches == condition.holds(for: document), "\(text) for \(document)")
                if matches { matchCount += 1 }
                switch query.index {
                case .never: #expect(!matches, "\(text)")
                case .always: #expect(matches, "\(text)")
                case .oneOf(let values) where matches:
                    indexCount += 1
                    let held = values.contains { object.indexedValues(of: $0.property).contains($0) }
                    #expect(held, "\(text) for \(document)")
                case .oneOf, .evaluated: break
                }
            }
        }
        #expect(matchCount > 1_000)
        #expect(indexCount > 100)
    }
}

/// A task as MongoDB would store it; a null field is left out.
private struct Document {
    private var fields: [String: JSONValue] = [:]

    init(_ object: StateObject, _ schema: ClassSchema) {
        for property in schema.properties {
            let name = String(decoding: property.name, as: UTF8.self)
            switch object.value(of: property) {
            case .string(let text): fields[name] = .string(String(decoding: text, as: UTF8.self))
            case .int(let number): fields[name] = .integer(number)
            case .list(let list):
                fields[name] = .array(
                    list.values.map { value in
                        if case .string(let text) = value {
                            .string(String(decoding: text, as: UTF8.self))
                        } else {
                            .null
                        }
                    })
            default: break
            }
        }
    }

    /// The values that a test looks at: an element each, or null for what is missing.
    func values(of field: String) -> [JSONValue] { fields[field]?.array ?? [fields[field] ?? .null] }

    func has(_ field: String) -> Bool { fields[field] != nil }
}

private indirect enum Condition {
    case joined(String, [Condition])
    case not(Condition)
    case test(String, String, JSONValue)
    case notTest(String, String, JSONValue)

    static func random(_ random: inout SeededRandom, depth: Int) -> Condition {
        guard depth > 0, !random.isOne(in: 3) else {
            let field = random.pick(["owner", "level", "shared"])
            let (name, value) = test(&random)
            return random.isOne(in: 4) ? .notTest(field, name, value) : .test(field, name, value)
        }
        if random.isOne(in: 5) { return .not(.random(&random, depth: depth - 1)) }
        let parts = (0...random.below(2)).map { _ in Condition.random(&random, depth: depth - 1) }
        return .joined(random.pick(["$and", "$or", "$nor"]), parts)
    }

    private static func test(_ random: inout SeededRandom) -> (String, JSONValue) {
        switch random.below(4) {
        case 0: ("$exists", .bool(random.isOne(in: 2)))
        case 1: (random.pick(["$in", "$nin"]), .array((0..<random.below(4)).map { _ in constant(&random) }))
        case 2: (random.pick(["$gt", "$gte", "$lt", "$lte"]), constant(&random))
        default: (random.pick(["$eq", "$ne"]), constant(&random))
        }
    }

    private static func constant(_ random: inout SeededRandom) -> JSONValue {
        random.pick([.null, "ada", "bob", "eve", "", 1, 2, 3, .real(2.5), .bool(true)])
    }

    var json: JSONValue {
        switch self {
        case .joined(let name, let parts): .object([name: .array(parts.map(\.json))])
        case .not(let inner): .object(["$not": inner.json])
        case .test(let field, let name, let value): .object([field: .object([name: value])])
        case .notTest(let field, let name, let value): .object([field: .object(["$not": .object([name: value])])])
        }
    }

    func holds(for document: Document) -> Bool {
        switch self {
        case .joined(let name, let parts):
            let answers = parts.map { $0.holds(for: document) }
            return name == "$and" ? !answers.contains(false) : answers.contains(true) == (name == "$or")
        case .not(let inner): return !inner.holds(for: document)
        case .notTest(let field, let name, let value):
            return !Condition.test(field, name, value).holds(for: document)
        case .test(let field, let name, let value):
            let values = document.values(of: field)
            switch name {
            case "$exists": return document.has(field) == (value == true)
            case "$in":
                return values.contains { element in value.array?.contains { Self.order(element, $0) == 0 } == true }
            case "$nin": return !Condition.test(field, "$in", value).holds(for: document)
            case "$eq": return values.contains { Self.order($0, value) == 0 }
            case "$ne": return !values.contains { Self.order($0, value) == 0 }
            default:
                return values.contains { element in
                    guard let order = Self.order(element, value) else { return false }
                    return order == 0 ? name.hasSuffix("e") : (order < 0) == name.hasPrefix("$l")
                }
            }
        }
    }

    /// Nil for values of different types.
    private static func order(_ left: JSONValue, _ right: JSONValue) -> Int? {
        func order<Value: Comparable>(_ left: Value, _ right: Value) -> Int {
            left < right ? -1 : left == right ? 0 : 1
        }
        if let left = left.number, let right = right.number { return order(left, right) }
        switch (left, right) {
        case (.null, .null): return 0
        case (.string(let left), .string(let right)): return order(left, right)
        default: return nil
        }
    }
}

extension JSONValue {
    fileprivate var number: Double? {
        switch self {
        case .integer(let value): Double(value)
        case .real(let value): value
        default: nil
        }
    }
}
