import AnabranchCore
import AnabranchQuery
import AnabranchRules
import Testing

/// The rules of a Barq server: the folder that is made of them, and every mistake.
@Suite struct BarqRulesTests {
    private static func rules(_ json: String) throws -> BarqRules {
        try BarqRules(JSONValue(parsing: json.utf8))
    }

    private static func mistakes(_ json: String) -> [String] {
        do {
            _ = try rules(json)
            return []
        } catch {
            return (error as? BarqRules.Mistakes)?.lines ?? ["\(error)"]
        }
    }

    private static let tasks =
        #"{"class": "Task", "read": "owner == $user.id or shared == $user.id", "write": "#
        + #""owner == $user.id"}"#

    /// The permissions of a user with the tasks of `RuleWorld`, and with its notes.
    private static func keys(_ rules: BarqRules, _ user: RuleUser) throws -> [[Int64]] {
        let app = try AppExport(files: rules.files)
        #expect(app.notices.isEmpty)
        let mine = app.rules.rules(for: user), state = try RuleWorld.state()
        let schema = try #require(state.schema(ofClass: Array("Task".utf8)))
        let role = mine.role(for: schema, of: state)
        #expect(role.problem == nil)
        #expect(mine.access(ofClass: "Note") == UserRules.nothing.access(ofClass: "Note"))
        return try [role.read, role.write, role.insert, role.delete].map { query in
            try query.objects(in: state).compactMap { if case .int(let key)? = $0.key { key } else { nil } }
        }
    }

    @Test(arguments: [
        "[\(tasks)]", #"{"rules": [\#(tasks)]}"#, "[\(tasks.replacing("class", with: "class_name"))]",
        "[\(tasks.replacing("\"class\": \"", with: "\"table\": \"class_"))]",
    ])
    func theFolderIsAnApp(json: String) throws {
        let rules = try Self.rules(json)
        #expect(rules.notices.isEmpty)
        #expect(rules.files.map(\.path) == ["data_sources/mongodb-atlas/app/Task/rules.json", "sync/config.json"])
        let ada = try RuleUser(id: "5f", name: "ada")
        #expect(try Self.keys(rules, ada) == [[1, 2, 4], [1], [1], [1]])
        #expect(try Self.keys(rules, RuleUser(id: "ada")) == [[1, 2, 4], [1], [1], [1]])
        #expect(try Self.keys(rules, RuleUser(id: "5f")) == [[], [], [], []])
        #expect(try Self.keys(rules, RuleUser(id: "5f", data: #"{"admin": false}"#)) == [[], [], [], []])
        let all: [Int64] = [1, 2, 3, 4]
        #expect(try Self.keys(rules, RuleUser(id: "5f", data: #"{"admin": true}"#)) == [all, all, all, all])
        let app = try AppExport(files: rules.files)
        #expect(app.sync.isInDevelopmentMode)
        #expect(app.rules.roleName(ofClass: "Task", for: ada) == "rule")
        #expect(app.rules.roleName(ofClass: "Note", for: ada) == nil)
    }

    /// Whom a rule lets write, it does not let read.
    @Test func readingAndWritingAreTwoQuestions() throws {
        let json = #"[{"class": "Task", "read": "level == 1", "write": "level > 1"}]"#
        #expect(try Self.keys(Self.rules(json), RuleWorld.ada()) == [[1], [2, 3], [2, 3], [2, 3]])
        let all: [Int64] = [1, 2, 3, 4]
        for (read, write) in [("true", "false"), (#""TRUEPREDICATE""#, #""FALSEPREDICATE""#)] {
            let rules = try Self.rules(#"[{"class": "Task", "read": \#(read), "write": \#(write)}]"#)
            #expect(try Self.keys(rules, RuleWorld.ada()) == [all, [], [], []])
        }
    }

    @Test func otherKeysAreNamed() throws {
        let rules = try Self.rules(
            #"{"revision": 3, "rules": [{"class": "Task", "read": true, "write": true, "note": "x", "id": 1}]}"#)
        #expect(
            rules.notices == [
                #"the file: the key "revision" is not known and has no effect"#,
                #"rule 1 (Task): the key "id" is not known and has no effect"#,
                #"rule 1 (Task): the key "note" is not known and has no effect"#,
            ])
    }

    /// Every one is told, not the first alone.
    @Test func everyMistakeIsNamed() {
        let name = String(repeating: "A", count: 58)
        let found = Self.mistakes(
            """
            [1, {"read": true, "write": true}, {"class": "A", "table": "A", "read": true, "write": true},
            {"class": 7, "read": true, "write": true}, {"class": "A", "read": "owner ==", "write": "a.b SORT(a ASC)"},
            {"class": "B", "raed": true}, {"class": "C", "read": 1, "write": ["x"]}, \(Self.tasks), \(Self.tasks),
            {"class": "a/b", "read": "@links.A.b.@count > 1", "write": "x == $0"}, {"class": ".a", "read": true,
            "write": true}, {"class": "\(name)", "read": true, "write": true}, {"class": "", "read": "", "write": true}]
            """)
        let bytes =
            "cannot be a class here: it has 1 to 57 bytes, no slash, no control character, and no point at its start"
        #expect(
            found == [
                "rule 1: an object with class, read and write is expected", "rule 2: has no class",
                "rule 3: has class and table: one is enough", "rule 4: class: a text is expected",
                "rule 5 (A): read: the end where a property or a constant is expected, at byte 8",
                #"rule 5 (A): write: "SORT" where an operator is expected, at byte 4"#,
                "rule 6 (B): read is missing: if nobody may, write FALSEPREDICATE",
                "rule 6 (B): write is missing: if nobody may, write FALSEPREDICATE",
                "rule 7 (C): read: a text in the query language is expected",
                "rule 7 (C): write: a text in the query language is expected",
                "rule 9 (Task): the class has rule 8 already", "rule 10: class: \"a/b\" \(bytes)",
                "rule 10: read: @links is not allowed in rules, at byte 0",
                "rule 10: write: of all that begins with $, rules have $user.id alone, at byte 5",
                "rule 11: class: \".a\" \(bytes)", "rule 12: class: \"\(name)\" \(bytes)",
                "rule 13: class: \"\" \(bytes)",
                "rule 13: read: the end where a property or a constant is expected, at byte 0",
                #"rule 6 (B): the key "raed" is not known and has no effect"#,
            ])
    }

    @Test(arguments: [
        ("[]", "there are no rules: nobody could read or write anything"),
        (#"{"rules": []}"#, "there are no rules: nobody could read or write anything"),
        ("null", "a list of rules is expected, or an object with a list of them as \"rules\""),
        (#"{"rules": {}}"#, "a list of rules is expected, or an object with a list of them as \"rules\""),
        (#""Task""#, "a list of rules is expected, or an object with a list of them as \"rules\""),
    ])
    func withoutRulesThereIsNoFolder(json: String, mistake: String) { #expect(Self.mistakes(json) == [mistake]) }
}
