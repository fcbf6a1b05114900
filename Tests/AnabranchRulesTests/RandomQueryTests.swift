import AnabranchCore
import AnabranchQuery
import AnabranchRules
import AnabranchTesting
import Testing

/// Random rules in the query language on random objects, answered by roles and by a model of the language.
@Suite struct RandomQueryTests {
    @Test func rulesAllowWhatTheModelAllows() throws {
        var counts = (allowed: 0, denied: 0, found: 0)
        for seed in 0..<1_000 as Range<UInt64> {
            var random = SeededRandom(scrambling: seed)
            let objects = (0..<12).map { _ in PlainObject.random(&random) }
            let read = QueryModel.random(&random), write = QueryModel.random(&random)
            let name = random.pick(PlainObject.words)
            let file: JSONValue = [
                "roles": [
                    [
                        "name": "r", "apply_when": [:], "read": true, "write": true, "insert": true, "delete": true,
                        "write_implies_read": false,
                        "document_filters": [
                            "read": ["%query": .string(read.text)], "write": ["%query": .string(write.text)],
                        ],
                    ]
                ]
            ]
            let mine = try Rules(classes: ["Doc": AppFile(path: "rules.json", bytes: file.encoded.utf8)])
                .rules(for: RuleUser(id: "5f", name: name))
            #expect(try UserRules(text: mine.text) == mine, "seed \(seed): \(read.text), \(write.text)")
            let state = try QueryModel.state(objects), schema = try #require(state.schema(ofClass: Array("Doc".utf8)))
            let role = mine.role(for: schema, of: state)
            #expect(role.problem == nil, "seed \(seed)")
            #expect(mine.usable(in: state) == mine, "seed \(seed)")
            for (key, object) in objects.enumerated() {
                let reference = ObjectReference(classID: schema.number, key: .int(Int64(key)))
                let stored = try #require(try state.object(reference))
                for (query, model) in [
                    (role.read, read), (role.write, write), (role.insert, write), (role.delete, write),
                ] {
                    let isAllowed = try query.matches(stored, in: state)
                    #expect(isAllowed == model.holds(object, name), "seed \(seed): \(model.text), \(name): \(object)")
                    counts.allowed += isAllowed ? 1 : 0
                    counts.denied += isAllowed ? 0 : 1
                    guard isAllowed, case .oneOf(let values) = query.index else { continue }
                    let held = values.contains { stored.indexedValues(of: $0.property).contains($0) }
                    #expect(held, "seed \(seed): \(model.text) for \(object)")
                    counts.found += 1
                }
            }
        }
        #expect(counts.allowed > 10_000 && counts.denied > 10_000 && counts.found > 500)
    }
}
