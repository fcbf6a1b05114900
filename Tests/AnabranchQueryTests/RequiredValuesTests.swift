import AnabranchCore
import AnabranchQuery
import AnabranchTesting
import Testing

/// What all matches of a query have in common.
@Suite struct RequiredValuesTests {
    @Test(arguments: [
        ("int == 1", "int", 1), ("int IN {1, 2, NULL}", "int", 3), ("int == 1 and string == 'a'", "int", 1),
        ("int IN {1, 2} and string == 'a'", "string", 1), ("int == 1 or int == 2 or int IN {3, 4}", "int", 4),
        ("(int == 1 and bool == true) or int == 5", "int", 2), ("double > 1 and int == 1", "int", 1),
        ("_id == 7", "_id", 1), ("string == NULL", "string", 1),
    ])
    func equalitiesDemandValues(text: String, property: String, count: Int) throws {
        let state = try QueryWorld.state(seed: 1)
        let required = try Query(text, on: QueryWorld.className, of: state).requiredValues
        #expect(required?.property.name == Array(property.utf8))
        #expect(required?.values.count == count)
    }

    @Test(arguments: [
        "TRUEPREDICATE", "int > 1", "int != 1", "!(int == 1)", "int == 1 or string == 'a'", "int == 1 or double > 1",
        "string ==[c] 'a'", "mix == 1", "double == 1.5", "intL == 1", "emb.n == 1", "int == NONE {1}", "link == NULL",
    ])
    func nothingElseDoes(text: String) throws {
        let state = try QueryWorld.state(seed: 1)
        let required = try Query(text, on: QueryWorld.className, of: state).requiredValues
        #expect(required == nil, "\(text)")
    }

    @Test func noMatchIsWithoutARequiredValue() throws {
        let state = try QueryWorld.state(seed: 2)
        let schema = try #require(state.schema(ofClass: Array(QueryWorld.className.utf8)))
        var count = 0
        for seed in 0..<20_000 as Range<UInt64> {
            var queries = RandomQuery(seed: seed, about: schema, of: state, .model)
            let text = queries.next()
            guard let query = try? Query(text, on: QueryWorld.className, of: state),
                let required = query.requiredValues
            else { continue }
            for object in try query.objects(in: state) {
                count += 1
                let value = object.value(of: required.property)
                #expect(required.values.contains { StateValue.compare($0, value) == 0 }, "seed \(seed): \(text)")
            }
        }
        #expect(count > 100)
    }
}
