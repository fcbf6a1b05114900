import AnabranchCore
import AnabranchQuery
import AnabranchRules
import Testing

/// Conditions of the form `{"%query": …}`: what they mean, what is kept of them, and what is refused.
@Suite struct RuleQueryTests {
    private static func json(_ text: String) -> String { JSONValue.object(["%query": .string(text)]).encoded }

    /// Of a role that applies to everybody.
    private static func rules(read: String, write: String = "false", more: String = "") throws -> Rules {
        try Rules(classes: ["Task": RuleWorld.file(file(read: read, write: write, more: more))])
    }

    private static func file(read: String, write: String = "false", more: String = "") -> String {
        """
        {"roles": [{"name": "r", "apply_when": {}, "read": true, "write": true, "insert": true, "delete": true,
        "document_filters": {"read": \(read), "write": \(write)}\(more)}]}
        """
    }

    // MARK: Meaning

    @Test(arguments: [
        ("owner == $user.id", [1]), ("$user.id == owner", [1]), ("owner != $user.id", [2, 3, 4]),
        ("shared == $user.id", [2, 4]), ("$user.id IN shared", [2, 4]), ("NONE shared == $user.id", [1, 3]),
        ("owner IN {$user.id, 'bob'}", [1, 2, 3]), ("owner IN {NULL}", [4]), ("owner BEGINSWITH[c] 'B'", [2, 3]),
        ("owner CONTAINS $user.id", [1]), ("owner LIKE '?o*'", [2, 3]), ("shared.@size > 1", [4]),
        ("level * 2 == 4 or owner == NULL", [2, 4]), ("!(level BETWEEN {2, 3})", [1, 4]), ("_id > level", [Int64]()),
        ("TRUEPREDICATE", [1, 2, 3, 4]), ("FALSEPREDICATE", []), ("owner == '$user.id'", []),
    ])
    func theLanguageIsThatOfQueries(text: String, keys: [Int64]) throws {
        #expect(try RuleWorld.tasks(\.read, Self.rules(read: Self.json(text)), RuleWorld.ada()) == keys)
    }

