import AnabranchCore
import AnabranchQuery
import AnabranchRules
import Testing

/// Roles: which one counts, what its parts allow, and what is refused.
@Suite struct RoleTests {
    private static func rules(_ roles: String) throws -> Rules {
        try Rules(classes: ["Task": RuleWorld.file(#"{"roles": [\#(roles)]}"#)])
    }

    private static let mine = #"{"owner": "%%user.id"}"#

    private static func role(_ name: String, _ parts: String, applyWhen: String = "{}") -> String {
        #"{"name": "\#(name)", "apply_when": \#(applyWhen), \#(parts)}"#
    }

    private static func filters(_ read: String, _ write: String) -> String {
        #""document_filters": {"read": \#(read), "write": \#(write)}, "#
    }

    private static let all = #""read": true, "write": true, "insert": true, "delete": true"#

    @Test func theFirstRoleThatAppliesCounts() throws {
        let readers = Self.filters("true", "false") + Self.all
        let nobody = Self.filters("false", "false") + Self.all
        let bob = Self.role("bob", readers, applyWhen: #"{"%%user.id": "bob"}"#)
        let rules = try Self.rules([bob, Self.role("others", nobody), Self.role("r", readers)].joined(separator: ","))
        #expect(try RuleWorld.tasks(\.read, rules, try RuleUser(id: "bob")).count == 4)
        #expect(try RuleWorld.tasks(\.read, rules, try RuleUser(id: "ada")).isEmpty)
        #expect(try RuleWorld.tasks(\.read, try Self.rules(bob), try RuleUser(id: "ada")).isEmpty)
    }

    /// The one that applies is the last that is tried, and each has the text of its file.
    @Test func rolesAreTriedUntilOneApplies() throws {
        let bob = Self.role("bob", Self.all, applyWhen: #"{"%%user.id": "bob"}"#)
        let rules = try Self.rules(
            [bob, Self.role("others", Self.all), Self.role("never", Self.all)].joined(separator: ","))
        let tried = rules.triedRoles(ofClass: "Task", for: try RuleUser(id: "ada"))
        #expect(tried.map(\.name) == ["bob", "others"])
        #expect(tried.map(\.applies) == [false, true])
        #expect(try JSONValue(parsing: tried[0].source.utf8) == JSONValue(parsing: bob.utf8))
        #expect(rules.triedRoles(ofClass: "Task", for: try RuleUser(id: "bob")).map(\.name) == ["bob"])
        #expect(try Self.rules(bob).triedRoles(ofClass: "Task", for: try RuleUser(id: "ada")).map(\.applies) == [false])
        #expect(rules.triedRoles(ofClass: "Note", for: try RuleUser(id: "bob")).isEmpty)
    }

    /// Keys of what can be read, written, created and deleted.
    @Test(
        arguments: [
            (filters(#"{"level": 2}"#, #"{"level": 1}"#) + all, [[1, 2], [1], [1], [1]]),
            (
                filters("true", "true") + #""read": true, "write": false, "insert": true, "delete": true"#,
                [[1, 2, 3, 4], [], [], [1, 2, 3, 4]]
            ),
            (
                filters("true", "true") + #""read": false, "write": false, "insert": true, "delete": false"#,
                [[], [], [], []]
            ),
            (
                filters("false", #"{"level": 3}"#)
                    + #""read": true, "write": true, "insert": false, "delete": {"owner": "bob"}"#,
                [[3], [3], [], [3]]
            ),
            (
                filters("true", "true")
                    + #""insert": true, "delete": true, "additional_fields": {"read": true, "write": false}"#,
                [[1, 2, 3, 4], [], [], [1, 2, 3, 4]]
            ),
            (
                filters("true", #"{"level": 1}"#) + #""insert": {"owner": "bob"}, "delete": true, "read": true, "#
                    + #""write": true, "search": true, "fields": {"owner": {"read": true, "write": true}}"#,
                [[1, 2, 3, 4], [1], [], [1]]
            ),
        ] as [(String, [[Int64]])])
    func writeImpliesReadAndIsNeededToInsert(parts: String, keys: [[Int64]]) throws {
        let rules = try Self.rules(Self.role("r", parts))
        let user = try RuleWorld.ada()
        for (query, expected) in zip([\Role.read, \.write, \.insert, \.delete], keys) {
            #expect(try RuleWorld.tasks(query, rules, user) == expected)
        }
        #expect(rules.notices.isEmpty)
    }

    @Test func whatARoleDoesNotSayIsNoAndIsNoted() throws {
        let rules = try Self.rules(Self.role("r", #""read": true, "write": true, "colour": "red""#))
        #expect(try RuleWorld.tasks(\.read, rules, try RuleWorld.ada()).isEmpty)
        #expect(
            rules.notices.map(\.description) == [
                "rules.json: roles[0].colour: this key is not known and has no effect",
                #"rules.json: roles[0]: the role has no "document_filters.read", which counts as false"#,
                #"rules.json: roles[0]: the role has no "document_filters.write", which counts as false"#,
                #"rules.json: roles[0]: the role has no "insert", which counts as false"#,
                #"rules.json: roles[0]: the role has no "delete", which counts as false"#,
            ])
    }

    @Test(arguments: [
        (#"{"name": "r"}"#, "roles[0]", #""apply_when" is missing: for all users write {}"#),
        (#"{"apply_when": {}}"#, "roles[0]", "the role has no name"),
        (
            #"{"name": "r", "apply_when": {}, "fields": {"owner": {"write": false}}}"#, "roles[0].fields.owner.write",
            "permissions of single fields are not here: an object is read and written as a whole"
        ),
        (
            #"{"name": "r", "apply_when": {}, "write": true, "additional_fields": {"write": false}}"#,
            "roles[0].additional_fields",
            #"this takes back what the role's "write" gives: fields have no permissions here"#
        ),
        (#"[]"#, "roles[0]", "an object is expected"),
    ])
    func whatIsNotARoleIsRefused(role: String, place: String, reason: String) throws {
        let error = #expect(throws: RuleError.self) { try Self.rules(role) }
        #expect(error?.place == place)
        #expect(error?.reason == reason)
    }

    @Test(arguments: [
        ("{\n  \"roles\": [}\n", "line 2, column 13", "not JSON"), ("{}", "", "\"roles\" is missing"),
        (#"{"roles": [], "filters": [{"name": "f"}]}"#, "filters", "filters are not here"),
        (#"{"roles": 1}"#, "roles", "an array is expected"),
    ])
    func brokenFilesAreNamedWithThePlace(json: String, place: String, reason: String) throws {
        let error = #expect(throws: RuleError.self) { try Rules(classes: ["Task": RuleWorld.file(json)]) }
        #expect(error?.file == "rules.json")
        #expect(error?.place == place)
        #expect(error?.reason.contains(reason) == true)
    }

    @Test func classesWithoutRulesHaveTheDefaultOnes() throws {
        let all = #"{"roles": [\#(Self.role("all", Self.filters("true", "true") + Self.all))]}"#
        let none = #"{"roles": []}"#
        let state = try RuleWorld.state()
        let schemas = try ["Task", "Note"].map { try #require(state.schema(ofClass: Array($0.utf8))) }
        func indices(_ rules: Rules) throws -> [QueryIndex] {
            let mine = rules.rules(for: try RuleWorld.ada())
            return schemas.map { mine.role(for: $0, of: state).read.index }
        }
        #expect(try indices(try Rules(classes: ["Task": RuleWorld.file(all)])) == [.always, .never])
        let others = try Rules(classes: ["Task": RuleWorld.file(none)], defaultRule: RuleWorld.file(all))
        #expect(try indices(others) == [.never, .always])
        #expect(try indices(try Rules(classes: [:])) == [.never, .never])
    }

    /// Until the class has the field nobody may do anything.
    @Test func fieldsThatAClassLacksGiveNothing() throws {
        let rules = try RuleWorld.rules(read: #"{"$or": [{"nosuch": 1}, {"level": 1}]}"#)
        let state = try RuleWorld.state()
        let schema = try #require(state.schema(ofClass: Array("Task".utf8)))
        let role = rules.rules(for: try RuleWorld.ada()).role(for: schema, of: state)
        #expect(role.problem?.reason == #""Task" has no property "nosuch""#)
        #expect([role.read, role.write, role.insert, role.delete].allSatisfy { $0.index == .never })
        #expect(rules.fields(ofClass: "Task") == ["nosuch", "level"])
    }

    @Test func equalitiesOfRolesAreAnIndex() throws {
        let state = try RuleWorld.state()
        let schema = try #require(state.schema(ofClass: Array("Task".utf8)))
        let rules = try RuleWorld.rules(read: #"{"$or": [\#(Self.mine), {"shared": "%%user.id"}]}"#)
        let role = rules.rules(for: try RuleWorld.ada()).role(for: schema, of: state)
        let ada = Payload.string(Array("ada".utf8))
        let owner = try #require(schema.property(named: Array("owner".utf8)))
        let shared = try #require(schema.property(named: Array("shared".utf8)))
        #expect(role.read.index == .oneOf([FieldValue(owner, ada), FieldValue(shared, ada)]))
        #expect(role.read.fields == [owner, shared])
        #expect(role.problem == nil)
    }
}
