import AnabranchCore
import AnabranchQuery
import AnabranchTesting
import Testing

/// The meaning of filters on values of every type: as in MongoDB's query language (`Spec/FlexibleRules.md`, section 3).
@Suite struct FilterTests {
    private static let nan = Payload.double(.nan)

    /// A class with two of each property, one of them filled.
    private static func state() throws -> ObjectGraph {
        var graph = ObjectGraph()
        _ = try graph.write(as: 2) { transaction in
            try transaction.addClass("A", key: "_id", .int)
            try transaction.addEmbeddedClass("E")
            for (name, type) in [
                ("int", PayloadType.int), ("string", .string), ("double", .double), ("mixed", .null), ("bool", .bool),
                ("date", .timestamp), ("decimal", .decimal), ("float", .float),
            ] {
                try transaction.addColumn(name, type, isNullable: true, to: "A")
                for (suffix, kind) in [("List", CollectionType.list), ("Set", .set), ("Dict", .dictionary)] {
                    try transaction.addColumn(name + suffix, type, isNullable: true, collection: kind, to: "A")
                }
            }
            try transaction.addClass("B", key: "_id", .int)
            try transaction.create("B", key: .int(77))
            try transaction.addLink("link", to: "B", of: "A")
            try transaction.addLink("linkList", to: "B", collection: .list, of: "A")
            try transaction.addLink("embedded", to: "E", of: "A")
            try transaction.create("A", key: .int(1))
            try fill(try transaction.create("A", key: .int(2)))
        }
        return graph
    }

    private static func fill(_ object: DynamicObject) throws {
        let values: [(String, Payload)] = [
            ("int", .int(5)), ("string", .string(Array("m".utf8))), ("double", .double(1.5)), ("bool", .bool(true)),
            ("date", .timestamp(Timestamp(seconds: 10, nanoseconds: 0))), ("float", .float(2.5)),
            ("decimal", Decimal128(text: Array("7".utf8)).map(Payload.decimal) ?? .null),
        ]
        for (name, value) in values {
            try object.set(name, to: value)
            try object.list(name + "List").append(value)
            try object.set(name + "Set").insert(value)
            try object.dictionary(name + "Dict").set(value, for: "k")
        }
        try object.list("intList").append(.int(9))
        try object.list("stringList").append(.null)
        try object.list("doubleList").append(nan)
        try object.set("mixed", to: .list)
        try object.list("mixed").append(.int(3))
        try object.set("link", to: .link(className: Array("B".utf8), key: .int(77)))
        try object.list("linkList").append(.link(className: Array("B".utf8), key: .int(77)))
        try object.createObject("embedded")
    }

    /// The primary keys of what fulfils a test: 1 is the empty object, 2 the filled one.
    private static func matches(_ field: String, _ test: FilterTest, isNegated: Bool = false) throws -> [Int64] {
        let state = try state()
        let schema = try #require(state.schema(ofClass: Array("A".utf8)))
        let filter = Filter.field(field, test)
        let query = try Query(isNegated ? .not(filter) : filter, on: schema, of: state)
        return try query.objects(in: state).compactMap { if case .int(let key)? = $0.key { key } else { nil } }
    }

    @Test(arguments: [
        ("int", Payload.int(5)), ("int", .double(5)), ("intList", .int(9)), ("intSet", .int(5)), ("mixed", .int(3)),
        ("mixed", .double(3)), ("double", .double(1.5)), ("float", .double(2.5)), ("decimal", .int(7)),
        ("bool", .bool(true)), ("string", .string([0x6D])), ("stringList", .null), ("doubleList", nan),
        ("date", .timestamp(Timestamp(seconds: 10, nanoseconds: 0))), ("link", .int(77)), ("linkList", .int(77)),
        ("int", Decimal128(text: Array("5.0".utf8)).map(Payload.decimal) ?? .null),
    ])
    func equalityIsByValueAndOfAnElement(field: String, constant: Payload) throws {
        #expect(try Self.matches(field, FilterTest(.isIn, [constant])) == [2])
        #expect(try Self.matches(field, FilterTest(.isIn, [.string([0]), constant])) == [2])
        #expect(try Self.matches(field, FilterTest(.isIn, [constant]), isNegated: true) == [1])
    }

    /// A value of another type is not equal, and not in an order either.
    @Test(arguments: [
        ("int", Payload.string([0x35])), ("string", .int(5)), ("bool", .int(1)), ("int", .bool(true)),
        ("int", .double(5.5)),
        ("string", .binary([0x6D])), ("intDict", .int(5)), ("mixed", .string([0x33])), ("date", .int(10)),
        ("link", .string([0x37])), ("embedded", .int(1)), ("double", nan), ("mixed", nan),
    ])
    func otherTypesAreNotEqual(field: String, constant: Payload) throws {
        #expect(try Self.matches(field, FilterTest(.isIn, [constant])) == [])
        #expect(try Self.matches(field, FilterTest(.isIn, [constant]), isNegated: true) == [1, 2])
    }

