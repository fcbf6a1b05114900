import AnabranchCore
import AnabranchRules
import Yams

/// The mistakes in a file of rules, a line for each that names its rule.
struct PermissionRuleError: Error, Equatable, CustomStringConvertible {
    let description: String
}

/// One rule of a `RuleFileAuthorizer`'s file: conditions, and the permission of the users who meet all of them.
struct PermissionRule: Equatable, Sendable {
    var path: PathPattern
    var app: String?
    var users: Set<ExactString>?
    var providers: Set<ExactString>?
    var data: [ExactString: Payload] = [:]
    var permission: Permission
    /// The rule as the file has it.
    private(set) var text: String
    /// The rule as a sentence, such as "users of my-app who log in by custom-token may read the partition "public"".
    private(set) var sentence = ""
    /// The reason why the rule has no effect, in words.
    private(set) var notice: String?

    func matches(_ question: PermissionQuestion) -> Bool {
        let principal = question.principal
        if let app, !app.hasBytes(of: principal.app) { return false }
        if let users, !users.contains(ExactString(principal.user ?? "")) { return false }
        if let providers, !providers.contains(ExactString(principal.provider ?? "")) { return false }
        return data.allSatisfy { question.customData[$0.key.text]?.isSame(as: $0.value) ?? false }
            && path.matches(question)
    }

    // MARK: Reading

    static func rules(inYAML text: String) throws -> [PermissionRule] {
        guard let root = try Yams.compose(yaml: text)?.mapping, root.count == 1,
            let entries = root["rules"]?.sequence
        else {
            throw PermissionRuleError(
                description: "the file has to be a list of `rules`, like rules: [{path: '*', right: read}]")
        }
        var rules: [PermissionRule] = [], mistakes: [String] = []
        for (number, node) in entries.enumerated() {
            var rule: PermissionRule
            do { rule = try PermissionRule(node, name: "rule \(number + 1)") } catch {
                mistakes.append("\(error)")
                continue
            }
            if let first = rules.firstIndex(where: \.matchesEverything) {
                rule.notice = "rule \(number + 1): is never asked: rule \(first + 1) matches everything"
            }
            rules.append(rule)
        }
        guard mistakes.isEmpty else { throw PermissionRuleError(description: mistakes.joined(separator: "\n")) }
        return rules
    }

    /// Rules as sentences, in their order.
    static func words(of rules: [PermissionRule]) -> [String] {
        rules.enumerated().map { "rule \($0 + 1): \($1.sentence)" }
            + (rules.contains(where: \.matchesEverything) ? [] : ["nobody else may open anything"])
    }

    private var matchesEverything: Bool {
        path == PathPattern("*") && app == nil && users == nil && providers == nil && data.isEmpty
    }

    /// The keys of a rule, with descriptions of their values.
    private static let forms = [
        "path": """
        a pattern of at most \(PathPattern.bytesMax) bytes, like '"public"' or '*'; a star itself is \\u002a
        """,
        "right": Permission.allCases.map(\.rawValue).joined(separator: ", "), "app": "an app id",
        "users": "a list of users' idents", "providers": "a list of providers, like [custom-token]",
        "data": "names with plain values or constants of extended JSON, like {role: editor}",
    ]
    private static let keys = "allowed: path, right, app, users, providers, data"

    /// - Parameter name: the name of the rule, for errors.
    private init(_ node: Node, name rule: String) throws {
        guard let mapping = node.mapping else {
            throw PermissionRuleError(description: "\(rule): no keys; \(Self.keys)")
        }
        var path: PathPattern?
        var permission: Permission?
        var partition = "", wantedData = "", emails: [String] = [], mistakes: [String] = []
        for (key, value) in mapping {
            let name = key.scalar?.string ?? ""
            let found = value.scalar.map { "'\($0.string)'" } ?? "this"
            let wrong = PermissionRuleError(
                description: "\(rule): \(name): cannot be \(found); allowed: \(Self.forms[name] ?? "")")
            do {
                switch name {
                case "path":
                    guard let text = value.scalar?.string, let pattern = PathPattern(text) else { throw wrong }
                    guard !text.utf8.split(separator: "${user}".utf8).contains(where: { $0.contains("${".utf8) })
                    else {
                        throw PermissionRuleError(
                            description: """
                                \(rule): path: \(found): only ${user} and * stand for something; a dollar sign itself \
                                is \\u0024
                                """)
                    }
                    (path, partition) = (pattern, text)
                    notice = Self.notice(pattern, text, rule)
                case "right":
                    guard let word = value.scalar.flatMap({ Permission(rawValue: $0.string) }) else { throw wrong }
                    permission = word
                case "app":
                    guard let word = value.scalar?.string else { throw wrong }
                    app = word
                case "users":
                    users = try Self.texts(value, wrong)
                    emails = users?.map(\.text).filter { $0.contains("@") }.sorted() ?? []
                case "providers": providers = try Self.texts(value, wrong)
                case "data":
                    data = try Self.data(value, wrong, rule)
                    wantedData = try Self.json(value, rule).encoded
                default: throw PermissionRuleError(description: "\(rule): there is no key '\(name)'; \(Self.keys)")
                }
            } catch {
                mistakes.append("\(error)")
            }
        }
        if mapping["path"] == nil || mapping["right"] == nil {
            mistakes.append("\(rule): path and right have to be there")
        }
        guard let path, let permission, mistakes.isEmpty else {
            throw PermissionRuleError(description: mistakes.joined(separator: "\n"))
        }
        if notice == nil, let email = emails.first {
            notice = """
                \(rule): users: '\(email)' is no ident, as `anabranch admin users` prints them, so nobody is meant
                """
        }
        let unknown = providers?.map(\.text).sorted().first { Provider(rawValue: $0) == nil }
        if notice == nil, let unknown {
            let known = Provider.allCases.map(\.rawValue).joined(separator: ", ")
            notice = "\(rule): providers: nobody logs in by '\(unknown)'; the providers are \(known)"
        }
        self.path = path
        self.permission = permission
        text = try Yams.serialize(node: node)
        sentence = makeSentence(partition: partition, data: wantedData)
    }

