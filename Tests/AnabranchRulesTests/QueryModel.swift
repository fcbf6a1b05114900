import AnabranchCore
import AnabranchQuery
import AnabranchTesting

/// An object in plain words: what a `Doc` of `QueryModel.state` holds.
struct PlainObject: CustomStringConvertible {
    var owner: String?
    var level: Int?
    var isDone = false
    var tags: [String] = []
    var codes: Set<Int> = []
    var counts: [String: Int] = [:]
    /// City and zip code of the embedded object, if there is one.
    var place: (city: String?, zip: Int?)?
    /// The cities of a list of them.
    var cities: [String?] = []

    var description: String {
        "\(owner ?? "-") \(level ?? -99) \(isDone) \(tags) \(codes.sorted()) \(counts) \(String(describing: place)) "
            + "\(cities)"
    }

    static let words = ["ada", "bob", "Eve", "ad", "b", "", "é"]

    static func random(_ random: inout SeededRandom) -> PlainObject {
        func word() -> String? { random.isOne(in: 5) ? nil : random.pick(words) }
        func number() -> Int? { random.isOne(in: 5) ? nil : random.below(7) - 2 }
        var object = PlainObject(owner: word(), level: number(), isDone: random.isOne(in: 2))
        object.tags = (0..<random.below(4)).map { _ in random.pick(words) }
        object.codes = Set((0..<random.below(4)).map { _ in random.below(6) })
        for key in ["a", "b"] where random.isOne(in: 2) { object.counts[key] = random.below(4) }
        if !random.isOne(in: 4) { object.place = (word(), number()) }
        object.cities = (0..<random.below(3)).map { _ in word() }
        return object
    }
}

/// A query on a `Doc`, its text, and what it means: told once more, and apart from the engine (`Spec/Query.md`,
/// section 6).
struct QueryModel {
    let text: String
    /// For an object and the name of the user.
    let holds: (PlainObject, String) -> Bool

    static func state(_ objects: [PlainObject]) throws -> ObjectGraph {
        var graph = ObjectGraph()
        _ = try graph.write(as: 2) { transaction in
            try transaction.addEmbeddedClass("Place")
            try transaction.addColumn("city", .string, isNullable: true, to: "Place")
            try transaction.addColumn("zip", .int, isNullable: true, to: "Place")
            try transaction.addClass("Doc", key: "_id", .int)
            try transaction.addColumn("owner", .string, isNullable: true, to: "Doc")
            try transaction.addColumn("level", .int, isNullable: true, to: "Doc")
            try transaction.addColumn("done", .bool, to: "Doc")
            try transaction.addColumn("tags", .string, collection: .list, to: "Doc")
            try transaction.addColumn("codes", .int, collection: .set, to: "Doc")
            try transaction.addColumn("counts", .int, collection: .dictionary, to: "Doc")
            try transaction.addLink("place", to: "Place", collection: .single, of: "Doc")
            try transaction.addLink("places", to: "Place", collection: .list, of: "Doc")
            for (key, object) in objects.enumerated() { try write(object, Int64(key), in: transaction) }
        }
        return graph
    }

    private static func write(_ object: PlainObject, _ key: Int64, in transaction: WriteTransaction) throws {
        func payload(_ text: String?) -> Payload { text.map { .string(Array($0.utf8)) } ?? .null }
        func payload(_ number: Int?) -> Payload { number.map { .int(Int64($0)) } ?? .null }
        let doc = try transaction.create(
            "Doc", key: .int(key),
            ["owner": payload(object.owner), "level": payload(object.level), "done": .bool(object.isDone)])
        for tag in object.tags { try doc.list("tags").append(payload(tag)) }
        for code in object.codes.sorted() { try doc.set("codes").insert(payload(code)) }
        for (key, count) in object.counts { try doc.dictionary("counts").set(payload(count), for: key) }
        if let place = object.place {
            let embedded = try doc.createObject("place")
            try embedded.set("city", to: payload(place.city))
            try embedded.set("zip", to: payload(place.zip))
        }
        for city in object.cities { try doc.list("places").appendObject().set("city", to: payload(city)) }
    }

    // MARK: Queries

