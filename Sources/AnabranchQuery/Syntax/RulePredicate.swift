package import AnabranchCore

/// A predicate in a rule, as `owner_id == $user.id`: it depends only on the object itself and on the user
/// (`Spec/FlexibleRules.md`, section 3.1).
public struct RulePredicate: Hashable, Sendable {
    let predicate: Predicate
    /// The properties of the object itself that it names.
    package let fields: Set<String>
    /// The user id for `$user.id`; nil before `asked(by:)`, and if the predicate does not name `$user.id`.
    package let user: ExactString?
    private let namesUser: Bool

    /// Reads a text. Only its class tells what a property leads to, so links are found when that is known.
    ///
    /// - Throws: `QueryError`, of the kind `refused` for anything that rules may not ask for.
    package init(_ text: String) throws(QueryError) {
        var parser = try Parser(Array(text.utf8), isRule: true)
        predicate = try parser.rulePredicate()
        var names = RuleNames()
        try names.add(predicate)
        (fields, namesUser, user) = (names.fields, names.hasUser, nil)
        // It is stored in this form, and read again.
        let bytes = ParsedQuery(predicate).text.count
        guard bytes <= QueryLimits.textBytesMax else {
            let reason = "with single blanks the text has \(bytes) bytes, the most are \(QueryLimits.textBytesMax)"
            throw QueryError(.limit, at: 0, reason)
        }
    }

    private init(_ rule: RulePredicate, user: ExactString?) {
        (predicate, fields, namesUser, self.user) = (rule.predicate, rule.fields, rule.namesUser, user)
    }

    /// The predicate for one user. One that is for a user already, or names none, stays as it is.
    package func asked(by user: String) -> RulePredicate {
        namesUser && self.user == nil ? RulePredicate(self, user: ExactString(user)) : self
    }

    /// The answer, if it is the same for all objects.
    package var constant: Bool? { if case .always(let isTrue) = predicate { isTrue } else { nil } }

    /// A text that reads as this predicate: equal predicates have equal texts.
    package var text: String { ParsedQuery(predicate).description }
}

// MARK: Reading

extension Parser {
    /// Reads a predicate that must be the whole text.
    fileprivate mutating func rulePredicate() throws(QueryError) -> Predicate {
        let predicate = try disjunction().predicate
        if [.sort, .distinct, .limit].contains(next) {
            throw QueryError(.refused, at: place.offset, "SORT, DISTINCT and LIMIT are not allowed in rules")
        }
        try expect(.end, as: "\"and\", \"or\" or the end")
        return predicate
    }
}

extension [Token] {
    /// The tokens of a rule, in which `$user.id` is one, and nothing else begins with `$`.
    func namingUser(in text: [UInt8]) throws(QueryError) -> [Token] {
        var named: [Token] = []
        var index = 0
        while index < count {
            let start = self[index].range.lowerBound
            if text[self[index].range].first != UInt8(ascii: "$") {
                named.append(self[index])
                index += 1
            } else if index + 2 < count, text[start..<self[index + 2].range.upperBound].elementsEqual("$user.id".utf8) {
                named.append(Token(kind: .user, range: start..<self[index + 2].range.upperBound))
                index += 3
            } else {
                throw QueryError(.refused, at: start, "of all that begins with $, rules have $user.id alone")
            }
        }
        return named
    }
}

/// The fields and the user that a predicate names; refuses everything that rules may not name.
private struct RuleNames {
    private(set) var fields: Set<String> = []
    private(set) var hasUser = false

    private func refusal(_ reason: String, at offset: Int) -> QueryError { QueryError(.refused, at: offset, reason) }

    mutating func add(_ predicate: Predicate) throws(QueryError) {
        switch predicate {
        case .always: break
        case .and(let parts), .or(let parts): for part in parts { try add(part) }
        case .not(let inner): try add(inner)
        case .comparison(let comparison):
            guard comparison.relation != .text else {
                throw refusal("full text search is not allowed in rules", at: comparison.left.offset)
            }
            try add(comparison.left)
            try add(comparison.right)
        case .between(let operand, let bounds):
            try add(operand)
            try add(.list(bounds))
        case .geoWithin(let property, _): try add(property.path)
        }
    }

    private mutating func add(_ operand: Operand) throws(QueryError) {
        switch operand {
        case .constant(let constant): try add(constant)
        case .list(let list): for constant in list.constants { try add(constant) }
        case .property(let property): try add(property.path)
        case .aggregate(let aggregate): try add(aggregate.path)
        case .arithmetic(_, let left, let right):
            for operand in [left, right] {
                if case .constant(let constant) = operand, constant.form == .user {
                    throw refusal("$user.id is a text, which cannot be calculated with", at: operand.offset)
                }
                try add(operand)
            }
        case .subquery: throw refusal("subqueries are not allowed in rules", at: operand.offset)
        }
    }

    private mutating func add(_ constant: Constant) throws(QueryError) {
        switch constant.form {
        case .user: hasUser = true
        case .link, .objectKey, .typedLink:
            throw refusal("other objects cannot be named in rules", at: constant.place.offset)
        default: break
        }
    }

    private mutating func add(_ path: PropertyPath) throws(QueryError) {
        for case .name(let name) in path.steps where name == Array("@links".utf8) {
            throw refusal("@links is not allowed in rules", at: path.place.offset)
        }
        guard case .name(let name) = path.steps.first else { return }
        fields.insert(String(decoding: name, as: UTF8.self))
    }
}
