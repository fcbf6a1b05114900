import AnabranchCore
import AnabranchQuery
import AnabranchTesting
import Testing

/// Parts of the language that no record of the reference has.
@Suite struct LanguageTests {
    /// Objects 1 to 4 of a class, and links to a fifth one that is gone.
    private static func state() throws -> ObjectGraph {
        var graph = ObjectGraph()
        _ = try graph.write(as: 2) { tx in
            try tx.addClass("Person", key: "_id", .int)
            try tx.addColumn("name", .string, isNullable: true, to: "Person")
            try tx.addColumn("age", .int, to: "Person")
            try tx.addColumn("rank", .int, isNullable: true, to: "Person")
            try tx.addColumn("tags", .string, isNullable: true, collection: .list, to: "Person")
            try tx.addColumn("mix", .null, to: "Person")
            try tx.addColumn("more", .null, collection: .dictionary, to: "Person")
            try tx.addLink("friend", to: "Person", of: "Person")
            try tx.addLink("friends", to: "Person", collection: .list, of: "Person")
            try tx.addEmbeddedClass("Point")
            try tx.addColumn("type", .string, to: "Point")
            try tx.addColumn("coordinates", .double, collection: .list, to: "Point")
            try tx.addLink("home", to: "Point", of: "Person")
            let people: [(name: String, age: Int64, longitude: Double, latitude: Double)] = [
                ("Ann", 30, 13.4, 52.5), ("Ben", 20, 2.3, 48.9), ("Cleo", 30, 179.5, 10), ("Dan", 10, -179.5, -10),
            ]
            for (index, person) in people.enumerated() {
                let object = try tx.create("Person", key: .int(Int64(index + 1)))
                object["name"] = .string(Array(person.name.utf8))
                object["age"] = .int(person.age)
                let home = try object.createObject("home")
                home["type"] = "Point"
                for number in [person.longitude, person.latitude] {
                    try home.list("coordinates").append(.double(number))
                }
            }
            try tx.create("Person", key: 99)
        }
        let withoutLinks = graph
        _ = try graph.write(as: 2) { tx in
            let (ann, ben) = (try tx.create("Person", key: 1), try tx.create("Person", key: 2))
            for tag in ["a", "bb", "ccc"] as [Payload] { try ann.list("tags").append(tag) }
            ann["friend"] = ben.link
            ben["friend"] = .link(className: Array("Person".utf8), key: 99)
            for key in [1, 2, 99] as [PrimaryKey] {
                try ann.list("friends").append(.link(className: Array("Person".utf8), key: key))
            }
            try ann.set("mix", to: .dictionary)
            try ann.dictionary("mix").set(.list, for: "deep")
            for number in [1, 2, 3] as [Payload] { try ann.dictionary("mix").list(for: "deep").append(number) }
            try ben.set("mix", to: ann.link)
            try ann.dictionary("more").set("x", for: "k")
            try ann.dictionary("more").set(.null, for: "n")
        }
        try QueryWorld.erase([99], of: "Person", from: &graph, asOf: withoutLinks)
        return graph
    }

    private static func keys(
        _ text: String, _ arguments: [QueryArgument] = [], links: QueryOptions.Links = .followed
    ) throws -> [Int64] {
        let state = try state()
        let query = try Query(text, on: "Person", of: state, arguments, options: QueryOptions(links: links))
        return try query.objects(in: state).compactMap { object in
            if case .int(let key) = object.key { key } else { nil }
        }
    }