    static func random(_ random: inout SeededRandom, depth: Int = 3) -> QueryModel {
        guard depth > 0, !random.isOne(in: 3) else { return leaf(&random) }
        if random.isOne(in: 4) {
            let inner = QueryModel.random(&random, depth: depth - 1)
            return QueryModel(text: "!(\(inner.text))") { !inner.holds($0, $1) }
        }
        let parts = (0...random.below(3)).map { _ in QueryModel.random(&random, depth: depth - 1) }
        let isAnd = random.isOne(in: 2)
        let text = parts.map { "(\($0.text))" }.joined(separator: isAnd ? " && " : " or ")
        return QueryModel(text: text) { object, user in
            isAnd
                ? parts.allSatisfy { $0.holds(object, user) } : parts.contains { $0.holds(object, user) }
        }
    }

    private static func leaf(_ random: inout SeededRandom) -> QueryModel {
        switch random.below(12) {
        case 0: plainText(&random)
        case 1, 2: owner(&random)
        case 3: pattern(&random)
        case 4: membership(&random)
        case 5: number(&random)
        case 6: tags(&random)
        case 7: codes(&random)
        case 8: embedded(&random)
        case 9: sizes(&random)
        case 10: entry(&random)
        default: others(&random)
        }
    }

    // MARK: Values

    private static let signs = ["==", "!=", "<", "<=", ">", ">="]

    /// The general rule: null is equal to null alone, and in no order with anything else.
    private static func compare<Value: Comparable>(_ left: Value?, _ sign: String, _ right: Value?) -> Bool {
        guard let left, let right else {
            let areBoth = left == nil && right == nil
            return sign == "!=" ? !areBoth : areBoth && (sign.hasSuffix("="))
        }
        return switch sign {
        case "==": left == right
        case "!=": left != right
        case "<": left < right
        case "<=": left <= right
        case ">": left > right
        default: left >= right
        }
    }

    /// Texts are in the order of their bytes.
    private struct Bytes: Comparable {
        let text: String
        static func < (left: Bytes, right: Bytes) -> Bool { left.text.utf8.lexicographicallyPrecedes(right.text.utf8) }
    }

    private static func compare(_ left: String?, _ sign: String, _ right: String?) -> Bool {
        compare(left.map { Bytes(text: $0) }, sign, right.map { Bytes(text: $0) })
    }

    /// A word or the user: as it is written, and what it is for a user.
    private static func word(_ random: inout SeededRandom) -> (text: String, value: (String) -> String) {
        if random.isOne(in: 2) { return ("$user.id", { $0 }) }
        let word = random.pick(PlainObject.words)
        return ("\"\(word)\"", { _ in word })
    }

    // MARK: Leaves

    private static func plainText(_ random: inout SeededRandom) -> QueryModel {
        let sign = random.pick(signs), word = word(&random)
        return QueryModel(text: "owner \(sign) \(word.text)") { object, user in
            // Here, and here alone, null is below every text.
            guard let owner = object.owner else { return ["!=", "<", "<="].contains(sign) }
            return compare(owner, sign, word.value(user))
        }
    }

    private static func owner(_ random: inout SeededRandom) -> QueryModel {
        switch random.below(3) {
        case 0: return QueryModel(text: "owner == $user.id") { $0.owner == $1 }
        case 1: return QueryModel(text: "$user.id in tags") { $0.tags.contains($1) }
        default:
            let sign = random.pick(signs)
            return QueryModel(text: "$user.id \(sign) owner") { compare($1, sign, $0.owner) }
        }
    }

    private static func pattern(_ random: inout SeededRandom) -> QueryModel {
        let word = word(&random), isFolded = random.isOne(in: 2)
        let relation = random.pick(["BEGINSWITH", "ENDSWITH", "CONTAINS"])
        return QueryModel(text: "owner \(relation)\(isFolded ? "[c]" : "") \(word.text)") { object, user in
            guard let owner = object.owner else { return false }
            let text = isFolded ? owner.lowercased() : owner
            let pattern = isFolded ? word.value(user).lowercased() : word.value(user)
            return switch relation {
            case "BEGINSWITH": text.hasPrefix(pattern)
            case "ENDSWITH": text.hasSuffix(pattern)
            default: pattern.isEmpty || text.contains(pattern)
            }
        }
    }

    private static func membership(_ random: inout SeededRandom) -> QueryModel {
        let words = (0..<random.below(4)).map { _ in word(&random) }, hasNull = random.isOne(in: 3)
        let text = (words.map(\.text) + (hasNull ? ["NULL"] : [])).joined(separator: ", ")
        return QueryModel(text: "owner IN {\(text)}") { object, user in
            object.owner.map { owner in words.contains { $0.value(user) == owner } } ?? hasNull
        }
    }

