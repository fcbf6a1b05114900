package import AnabranchCore
import AnabranchQuery

/// A state with a class of every kind of property, and some objects of random contents.
package enum QueryWorld {
    /// The name of the class.
    package static let className = "A"

    package static func state(seed: UInt64) throws -> ObjectGraph {
        var random = SeededRandom(scrambling: seed)
        var graph = ObjectGraph()
        _ = try graph.write(as: 2) { transaction in
            try addSchema(in: transaction)
            for key in 0..<10 { try transaction.create(className, key: .int(Int64(key))) }
        }
        let empty = graph
        _ = try graph.write(as: 2) { transaction in
            for object in try transaction.objects(className) { try fill(object, &random) }
        }
        try erase([8, 9], of: className, from: &graph, asOf: empty)
        return graph
    }

    /// Erases objects as a client would that did not know of the links to them: those dangle.
    ///
    /// - Parameter earlier: the state that the client knew, without the links.
    package static func erase(
        _ keys: [PrimaryKey], of className: String, from graph: inout ObjectGraph, asOf earlier: ObjectGraph
    ) throws {
        var other = earlier
        let changeset = try other.write(as: 3) { transaction in
            for key in keys {
                if let object = try transaction.object(className, key: key) { try transaction.delete(object) }
            }
        }.changeset
        var arena = ChangesetArena()
        try graph.apply(
            try arena.decode(changeset, version: 1, tag: OriginTag(timestamp: 0, ident: 3)), of: arena)
    }

    private static let types: [(name: String, type: PayloadType)] = [
        ("int", .int), ("bool", .bool), ("string", .string), ("binary", .binary), ("timestamp", .timestamp),
        ("float", .float), ("double", .double), ("decimal", .decimal), ("objectid", .objectID), ("uuid", .uuid),
        ("mix", .null),
    ]
    private static let kinds: [(suffix: String, kind: CollectionType)] = [
        ("", .single), ("L", .list), ("T", .set), ("D", .dictionary),
    ]

    private static func addSchema(in transaction: WriteTransaction) throws {
        try transaction.addClass(className, key: "_id", .int)
        try transaction.addEmbeddedClass("E")
        try transaction.addColumn("n", .int, isNullable: true, to: "E")
        try transaction.addColumn("s", .string, isNullable: true, to: "E")
        try transaction.addEmbeddedClass("Point")
        try transaction.addColumn("type", .string, to: "Point")
        try transaction.addColumn("coordinates", .double, collection: .list, to: "Point")
        for (name, type) in types {
            for (suffix, kind) in kinds {
                try transaction.addColumn(
                    name + suffix, type, isNullable: kind != .list, collection: kind, to: className)
            }
        }
        for (suffix, kind) in kinds {
            try transaction.addLink("link" + suffix, to: className, collection: kind, of: className)
            if kind != .set { try transaction.addLink("emb" + suffix, to: "E", collection: kind, of: className) }
        }
        try transaction.addLink("place", to: "Point", of: className)
    }

    private static func fill(_ object: DynamicObject, _ random: inout SeededRandom) throws {
        for (name, type) in types + [("link", .link)] {
            if !random.isOne(in: 4) { try object.set(name, to: value(type, &random)) }
            for _ in 0..<random.below(4) {
                for (suffix, _) in kinds.dropFirst() { try add(to: name + suffix, of: object, type, &random) }
            }
        }
        if random.isOne(in: 3) {
            try object.set("mix", to: .dictionary)
            try object.dictionary("mix").set(.list, for: "a")
            try object.dictionary("mix").list(for: "a").append(value(.int, &random))
        }
        if random.isOne(in: 2) { try fill(embedded: object.createObject("emb"), &random) }
        for _ in 0..<random.below(3) {
            try fill(embedded: object.list("embL").appendObject(), &random)
            try fill(embedded: object.dictionary("embD").createObject(for: random.pick(["a", "b"])), &random)
        }
        if random.isOne(in: 2) {
            let place = try object.createObject("place")
            try place.set("type", to: "Point")
            for _ in 0..<2 { try place.list("coordinates").append(.double(Double(random.below(60)))) }
        }
    }

    private static func add(
        to field: String, of object: DynamicObject, _ type: PayloadType, _ random: inout SeededRandom
    ) throws {
        switch field.last {
        case "L": try object.list(field).append(value(type, &random))
        case "T": try object.set(field).insert(value(type, &random))
        default: try object.dictionary(field).set(value(type, &random), for: random.pick(["a", "zz", "Key"]))
        }
    }

    /// Writes another value to a random field of an object, or adds one to a collection.
    ///
    /// - Returns: the name of the field.
    package static func change(_ object: DynamicObject, _ random: inout SeededRandom) throws -> String {
        let (name, type) = random.pick(types + [("link", .link)])
        let (suffix, kind) = random.pick(kinds)
        if kind == .single {
            try object.set(name, to: value(type, &random))
        } else {
            try add(to: name + suffix, of: object, type, &random)
        }
        return name + suffix
    }

    private static func fill(embedded: DynamicObject, _ random: inout SeededRandom) throws {
        try embedded.set("n", to: value(.int, &random))
        try embedded.set("s", to: value(.string, &random))
    }

    private static func value(_ type: PayloadType, _ random: inout SeededRandom) -> Payload {
        switch type {
        case .int: .int(random.pick([0, 1, 2, -1, 3, 10, .max, .min]))
        case .bool: .bool(random.isOne(in: 2))
        case .string: .string(Array(random.pick(["", "a", "A", "ab", "Foo bar", "é", "É", "中文", "12"]).utf8))
        case .binary: .binary(random.pick([[], [0], [0xFF, 1], Array("ab".utf8)]))
        case .timestamp: .timestamp(Timestamp(seconds: Int64(random.below(3)), nanoseconds: Int32(random.below(2))))
        case .float: .float(random.pick([0, 1.5, 0.1, -2.5, .nan, .infinity]))
        case .double: .double(random.pick([0, 1.5, 0.1, -2.5, .nan, -.infinity]))
        case .decimal: random.pick(["0", "1.5", "1.50", "0.1", "NaN", "1E300"]).decimal
        case .objectID: ObjectID([UInt8](repeating: UInt8(random.below(3)), count: 12)).map(Payload.objectID) ?? .null
        case .uuid: UUIDBytes([UInt8](repeating: UInt8(random.below(3)), count: 16)).map(Payload.uuid) ?? .null
        case .link: .link(className: Array(className.utf8), key: .int(Int64(random.below(10))))
        default: value(random.pick([.int, .string, .double, .decimal, .bool, .link, .binary, .uuid]), &random)
        }
    }
}

extension String {
    fileprivate var decimal: Payload { Decimal128(text: Array(utf8)).map(Payload.decimal) ?? .null }
}
