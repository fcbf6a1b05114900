import AnabranchCore
import AnabranchQuery

/// Reads the conditions of rules (`Spec/FlexibleRules.md`, sections 3 and 4).
struct ExpressionReader {
    /// The subject of the conditions.
    enum Scope {
        /// The user alone, before any document: `apply_when`.
        case user
        /// The documents of a class.
        case documents(RuleQueryReader)
        /// Documents, in a text written by `UserRules.text`, which is nested more deeply than the conditions it was
        /// made from.
        case stored
    }

    /// `%%values` and `%%environment`: the app's own constants.
    let constants: JSONValue
    private let scope: Scope
    /// The depth of objects within each other.
    private let depthMax: Int
    private var depth = 0

    init(about scope: Scope, constants: JSONValue = [:]) {
        self.constants = constants
        self.scope = scope
        depthMax = if case .stored = scope { .max } else { RuleLimits.depthMax }
    }

    /// `true`, `false`, or an object all members of which have to be fulfilled.
    func expression(_ node: JSONNode) throws(RuleError) -> RuleExpression {
        if let isTrue = node.value.bool { return .always(isTrue) }
        guard node.value.object != nil else { throw node.error("a condition is true, false or an object") }
        let inner = try deeper(node)
        var parts: [RuleExpression] = []
        for (key, node) in try node.members() { parts.append(try inner.member(key, node)) }
        return parts.count == 1 ? parts[0] : .and(parts)
    }

    private func deeper(_ node: JSONNode) throws(RuleError) -> ExpressionReader {
        guard depth < depthMax else { throw node.error("conditions are nested deeper than \(depthMax)") }
        var inner = self
        inner.depth += 1
        return inner
    }

    private func member(_ key: String, _ node: JSONNode) throws(RuleError) -> RuleExpression {
        if key.hasPrefix("%%") { return try test(try subject(key, node), node) }
        guard key.hasPrefix("$") || key.hasPrefix("%") else {
            if case .user = scope { throw namesDocument(node) }
            guard !key.contains(".") else {
                throw node.error("only fields of the document itself can be asked for, not those within others")
            }
            return try test(.field(key), node)
        }
        switch key.dropFirst() {
        case "and": return .and(try alternatives(node))
        case "or": return .or(try alternatives(node))
        case "nor": return .not(.or(try alternatives(node)))
        case "not": return .not(try expression(node))
        case "query": return .predicate(try predicate(node))
        default: throw node.error(Self.reason(forOperator: key))
        }
    }

    private func predicate(_ node: JSONNode) throws(RuleError) -> RulePredicate {
        switch scope {
        case .user: throw namesDocument(node)
        case .documents(let reader): return try reader.predicate(node)
        case .stored: return try RulePredicate(stored: node)
        }
    }

    private func namesDocument(_ node: JSONNode) -> RuleError {
        node.error("this is decided for the user, before any document: only %%user can be asked for")
    }

    private func alternatives(_ node: JSONNode) throws(RuleError) -> [RuleExpression] {
        var parts: [RuleExpression] = []
        for element in try node.elements() { parts.append(try expression(element)) }
        guard !parts.isEmpty else { throw node.error("at least one condition is expected") }
        return parts
    }

    // MARK: Tests

    private func test(_ subject: RuleSubject, _ node: JSONNode) throws(RuleError) -> RuleExpression {
        guard let members = node.value.object, !node.value.isExtendedConstant,
            Self.conversion(node.value) == nil
        else { return .comparison(subject, .isIn, [try operand(node)]) }
        guard !members.isEmpty, members.keys.allSatisfy({ $0.hasPrefix("$") || $0.hasPrefix("%") }) else {
            throw node.error("a field cannot be compared with a document")
        }
        let inner = try deeper(node)
        var parts: [RuleExpression] = []
        for (key, node) in try node.members() { parts.append(try inner.test(subject, key, node)) }
        return parts.count == 1 ? parts[0] : .and(parts)
    }

    private func test(
        _ subject: RuleSubject, _ key: String, _ node: JSONNode
    ) throws(RuleError) -> RuleExpression {
        switch key.dropFirst() {
        case "eq": return .comparison(subject, .isIn, [try operand(node)])
        case "ne": return .not(.comparison(subject, .isIn, [try operand(node)]))
        case "gt": return .comparison(subject, .greater, [try bound(node)])
        case "gte": return .comparison(subject, .greaterOrEqual, [try bound(node)])
        case "lt": return .comparison(subject, .less, [try bound(node)])
        case "lte": return .comparison(subject, .lessOrEqual, [try bound(node)])
        case "in": return .comparison(subject, .isIn, try list(node))
        case "nin": return .not(.comparison(subject, .isIn, try list(node)))
        case "exists":
            let exists = RuleExpression.comparison(subject, .exists, [])
            return try node.bool() ? exists : .not(exists)
        case "not":
            guard node.value.object != nil else { throw node.error("an object with operators is expected") }
            return .not(try test(subject, node))
        default: throw node.error(Self.reason(forOperator: key))
        }
    }