    private func makeSentence(partition: String, data: String) -> String {
        var who = users.map { "the users \($0.map(\.text).sorted().joined(separator: ", "))" } ?? "users"
        if let app { who += " of \(app)" }
        var conditions: [String] = []
        if let providers {
            conditions.append("log in by \(providers.map(\.text).sorted().joined(separator: " or "))")
        }
        if !data.isEmpty { conditions.append("have \(data) in their custom data") }
        if !conditions.isEmpty { who += " who " + conditions.joined(separator: " and ") }
        let right =
            switch permission {
            case .none: who == "users" ? "nobody may open" : "\(who) may not open"
            case .read: "\(who == "users" ? "everybody" : who) may read"
            case .write: "\(who == "users" ? "everybody" : who) may read and write"
            }
        let place =
            partition == "*"
            ? permission == .none ? "any partition" : "every partition"
            : partition.contains("*") ? "the partitions that fit \(partition)" : "the partition \(partition)"
        return "\(right) \(place)"
    }

    /// A warning of something that was probably not meant: a pattern that no value of a partition fits, or a word that
    /// looks like `${user}`.
    private static func notice(_ pattern: PathPattern, _ path: String, _ rule: String) -> String? {
        guard pattern.canMatchValues else {
            let example = path.replacing("${user}", with: PathPattern.exampleIdent).replacing("*", with: "0")
            let isJSON = (try? JSONValue(parsing: example.utf8)) != nil
            let ident = path.contains("${user}") ? ", with 24 hexadecimal digits for ${user}," : ""
            let reason =
                isJSON
                ? "not a partition value: null, a text, an integer, an ObjectId or a UUID"
                : "not JSON, as partition values are; that of a string has its own quotation marks: '\"\(path)\"'"
            return """
                \(rule): path: matches only clients that send these bytes as they are, which no SDK does: \
                '\(path)'\(ident) is \(reason)
                """
        }
        let rest = path.replacing("${user}", with: "")
        let words = rest.matches(of: /\$([A-Za-z]\w*)|\{user\}|%%user/)
        return words.first { !extendedJSONKeys.contains($0.1 ?? "") }.map {
            "\(rule): path: '\($0.0)' stands for itself: the ident of the user who asks is ${user}"
        }
    }

    private static let extendedJSONKeys: Set<Substring> = ["binary", "numberInt", "numberLong", "oid", "type", "uuid"]

    private static func texts(_ node: Node, _ wrong: PermissionRuleError) throws -> Set<ExactString> {
        guard let texts = node.sequence?.map({ $0.scalar?.string }), !texts.contains(nil) else { throw wrong }
        return Set(texts.compactMap { $0.map { ExactString($0) } })
    }

    private static func data(
        _ node: Node, _ wrong: PermissionRuleError, _ rule: String
    ) throws -> [ExactString: Payload] {
        var data: [ExactString: Payload] = [:]
        for (key, value) in node.mapping ?? [:] {
            guard let name = key.scalar?.string else { throw wrong }
            let place = "\(rule): data: \(name)", json = try json(value, place)
            if let mistake = json.mistake(at: place) { throw PermissionRuleError(description: mistake) }
            guard let constant = json.constant else { throw wrong }
            data[ExactString(name)] = constant
        }
        guard !data.isEmpty else { throw wrong }
        return data
    }

    /// Reads a constant. Words without quotation marks that mean numbers, flags and null in JSON or flags in YAML mean
    /// them here. Other numbers of YAML are refused: `010` is 8 to some readers and 10 to others.
    private static func json(_ node: Node, _ place: String) throws -> JSONValue {
        switch node {
        case .scalar(let scalar):
            guard scalar.style == .plain else { return .string(scalar.string) }
            if let value = try? JSONValue(parsing: scalar.string.utf8) { return value }
            if let flag = node.bool { return .bool(flag) }
            guard node.int == nil, node.float == nil, node.tag != Tag(.int), node.tag != Tag(.float) else {
                throw PermissionRuleError(
                    description: """
                        \(place): '\(scalar.string)' is not a number as JSON has them, in decimal digits; \
                        a text has quotation marks
                        """)
            }
            return .string(scalar.string)
        case .sequence(let nodes): return .array(try nodes.map { try json($0, place) })
        default:
            let members = try (node.mapping ?? [:]).map { (JSONName($0.key.string ?? ""), try json($0.value, place)) }
            return .object(Dictionary(members) { first, _ in first })
        }
    }
}