    private static func number(_ random: inout SeededRandom) -> QueryModel {
        let sign = random.pick(signs), number = random.below(6) - 2, more = random.below(3)
        switch random.below(4) {
        case 0: return QueryModel(text: "level \(sign) \(number)") { object, _ in compare(object.level, sign, number) }
        case 1:
            return QueryModel(text: "level + \(more) \(sign) \(number)") { object, _ in
                compare(object.level.map { $0 + more }, sign, number)
            }
        case 2:
            return QueryModel(text: "level \(sign) place.zip") { object, _ in
                compare(object.level, sign, object.place?.zip)
            }
        default:
            return QueryModel(text: "level between {\(number), \(number + more)}") { object, _ in
                object.level.map { (number...(number + more)).contains($0) } ?? false
            }
        }
    }

    private static func quantified<Value>(
        _ quantifier: String, _ values: [Value], _ holds: (Value) -> Bool
    ) -> Bool {
        switch quantifier {
        case "ALL ": values.allSatisfy(holds)
        case "NONE ": !values.contains(where: holds)
        default: values.contains(where: holds)
        }
    }

    private static let quantifiers = ["", "ANY ", "ALL ", "NONE "]

    private static func tags(_ random: inout SeededRandom) -> QueryModel {
        let quantifier = random.pick(quantifiers), sign = random.pick(signs), word = word(&random)
        return QueryModel(text: "\(quantifier)tags \(sign) \(word.text)") { object, user in
            quantified(quantifier, object.tags) { compare($0, sign, word.value(user)) }
        }
    }

    private static func codes(_ random: inout SeededRandom) -> QueryModel {
        let quantifier = random.pick(quantifiers), sign = random.pick(signs), number = random.below(6)
        return QueryModel(text: "\(quantifier)codes \(sign) \(number)") { object, _ in
            quantified(quantifier, object.codes.sorted()) { compare($0, sign, number) }
        }
    }

    private static func embedded(_ random: inout SeededRandom) -> QueryModel {
        let sign = random.pick(signs), word = word(&random), quantifier = random.pick(quantifiers)
        switch random.below(4) {
        case 0: return QueryModel(text: "place == NULL") { object, _ in object.place == nil }
        case 1: return QueryModel(text: "owner == place.city") { object, _ in object.owner == object.place?.city }
        case 2:
            return QueryModel(text: "place.city \(sign) \(word.text)") { object, user in
                compare(object.place?.city, sign, word.value(user))
            }
        default:
            return QueryModel(text: "\(quantifier)places.city \(sign) \(word.text)") { object, user in
                quantified(quantifier, object.cities) { compare($0, sign, word.value(user)) }
            }
        }
    }

    private static func sizes(_ random: inout SeededRandom) -> QueryModel {
        let sign = random.pick(signs), number = random.below(4)
        let (text, size): (String, (PlainObject) -> Int?) = random.pick([
            ("tags.@size", { $0.tags.count }), ("codes.@count", { $0.codes.count }),
            ("places.@count", { $0.cities.count }), ("owner.@size", { $0.owner?.utf8.count }),
            ("codes.@sum", { $0.codes.reduce(0, +) }), ("codes.@max", { $0.codes.max() }),
            ("codes.@min", { $0.codes.min() }),
        ])
        return QueryModel(text: "\(text) \(sign) \(number)") { object, _ in compare(size(object), sign, number) }
    }

    /// Of an empty dictionary an entry has no value, not even null.
    private static func entry(_ random: inout SeededRandom) -> QueryModel {
        let sign = random.pick(signs), number = random.below(4), key = random.pick(["a", "b"])
        return QueryModel(text: "counts['\(key)'] \(sign) \(number)") { object, _ in
            !object.counts.isEmpty && compare(object.counts[key], sign, number)
        }
    }

    private static func others(_ random: inout SeededRandom) -> QueryModel {
        let isTrue = random.isOne(in: 2)
        switch random.below(3) {
        case 0: return QueryModel(text: isTrue ? "TRUEPREDICATE" : "FALSEPREDICATE") { _, _ in isTrue }
        case 1: return QueryModel(text: "done == \(isTrue)") { object, _ in object.isDone == isTrue }
        default: return QueryModel(text: "counts.@keys == 'a'") { object, _ in object.counts["a"] != nil }
        }
    }
}
