import AnabranchCore
import AnabranchHistory
import ArgumentParser
import Foundation

struct AdminWhy: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "why", abstract: "What a user may do with a synced file, and which rule or role says so.",
        discussion: """
            In words, as the server decides now: in apps with partitions the rule that is the first to match, for each \
            way in which the user logs in; in flexible apps for each class the role that applies, the roles tried \
            before it, and what it allows. With --object, whether the user may read, change and delete that object, \
            and which of the user's clients have it. Also the last refusals of the user's sessions, log-ins and \
            writes since the server was started. The file may be one that nobody has made yet. It needs the \
            inspector, which shows the same in a browser.

            EXAMPLES
              anabranch admin why 'my-app/"notes"' 5f0c2d9e8b7a6c5d4e3f2a1b --data ./data
              anabranch admin why 'my-app/"notes"' --app my-app --email ann@example.com \\
                  --data ./data
              anabranch admin why my-app --app my-app --email ann@example.com \\
                  --class Note --data ./data
              anabranch admin why my-app 5f0c2d9e8b7a6c5d4e3f2a1b --object Note/7 \\
                  --data ./data
            """)

    @OptionGroup var options: AdminOptions
    @Argument(help: "The synced file, as `admin files` shows it.")
    var file: String
    @OptionGroup var user: UserArgument
    @Option(name: .customLong("class"), help: "Only the role for this class of a flexible app.")
    var className: String?
    @Option(help: ArgumentHelp("An object to try it on.", valueName: "class/key"))
    var object: String?

    func run() async throws {
        try await options.run { client in
            var query = [("path", file), ("as", try await user.ident(client)), ("class", className)]
            if let object {
                let answer = try JSONValue(parsing: try await client.get("/v1/classes", [("path", file)]))
                let classes = try (answer["classes"]?.array ?? []).map { try ExportedClass($0) }
                let address = try ObjectAddress(argument: object, in: classes)
                query[2].1 = address.classText
                query.append(("key", address.keyText))
            }
            let answer = try await client.get("/as.json", query)
            if options.json { return show(answer) }
            for line in Reasons(try JSONValue(parsing: answer), object: object).lines { print(line) }
        }
    }
}

/// The permissions of a user, in words.
struct Reasons {
    private let answer: JSONValue
    private let object: String?

    /// - Parameters:
    ///   - answer: what the inspector says of them (`Spec/Inspector.md`, section 3).
    ///   - object: the object that it was tried on.
    init(_ answer: JSONValue, object: String?) {
        self.answer = answer
        self.object = object
    }

    var lines: [String] {
        let version = answer["exists"] == false ? "which nobody has made yet" : "version \(text(of: "version"))"
        var lines = ["\(text("user")) on \(text("path")), \(version)"]
        if answer["exists"] == false { lines += quotationMarks }
        lines += (answer["notes"]?.array ?? []).compactMap(\.string)
        if let reason = answer["reason"]?.string { lines.append("nothing is allowed: \(reason)") }
        for permission in answer["permissions"]?.array ?? [] { lines += Self.lines(ofPartition: permission) }
        if answer["no_rules"] == true {
            lines.append("everything is allowed: the app has no rules")
        } else {
            for role in answer["classes"]?.array ?? [] { lines += Self.lines(ofRole: role) }
        }
        return lines + verdict + (answer["refusals"]?.array ?? []).map(Self.line(ofRefusal:))
    }