    private static func reason(forOperator key: String) -> String {
        switch key.dropFirst() {
        case "function": "functions are not here, and their result could change without a document changing"
        case "expr", "where", "jsonSchema": "this would have to run code for each document"
        case "regex", "text", "mod", "elemMatch", "all", "size", "type":
            "flexible sync does not have \(key) in rules"
        default: "the operator \(key) is not known"
        }
    }

    // MARK: Operands

    private func operand(_ node: JSONNode) throws(RuleError) -> RuleOperand {
        if let (conversion, key) = Self.conversion(node.value), let inner = node[key] {
            let operand = try operand(inner)
            guard case .constant(let value) = operand else { return .converted(conversion, operand) }
            guard let converted = conversion.applied(to: value) else {
                throw inner.error("\(key) cannot convert this")
            }
            return .constant(converted)
        }
        if let text = node.value.string, text.hasPrefix("%%") {
            switch try subject(text, node) {
            case .user(let path): return .user(path, isList: false)
            case .constants(let constants) where constants.count == 1: return .constant(constants[0])
            case .constants, .field: throw node.error("\(text) is a list: use it with $in")
            }
        }
        guard let constant = node.value.constant else {
            throw node.error(
                node.value.array == nil ? "this is not a constant" : "a whole list cannot be compared: use $in")
        }
        return .constant(constant)
    }

    /// The operand of an operator of order, such as `$gt`.
    private func bound(_ node: JSONNode) throws(RuleError) -> RuleOperand {
        let operand = try operand(node)
        if case .constant(.binary) = operand { throw node.error("binaries have no order here") }
        return operand
    }

    private func list(_ node: JSONNode) throws(RuleError) -> [RuleOperand] {
        if let text = node.value.string, text.hasPrefix("%%") {
            switch try subject(text, node) {
            case .user(let path): return [.user(path, isList: true)]
            case .constants(let constants): return constants.map(RuleOperand.constant)
            case .field: break
            }
        }
        var operands: [RuleOperand] = []
        for element in try node.elements() { operands.append(try operand(element)) }
        return operands
    }

    private static func conversion(_ value: JSONValue) -> (RuleOperand.Conversion, key: String)? {
        guard let key = value.object?.keys.first, value.object?.count == 1, key.hasPrefix("%"),
            let conversion = RuleOperand.Conversion(rawValue: String(key.dropFirst()))
        else { return nil }
        return (conversion, key)
    }

    // MARK: Placeholders of values

    /// `%%user.…`, `%%values.…`, `%%environment.…`, `%%true` or `%%false`.
    private func subject(_ text: String, _ node: JSONNode) throws(RuleError) -> RuleSubject {
        let path = text.dropFirst(2).split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        switch path[0] {
        case "true" where path.count == 1: return .constants([.bool(true)])
        case "false" where path.count == 1: return .constants([.bool(false)])
        case "user":
            let known: Set = ["id", "type", "custom_data", "data", "identities"]
            guard path.count > 1, known.contains(path[1]) else {
                throw node.error("\(text): of %%user there are \(known.sorted().joined(separator: ", "))")
            }
            return .user(Array(path.dropFirst()))
        case "values", "environment":
            var value: JSONValue? = constants
            for name in path { value = value?[name] }
            guard let value else { throw node.error("\(text): the app has no such value") }
            let constants = value.array?.compactMap(\.constant) ?? value.constant.map { [$0] }
            guard let constants, value.array == nil || value.array?.count == constants.count else {
                throw node.error("\(text): the value is neither a constant nor a list of constants")
            }
            return .constants(constants)
        case "root", "this", "prev", "prevRoot":
            throw node.error("\(text): name a field by itself, without %%; what it was before cannot be asked for")
        case "request", "args": throw node.error("\(text): a session belongs to no request")
        case "partition": throw node.error("\(text): flexible sync has no partitions")
        case "now", "time", "date": throw node.error("\(text): what a user may do must not depend on the time")
        default: throw node.error("\(text) is not known")
        }
    }
}