    @Test(arguments: [
        // Nested collections and links in Mixed.
        ("mix['deep'][1] == 2", [1]), ("mix.deep[LAST] == 3", [1]), ("mix.deep[*] == 4", []), ("mix[*][*] == 1", [1]),
        ("mix.@type == 'dictionary'", [1]), ("mix.@size == 1", [1]), ("mix.name == 'Ann'", [2]),
        ("mix.@type == 'object'", [1]), ("mix.nosuch == NULL", [1]),
        // Dictionaries.
        ("more.k == 'x'", [1]), ("more.@keys == 'n'", [1]), ("more['n'] == NULL", [1]), ("more.@size == 2", [1]),
        // Lengths of elements.
        ("tags.length == 3", [1]), ("ALL tags.length > 0", [1, 2, 3, 4]), ("ALL tags.LENGTH > 1", [2, 3, 4]),
        // Links: a dangling one is null, and is not counted.
        ("friend.name == 'Ben'", [1]), ("friend == NULL", [2, 3, 4]), ("friends.@count == 2", [1]),
        ("friends.age > 25", [1]), ("ALL friends.age > 25", [2, 3, 4]), ("friend == obj('Person', 2)", [1]),
        ("friends[1].name == 'Ben'", [1]), ("friend.friend.name == NULL", [1, 2, 3, 4]),
        ("@links.Person.friend.@count == 1", [2]), ("@links.Person.friends.name == 'Ann'", [1, 2]),
        ("friends.@max.age == 30", [1]), ("friends.@sum.age == 50", [1]), ("friends.@avg.age == NULL", [2, 3, 4]),
        // Subqueries.
        ("SUBQUERY(friends, $p, $p.age > 25).@count == 1", [1]),
        ("SUBQUERY(friends, $p, $p.age > 25 or $p.name == 'Ben').@size == 2", [1]),
        ("SUBQUERY(friends, $p, SUBQUERY($p.friends, $q, $q.age == 20).@count > 0).@count > 0", [1]),
        ("SUBQUERY(friends, $p, $p.age BETWEEN {15, 25}).@count BETWEEN {1, 2}", [1]),
        // What follows the predicate.
        ("TRUEPREDICATE SORT(age ASC, name DESC)", [4, 2, 3, 1]), ("age > 5 SORT(age DESC) LIMIT(2)", [1, 3]),
        ("TRUEPREDICATE DISTINCT(age)", [1, 2, 4]), ("TRUEPREDICATE SORT(name DESC) DISTINCT(age) LIMIT(2)", [4, 3]),
        ("TRUEPREDICATE SORT(friend.name ASC) LIMIT(1)", [2]),
        // Patterns.
        ("name LIKE '?e*'", [2]), ("name LIKE[c] 'AN?'", [1]), ("name LIKE 'Ann**'", []),
        ("name LIKE '*n'", [1, 2, 4]),
    ])
    func answers(text: String, keys: [Int64]) throws {
        #expect(try Self.keys(text) == keys)
    }

    @Test(arguments: [
        ("home GEOWITHIN geoCircle([13, 52], 0.02)", [1]), ("home GEOWITHIN geoBox([0, 45], [20, 60])", [1, 2]),
        ("home GEOWITHIN geoBox([20, 60], [0, 45])", [1, 2]),
        // Over the line where longitudes begin again, and the larger side of a ring is never meant.
        ("home GEOWITHIN geoPolygon({[179, -20], [-179, -20], [-179, 20], [179, 20], [179, -20]})", [3, 4]),
        ("home GEOWITHIN geoPolygon({[179, 20], [-179, 20], [-179, -20], [179, -20], [179, 20]})", [3, 4]),
        (
            "home GEOWITHIN geoPolygon({[0, 40], [20, 40], [20, 60], [0, 60], [0, 40]}, "
                + "{[13, 52], [14, 52], [14, 53], [13, 52]})",
            [1, 2]
        ),
        (
            "home GEOWITHIN geoPolygon({[0, 40], [20, 40], [20, 60], [0, 60], [0, 40]}, "
                + "{[13, 52], [14, 52], [14, 53], [13, 53], [13, 52]})",
            [2]
        ),
        ("home GEOWITHIN geoCircle([0, 0], 3.15)", [1, 2, 3, 4]),
    ])
    func regions(text: String, keys: [Int64]) throws {
        #expect(try Self.keys(text) == keys)
    }

    @Test(arguments: [
        "home GEOWITHIN geoCircle([0, 0], -1)", "home GEOWITHIN geoBox([0, 0], [0, 5])",
        "home GEOWITHIN geoPolygon({[0, 0], [1, 0], [1, 1]})", "home GEOWITHIN geoPolygon({[0, 0], [1, 0], [0, 0]})",
        "home GEOWITHIN geoPolygon({[0, 0], [1, 1], [1, 0], [0, 1], [0, 0]})", "home GEOWITHIN geoCircle([0, 91], 1)",
        "name GEOWITHIN geoCircle([0, 0], 1)", "friend GEOWITHIN geoCircle([0, 0], 1)", "name TEXT 'Ann'",
        "friends == NULL", "friend > obj('Person', 1)", "friend == 1", "ANY name == 'x'", "home == home",
        "tags == tags", "name + 1 == 2", "age.@max == 1", "age.@size == 1", "mix.@type == 'nosuch'",
        "TRUEPREDICATE SORT(tags ASC)", "SUBQUERY(friends, $p, age > 1).@count > 0", "age BETWEEN {1, NULL}",
        "SUBQUERY(friend, $p, $p.age > 1).@count > 0", "tags BETWEEN {'a', 'b'}", "@links.Person.name == 1",
    ])
    func makesNoSense(text: String) throws {
        let error = #expect(throws: QueryError.self) { try Self.keys(text) }
        #expect(error?.kind == .query, "\(String(describing: error))")
    }

