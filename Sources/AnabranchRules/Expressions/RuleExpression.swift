package import AnabranchCore
import AnabranchQuery

/// A condition of a rule as it is written: about the fields of a document and about the user.
indirect enum RuleExpression: Hashable, Sendable {
    case always(Bool)
    case and([RuleExpression])
    case or([RuleExpression])
    case not(RuleExpression)
    case comparison(RuleSubject, FilterTest.Relation, [RuleOperand])
    /// A query about the document, in a different language from this one.
    case predicate(RulePredicate)

    /// The fields of a document that it names.
    var fields: Set<String> {
        switch self {
        case .always: []
        case .and(let parts), .or(let parts): parts.reduce(into: []) { $0.formUnion($1.fields) }
        case .not(let inner): inner.fields
        case .comparison(.field(let name), _, _): [name]
        case .comparison: []
        case .predicate(let rule): rule.fields
        }
    }
}

/// The left side of a comparison: the subject of a condition.
enum RuleSubject: Hashable, Sendable {
    case field(String)
    /// A property of the user, by its path.
    case user([String])
    /// A constant of the app.
    case constants([Payload])
}

/// The right side of a comparison.
indirect enum RuleOperand: Hashable, Sendable {
    case constant(Payload)
    /// A property of the user; `isList` where the elements of a list are meant.
    case user([String], isList: Bool)
    case converted(Conversion, RuleOperand)

    /// The conversion of a value to another type, as in `{"%stringToOid": "%%user.id"}`.
    enum Conversion: String, CaseIterable, Hashable, Sendable {
        case stringToOid, oidToString, stringToUuid, uuidToString

        /// The converted value; nil if the value does not fit.
        func applied(to value: Payload) -> Payload? {
            switch (self, value) {
            case (.stringToOid, .string(let text)): Payload(objectID: String(decoding: text, as: UTF8.self))
            case (.oidToString, .objectID(let value)): .string(Array("\(value)".utf8))
            case (.stringToUuid, .string(let text)): Payload(uuid: String(decoding: text, as: UTF8.self))
            case (.uuidToString, .uuid(let value)): .string(Array("\(value)".utf8))
            default: nil
            }
        }
    }
}

// MARK: The condition for one user

extension RuleExpression {
    /// The condition with the user's data in it. A comparison with a property that the user lacks is never fulfilled,
    /// not even when negated: missing data must not grant more.
    func filter(for user: RuleUser, isNegated: Bool = false) -> Filter {
        switch self {
        case .always(let isTrue): return .always(isTrue != isNegated)
        case .and(let parts):
            let filters = parts.map { $0.filter(for: user, isNegated: isNegated) }
            return isNegated ? .anyOf(filters) : .allOf(filters)
        case .or(let parts):
            let filters = parts.map { $0.filter(for: user, isNegated: isNegated) }
            return isNegated ? .allOf(filters) : .anyOf(filters)
        case .not(let inner): return inner.filter(for: user, isNegated: !isNegated)
        case .predicate(let rule):
            if let isTrue = rule.constant { return .always(isTrue != isNegated) }
            let filter = Filter.predicate(rule.asked(by: user.name))
            return isNegated ? .not(filter) : filter
        case .comparison(let subject, let relation, let operands):
            let found = operands.map { $0.values(for: user) }
            if isNegated, found.contains(nil) { return .always(false) }
            let test = FilterTest(relation, found.compactMap(\.self).flatMap(\.self).inOrder)
            if relation != .exists, test.constants.isEmpty { return .always(isNegated && relation == .isIn) }
            switch subject {
            case .field(let name): return isNegated ? .not(.field(name, test)) : .field(name, test)
            case .user(let path): return .always(test.isFulfilled(by: user.value(at: path)) != isNegated)
            case .constants(let constants):
                return .always(test.isFulfilled(byOneOf: constants) != isNegated)
            }
        }
    }
}

extension RuleOperand {
    /// The values; nil if the user does not have the property.
    fileprivate func values(for user: RuleUser) -> [Payload]? {
        switch self {
        case .constant(let value): return [value]
        case .user(let path, let isList):
            switch user.value(at: path) {
            case .one(let value) where !isList: return [value]
            case .many(let values) where isList: return values
            case .one, .many, .document, nil: return nil
            }
        case .converted(let conversion, let operand):
            guard let values = operand.values(for: user) else { return nil }
            let converted = values.compactMap(conversion.applied)
            return converted.count == values.count ? converted : nil
        }
    }
}

extension FilterTest {
    /// A missing value counts as null; only `$exists` tells them apart.
    fileprivate func isFulfilled(by value: RuleUser.Value?) -> Bool {
        switch value {
        case nil: relation != .exists && isFulfilled(byOneOf: [.null])
        case .document: relation == .exists
        case .one(let value): isFulfilled(byOneOf: [value])
        case .many(let values): relation == .exists || isFulfilled(byOneOf: values)
        }
    }
}

// MARK: One form for equal conditions

extension [Payload] {
    /// The values, each once, in the order of their texts.
    fileprivate var inOrder: [Payload] {
        Set(self).map { (text: $0.extendedJSON.encoded, $0) }.sorted { $0.text < $1.text }.map(\.1)
    }
}

extension Filter {
    /// The conjunction of conditions, in the form in which equal conditions are equal: each once, in the order of their
    /// texts.
    static func allOf(_ filters: [Filter]) -> Filter {
        let parts = filters.flatMap { if case .and(let parts) = $0 { parts } else { [$0] } }
        return joined(parts, without: true, Filter.and)
    }

    /// The disjunction of conditions, in that form.
    static func anyOf(_ filters: [Filter]) -> Filter {
        let parts = filters.flatMap { if case .or(let parts) = $0 { parts } else { [$0] } }
        return joined(parts, without: false, Filter.or)
    }

    /// - Parameter neutral: the constant that changes nothing; the other one decides.
    private static func joined(
        _ parts: [Filter], without neutral: Bool, _ join: ([Filter]) -> Filter
    ) -> Filter {
        if parts.contains(.always(!neutral)) { return .always(!neutral) }
        let different = Set(parts).subtracting([.always(neutral)])
        let ordered = different.map { (text: $0.json.encoded, $0) }.sorted { $0.text < $1.text }.map(\.1)
        switch ordered.count {
        case 0: return .always(neutral)
        case 1: return ordered[0]
        default: return join(ordered)
        }
    }

    /// The condition as a rule has it, so that it can be read again.
    package var json: JSONValue {
        switch self {
        case .always(let isTrue): .bool(isTrue)
        case .and(let parts): .object(["$and": .array(parts.map(\.json))])
        case .or(let parts): .object(["$or": .array(parts.map(\.json))])
        case .not(.field(let name, let test)): .object([name: .object(["$not": test.json])])
        case .not(let inner): .object(["$nor": .array([inner.json])])
        case .field(let name, let test): .object([name: test.json])
        case .predicate(let rule): .object(["%query": rule.json])
        }
    }
}

extension FilterTest {
    fileprivate var json: JSONValue {
        let values = constants.map(\.extendedJSON)
        return switch relation {
        case .exists: .object(["$exists": true])
        case .isIn where values.count == 1: .object(["$eq": values[0]])
        case .isIn: .object(["$in": .array(values)])
        default: .object([relation.rawValue: values.first ?? .null])
        }
    }
}
