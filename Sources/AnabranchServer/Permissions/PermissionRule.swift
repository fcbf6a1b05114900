import AnabranchCore
import Yams

/// What is wrong in a file of rules, and in which rule.
struct PermissionRuleError: Error, Equatable, CustomStringConvertible {
    let description: String
}

/// One rule of a `RuleFileAuthorizer`'s file: conditions, and the permission of the users who meet all of them.
struct PermissionRule: Equatable, Sendable {
    var path: PathPattern
    var app: String?
    var users: Set<String>?
    var providers: Set<String>?
    var data: [String: JSONValue] = [:]
    var permission: Permission
    /// Why the rule has no effect, in words.
    private(set) var notice: String?

    func matches(_ principal: Principal, _ partition: [UInt8]) -> Bool {
        if let app, app != principal.app { return false }
        if let users, !users.contains(principal.user ?? "") { return false }
        if let providers, !providers.contains(principal.provider ?? "") { return false }
        if !data.isEmpty {
            let customData = (try? JSONValue(parsing: principal.customData.utf8)) ?? [:]
            guard data.allSatisfy({ Self.isSame(customData[$0.key], $0.value) }) else { return false }
        }
        return path.matches(partition, user: principal.user)
    }

    /// Numbers are equal whatever their types.
    private static func isSame(_ found: JSONValue?, _ wanted: JSONValue) -> Bool {
        switch (found, wanted) {
        case (.integer(let number), .real(let other)), (.real(let other), .integer(let number)):
            Int64(exactly: other) == number
        default: found == wanted
        }
    }

    // MARK: Reading

    static func rules(inYAML text: String) throws -> [PermissionRule] {
        guard let root = try Yams.compose(yaml: text)?.mapping, root.count == 1,
            let entries = root["rules"]?.sequence
        else {
            throw PermissionRuleError(
                description: "the file has to be a list of `rules`, like rules: [{path: '*', right: read}]")
        }
        var rules: [PermissionRule] = []
        for (number, node) in entries.enumerated() {
            var rule = try PermissionRule(node, name: "rule \(number + 1)")
            if let first = rules.firstIndex(where: \.matchesEverything) {
                rule.notice = "rule \(number + 1): is never asked: rule \(first + 1) matches everything"
            }
            rules.append(rule)
        }
        return rules
    }

    private var matchesEverything: Bool {
        path == PathPattern("*") && app == nil && users == nil && providers == nil && data.isEmpty
    }

    /// What a rule can have, and what it stands for.
    private static let forms = [
        "path": "a pattern of at most \(PathPattern.bytesMax) bytes, like '\"public\"' or '*'",
        "right": Permission.allCases.map(\.rawValue).joined(separator: ", "), "app": "an app id",
        "users": "a list of users' idents", "providers": "a list of providers, like [custom-token]",
        "data": "names with plain values, like {role: editor}",
    ]
    private static let keys = "allowed: path, right, app, users, providers, data"

    /// - Parameter name: which rule it is, for errors.
    private init(_ node: Node, name rule: String) throws {
        guard let mapping = node.mapping else {
            throw PermissionRuleError(description: "\(rule): no keys; \(Self.keys)")
        }
        var path: PathPattern?
        var permission: Permission?
        for (key, value) in mapping {
            let name = key.scalar?.string ?? ""
            let found = value.scalar.map { "'\($0.string)'" } ?? "this"
            let wrong = PermissionRuleError(
                description: "\(rule): \(name): cannot be \(found); allowed: \(Self.forms[name] ?? "")")
            switch name {
            case "path":
                guard let text = value.scalar?.string, let pattern = PathPattern(text) else { throw wrong }
                guard !text.replacing("${user}", with: "").contains("${") else {
                    throw PermissionRuleError(
                        description: "\(rule): path: \(found): only ${user} and * stand for something")
                }
                path = pattern
                notice = Self.notice(path: text, rule)
            case "right":
                guard let word = value.scalar.flatMap({ Permission(rawValue: $0.string) }) else { throw wrong }
                permission = word
            case "app":
                guard let word = value.scalar?.string else { throw wrong }
                app = word
            case "users": users = try Self.words(value, wrong)
            case "providers": providers = try Self.words(value, wrong)
            case "data": data = try Self.data(value, wrong)
            default: throw PermissionRuleError(description: "\(rule): there is no key '\(name)'; \(Self.keys)")
            }
        }
        guard let path, let permission else {
            throw PermissionRuleError(description: "\(rule): path and right have to be there")
        }
        self.path = path
        self.permission = permission
    }

    /// Partition values are JSON: a pattern that stands for other texts alone matches none.
    private static func notice(path: String, _ rule: String) -> String? {
        let example = path.replacing("${user}", with: "0")
        guard !path.contains("*"), (try? JSONValue(parsing: example.utf8)) == nil else { return nil }
        return """
            \(rule): path: matches nothing: '\(path)' is no JSON, as partition values are; that of a string has \
            its own quotation marks: '"\(path)"'
            """
    }

    private static func words(_ node: Node, _ wrong: PermissionRuleError) throws -> Set<String> {
        guard let words = node.sequence?.map({ $0.scalar?.string }), !words.contains(nil) else { throw wrong }
        return Set(words.compactMap { $0 })
    }

    /// Words without quotation marks that mean numbers and flags in YAML mean them here.
    private static func data(_ node: Node, _ wrong: PermissionRuleError) throws -> [String: JSONValue] {
        var data: [String: JSONValue] = [:]
        for (key, value) in node.mapping ?? [:] {
            guard let name = key.scalar?.string, let scalar = value.scalar else { throw wrong }
            guard scalar.style == .plain else {
                data[name] = .string(scalar.string)
                continue
            }
            data[name] =
                value.bool.map { .bool($0) } ?? value.int.map { .integer(Int64($0)) }
                ?? value.float.flatMap { $0.isFinite ? .real($0) : nil } ?? value.string.map { .string($0) }
        }
        guard !data.isEmpty else { throw wrong }
        return data
    }
}
