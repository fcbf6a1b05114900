package import AnabranchCore
import AnabranchQuery

/// Writes random queries about a class: mostly right ones, with every operator, every kind of constant and every kind
/// of property that the class has; some name unknown properties or make no sense.
package struct RandomQuery {
    /// The parts of the language that are written.
    package enum Extent: Sendable {
        /// Everything.
        case all
        /// The part that the model of the language knows, without subqueries, regions, arguments and full text.
        case model
    }

    private var random: SeededRandom
    private let schema: ClassSchema
    private let classes: [ClassID: ClassSchema]
    private let extent: Extent

    package init(seed: UInt64, about schema: ClassSchema, of state: ObjectGraph, _ extent: Extent) {
        random = SeededRandom(scrambling: seed)
        self.schema = schema
        self.extent = extent
        classes = Dictionary(uniqueKeysWithValues: state.classes.map { ($0.number, $0) })
    }

    /// The next text.
    package mutating func next() -> String {
        var text = predicate(depth: random.below(4))
        if extent == .all, random.isOne(in: 8) { text += suffix() }
        return text
    }

    /// The next text that can be subscribed to; after eight failed attempts, any text.
    package mutating func nextSubscription(in state: ObjectGraph) -> String {
        let name = String(decoding: schema.name, as: UTF8.self)
        for _ in 0..<8 {
            let text = predicate(depth: random.below(4))
            if (try? Query(subscribingTo: name, where: text, of: state)) != nil { return text }
        }
        return predicate(depth: 1)
    }

    // MARK: Predicates

    private mutating func predicate(depth: Int) -> String {
        guard depth > 0, random.isOne(in: 2) else { return leaf(depth: depth) }
        switch random.below(4) {
        case 0: return random.pick(["!", "not ", "NOT "]) + "(\(predicate(depth: depth - 1)))"
        case 1: return "(\(predicate(depth: depth - 1)))"
        default:
            let word = random.pick([" and ", " AND ", " && ", " or ", " OR ", " || "])
            return (0...random.below(3)).map { _ in
                let part = predicate(depth: depth - 1)
                return random.isOne(in: 3) ? "(\(part))" : part
            }.joined(separator: word) + word + predicate(depth: depth - 1)
        }
    }

    private mutating func leaf(depth: Int) -> String {
        switch random.below(20) {
        case 0: return random.pick(["TRUEPREDICATE", "FALSEPREDICATE", "truepredicate"])
        case 1 where extent == .all && depth > 0: return subquery(depth: depth)
        case 2 where extent == .all: return region()
        default: return comparison()
        }
    }

    private mutating func comparison() -> String {
        let (operand, type) = operand()
        switch random.below(10) {
        case 0: return "\(operand) \(random.pick(["BETWEEN", "between"])) {\(constant(type)), \(constant(type))}"
        case 1: return "\(operand) \(random.pick(["IN", "in", "==", "!="])) \(list(type))"
        case 2: return "\(operand) \(random.pick(Self.orders + ["==", "!="])) \(list(type))"
        case 3:
            let relation = random.pick(["BEGINSWITH", "endswith", "Contains", "LIKE", "like"])
            let pattern = random.isOne(in: 4) ? list(type) : constant(random.isOne(in: 4) ? type : .string)
            return "\(operand) \(relation)\(random.pick(["", "[c]"])) \(pattern)"
        case 4: return "\(operand) \(random.pick(["==", "!="]))[c] \(constant(random.isOne(in: 4) ? type : .string))"
        case 5: return "\(operand) \(random.pick(Self.orders + ["==", "!="])) \(self.operand().text)"
        case 6: return "\(constant(type)) \(random.pick(Self.orders + ["==", "!=", "IN"])) \(operand)"
        case 7 where extent == .all:
            return "\(operand) == \(random.pick(["$0", "ANY $1", "O12", "L1:2", "$K0"]))"
        default: return "\(operand) \(random.pick(Self.orders + ["==", "=", "!=", "<>"])) \(constant(type))"
        }
    }

    private static let orders = ["<", ">", "<=", ">=", "=<", "=>"]

    // MARK: Operands

    /// An operand, and the type of the constants to compare it with; nil for `@type`.
    private mutating func operand() -> (text: String, type: PayloadType?) {
        if random.isOne(in: 8) {
            let (left, type) = path(of: schema)
            let right = random.isOne(in: 2) ? path(of: schema).text : constant(type)
            let text = "\(left) \(random.pick(["+", "-", "*", "/"])) \(right)"
            return (random.isOne(in: 3) ? "(\(text)) * \(constant(.int))" : text, type)
        }
        let (path, type) = path(of: schema)
        switch random.below(12) {
        case 0: return (path + random.pick([".@size", ".@count", "[SIZE]"]), .int)
        case 1: return (path + "." + random.pick(["@min", "@max", "@sum", "@avg"]), type)
        case 2: return (quantifier() + path + ".@type", nil)
        case 3, 4, 5: return (quantifier() + path, type)
        case 6 where extent == .all: return (path + random.pick([".length", ".@keys", ".@values", "[*]", "[3]"]), type)
        default: return (path, type)
        }
    }

    private mutating func quantifier() -> String { random.pick(["", "ANY ", "all ", "NONE ", "some "]) }

    private mutating func path(of schema: ClassSchema) -> (text: String, type: PayloadType) {
        let properties = schema.properties + [schema.key].compactMap { $0 }
        guard !properties.isEmpty, !random.isOne(in: 60) else { return ("nosuch", .int) }
        if random.isOne(in: 40) { return ("@links.\(Self.name(schema)).link", .link) }
        let property = random.pick(properties)
        let name = String(decoding: property.name, as: UTF8.self)
        let index = random.isOne(in: 4) ? index(of: property) : ""
        guard let target = property.target.flatMap({ classes[$0] }) else { return (name + index, property.type) }
        if random.isOne(in: 6) {
            let end = path(of: target)
            return ("\(name)\(index).\(random.pick(["@min", "@max", "@sum", "@avg"])).\(end.text)", end.type)
        }
        guard !random.isOne(in: 3) else { return (name + index, .link) }
        let end = path(of: target)
        return ("\(name)\(index).\(end.text)", end.type)
    }

    private static func name(_ schema: ClassSchema) -> String { String(decoding: schema.name, as: UTF8.self) }

    private mutating func index(of property: Property) -> String {
        switch property.collection {
        case .list: random.pick(["[0]", "[1]", "[FIRST]", "[LAST]", "[*]"])
        case .dictionary where property.target != nil: random.pick(["['a']", "['zz']", "[*]", ".@values", ".a"])
        case .dictionary: random.pick(["['a']", "['zz']", "[*]", ".@keys", ".@values", ".a"])
        case .single where property.type == .null: random.pick(["['a']", "[0]", "[*]", ".a", "[LAST]['a']", "[*][*]"])
        default: ""
        }
    }

    // MARK: Constants

    private mutating func list(_ type: PayloadType?) -> String {
        let members = (0..<random.pick([0, 1, 1, 2, 3, 4])).map { _ in constant(type) }
        return random.pick(["", "ANY ", "ALL ", "NONE "]) + "{\(members.joined(separator: ", "))}"
    }

    private mutating func constant(_ type: PayloadType?) -> String {
        if random.isOne(in: 12) { return random.pick(["NULL", "nil", "null"]) }
        if random.isOne(in: 20) {
            return constant(random.pick(Array(Self.constants.keys).sorted { "\($0)" < "\($1)" }))
        }
        guard let type else {
            return random.pick(["'int'", "'string'", "\"NULL\"", "'numeric'", "'list'", "'nothing'"])
        }
        if type == .link {
            return "obj(\"\(Self.name(schema))\", \(constant(schema.key?.type ?? .int)))"
        }
        guard type != .null, let forms = Self.constants[type] else {
            return constant(
                random.pick([.int, .bool, .string, .binary, .double, .timestamp, .decimal, .uuid, .objectID]))
        }
        return random.pick(forms)
    }

    /// A few values for each type, so that they often equal those of objects.
    private static let constants: [PayloadType: [String]] = {
        let numbers = ["0", "1", "2", "-1", "3", "10", "+7", "0x10", "010"]
        let reals = ["0.0", "1.5", ".5", "-2.5", "3.", "7e0", "0.1", "1e300", "nan", "-inf", "inf", "1234567.5"]
        let floats = ["1.5f", "0.1f", "7e0f", "-2.5f", "1f"]
        return [
            .int: numbers + ["9223372036854775807", "-9223372036854775808", "99999999999999999999", "1.0", "1.5"],
            .bool: ["true", "false", "TRUE", "FALSE"],
            .string: [
                "\"a\"", "'A'", "\"ab\"", "'abc'", "\"Foo bar\"", "'*b*'", "\"?\"", "'é'", "\"É\"", "\"中文\"", "''",
                "B64\"YQ==\"", "B64\"dGFiCWhlcmU=\"", "\"12\"", "\"1.5\"", "'a**'", "'a\\n'",
            ],
            .binary: ["binary('a')", "binary(B64\"AA==\")", "bin(\"ab\")", "BINARY(B64\"/wE=\")", "binary(\"\")"],
            .timestamp: [
                "T0:0", "T1:500", "T-1:-500", "1970-01-01@00:00:01", "2000-01-01T00:00:00:5", "T1600000000:0",
                "1969-12-31@23:59:59:500",
            ],
            .float: floats + reals, .double: reals + numbers + floats,
            .decimal: reals + numbers + ["0.10", "12345678901234567890"],
            .objectID: ["oid(000000000000000000000000)", "oid(000000000000020000000000)"],
            .uuid: [
                "uuid(00000000-0000-4000-8000-000000000000)", "uuid(00000001-0000-4000-8000-000000000002)",
                "uuid(ABCDEF00-0000-4000-8000-000000000002)",
            ],
        ]
    }()

    // MARK: Outside the model of the language

    private mutating func subquery(depth: Int) -> String {
        let links = schema.properties.filter { $0.target != nil && $0.collection != .single }
        guard let property = links.randomElement(using: &random), let target = property.target.flatMap({ classes[$0] })
        else { return "TRUEPREDICATE" }
        let (path, type) = path(of: target)
        let name = String(decoding: property.name, as: UTF8.self)
        return "SUBQUERY(\(name), $x, $x.\(path) == \(constant(type))).@count > \(random.below(2))"
    }

    private mutating func region() -> String {
        let property = String(decoding: random.pick(schema.properties).name, as: UTF8.self)
        func point(_ random: inout SeededRandom) -> String { "[\(random.below(60)), \(random.below(60))]" }
        switch random.below(3) {
        case 0: return "\(property) GEOWITHIN geoCircle(\(point(&random)), 0.\(random.below(100)))"
        case 1: return "\(property) GEOWITHIN GeoBox(\(point(&random)), \(point(&random)))"
        default:
            let first = point(&random)
            return "\(property) geowithin GeoPolygon({\(first), \(point(&random)), \(point(&random)), \(first)})"
        }
    }

    private mutating func suffix() -> String {
        let name = String(
            decoding: (schema.properties.randomElement(using: &random) ?? schema.key)?.name ?? [], as: UTF8.self)
        return random.pick([
            " SORT(\(name) ASC)", " sort(\(name) DESC, _id ascending)", " DISTINCT(\(name))", " LIMIT(3)",
            " SORT(\(name) DESC) DISTINCT(\(name)) LIMIT(2)",
        ])
    }
}