    @Test func argumentsStandForConstantsListsAndPaths() throws {
        #expect(try Self.keys("age == $0", [.value(.int(30))]) == [1, 3])
        #expect(try Self.keys("age IN $1", [.value(.null), .list([.int(10), .int(20)])]) == [2, 4])
        #expect(try Self.keys("age == NONE $0", [.list([.int(10), .int(20)])]) == [1, 3])
        #expect(try Self.keys("$K0 == 'Ben'", [.path("friend.name")]) == [1])
        #expect(throws: QueryError(.query, at: 0, "")) { try Self.keys("age == $0", [.path("age")]) }
        #expect(throws: QueryError(.query, at: 0, "")) { try Self.keys("$K0 == 1", [.value(.int(1))]) }
        #expect(throws: QueryError(.query, at: 0, "")) { try Self.keys("age == ANY $0", [.value(.int(1))]) }
    }

    @Test func linksAsKeysDependOnNothingElse() throws {
        #expect(try Self.keys("friend == NULL", links: .keys) == [3, 4])
        #expect(try Self.keys("friend == obj('Person', 99)", links: .keys) == [2])
        #expect(try Self.keys("friend == obj('Person', 99)") == [2, 3, 4])
        #expect(try Self.keys("friends.@count == 3", links: .keys) == [1])
        #expect(try Self.keys("mix.name == 'Ann'", links: .keys) == [])
    }

    @Test(arguments: [
        ("age >= 18 and name BEGINSWITH[c] 'a'", "age > 17 and name BEGINSWITH[c] \"a\""),
        (
            "SUBQUERY(friends, $p, $p.age >= 2 and $p.name == 'x').@count > 0",
            "SUBQUERY(friends, $p, $p.age > 1 and $p.name == \"x\").@count > 0"
        ),
        (
            "home GEOWITHIN geoBox([0, 45], [20.5, 60])",
            "home GEOWITHIN GeoPolygon({[0, 45], [0, 60], [20.5, 60], [20.5, 45], [0, 45]})"
        ),
        (
            "SUBQUERY(friends, $p, $p.friends.@avg.age > 1).@count > 0",
            "SUBQUERY(friends, $p, $p.friends.@avg.age > 1).@count > 0"
        ),
        ("tags.length > 1", "tags.length > 1"),
        ("mix['deep'][LAST] == 1e-7", "mix['deep'][LAST] == 9.9999999999999995e-08"),
        (
            "TRUEPREDICATE SORT(age ASC, friend.name DESC) LIMIT(3)",
            "TRUEPREDICATE SORT(age ASC, friend.name DESC) LIMIT(3)"
        ),
        (
            "(age == 1 or age == 2 or age == 3) or (age == 4 or age == 5)",
            "(age == 3 or age == 4 or age == 5 or age == 1 or age == 2)"
        ),
        ("!(age == 1 or age == 2 or age == 3)", "!(((age == 1 or age == 2) or age == 3))"),
        ("name ==[c] NULL", "name == NULL"), ("name !=[c] null", "name != NULL"), ("NULL ==[c] name", "NULL == name"),
        ("mix !=[c] NULL", "mix != null"), ("mix ==[c] nil", "mix == null"), ("NULL !=[c] mix", "NULL != mix"),
        ("tags ==[c] NULL", "tags == NULL"), ("ALL tags !=[c] NULL", "ALL tags != NULL"),
        ("NULL ==[c] tags", "NULL == tags"), ("more.@keys ==[c] NULL", "more.@keys == NULL"),
        ("friend.name ==[c] NULL", "friend.name == NULL"), ("name ENDSWITH[c] NULL", "name ENDSWITH[c] NULL"),
        ("name ==[c] 'null'", "name ==[c] \"null\""),
        ("_id => -9223372036854775808", "TRUEPREDICATE"), ("age >= -9223372036854775808", "TRUEPREDICATE"),
        ("age <= 9223372036854775807", "TRUEPREDICATE"), ("!(age >= -9223372036854775808)", "!(TRUEPREDICATE)"),
        ("rank >= -9223372036854775808", "rank >= -9223372036854775808"),
        ("rank <= 9223372036854775807", "rank <= 9223372036854775807"),
        ("age <= -9223372036854775808", "age < -9223372036854775807"),
        ("age >= 9223372036854775807", "age > 9223372036854775806"),
        ("age < -9223372036854775808", "age < -9223372036854775808"),
        ("age > 9223372036854775807", "age > 9223372036854775807"),
        (
            "age BETWEEN {-9223372036854775808, 9223372036854775807}",
            "age between {-9223372036854775808, 9223372036854775807}"
        ),
        ("friend.age >= -9223372036854775808", "friend.age >= -9223372036854775808"),
        ("-9223372036854775808 <= age", "-9223372036854775808 <= age"),
        ("age IN {1.5}", "age IN {}"), ("name == 'tab\there'", "name == B64\"dGFiCWhlcmU=\""),
    ])
    func isPrintedCanonically(text: String, canonical: String) throws {
        let state = try Self.state()
        let printed = try Query(text, on: "Person", of: state).canonicalText
        #expect(printed == canonical)
        #expect(throws: Never.self) { try Query(printed, on: "Person", of: state) }
    }
}
