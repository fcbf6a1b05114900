import AnabranchCore
import AnabranchQuery
import AnabranchTesting
import Testing

/// The queries that flexible sync allows in subscriptions.
@Suite struct SubscriptionTests {
    @Test(arguments: [
        "TRUEPREDICATE", "int == 1 and string BEGINSWITH[c] 'a' or mix == NULL", "intL.@max > 1", "emb.n == 1",
        "embL.@max.n == 3", "intD['a'] == 1", "mix.@type == 'int'", "link == NULL", "linkL.@count > 1",
        "link == obj('A', 77)", "ANY stringL == 'a'", "int + 1 == 2", "_id == 1", "link IN {obj('A', 1), NULL}",
        "place GEOWITHIN geoCircle([0, 0], 1)",
    ])
    func whatDependsOnTheObjectAloneIsAllowed(text: String) throws {
        let state = try QueryWorld.state(seed: 1)
        let query = try Query(subscribingTo: QueryWorld.className, where: text, of: state)
        #expect(throws: Never.self) { try query.objects(in: state) }
    }

    @Test(arguments: [
        "link.int == 1", "linkL.int == 1", "link.link.int == 1", "@links.A.link.@count > 0", "linkL.@max.int == 1",
        "SUBQUERY(linkL, $x, $x.int == 1).@count > 0", "TRUEPREDICATE SORT(int ASC)", "TRUEPREDICATE LIMIT(1)",
        "link.@links.A.link.@count > 1", "link.@links.A.link.int == 5", "linkL.@links.A.linkL.@count > 0",
        "TRUEPREDICATE DISTINCT(int)", "int == 1 or link.int BETWEEN {1, 2}", "int + link.int == 2",
    ])
    func whatDependsOnOthersIsRefused(text: String) throws {
        let state = try QueryWorld.state(seed: 1)
        let error = #expect(throws: QueryError.self) {
            try Query(subscribingTo: QueryWorld.className, where: text, of: state)
        }
        #expect(error?.kind == .refused)
        #expect(error?.reason.hasPrefix("Invalid query: \"A\": ") == true)
    }

    /// A query that is refused is not bound first, which could take long.
    @Test func subqueriesAreRefusedWhereverTheyStand() throws {
        let state = try QueryWorld.state(seed: 1)
        let text = (0..<40).reduce("int == 1") { inner, _ in "SUBQUERY(nosuch, $x, \(inner)).@size BETWEEN {0, 9}" }
        for text in [text, "int == 1 and !(\(text))", "2 * SUBQUERY(linkL, $x, \(text)).@count > int"] {
            let error = #expect(throws: QueryError.self) { try Query(subscribingTo: "A", where: text, of: state) }
            #expect(error?.kind == .refused)
        }
    }

    @Test func fieldsThatAreNotQueryableAreNamed() throws {
        let state = try QueryWorld.state(seed: 1)
        #expect(throws: Never.self) {
            try Query(subscribingTo: "A", where: "int == 1 and _id == 2", of: state, queryableFields: ["int"])
        }
        let error = #expect(throws: QueryError.self) {
            try Query(subscribingTo: "A", where: "int == 1 and string == 'a'", of: state, queryableFields: ["int"])
        }
        #expect(error?.kind == .refused)
        #expect(error?.offset == 13)
        #expect(error?.reason == "Invalid query: \"A\": key \"string\" is not a queryable field")
    }

    @Test func onlyTopLevelClassesCanBeSubscribedTo() throws {
        let state = try QueryWorld.state(seed: 1)
        for (name, kind) in [("E", QueryError.Kind.refused), ("Nosuch", .query)] {
            let error = #expect(throws: QueryError.self) {
                try Query(subscribingTo: name, where: "TRUEPREDICATE", of: state)
            }
            #expect(error?.kind == kind)
        }
    }

    @Test func everyErrorOfAQueryNamesTheClass() throws {
        let state = try QueryWorld.state(seed: 1)
        let error = #expect(throws: QueryError.self) { try Query(subscribingTo: "A", where: "int ==", of: state) }
        #expect(error?.kind == .syntax)
        #expect(error?.reason.hasPrefix("Invalid query: \"A\": ") == true)
    }
}
