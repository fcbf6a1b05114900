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
    var users: Set<ExactString>?
    var providers: Set<ExactString>?
    var data: [ExactString: JSONValue] = [:]
    var permission: Permission
    /// Why the rule has no effect, in words.
    private(set) var notice: String?

    func matches(_ question: PermissionQuestion) -> Bool {
        let principal = question.principal
        if let app, !app.hasBytes(of: principal.app) { return false }
        if let users, !users.contains(ExactString(principal.user ?? "")) { return false }
        if let providers, !providers.contains(ExactString(principal.provider ?? "")) { return false }
        return data.allSatisfy { Self.isSame(question.customData[$0.key.text], $0.value) } && path.matches(question)
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
        "path": """
        a pattern of at most \(PathPattern.bytesMax) bytes, like '"public"' or '*'; a star itself is \\u002a
        """,
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
                guard !text.utf8.split(separator: "${user}".utf8).contains(where: { $0.contains("${".utf8) }) else {
                    throw PermissionRuleError(
                        description: """
                            \(rule): path: \(found): only ${user} and * stand for something; a dollar sign itself is \
                            \\u0024
                            """)
                }
                path = pattern
                notice = Self.notice(pattern, text, rule)
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

    /// A pattern that stands for no value of a partition matches nothing that a client asks for.
    private static func notice(_ pattern: PathPattern, _ path: String, _ rule: String) -> String? {
        guard !pattern.canMatchValues else { return nil }
        let example = Array(path.utf8).replacing("${user}".utf8, with: "0".utf8).map {
            $0 == UInt8(ascii: "*") ? UInt8(ascii: "0") : $0
        }
        let isJSON = (try? JSONValue(parsing: example)) != nil
        return isJSON
            ? """
            \(rule): path: matches nothing: '\(path)' is no partition value: null, a text, an integer, an ObjectId \
            or a UUID
            """
            : """
            \(rule): path: matches nothing: '\(path)' is no JSON, as partition values are; that of a string has \
            its own quotation marks: '"\(path)"'
            """
    }

    private static func words(_ node: Node, _ wrong: PermissionRuleError) throws -> Set<ExactString> {
        guard let words = node.sequence?.map({ $0.scalar?.string }), !words.contains(nil) else { throw wrong }
        return Set(words.compactMap { $0.map { ExactString($0) } })
    }

    /// Words without quotation marks that mean numbers and flags in YAML mean them here.
    private static func data(_ node: Node, _ wrong: PermissionRuleError) throws -> [ExactString: JSONValue] {
        var data: [ExactString: JSONValue] = [:]
        for (key, value) in node.mapping ?? [:] {
            guard let name = key.scalar.map({ ExactString($0.string) }), let scalar = value.scalar else { throw wrong }
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