    @Test(arguments: [
        ("int", FilterTest.Relation.less, Payload.int(6), [2 as Int64]), ("int", .less, .double(5.5), [2]),
        ("int", .less, .int(5), []), ("int", .lessOrEqual, .int(5), [2]), ("int", .greater, .int(4), [2]),
        ("int", .greaterOrEqual, .int(6), []), ("string", .less, .string([0x7A]), [2]),
        ("string", .greater, .int(0), []), ("int", .less, .string([0x7A]), []), ("intList", .greater, .int(8), [2]),
        ("intList", .less, .int(6), [2]), ("mixed", .greater, .int(2), [2]), ("mixed", .greater, .int(3), []),
        ("bool", .greater, .bool(false), [2]), ("date", .less, .timestamp(Timestamp(seconds: 11, nanoseconds: 0)), [2]),
        ("double", .less, .int(2), [2]), ("doubleList", .less, .double(1), []), ("double", .less, nan, []),
        ("doubleList", .lessOrEqual, nan, [2]), ("intDict", .greater, .int(0), []), ("link", .greater, .int(76), [2]),
        ("link", .less, .string([0x7A]), []), ("link", .greater, .string([]), []),
        ("decimal", .less, .double(7.5), [2]), ("float", .greaterOrEqual, .int(2), [2]),
    ])
    func ordersAreWithinAType(
        field: String, relation: FilterTest.Relation, constant: Payload, keys: [Int64]
    ) throws {
        #expect(try Self.matches(field, FilterTest(relation, [constant])) == keys)
        let others = [1, 2].filter { !keys.contains($0) }
        #expect(try Self.matches(field, FilterTest(relation, [constant]), isNegated: true) == others)
    }

    @Test(arguments: ["int", "string", "double", "mixed", "link", "embedded"])
    func nullIsEqualToNullAlone(field: String) throws {
        #expect(try Self.matches(field, FilterTest(.isIn, [.null])) == [1])
        #expect(try Self.matches(field, FilterTest(.lessOrEqual, [.null])) == [1])
        #expect(try Self.matches(field, FilterTest(.greaterOrEqual, [.null])) == [1])
        #expect(try Self.matches(field, FilterTest(.less, [.null])) == [])
        #expect(try Self.matches(field, FilterTest(.exists)) == [2])
        #expect(try Self.matches(field, FilterTest(.exists), isNegated: true) == [1])
    }

    @Test(arguments: ["intList", "intSet", "intDict", "linkList"])
    func collectionsAreThereAndNoNull(field: String) throws {
        #expect(try Self.matches(field, FilterTest(.exists)) == [1, 2])
        #expect(try Self.matches(field, FilterTest(.isIn, [.null])) == [])
    }

    @Test func nothingIsOneOfNothing() throws {
        #expect(try Self.matches("int", FilterTest(.isIn)) == [])
        #expect(try Self.matches("int", FilterTest(.isIn), isNegated: true) == [1, 2])
    }

    @Test func anUnknownFieldIsAnError() throws {
        let error = #expect(throws: QueryError.self) { try Self.matches("nosuch", FilterTest(.exists)) }
        #expect(error?.reason == "\"A\" has no property \"nosuch\"")
    }

    @Test func equalitiesOfFiltersAreAnIndex() throws {
        let state = try Self.state()
        let schema = try #require(state.schema(ofClass: Array("A".utf8)))
        func index(_ filter: Filter) throws -> QueryIndex { try Query(filter, on: schema, of: state).index }
        let property = try #require(schema.property(named: Array("int".utf8)))
        let list = try #require(schema.property(named: Array("intList".utf8)))
        let owner = Filter.field("int", FilterTest(.isIn, [.double(5)]))
        let shared = Filter.field("intList", FilterTest(.isIn, [.int(9)]))
        #expect(try index(owner) == .oneOf([FieldValue(property, .int(5))]))
        #expect(
            try index(.or([owner, shared])) == .oneOf([FieldValue(property, .int(5)), FieldValue(list, .int(9))]))
        #expect(try index(.field("int", FilterTest(.isIn, [.string([0x35])]))) == .never)
        #expect(try index(.field("intList", FilterTest(.exists))) == .always)
        #expect(try index(.field("int", FilterTest(.less, [.int(1)]))) == .evaluated)
    }
}