    /// It can stand wherever a condition about documents can.
    @Test(arguments: [
        (#"{"$and": [{"%query": "level > 1"}, {"owner": "bob"}]}"#, [2, 3]),
        (#"{"%query": "level > 1", "owner": "bob", "level": {"$ne": 3}}"#, [2]),
        (#"{"$not": {"%query": "level > 1"}}"#, [1, 4]), (#"{"$nor": [{"$query": "level > 1"}]}"#, [1, 4]),
        (#"{"$or": [{"%query": "owner == $user.id"}, {"%query": "TRUEPREDICATE"}]}"#, [1, 2, 3, 4]),
        (#"{"$not": {"%query": "TRUEPREDICATE"}}"#, []),
    ])
    func itIsACondition(condition: String, keys: [Int64]) throws {
        #expect(try RuleWorld.tasks(\.read, Self.rules(read: condition), RuleWorld.ada()) == keys)
    }

    @Test func theUserIsWhoTheIssuerNames() throws {
        let rules = try Self.rules(read: Self.json("owner == $user.id"))
        let named = try RuleUser(id: "5f", name: "bob")
        #expect(try RuleWorld.tasks(\.read, rules, named) == [2, 3])
        #expect(try RuleWorld.tasks(\.read, Self.rules(read: #"{"owner": "%%user.id"}"#), named) == [])
        #expect(try RuleWorld.tasks(\.read, rules, RuleUser(id: "bob")) == [2, 3])
        // Whoever the user is, it is a text.
        for name in ["\" or TRUEPREDICATE or owner == \"", "' or '' == '", "$0", "", "é\n\\"] {
            #expect(try RuleWorld.tasks(\.read, rules, RuleUser(id: "5f", name: name)) == [], "\(name)")
        }
    }

    /// Writing gives the right to read, unless the role says that it does not.
    @Test func whoWritesNeedNotRead() throws {
        let (read, write) = (Self.json("level == 1"), Self.json("level >= 2"))
        for (more, expected) in [("", [1, 2, 3]), (#", "write_implies_read": false"#, [1])] as [(String, [Int64])] {
            let rules = try Self.rules(read: read, write: write, more: more), ada = try RuleWorld.ada()
            #expect(rules.notices.isEmpty)
            #expect(try RuleWorld.tasks(\.read, rules, ada) == expected)
            for query in [\Role.write, \.insert, \.delete] {
                #expect(try RuleWorld.tasks(query, rules, ada) == [2, 3])
            }
        }
    }

    // MARK: Index and fields

    @Test func viewsFindItsObjectsByValues() throws {
        let state = try RuleWorld.state()
        let schema = try #require(state.schema(ofClass: Array("Task".utf8)))
        func role(_ text: String) throws -> Role {
            try Self.rules(read: Self.json(text)).rules(for: RuleWorld.ada()).role(for: schema, of: state)
        }
        let owner = try #require(schema.property(named: Array("owner".utf8)))
        let own = try role("owner == $user.id").read
        #expect(own.index == .oneOf([FieldValue(owner, .string(Array("ada".utf8)))]))
        #expect(own.decidingValues == [FieldValue(owner, .string(Array("ada".utf8)))])
        #expect(try role("TRUEPREDICATE").read.index == .always)
        let fields = try role("level + _id > 3 or shared.@size > 1").read.fields
        #expect(Set(fields.map { String(decoding: $0.name, as: UTF8.self) }) == ["_id", "level", "shared"])
    }

    // MARK: What is kept

    private static func text(_ read: String, _ user: RuleUser) throws -> String {
        let rules = try rules(read: read).rules(for: user)
        #expect(try UserRules(text: rules.text) == rules)
        #expect(try UserRules(text: rules.text).text == rules.text)
        return rules.text
    }

    @Test func whatSaysTheSameIsTheSame() throws {
        let (ada, bob) = (try RuleUser(id: "1", name: "ada"), try RuleUser(id: "2", name: "bob"))
        let own = Self.json("owner == $user.id")
        #expect(try Self.text(own, ada) != Self.text(own, bob))
        #expect(try Self.text(own, ada) == Self.text(Self.json("owner=$user.id"), RuleUser(id: "ada")))
        #expect(try Self.text(Self.json("level > 1"), ada) == Self.text(Self.json("(level>1)"), bob))
        #expect(try Self.text(Self.json("TRUEPREDICATE"), ada) == Self.text("true", bob))
        // Names that look alike are two users.
        let both = try ["\u{e9}", "e\u{301}"].map { try Self.rules(read: own).rules(for: RuleUser(id: $0)) }
        #expect(both[0] != both[1])
    }

    @Test(arguments: [
        "!(owner == $user.id or level IN {1, $user.id})", "owner == 'a\"b' and owner != B64\"AAEC\"", "_id == -5",
        "ANY shared BEGINSWITH[c] $user.id", "!(!(!(level between {1, 2})))", "owner LIKE \"*\u{1F600}\"",
    ])
    func everyQueryIsReadAgain(text: String) throws {
        for read in [Self.json(text), #"{"$not": \#(Self.json(text))}"#] {
            _ = try Self.text(read, RuleUser(id: "1", name: "\"'\\ é"))
        }
    }

    /// The deepest query that there can be, and the longest.
    @Test func limitsAreThoseOfQueries() throws {
        let deep = String(repeating: "!(", count: 100) + "level == 1" + String(repeating: ")", count: 100)
        _ = try Self.text(Self.json(deep), RuleWorld.ada())
        let long = "level == 1" + String(repeating: " or level == 2", count: 19_000)
        // With a blank around each sign it would be too long to be read again.
        let dense = "level==1" + String(repeating: "||level==2", count: 25_000)
        for text in ["!" + deep, long, dense] {
            let error = #expect(throws: RuleError.self) { try Self.rules(read: Self.json(text)) }
            #expect(error?.reason.hasPrefix("role \"r\" of the class Task: ") == true)
        }
        _ = try Self.text(Self.json(String(dense.prefix(28_008))), RuleWorld.ada())
    }

    // MARK: What is refused

    @Test(arguments: [
        ("owner ==", "the end", 8), ("", "the end", 0), ("owner == $0", "$user.id alone", 9),
        ("$K0 == 1", "$user.id alone", 0), ("owner == $user.name", "$user.id alone", 9),
        ("owner == $user", "$user.id alone", 9), ("owner == $user . id", "$user.id alone", 9),
        ("owner == $user.ids", "$user.id alone", 9), ("level == $user.id + 1", "cannot be calculated with", 9),
        ("level > 1 SORT(level ASC)", "SORT, DISTINCT and LIMIT", 10),
        ("level > 1 DISTINCT(level)", "SORT, DISTINCT and LIMIT", 10),
        ("level > 1 LIMIT(3)", "SORT, DISTINCT and LIMIT", 10), ("level > 1 KNN(v, 3)", "\"KNN\" where", 10),
        ("@links.Task.parent.@count > 0", "@links is not allowed", 0),
        ("a.@links.Task.parent.level == 1", "@links is not allowed", 0),
        ("SUBQUERY(items, $x, $x.level > 1).@count > 0", "$user.id alone", 16),
        ("SUBQUERY(items, x, x.level > 1).@count > 0", "subqueries are not allowed", 9),
        ("parent == obj('Task', 1)", "other objects cannot be named", 10),
        ("parent IN {NULL, obj('Task', 1)}", "other objects cannot be named", 17),
        ("parent == O1", "other objects cannot be named", 10), ("parent == L1:2", "other objects cannot be named", 10),
        ("owner TEXT 'a'", "full text search", 0),
    ])
    func whatAsksForMoreIsRefused(text: String, reason: String, place: Int) throws {
        let error = #expect(throws: RuleError.self) { try Self.rules(read: Self.json(text)) }
        #expect(error?.file == "rules.json")
        #expect(error?.place == "roles[0].document_filters.read.%query")
        #expect(error?.reason.hasPrefix("role \"r\" of the class Task: ") == true)
        #expect(error?.reason.contains(reason) == true, "\(error?.reason ?? "")")
        #expect(error?.reason.hasSuffix(", at byte \(place) of the query") == true, "\(error?.reason ?? "")")
    }

    @Test(arguments: [
        (#"{"%query": 1}"#, "a string is expected"), (#"{"%query": {"text": "level == 1"}}"#, "a string is expected"),
        (#"{"owner": {"%query": "level == 1"}}"#, "the operator %query is not known"),
    ])
    func itIsAText(condition: String, reason: String) throws {
        let error = #expect(throws: RuleError.self) { try Self.rules(read: condition) }
        #expect(error?.reason == reason)
    }

    @Test func noneDecidesWhetherARoleApplies() throws {
        let error = #expect(throws: RuleError.self) {
            try RuleWorld.rules(read: "true", applyWhen: #"{"%query": "TRUEPREDICATE"}"#)
        }
        #expect(error?.place == "roles[0].apply_when.%query")
    }

    // MARK: Classes

    private static let schema = #"""
        {"title": "A", "properties": {"_id": {"bsonType": "int"}, "n": {"bsonType": "int"}, "s": {"bsonType": "string"},
        "b": {"bsonType": "int"}, "bs": {"bsonType": "array", "items": {"bsonType": "int"}}, "u": {"bsonType": "uuid"},
        "m": {"bsonType": "mixed"}, "at": {"bsonType": "object", "properties": {"city": {"bsonType": "string"}}}}}
        """#

    private static func export(_ query: String) throws -> AppExport {
        let folder = "data_sources/m/db/A"
        return try AppExport(
            files: [
                ("\(folder)/schema.json", schema), ("\(folder)/rules.json", file(read: json(query))),
                (
                    "\(folder)/relationships.json",
                    ##"{"b": {"ref": "#/relationship/m/db/A"}, "bs": {"ref": "#/relationship/m/db/A"}}"##
                ),
            ].map { AppFile(path: $0, bytes: $1.utf8) })
    }

    /// An export that says what its classes have is refused as a whole.
    @Test(arguments: [
        ("b.n == 1", "links to other objects are not allowed"), ("b == NULL", "links to other objects are not allowed"),
        ("ANY bs.n == 1", "links to other objects are not allowed"),
        ("bs.@count > 1", "links to other objects are not allowed"),
        ("bs.@max.n > 1", "links to other objects are not allowed"), ("n == 'a' or s == 1", "cannot be compared"),
        ("n == $user.id", "cannot be compared"), ("u == $user.id", "cannot be compared"),
        ("n between {1, $user.id}", "both bounds must be of type"), ("m.@type == $user.id", "not a name of a type"),
        ("at.town == 'x'", "has no property \"town\""), ("at == $user.id", "a link can be compared with"),
    ])
    func whatTheClassDoesNotFitIsRefused(query: String, reason: String) throws {
        let error = #expect(throws: RuleError.self) { try Self.export(query) }
        #expect(error?.file == "data_sources/m/db/A/rules.json")
        #expect(error?.place == "roles[0].document_filters.read.%query")
        #expect(error?.reason.contains(reason) == true, "\(error?.reason ?? "")")
    }

    /// A field that is not there yet may come; what else can be asked of one object can be.
    @Test(arguments: [
        "later == 1", "later.n == 1", "at.city == $user.id", "at == NULL", "s == $user.id", "m == $user.id",
        "s > $user.id", "n IN {1, 2}", "m.@type == 'string'", "s.@size > 2",
    ])
    func whatItFitsIsNot(query: String) throws { _ = try Self.export(query) }

    /// Without a schema, links are found when clients bring the class: the role gives nothing then.
    @Test func aClassThatComesLaterHasTheSameSay() throws {
        var state = ObjectGraph()
        _ = try state.write(as: 2) { transaction in
            try transaction.addClass("Task", key: "_id", .int)
            try transaction.addLink("parent", to: "Task", collection: .single, of: "Task")
            try transaction.addColumn("owner", .string, isNullable: true, to: "Task")
        }
        let schema = try #require(state.schema(ofClass: Array("Task".utf8)))
        func role(_ text: String) throws -> Role {
            try Self.rules(read: Self.json(text)).rules(for: RuleWorld.ada()).role(for: schema, of: state)
        }
        #expect(try role("parent.owner == $user.id").problem?.kind == .refused)
        #expect(try role("owner == $user.id or level == 1").problem?.kind == .query)
        #expect(try role("owner == $user.id").problem == nil)
        let mine = try Self.rules(read: Self.json("!(parent == NULL)")).rules(for: RuleWorld.ada())
        #expect(mine.usable(in: state) == .nothing)
    }

    /// As rules of the other kind, they ask for queryable fields alone.
    @Test func itsFieldsHaveToBeQueryable() throws {
        func export(_ query: String) throws -> AppExport {
            let role = #"{"name": "r", "applyWhen": {}, "read": \#(Self.json(query)), "write": false}"#
            let text = #"{"queryable_fields_names": ["n"], "permissions": {"rules": {"A": [\#(role)]}}}"#
            return try AppExport(files: [AppFile(path: "sync.json", bytes: text.utf8)])
        }
        _ = try export("n == 1 and _id > 2")
        let error = #expect(throws: RuleError.self) { try export("n == 1 and at.city == 'x'") }
        #expect(error?.reason == #"role "r": key "at" is not a queryable field"#)
    }
}
