import AnabranchCore
import AnabranchQuery
import AnabranchTesting
import Testing

/// By what the objects that match a query are found, and which fields it reads.
@Suite struct QueryIndexTests {
    private static func query(_ text: String) throws -> Query {
        try Query(text, on: QueryWorld.className, of: try QueryWorld.state(seed: 1))
    }

    @Test(arguments: [
        ("int == 1", ["int"]), ("int IN {1, 2, NULL}", ["int", "int", "int"]),
        ("int == 1 and string == 'a'", ["int"]), ("int IN {1, 2} and string == 'a'", ["string"]),
        ("int == 1 or int == 2 or int IN {3, 4}", ["int", "int", "int", "int"]),
        ("(int == 1 and bool == true) or int == 5", ["int", "int"]), ("double > 1 and int == 1", ["int"]),
        ("_id == 7", ["_id"]), ("string == NULL", ["string"]), ("int == 1 or string == 'a'", ["int", "string"]),
        ("intL == 1", ["intL"]), ("ANY stringT == 'a'", ["stringT"]), ("'a' IN stringL", ["stringL"]),
        ("string == 'me' or ANY stringL == 'me'", ["string", "stringL"]), ("int == 1 or FALSEPREDICATE", ["int"]),
        ("TRUEPREDICATE and int == 1", ["int"]),
    ])
    func equalitiesAreNecessary(text: String, names: [String]) throws {
        guard case .oneOf(let values) = try Self.query(text).index else {
            Issue.record("no equality: \(text)")
            return
        }
        #expect(values.map { String(decoding: $0.property.name, as: UTF8.self) }.sorted() == names)
    }

    @Test(arguments: [
        "int > 1", "int != 1", "!(int == 1)", "int == 1 or double > 1", "string ==[c] 'a'", "mix == 1",
        "double == 1.5", "emb.n == 1", "int == NONE {1}", "link == NULL", "ALL intL == 1", "NONE intL == 1",
        "intL == {1, 2}", "intD == 1", "intL[0] == 1", "linkL.int == 1", "intL.@max == 1", "int + 1 == 2",
    ])
    func nothingElseIs(text: String) throws { #expect(try Self.query(text).index == .evaluated) }

    @Test(arguments: [
        ("TRUEPREDICATE", QueryIndex.always), ("FALSEPREDICATE", .never), ("!FALSEPREDICATE", .always),
        ("int == 1 or TRUEPREDICATE", .always), ("int == 1 and FALSEPREDICATE", .never),
        ("int IN {'a'}", .never), ("!TRUEPREDICATE", .never), ("int == 1 and int IN {'a'}", .never),
    ])
    func constantsAreSeen(text: String, index: QueryIndex) throws { #expect(try Self.query(text).index == index) }

    @Test(arguments: [
        ("int == 1 and _id > 2", ["_id", "int"]), ("TRUEPREDICATE", []),
        ("emb.n == 1 or linkL.@count > 1", ["emb", "linkL"]),
        ("place GEOWITHIN geoCircle([0, 0], 1)", ["place"]), ("intD.@keys == 'a'", ["intD"]),
        ("int + double > mix.@size", ["double", "int", "mix"]), ("intL.@max > 1", ["intL"]),
        ("link == obj('A', 1) and !(int BETWEEN {1, 2})", ["int", "link"]),
    ])
    func fieldsAreThoseOfTheObject(text: String, names: [String]) throws {
        let query = try Query(
            subscribingTo: QueryWorld.className, where: text, of: try QueryWorld.state(seed: 1))
        #expect(query.fields.map { String(decoding: $0.name, as: UTF8.self) }.sorted() == names)
    }

    @Test func aRestrictedQueryIsBoth() throws {
        let state = try QueryWorld.state(seed: 3)
        let schema = try #require(state.schema(ofClass: Array(QueryWorld.className.utf8)))
        let query = try Query(subscribingTo: QueryWorld.className, where: "int > 0", of: state)
        let filter = try Query(.field("string", FilterTest(.isIn, [.string([0x61])])), on: schema, of: state)
        let both = query.restricted(by: filter)
        #expect(both.index == filter.index)
        #expect(both.fields == query.fields.union(filter.fields))
        for key in 0..<10 {
            guard let object = try state.object(ObjectReference(classID: schema.number, key: .int(Int64(key))))
            else { continue }
            let expected = try query.matches(object, in: state) && filter.matches(object, in: state)
            #expect(try both.matches(object, in: state) == expected)
        }
    }

    // MARK: Properties

    @Test func whatMatchesIsFound() throws {
        let state = try QueryWorld.state(seed: 2)
        var (found, constant) = (0, 0)
        try Self.forEachQuery(of: state, seeds: 0..<20_000) { query, text in
            let index = query.index
            if index == .evaluated { return }
            try state.forEachObject(of: query.schema.number) { object throws(ApplyError) in
                guard let matches = try? query.matches(object, in: state) else { return }
                switch index {
                case .never, .always:
                    constant += 1
                    #expect(matches == (index == .always), "\(text)")
                case .oneOf(let values) where matches:
                    found += 1
                    let held = values.contains { object.indexedValues(of: $0.property).contains($0) }
                    #expect(held, "\(text)")
                case .oneOf, .evaluated: break
                }
            }
        }
        #expect(found > 200)
        #expect(constant > 1_000)
    }

    @Test func otherFieldsDoNotMatter() throws {
        let before = try QueryWorld.state(seed: 4)
        var random = SeededRandom(scrambling: 5)
        var changes: [(after: ObjectGraph, field: String, key: PrimaryKey)] = []
        for number in 0..<60 {
            var after = before
            var field = ""
            let key = PrimaryKey.int(Int64(number % 8))
            // A link to one of the objects that were erased cannot be written.
            let written = try? after.write(as: 2) { transaction in
                let object = try #require(try transaction.object(QueryWorld.className, key: key))
                field = try QueryWorld.change(object, &random)
            }
            if written != nil { changes.append((after, field, key)) }
        }
        var (kept, changed) = (0, 0)
        try Self.forEachSubscription(to: before, seeds: 0..<6_000) { query, text in
            let names = Set(query.fields.map(\.name))
            for change in changes {
                let reference = ObjectReference(classID: query.schema.number, key: change.key)
                guard let old = try before.object(reference), let new = try change.after.object(reference)
                else { continue }
                let isSame = try query.matches(old, in: before) == query.matches(new, in: change.after)
                if names.contains(Array(change.field.utf8)) {
                    if !isSame { changed += 1 }
                } else {
                    kept += 1
                    #expect(isSame, "\(change.field) changed: \(text)")
                }
            }
        }
        #expect(kept > 10_000)
        #expect(changed > 100)
    }

    private static func forEachQuery(
        of state: ObjectGraph, seeds: Range<UInt64>, _ body: (Query, String) throws -> Void
    ) throws {
        let schema = try #require(state.schema(ofClass: Array(QueryWorld.className.utf8)))
        for seed in seeds {
            var queries = RandomQuery(seed: seed, about: schema, of: state, .model)
            let text = queries.next()
            if let query = try? Query(text, on: QueryWorld.className, of: state) { try body(query, text) }
        }
    }

    private static func forEachSubscription(
        to state: ObjectGraph, seeds: Range<UInt64>, _ body: (Query, String) throws -> Void
    ) throws {
        try forEachQuery(of: state, seeds: seeds) { _, text in
            guard let query = try? Query(subscribingTo: QueryWorld.className, where: text, of: state) else { return }
            try body(query, text)
        }
    }
}
