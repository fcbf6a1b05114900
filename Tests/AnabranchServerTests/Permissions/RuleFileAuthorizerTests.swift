import Testing

@testable import AnabranchServer

@Suite struct RuleFileAuthorizerTests {
    private static let text = """
        rules:
          - {path: '"private*"', users: [u1], right: write}
          - {path: '"private*"', right: none}
          - {path: '"team*"', data: {role: editor, level: 3}, right: write}
          - {path: '"team*"', app: demo, providers: [custom-token], right: read}
          - {path: '"public"', right: read}
        """

    @Test(arguments: [
        ("private 1", "u1", "anon-user", "{}", Permission.write), ("private 1", "u2", "anon-user", "{}", .none),
        ("team 1", "u2", "anon-user", #"{"role":"editor","level":3}"#, .write),
        ("team 1", "u2", "anon-user", #"{"role":"editor","level":"3"}"#, .none),
        ("team 1", "u2", "custom-token", "{}", .read), ("public", "u2", "anon-user", "{}", .read),
        ("other", "u1", "anon-user", "{}", .none),
    ])
    func theFirstRuleThatMatchesDecides(
        path: String, user: String, provider: String, customData: String, permission: Permission
    ) throws {
        let rules = try PermissionRule.rules(inYAML: Self.text)
        let principal = Principal(app: "demo", user: user, provider: provider, customData: customData)
        let found = rules.first { $0.matches(principal, Array("\"\(path)\"".utf8)) }
        #expect((found?.permission ?? .none) == permission)
    }

    @Test(arguments: [
        ("", "`rules`"), ("rules: 1", "`rules`"), ("rules: []\nmore: 1", "`rules`"), ("rules: [1]", "rule 1"),
        ("rules: [{path: a, right: read}, {path: a, rihgt: read}]", "rule 2: there is no key 'rihgt'"),
        ("rules: [{path: a, right: all}]", "rule 1: right"), ("rules: [{path: a}]", "rule 1: path and right"),
        ("rules: [{right: read}]", "rule 1: path and right"), ("rules: [{path: [a], right: read}]", "rule 1: path"),
        ("rules: [{path: a, right: read, users: u}]", "rule 1: users"),
        ("rules: [{path: a, right: read, data: {}}]", "rule 1: data"),
        ("rules: [{path: a, right: read, data: {a: [1]}}]", "rule 1: data"),
    ])
    func aMistakeIsNamed(text: String, word: String) {
        do {
            _ = try PermissionRule.rules(inYAML: text)
            Issue.record("accepted: \(text)")
        } catch {
            #expect("\(error)".contains(word), "\(error)")
        }
    }
}
