import AnabranchCore
import AnabranchRules
import Testing

/// The rules for one user: a value that is compared and stored.
@Suite struct UserRulesTests {
    private static func text(_ rules: Rules, _ user: RuleUser) throws -> String {
        let mine = rules.rules(for: user)
        let again = try UserRules(text: mine.text)
        #expect(again == mine)
        #expect(again.hashValue == mine.hashValue)
        #expect(again.text == mine.text)
        return mine.text
    }

    @Test(arguments: [
        (#"{"owner": "bob", "level": 1}"#, #"{"$and": [{"level": {"$eq": 1.0}}, {"owner": {"$in": ["bob"]}}]}"#),
        (#"{"level": {"$in": [2, 1, 2]}}"#, #"{"level": {"$in": [{"$numberLong": "1"}, 2]}}"#),
        (#"{"$nor": [{"level": 1}, {"level": 2}]}"#, #"{"$and": [{"level": {"$ne": 2}}, {"level": {"$ne": 1}}]}"#),
        (#"{"$or": [{"level": 1}, false, {"$or": [{"level": 2}]}]}"#, #"{"$or": [{"level": 2}, {"level": 1}]}"#),
        (#"{"$or": [{"level": 1}, true]}"#, "{}"), (#"{"owner": "%%user.id"}"#, #"{"owner": "ada"}"#),
        (#"{"level": 1, "%%user.id": "ada"}"#, #"{"level": 1}"#), (#"{"level": 1, "%%user.id": "eve"}"#, "false"),
        (#"{"$not": {"$not": {"level": 1}}}"#, #"{"level": {"$not": {"$not": {"$eq": 1}}}}"#),
    ])
    func equalRulesAreEqual(one: String, other: String) throws {
        let user = try RuleWorld.ada()
        let texts = try [one, other].map { try Self.text(try RuleWorld.rules(read: $0), user) }
        #expect(texts[0] == texts[1])
    }

    @Test(arguments: [
        (#"{"level": 1}"#, #"{"level": 2}"#), (#"{"level": 1}"#, #"{"level": {"$ne": 1}}"#),
        (#"{"level": {"$lt": 1}}"#, #"{"level": {"$lte": 1}}"#), (#"{"owner": "1"}"#, #"{"owner": 1}"#),
        (#"{"level": {"$exists": true}}"#, #"{"level": {"$exists": false}}"#),
        (#"{"level": 1, "owner": "x"}"#, #"{"$or": [{"level": 1}, {"owner": "x"}]}"#),
    ])
    func otherRulesAreNot(one: String, other: String) throws {
        let user = try RuleWorld.ada()
        let texts = try [one, other].map { try Self.text(try RuleWorld.rules(read: $0), user) }
        #expect(texts[0] != texts[1])
    }

    /// "é" and "e\u{301}" are one `String`, and two names.
    @Test func namesThatLookAlikeAreTwo() throws {
        let user = try RuleWorld.ada()
        let mine = try ["\u{e9}", "e\u{301}"].map { try RuleWorld.rules(read: #"{"\#($0)": 1}"#).rules(for: user) }
        #expect(mine[0] != mine[1])
        let filters = #""document_filters": {"read": true, "write": true}"#
        let roles = #"{"roles": [{"name": "r", "apply_when": {}, "read": true, "write": true, \#(filters)}]}"#
        let file = AppFile(path: "rules.json", bytes: roles.utf8)
        let rules = try Rules(classes: ["\u{e9}": file]).rules(for: user)
        #expect(rules.access(ofClass: "\u{e9}") != rules.access(ofClass: "x"))
        #expect(rules.access(ofClass: "e\u{301}") == rules.access(ofClass: "x"))
    }

    /// The names of roles and of other roles that do not apply are no difference, and neither are users.
    @Test func usersWithTheSameRightsShareThem() throws {
        let rules = try RuleWorld.rules(read: #"{"level": {"$gt": "%%user.custom_data.level"}}"#)
        func text(_ id: String, _ level: Int) throws -> String {
            try Self.text(rules, try RuleUser(id: id, customData: #"{"level": \#(level)}"#))
        }
        #expect(try text("ada", 1) == text("bob", 1))
        #expect(try text("ada", 1) != text("ada", 2))
    }

    @Test func classesAreComparedAlone() throws {
        let user = try RuleWorld.ada()
        let rules = try ["1", "2", "1"].map { level in
            try RuleWorld.rules(read: #"{"level": \#(level)}"#).rules(for: user)
        }
        #expect(rules[0].agree(with: rules[2], onClass: "Task"))
        #expect(!rules[0].agree(with: rules[1], onClass: "Task"))
        #expect(rules[0].agree(with: rules[1], onClass: "Note"))
        #expect(rules[0].agree(with: .nothing, onClass: "Note"))
    }

    @Test func theTextIsThis() throws {
        let rules = try RuleWorld.rules(
            read: #"{"team": {"$oid": "070707070707070707070707"}}"#, write: #"{"owner": "%%user.id"}"#)
        #expect(
            try Self.text(rules, try RuleUser(id: "%%user.id"))
                == #"{"classes":{"Task":{"delete":{"owner":{"$eq":{"$literal":"%%user.id"}}},"#
                + #""insert":{"owner":{"$eq":{"$literal":"%%user.id"}}},"#
                + #""read":{"$or":[{"owner":{"$eq":{"$literal":"%%user.id"}}},"#
                + #"{"team":{"$eq":{"$oid":"070707070707070707070707"}}}]},"role":"r","#
                + #""write":{"owner":{"$eq":{"$literal":"%%user.id"}}}}},"#
                + #""others":{"delete":false,"insert":false,"read":false,"write":false}}"#)
    }

    @Test(arguments: [
        #"{"$date": "2023-01-02T03:04:05.678Z"}"#, #"{"$date": {"$numberLong": "-1500"}}"#, #"{"$date": 1500}"#,
        #"{"$date": "2023-01-02T03:04:05+01:00"}"#, #"{"$uuid": "00112233-4455-6677-8899-aabbccddeeff"}"#,
        #"{"$binary": {"base64": "AAEC", "subType": "00"}}"#, #"{"$binary": "AAEC", "$type": "00"}"#,
        #"{"$binary": {"base64": "ABEiM0RVZneImaq7zN3u/w==", "subType": "04"}}"#, #"{"$numberDecimal": "1.50"}"#,
        #"{"$numberDouble": "NaN"}"#, #"{"$numberDouble": "-Infinity"}"#, "0.1", "1e300", "true", "null", "\"ä\\n\"",
        #"{"$numberDecimal": "Infinity"}"#, #"{"$numberDecimal": "123456789012345678901234567890.5"}"#,
    ])
    func everyConstantIsReadAgain(constant: String) throws {
        _ = try Self.text(try RuleWorld.rules(read: #"{"level": \#(constant)}"#), try RuleWorld.ada())
    }

    @Test func datesAreThoseThatAreWritten() throws {
        func text(_ date: String) throws -> String {
            try Self.text(try RuleWorld.rules(read: #"{"level": {"$date": \#(date)}}"#), try RuleWorld.ada())
        }
        #expect(try text(#""1970-01-01T01:00:01.5+01:00""#) == text("1500"))
        #expect(try text(#""1969-12-31T23:59:58.500Z""#) == text("-1500"))
        #expect(try text(#""2000-02-29T00:00:00Z""#) == text(#"{"$numberLong": "951782400000"}"#))
    }

    @Test(arguments: ["", "{}", #"{"classes": {}}"#, #"{"classes": {"A": {}}, "others": {}}"#, "[1"])
    func otherTextsAreRefused(text: String) { #expect(throws: RuleError.self) { try UserRules(text: text) } }

    /// A rule that names a missing field permits nothing until there is one, whatever is stored meanwhile.
    @Test func onlyWhatTheClassesHaveIsUsable() throws {
        var state = try RuleWorld.state()
        let mine = try RuleWorld.rules(read: #"{"color": "red"}"#).rules(for: try RuleWorld.ada())
        let before = mine.usable(in: state)
        #expect(before == .nothing)
        _ = try state.write(as: 2) { try $0.addColumn("color", .string, to: "Task") }
        #expect(before.usable(in: state) == .nothing)
        #expect(mine.usable(in: state) == mine)
        #expect(try UserRules(text: mine.text).usable(in: state) == mine)
        // What is the same for all objects holds for classes that are not there yet.
        let others = try Rules(
            classes: ["Later": RuleWorld.file(#"{"roles": []}"#)],
            defaultRule: RuleWorld.file(
                #"{"roles": [{"name": "all", "apply_when": {}, "read": true, "write": true, "insert": true,"#
                    + #" "delete": true, "document_filters": {"read": true, "write": true}}]}"#)
        ).rules(for: try RuleWorld.ada())
        #expect(others.usable(in: state) == others)
        #expect(!others.agree(with: .everything, onClass: "Later") && others.agree(with: .everything, onClass: "Task"))
    }

    @Test func nobodyMayDoAnythingWithoutRules() throws {
        #expect(try Rules(classes: [:]).rules(for: try RuleWorld.ada()) == .nothing)
    }

    @Test(arguments: ["[]", "1", "{", #"{"a": 1, "a": 2}"#])
    func dataOfUsersAreObjects(json: String) {
        #expect(throws: RuleError.self) { try RuleUser(id: "ada", customData: json) }
        #expect(throws: RuleError.self) { try RuleUser(id: "ada", data: json) }
    }
}
