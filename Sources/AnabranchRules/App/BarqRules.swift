package import AnabranchCore
import AnabranchQuery

/// The rules of a Barq server, as the folder of an app (`Spec/FlexibleRules.md`, section 9).
package struct BarqRules: Sendable {
    /// All mistakes, one line each, with the number of the rule.
    package struct Mistakes: Error, Hashable {
        package let lines: [String]
    }

    private struct Rule {
        let className: String
        /// The conditions of a role.
        let read, write: JSONValue
    }

    private var rules: [Rule] = []
    /// The last rule of each class.
    private var numbers: [ExactString: Int] = [:]
    private var mistakes: [String] = []
    /// The parts of the rules that have no effect here.
    package private(set) var notices: [String] = []

    /// Reads a list of rules, or an object with a list of them as `rules`.
    package init(_ value: JSONValue) throws(Mistakes) {
        let listed = value.array ?? value["rules"]?.array
        for key in (value.members ?? [:]).keys.sorted() where key != "rules" { reportUnknown(key, of: "the file") }
        for (index, rule) in (listed ?? []).enumerated() { read(rule, index + 1) }
        if listed == nil {
            mistakes.append("a list of rules is expected, or an object with a list of them as \"rules\"")
        }
        if listed?.isEmpty == true { mistakes.append("there are no rules: nobody could read or write anything") }
        // An unknown key may be a misspelling of a missing one.
        guard mistakes.isEmpty else { throw Mistakes(lines: mistakes + notices) }
    }

    private mutating func reportUnknown(_ key: JSONName, of owner: String) {
        notices.append("\(owner): the key \"\(key)\" is not known and has no effect")
    }

    // MARK: Reading

    private static let classKeys = ["class", "class_name", "table"]

    private mutating func read(_ value: JSONValue, _ number: Int) {
        guard let members = value.members else {
            return mistakes.append("rule \(number): an object with class, read and write is expected")
        }
        let className = className(in: value, number)
        let owner = "rule \(number)" + (className.map { " (\($0))" } ?? "")
        let known = Self.classKeys + ["read", "write"]
        for key in members.keys.sorted() where !known.contains(key.text) { reportUnknown(key, of: owner) }
        let read = condition(value, "read", owner), write = condition(value, "write", owner)
        guard let className else { return }
        if let other = numbers.updateValue(number, forKey: ExactString(className)) {
            mistakes.append("\(owner): the class has rule \(other) already")
        }
        if let read, let write { rules.append(Rule(className: className, read: read, write: write)) }
    }

    private mutating func className(in rule: JSONValue, _ number: Int) -> String? {
        let given = Self.classKeys.filter { rule[$0] != nil }
        guard let key = given.first, given.count == 1 else {
            let problem = given.isEmpty ? "has no class" : "has \(given.joined(separator: " and ")): one is enough"
            mistakes.append("rule \(number): \(problem)")
            return nil
        }
        guard var name = rule[key]?.string else {
            mistakes.append("rule \(number): \(key): a text is expected")
            return nil
        }
        // The tables of a database have this prefix.
        if key == "table", name.hasPrefix("class_") { name.removeFirst("class_".count) }
        let isFileName =
            !name.hasPrefix(".") && name != "node_modules"
            && !name.unicodeScalars.contains { $0 == "/" || $0.properties.generalCategory == .control }
        guard (1...ExportedClass.nameBytesMax).contains(name.utf8.count), isFileName else {
            let bytes = "1 to \(ExportedClass.nameBytesMax) bytes"
            let allowed = "\(bytes), no slash, no control character, and no point at its start"
            let excerpt = String(excerptOf: Array(name.utf8))
            mistakes.append("rule \(number): \(key): \"\(excerpt)\" cannot be a class here: it has \(allowed)")
            return nil
        }
        return name
    }

    /// The condition of a role with the same meaning; nil after a mistake.
    private mutating func condition(_ rule: JSONValue, _ key: String, _ owner: String) -> JSONValue? {
        switch rule[key] ?? .null {
        case .null: mistakes.append("\(owner): \(key) is missing: if nobody may, write FALSEPREDICATE")
        case .bool(let isTrue): return .bool(isTrue)
        case .string(let text):
            do throws(QueryError) {
                _ = try RulePredicate(text)
                return ["%query": .string(text)]
            } catch {
                mistakes.append("\(owner): \(key): \(error.reason), at byte \(error.offset)")
            }
        default: mistakes.append("\(owner): \(key): a text in the query language is expected")
        }
        return nil
    }

    // MARK: Writing

    /// The files of the folder: admins may do everything with the classes that have a rule, and the others what the
    /// rule allows. The other classes have no role, so that nobody may do anything with them.
    package var files: [AppFile] {
        let sync: JSONValue = ["type": "flexible", "state": "enabled", "development_mode_enabled": true]
        let admin = role("admin", applyWhen: ["%%user.data.admin": true], read: true, write: true)
        // Without the configuration of sync the folder is not an app: it comes last.
        return rules.map { rule in
            file(
                "data_sources/mongodb-atlas/app/\(rule.className)/rules.json",
                ["roles": [admin, role("rule", applyWhen: [:], read: rule.read, write: rule.write)]])
        } + [file("sync/config.json", sync)]
    }

    private func file(_ path: String, _ json: JSONValue) -> AppFile { AppFile(path: path, bytes: json.encoded.utf8) }

    /// Creating, changing and deleting have the same condition; and a user who may write need not be able to read.
    private func role(_ name: String, applyWhen: JSONValue, read: JSONValue, write: JSONValue) -> JSONValue {
        [
            "name": .string(name), "apply_when": applyWhen, "document_filters": ["read": read, "write": write],
            "read": true, "write": true, "insert": true, "delete": true, "write_implies_read": false,
        ]
    }
}
