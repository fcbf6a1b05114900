import AnabranchCore
import AnabranchQuery

/// Reads the queries in the conditions of a role (`Spec/FlexibleRules.md`, section 3.1).
struct RuleQueryReader {
    /// The name of the role.
    let role: String
    /// The class of the role; nil in the default rule.
    let className: String?
    /// The classes of the app that are known.
    let classes: ObjectGraph

    func predicate(_ node: JSONNode) throws(RuleError) -> RulePredicate {
        let text = try node.string()
        do throws(QueryError) {
            let predicate = try RulePredicate(text)
            try check(predicate)
            return predicate
        } catch {
            let owner = className.map { "of the class \($0)" } ?? "of the default rule"
            throw node.error("role \"\(role)\" \(owner): \(error.reason), at byte \(error.offset) of the query")
        }
    }

    /// A class that is known has to fit. It may lack a field, though, and get it later: until then the rule gives
    /// nothing.
    private func check(_ predicate: RulePredicate) throws(QueryError) {
        guard let className, let schema = classes.schema(ofClass: Array(className.utf8)),
            predicate.fields.allSatisfy({ schema.property(named: Array($0.utf8)) != nil })
        else { return }
        _ = try Query(.predicate(predicate.asked(by: "")), on: schema, of: classes)
    }
}

extension RulePredicate {
    /// The form that `UserRules.text` has: the text, or, where it names the user, an object with it and the user.
    var json: JSONValue {
        guard let user else { return .string(text) }
        return ["text": .string(text), "user": .string(user.text)]
    }

    /// Reads what `json` has written.
    init(stored node: JSONNode) throws(RuleError) {
        do throws(QueryError) {
            guard let text = node["text"] else {
                self = try RulePredicate(node.value.string ?? "")
                return
            }
            self = try RulePredicate(text.value.string ?? "").asked(by: node["user"]?.value.string ?? "")
        } catch {
            throw node.error(error.reason)
        }
    }
}