    /// A path without the quotation marks of JSON, which people leave out and shells take away.
    private var quotationMarks: [String] {
        let parts = text("path").split(separator: "/", maxSplits: 1)
        guard parts.count == 2, (try? JSONValue(parsing: parts[1].utf8)) == nil else { return [] }
        return [#"did you mean '\#(parts[0])/"\#(parts[1])"'? A partition that is a string has its quotation marks"#]
    }

    private func text(_ name: String) -> String { answer[name]?.string ?? "" }

    private func text(of name: String) -> String { answer[name]?.encoded ?? "?" }

    private static func line(ofRefusal refusal: JSONValue) -> String {
        let time = Date(timeIntervalSince1970: Double(refusal["time"]?.integer ?? 0)).formatted(.iso8601)
        let place = refusal["path"]?.string.map { "on \($0)" } ?? "at log-in"
        return "refused \(time) \(place): \(refusal["code"]?.string ?? ""), \(refusal["reason"]?.string ?? "")"
    }

    private static func lines(ofPartition permission: JSONValue) -> [String] {
        let provider = permission["provider"]?.string.map { "logged in by \($0): " } ?? ""
        let line =
            "\(provider)\(permission["permission"]?.string ?? "none"), since \(permission["reason"]?.string ?? "")"
        let rule = permission["text"]?.string.map { $0.split(separator: "\n").map { "    \($0)" } } ?? []
        return [line] + rule
    }

    private static func lines(ofRole role: JSONValue) -> [String] {
        let tried = role["tried"]?.array ?? [], name = "class \(role["class"]?.string ?? "")"
        let passed = tried.filter { $0["applies"] != true }.compactMap { $0["name"]?.string }
        var lines: [String]
        if let applied = role["role"]?.string {
            let isDefault = role["default_rule"] == true ? " of the default rule" : ""
            let before = passed.isEmpty ? "" : "; tried before it: \(passed.joined(separator: ", "))"
            lines = ["\(name): role \(applied)\(isDefault) applies\(before)"]
            for (permission, word) in [
                ("read", "read"), ("write", "change"), ("insert", "create"), ("delete", "delete"),
            ] {
                lines.append("    \(word): \(condition(role["permissions"]?[permission]))")
            }
        } else if tried.isEmpty {
            lines = ["\(name): nothing is allowed, no rule names it"]
        } else {
            lines = ["\(name): nothing is allowed, no role applies; tried: \(passed.joined(separator: ", "))"]
        }
        for role in tried where role["applies"] != true {
            let condition = role["source"]?["apply_when"] ?? role["source"]?["applyWhen"]
            lines.append("    \(role["name"]?.string ?? "") would apply when \(condition?.encoded ?? "{}")")
        }
        if let problem = role["problem"]?.string { lines.append("    nothing is allowed: \(problem)") }
        return lines
    }

    private static func condition(_ value: JSONValue?) -> String {
        switch value {
        case true?: "all objects"
        case false?, nil: "none"
        case let value?: value.encoded
        }
    }

    /// The word on the object that was asked about.
    private var verdict: [String] {
        guard let object, let found = answer["object"] else { return [] }
        guard found["exists"] == true else { return ["\(object): there is no such object"] }
        let isReadable = found["readable"] == true
        var lines = ["\(object): the user may \(isReadable ? "" : "not ")read it"]
        let className = object.split(separator: "/").first.map(String.init) ?? ""
        let role = (answer["classes"]?.array ?? []).first { $0["class"]?.string == className }
        for (member, permission, word) in [
            ("readable", "read", "read"), ("changeable", "write", "change"), ("deletable", "delete", "delete"),
        ] where role != nil && found[member] == false {
            let needed = role?["permissions"]?[permission] ?? false
            let reason =
                needed == false
                ? "no object" : "those with \(needed.encoded), and it has \(found["values"]?.encoded ?? "{}")"
            lines.append("    not \(word) it: the role allows that for \(reason)")
        }
        let clients = found["clients"]?.array ?? []
        if answer["classes"] != nil, clients.isEmpty { lines.append("    the user has no client in this file") }
        for client in clients {
            let number = client["client"]?.encoded ?? "?", asks = query(of: client["client"], for: className)
            let has = client["has"] == true ? "has it" : "does not have it"
            lines.append(
                "    client \(number) \(has): \(asks.map { "it asks for \($0)" } ?? "it asks for none of the class")")
        }
        return lines
    }

    private func query(of client: JSONValue?, for className: String) -> String? {
        let known = (answer["clients"]?.array ?? []).first { $0["client"] == client }
        return known?["queries"]?[className]?.string
    }
}
