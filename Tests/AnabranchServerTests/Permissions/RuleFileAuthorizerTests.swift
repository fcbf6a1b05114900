import Foundation
import Testing

@testable import AnabranchServer

@Suite struct RuleFileAuthorizerTests {
    private static let text = """
        rules:
          - {path: '"private*"', users: [u1], right: write}
          - {path: '"private*"', right: none}
          - {path: '"team*"', data: {role: editor, level: 3}, right: write}
          - {path: '"team*"', app: demo, providers: [custom-token], right: read}
          - {path: '"text*"', data: {version: "1.10"}, right: write}
          - {path: '"half*"', data: {share: 0.5, name: "\u{e9}"}, right: write}
          - {path: '"public"', right: read}
        """

    @Test(arguments: [
        ("private 1", "u1", "anon-user", "{}", Permission.write), ("private 1", "u2", "anon-user", "{}", .none),
        ("team 1", "u2", "anon-user", #"{"role":"editor","level":3}"#, .write),
        ("team 1", "u2", "anon-user", #"{"role":"editor","level":"3"}"#, .none),
        ("team 1", "u2", "anon-user", #"{"role":"editor","level":3.0}"#, .write),
        ("half 1", "u2", "anon-user", #"{"share":0.5,"name":"\u00e9"}"#, .write),
        ("half 1", "u2", "anon-user", #"{"share":5e-1,"name":"e\u0301"}"#, .none),
        ("half 1", "u2", "anon-user", #"{"share":"0.5","name":"\u00e9"}"#, .none),
        ("text 1", "u2", "anon-user", #"{"version":"1.10"}"#, .write),
        ("text 1", "u2", "anon-user", #"{"version":1.1}"#, .none),
        ("team 1", "u2", "custom-token", "{}", .read), ("public", "u2", "anon-user", "{}", .read),
        ("other", "u1", "anon-user", "{}", .none),
    ])
    func theFirstRuleThatMatchesDecides(
        path: String, user: String, provider: String, customData: String, permission: Permission
    ) throws {
        let rules = try PermissionRule.rules(inYAML: Self.text)
        let principal = Principal(app: "demo", user: user, provider: provider, customData: customData)
        let found = rules.first { $0.matches(PermissionQuestion(principal, Array("\"\(path)\"".utf8))) }
        #expect((found?.permission ?? .none) == permission)
    }

    @Test(
        "values of custom data are compared as roles compare them",
        arguments: [
            ("5", "5", true), ("5", "5.0", true), ("5", #"{"$numberLong":"5"}"#, true),
            ("5", #"{"$numberInt":"5"}"#, true), ("5", #"{"$numberDouble":"5.0"}"#, true),
            ("5", #"{"$numberDecimal":"5.00"}"#, true), ("5", #""5""#, false), ("5", "6", false), ("5", "true", false),
            (#"{$numberLong: "5"}"#, "5", true), (#"{$numberLong: "5"}"#, "5.5", false),
            ("9007199254740993", "9007199254740992", false), ("9007199254740993", "9007199254740993", true),
            ("9223372036854775807", "9223372036854775808", false), ("0.5", "5e-1", true), ("yes", "true", true),
            ("null", "null", true), ("null", "0", false), ("2024-01-01", #""2024-01-01""#, true),
            ("'010'", #""010""#, true), ("editor", #"{"$literal":"editor"}"#, true), ("editor", #"["editor"]"#, false),
            (
                #"{$date: "2024-01-01T00:00:00Z"}"#, #"{"$date":{"$numberLong":"1704067200000"}}"#, true
            ),
            (#"{$oid: 64B7f0aa000000000000000A}"#, #"{"$oid":"64b7f0aa000000000000000a"}"#, true),
        ])
    func valuesOfCustomData(wanted: String, found: String, isMatch: Bool) throws {
        let rules = try PermissionRule.rules(inYAML: "rules: [{path: '*', right: write, data: {n: \(wanted)}}]")
        func isMatched(_ customData: String) -> Bool {
            let principal = Principal(app: "demo", user: "u", customData: customData)
            return rules[0].matches(PermissionQuestion(principal, Array("null".utf8)))
        }
        #expect(isMatched(#"{"n":\#(found)}"#) == isMatch)
        #expect(!isMatched("{}"))
    }

    /// Of a `String`, "K" is the Kelvin sign, and "é" two letters.
    @Test func rulesAreComparedByTheirBytes() throws {
        let rules = try PermissionRule.rules(
            inYAML: #"""
                rules:
                  - {path: '"users"', users: ["\u00e9"], right: write}
                  - {path: '"app"', app: K, right: write}
                  - {path: '"login"', providers: [K], right: write}
                  - {path: '"data"', data: {"\u00e9": 1}, right: write}
                  - {path: '"a\u002a"', right: write}
                """#)
        func isAllowed(
            _ path: String, app: String = "K", user: String = "\u{e9}", provider: String = "K", data: String = "{}"
        ) -> Bool {
            let principal = Principal(app: app, user: user, provider: provider, customData: data)
            let question = PermissionQuestion(principal, Array("\"\(path)\"".utf8))
            return rules.contains { $0.matches(question) }
        }
        #expect(isAllowed("users") && !isAllowed("users", user: "e\u{301}"))
        #expect(isAllowed("app") && !isAllowed("app", app: "\u{212a}"))
        #expect(isAllowed("login") && !isAllowed("login", provider: "\u{212a}"))
        #expect(isAllowed("data", data: #"{"\u00e9":1}"#) && !isAllowed("data", data: #"{"e\u0301":1}"#))
        #expect(isAllowed("a*") && !isAllowed("ab"))
    }

    @Test func everyMistakeIsNamed() throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).yaml").path
        let text = "rules: [{path: a, right: all, color: red}, {path: a, right: read}, {paht: a, right: read}]"
        try text.write(toFile: path, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(atPath: path) }
        do {
            _ = try PermissionRule.rules(inYAML: text)
            Issue.record("accepted")
        } catch {
            let lines = FileError(path, "\(error)").description.split(separator: "\n")
            for (line, words) in zip(
                lines,
                [
                    "rule 1: right: cannot be 'all'", "rule 1: there is no key 'color'",
                    "rule 3: there is no key 'paht'", "rule 3: path and right have to be there",
                ])
            { #expect(line.hasPrefix("\(path): \(words)"), "\(line)") }
            #expect(lines.count == 4)
        }
    }

    @Test(arguments: [
        ("", "`rules`"), ("rules: 1", "`rules`"), ("rules: []\nmore: 1", "`rules`"), ("rules: [1]", "rule 1"),
        (
            "rules: [{path: a, right: read}, {path: a, rihgt: read}]",
            "rule 2: there is no key 'rihgt'; allowed: path, right,"
        ),
        ("rules: [{path: a, right: all}]", "rule 1: right: cannot be 'all'; allowed: none, read, write"),
        ("rules: [{path: a}]", "rule 1: path and right"),
        ("rules: [{right: read}]", "rule 1: path and right"), ("rules: [{path: [a], right: read}]", "rule 1: path"),
        ("rules: [{path: a, right: read, users: u}]", "rule 1: users: cannot be 'u'; allowed: a list"),
        ("rules: [{path: a, right: read, data: {}}]", "rule 1: data"),
        (#"rules: [{path: '"user=${usr}"', right: read}]"#, "only ${user} and * stand for something"),
        (#"rules: [{path: '"a\*"', right: read}]"#, #"a star itself is \u002a"#),
        ("rules: [{path: a, right: read, data: {a: [1]}}]", "rule 1: data"),
        ("rules: [{path: a, right: read, data: {a: {b: 1}}}]", "rule 1: data"),
        ("rules: [{path: a, right: read, data: {n: 010}}]", "rule 1: data: n: '010' is not a number as JSON has them"),
        ("rules: [{path: a, right: read, data: {n: 0x10}}]", "'0x10' is not a number"),
        ("rules: [{path: a, right: read, data: {n: 0x10000000000000000}}]", "is not a number"),
        ("rules: [{path: a, right: read, data: {n: 1_000}}]", "'1_000' is not a number"),
        ("rules: [{path: a, right: read, data: {n: 1e400}}]", "'1e400' is not a number"),
        ("rules: [{path: a, right: read, data: {n: +5}}]", "'+5' is not a number"),
        (
            "rules: [{path: a, right: read, data: {n: 123456789012345678901234567890}}]",
            "rule 1: data: n: 123456789012345678901234567890 is not an integer of 64 bits"
        ),
        (#"rules: [{path: a, right: read, data: {d: {$date: "2024-02-30T00:00:00Z"}}}]"#, "rule 1: data: d: {"),
        (#"rules: [{path: a, right: read, data: {n: {$numberLong: "9223372036854775808"}}}]"#, "looks like"),
        ("rules: [{path: a, right: read, data: {n: {$oid: zz}}}]", "looks like extended JSON and is none"),
    ])
    func aMistakeIsNamed(text: String, word: String) {
        do {
            _ = try PermissionRule.rules(inYAML: text)
            Issue.record("accepted: \(text)")
        } catch {
            #expect("\(error)".contains(word), "\(error)")
        }
    }

    @Test(
        arguments: [
            ("path: public", "rule 1: path: matches only clients that send these bytes as they are, which no SDK does"),
            ("path: public", #"has its own quotation marks: '"public"'"#), ("path: /test", "is not JSON"),
            ("path: 'user=${user}'", "is not JSON"),
            (#"path: '"public"'"#, nil), (#"path: '"user=${user}"'"#, nil),
            ("path: 'pub*'", "is not JSON"), ("path: '42'", nil),
            (#"path: '{"$oid":"64b7f0aa0000000000000001"}'"#, nil), ("path: 'null'", nil),
            ("path: '*'", nil), (#"path: '"${user}"'"#, nil), (#"path: '"*-${user}"'"#, nil), (#"path: '"pub*'"#, nil),
            ("path: '4*'", nil), ("path: 'nul*'", nil), (#"path: '{"$oid":"6*"}'"#, nil), (#"path: '{*'"#, nil),
            (#"path: '{"$oid":"${user}"}'"#, nil), (#"path: '{ "$numberInt" : "-*" }'"#, nil),
            (#"path: '{"$binary":"*","$type":"04"}'"#, nil), (#"path: '*,"subType":"04"}}'"#, nil),
            ("path: 'true'", "is not a partition value"), ("path: '1.5'", "is not a partition value"),
            (#"path: '{"a":"*"}'"#, "is not a partition value"),
            (#"path: '{"$oid":"xyz"}'"#, "is not a partition value"),
            (#"path: '{"$oid":"x*"}'"#, "is not a partition value"), (#"path: '["*"]'"#, "is not a partition value"),
            (#"path: '{"$binary":"*","$type":"00"}'"#, "is not a partition value"), ("path: '*-pub'", "is not JSON"),
            ("path: '${user}-x'", "is not JSON"), (#"path: '{"$oid": *}'"#, "is not a partition value"),
            (#"path: '{"$numberLong":"99999999999999999999"}'"#, "is not a partition value"),
            // An ident is 24 hexadecimal digits.
            ("path: '${user}'", "with 24 hexadecimal digits for ${user}, is not JSON"),
            ("path: '*-${user}'", "not JSON"),
            (#"path: '{"$numberLong":"${user}"}'"#, "is not a partition value"),
            (#"path: '{"$uuid":"${user}"}'"#, "is not a partition value"),
            (#"path: '{"$oid":"a${user}*"}'"#, "is not a partition value"), (#"path: '{"$oid":"${user}*"}'"#, nil),
            // What looks like it and stands for itself.
            (#"path: '"user=$user"'"#, "path: '$user' stands for itself"), (#"path: '"user={user}"'"#, "'{user}'"),
            (#"path: '"%%user.id"'"#, "'%%user' stands for itself"), (#"path: '"$$"'"#, nil),
            (#"path: '"user=\u0024user"'"#, nil), (#"path: '"${user}/$team"'"#, "'$team' stands for itself"),
        ] as [(String, String?)])
    func aRuleThatNeverMatchesIsNoticed(path: String, words: String?) throws {
        let rules = try PermissionRule.rules(inYAML: "rules: [{\(path), right: read}]")
        #expect((rules[0].notice == nil) == (words == nil))
        if let words { #expect(rules[0].notice?.contains(words) == true, "\(rules[0].notice ?? "")") }
    }

    @Test func aRuleBehindOneForEverythingIsNoticed() throws {
        let rules = try PermissionRule.rules(
            inYAML: "rules: [{path: '*', app: a, right: read}, {path: '*', right: none}, {path: '*', right: write}]")
        #expect(rules.map { $0.notice != nil } == [false, false, true])
        #expect(rules[2].notice == "rule 3: is never asked: rule 2 matches everything")
    }

    @Test(arguments: [("'*'", 1), ("x", 2)])
    func nobodyElseIsNamedUnlessARuleIsForEverything(path: String, lineCount: Int) throws {
        let words = PermissionRule.words(of: try PermissionRule.rules(inYAML: "rules: [{path: \(path), right: read}]"))
        #expect(words.count == lineCount)
        #expect(words[0].hasPrefix("rule 1: everybody may read "))
    }

    /// The files that operators begin with.
    @Test(arguments: ["README.md", "Spec/Admin.md", "scripts/deploy/rules.yaml"])
    func everyExampleIsAFileOfRules(_ path: String) throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let text = try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
        let blocks = path.hasSuffix(".md") ? text.components(separatedBy: "```yaml\n").dropFirst() : [text]
        let examples = blocks.map { $0.components(separatedBy: "```")[0] }.filter { $0.contains(/^rules:\n/) }
        #expect(path.hasSuffix(".yaml") || !examples.isEmpty)
        for example in path.hasSuffix(".yaml") ? [text] : examples {
            #expect(try !PermissionRule.rules(inYAML: example).isEmpty)
        }
    }

    /// The rules of `Spec/Admin.md`, section 5, with what the text beside them says.
    @Test func theRulesOfTheChapterDoWhatItSays() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let chapter = try String(contentsOf: root.appendingPathComponent("Spec/Admin.md"), encoding: .utf8)
        let example = try #require(chapter.components(separatedBy: "```yaml\nrules:\n").dropFirst().first)
        let rules = try PermissionRule.rules(inYAML: "rules:\n" + example.components(separatedBy: "```")[0])
        func permission(_ partition: String, _ user: String, provider: String = "local-userpass", data: String = "{}")
            -> Permission
        {
            let principal = Principal(app: "my-app", user: user, provider: provider, customData: data)
            let question = PermissionQuestion(principal, Array(partition.utf8))
            return rules.first { $0.matches(question) }?.permission ?? .none
        }
        #expect(permission(#""public""#, "u1") == .read)
        #expect(permission(#""public""#, "u1", data: #"{"role":"editor"}"#) == .write)
        #expect(permission(#""user=u1""#, "u1") == .write)
        #expect(permission(#""user=u2""#, "u1") == .none)
        #expect(permission(#""team=7""#, "u1") == .none)
        #expect(permission(#""team=7""#, "u1", provider: "custom-token") == .write)
        #expect(permission("42", "u1", provider: "custom-token") == .none)
    }
}
