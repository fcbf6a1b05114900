import AnabranchCore

// Filters, checked against a class (`Spec/FlexibleRules.md`, section 3).

extension Condition {
    init(_ filter: Filter, on schema: ClassSchema, of source: some ObjectSource) throws(QueryError) {
        switch filter {
        case .always(let isTrue): self = .always(isTrue)
        case .and(let parts): self = .and(try Self.conditions(parts, on: schema, of: source))
        case .or(let parts): self = .or(try Self.conditions(parts, on: schema, of: source), isInPairs: false)
        case .not(let inner): self = .not(try Condition(inner, on: schema, of: source))
        case .field(let name, let test):
            guard let property = schema.property(named: Array(name.utf8)) else {
                let className = String(excerptOf: schema.name)
                throw QueryError(
                    .query, at: 0, "\"\(className)\" has no property \"\(String(excerptOf: Array(name.utf8)))\"")
            }
            self = Condition(property, test)
        case .predicate(let rule):
            let binder = Binder(
                source: source, options: QueryOptions(links: .keys), schema: schema,
                rules: SubscriptionRules(allowsLinks: false), user: rule.user)
            self = try binder.condition(rule.predicate)
        }
    }

    private static func conditions(
        _ filters: [Filter], on schema: ClassSchema, of source: some ObjectSource
    ) throws(QueryError) -> [Condition] {
        var conditions: [Condition] = []
        for filter in filters { conditions.append(try Condition(filter, on: schema, of: source)) }
        return conditions
    }

    private init(_ property: Property, _ test: FilterTest) {
        guard test.relation != .exists else {
            self =
                property.collection == .single
                ? .filter(property, FieldTest(relation: .exists, constants: [])) : .always(true)
            return
        }
        var constants = test.constants.compactMap(property.comparable)
        // For a type whose equal values are the same, only values of that type are found. An integer equals decimals.
        let isSearched =
            test.relation == .isIn && property.hasExactValues && !constants.contains { $0.type == .decimal }
        if isSearched { constants = constants.compactMap(property.exact) }
        if constants.isEmpty {
            self = .always(false)
        } else if isSearched {
            self = .isOneOf(property, constants, ValueSet(constants))
        } else {
            self = .filter(property, FieldTest(relation: test.relation, constants: constants))
        }
    }
}

extension Property {
    /// True if equal values are the same: not for numbers with a point, for Mixed, and for links, which can dangle.
    var hasExactValues: Bool {
        [.int, .bool, .string, .binary, .timestamp, .objectID, .uuid].contains(type) && collection != .dictionary
    }

    /// A constant in the form in which it compares with the property's values; nil if it is like none of them. A link
    /// is stored in MongoDB as the key of its object, and a dictionary or an embedded object as a document, which no
    /// constant is.
    fileprivate func comparable(_ constant: Payload) -> StateValue? {
        if collection == .dictionary { return nil }
        guard let value = StateValue(constant), !value.isNull, type == .link else { return StateValue(constant) }
        guard !isEmbedded, let target else { return nil }
        let key: PrimaryKey
        switch constant {
        case .int(let value): key = .int(value)
        case .string(let value): key = .string(value)
        case .objectID(let value): key = .objectID(value)
        case .uuid(let value): key = .uuid(value)
        default: return nil
        }
        return .link(ObjectReference(classID: target, key: key))
    }

    /// The value of the property's own type that equals a constant; null stays.
    fileprivate func exact(_ constant: StateValue) -> StateValue? {
        switch (type, constant) {
        case (_, .null): return constant
        case (.int, .double(let number)): return Int64(exactly: number).map(StateValue.int)
        default: return constant.type == StaticType(type) ? constant : nil
        }
    }
}
