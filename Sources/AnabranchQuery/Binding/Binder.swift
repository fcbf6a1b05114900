import AnabranchCore

/// Checks a predicate against a class and prepares it for evaluation (`Spec/Query.md`, sections 4 to 6).
struct Binder {
    let source: any ObjectSource
    let classes: KnownClasses
    let options: QueryOptions
    let arguments: [QueryArgument]
    /// The restrictions on the query; nil if it is not a subscription.
    let rules: SubscriptionRules?
    /// The user id for `$user.id`; nil outside of rules.
    let user: ExactString?
    /// The class that paths begin at.
    var schema: ClassSchema
    /// The variable that paths begin with in a subquery; nil elsewhere.
    var variable: [UInt8]?
    /// True below a `not`, where clients leave pairs as they are.
    private var isNegated = false
    /// True within an operand of BETWEEN, which stands for two comparisons with it.
    var isWithinRange = false

    init(
        source: any ObjectSource, options: QueryOptions, arguments: [QueryArgument] = [], schema: ClassSchema,
        rules: SubscriptionRules? = nil, user: ExactString? = nil
    ) {
        self.source = source
        classes = KnownClasses(source)
        self.options = options
        self.arguments = arguments
        self.schema = schema
        self.rules = rules
        self.user = user
    }

    func condition(_ predicate: Predicate) throws(QueryError) -> Condition {
        switch predicate {
        case .always(let isTrue): return .always(isTrue)
        case .and(let parts):
            return .and(try conditions(isNegated ? parts : parts.inBuildingOrder { $0.conjunction }))
        case .or(let parts):
            let order = isNegated ? parts : parts.inBuildingOrder { $0.disjunction }
            return .or(try conditions(order), isInPairs: isNegated)
        case .not(let inner):
            var negated = self
            negated.isNegated = true
            return .not(try negated.condition(inner))
        case .comparison(let comparison): return try self.comparison(comparison)
        case .between(let operand, let bounds): return try between(operand, bounds)
        case .geoWithin(let property, let shape): return try geoWithin(property, shape)
        }
    }

    private func conditions(_ predicates: [Predicate]) throws(QueryError) -> [Condition] {
        var conditions: [Condition] = []
        for predicate in predicates { conditions.append(try condition(predicate)) }
        return conditions
    }

    // MARK: Comparisons

    private func comparison(_ comparison: Comparison) throws(QueryError) -> Condition {
        let (left, right) = try operands(comparison)
        return try condition(left, right, comparison)
    }

    func condition(
        _ left: BoundOperand, _ right: BoundOperand, _ comparison: Comparison
    ) throws(QueryError) -> Condition {
        var (left, right) = (left, right)
        switch comparison.relation {
        case .equal, .notEqual, .isIn:
            try checkLinks(&left, &right, comparison)
            try checkEquality(left, right, comparison)
            if let condition = membership(left, right, comparison) { return condition }
            try checkCase(left, right, comparison)
        case .less, .lessOrEqual, .greater, .greaterOrEqual: try checkOrder(left, right, comparison)
        default: return try textComparison(left, right, comparison)
        }
        if left.plainProperty != nil, left.type == .mixed, right.type == .mixed, let only = right.list?.first,
            right.list?.count == 1
        {
            // A list of one element counts as that element.
            right = BoundOperand(kind: .constant(only), type: only.type)
        }
        if let property = left.plainProperty, let constant = right.constant, left.type != .link,
            left.type == right.type || left.type == .mixed || constant.isNull
        {
            return .direct(property, comparison.test(constant, left.type))
        }
        return .general(comparison.sides(left, right))
    }

    /// Binds both sides: a constant is read as the type of the other side requires.
    private func operands(_ comparison: Comparison) throws(QueryError) -> (left: BoundOperand, right: BoundOperand) {
        let offset = comparison.left.offset
        if comparison.left.isConstant, comparison.right.isConstant { throw comparesConstants(offset) }
        let (left, right): (BoundOperand, BoundOperand)
        if comparison.right.isConstant {
            left = try operand(comparison.left, towards: nil)
            right = try operand(comparison.right, towards: left.type)
            try checkPair(left, right, offset)
            try checkFinite(right, beside: left, comparison.right.offset)
        } else {
            right = try operand(comparison.right, towards: nil)
            left = try operand(comparison.left, towards: comparison.left.isConstant ? right.type : nil)
            try checkPair(right, left, offset)
            try checkFinite(left, beside: right, offset)
        }
        return (left, right)
    }

    func comparesConstants(_ offset: Int) -> QueryError {
        QueryError(.query, at: offset, "two constants are compared: one side must be a property")
    }

    func checkPair(_ first: BoundOperand, _ second: BoundOperand, _ offset: Int) throws(QueryError) {
        if first.path?.endsAtCollection == true, second.path?.endsAtCollection == true {
            throw QueryError(.query, at: offset, "two collections cannot be compared with each other")
        }
        if first.isFixedType, second.isFixedType || second.constant != nil {
            throw QueryError(.query, at: offset, "the type of the property is known: this compares two constants")
        }
        if first.path?.endsAtObjects == true, first.isMany, second.isNull {
            throw QueryError(.query, at: offset, "a collection of links cannot be compared with null")
        }
    }

    /// Refuses infinite constants compared with an Int. They may be written as such, be results of arithmetic, or
    /// arguments.
    func checkFinite(_ operand: BoundOperand, beside other: BoundOperand, _ offset: Int) throws(QueryError) {
        // In the canonical text 0.0 is 0: it does not say what type such a constant had.
        guard !other.hasTypeOfConstant else { return }
        let type = other.type
        for value in operand.constants ?? [] {
            let isRefused =
                switch value {
                case .double(let number): number.isInfinite && (type == .int || !type.isNumericOrMixed)
                case .float(let number):
                    type == .int ? !number.isFinite : number.isInfinite && !type.isNumericOrMixed
                default: false
                }
            guard isRefused else { continue }
            throw QueryError(.query, at: offset, "infinity and NaN cannot be combined with \(type.name)")
        }
    }

    private func checkLinks(
        _ left: inout BoundOperand, _ right: inout BoundOperand, _ comparison: Comparison
    ) throws(QueryError) {
        if left.type == .link { try checkLink(left, against: &right, comparison.left.offset) }
        if right.type == .link { try checkLink(right, against: &left, comparison.left.offset) }
    }

    private func checkLink(
        _ link: BoundOperand, against other: inout BoundOperand, _ offset: Int
    ) throws(QueryError) {
        guard let path = link.path, other.isConstant else { return }
        for value in other.list ?? [other.constant ?? .null] where !value.isNull {
            guard case .link(let object) = value else {
                throw QueryError(
                    .query, at: offset, "a link can be compared with obj(…) and null, not a \(value.type.name)")
            }
            guard object.classID == path.objectClass else {
                throw QueryError(.query, at: offset, "the link leads to another class than obj(…) names")
            }
        }
        other.type = .link
    }

    private func checkTypes(_ left: BoundOperand, _ right: BoundOperand, _ offset: Int) throws(QueryError) {
        guard left.type.isComparable(with: right.type) else {
            throw QueryError(.query, at: offset, "\(left.type.name) and \(right.type.name) cannot be compared")
        }
    }

    private func checkEquality(
        _ left: BoundOperand, _ right: BoundOperand, _ comparison: Comparison
    ) throws(QueryError) {
        let offset = comparison.left.offset
        try checkTypes(left, right, offset)
        if (left.type == .typeOf) != (right.type == .typeOf) {
            throw QueryError(.query, at: offset, "@type can be compared with names of types only")
        }
        if comparison.relation == .isIn, !right.isMany {
            throw QueryError(.query, at: comparison.right.offset, "IN needs a list or a property with several values")
        }
        if left.isEmbedded, right.isEmbedded {
            throw QueryError(.query, at: offset, "embedded objects can be compared with null only")
        }
    }

    private func checkCase(
        _ left: BoundOperand, _ right: BoundOperand, _ comparison: Comparison
    ) throws(QueryError) {
        guard comparison.ignoresCase, !right.type.holdsText else { return }
        let isDirect = left.plainProperty != nil && right.isConstant && (left.type == right.type || left.type == .mixed)
        guard isDirect else { throw needsText(right, comparison) }
    }

    private func needsText(_ right: BoundOperand, _ comparison: Comparison) -> QueryError {
        let what = "\(comparison.relation.rawValue)\(comparison.ignoresCase ? "[c]" : "")"
        return QueryError(
            .query, at: comparison.right.offset,
            "\(what) needs a string or binary on its right side, not \(right.type.name)")
    }

    private func checkOrder(
        _ left: BoundOperand, _ right: BoundOperand, _ comparison: Comparison
    ) throws(QueryError) {
        if left.type == .link || left.type == .typeOf {
            let reason = "links and @type have no order: only ==, != and IN are possible"
            throw QueryError(.query, at: comparison.left.offset, reason)
        }
        if !left.isNull, !right.isNull { try checkTypes(left, right, comparison.left.offset) }
    }

    /// The condition that a property of the object itself is in a list of constants, of which only those of its own
    /// type count.
    private func membership(_ left: BoundOperand, _ right: BoundOperand, _ comparison: Comparison) -> Condition? {
        guard comparison.relation != .notEqual, let values = right.list, !values.isEmpty,
            right.quantifier == nil || right.quantifier == .any, let property = left.plainProperty,
            left.type != .mixed, left.type != .link
        else { return nil }
        let usable = values.filter { $0.isNull || $0.type == left.type }
        return .isOneOf(property, usable, ValueSet(usable))
    }

    // MARK: Strings

    private func textComparison(
        _ left: BoundOperand, _ right: BoundOperand, _ comparison: Comparison
    ) throws(QueryError) -> Condition {
        guard comparison.relation != .text else {
            throw QueryError(.query, at: comparison.left.offset, "full text search is not supported")
        }
        guard right.type.holdsText else { throw needsText(right, comparison) }
        guard let property = left.plainProperty, let constant = right.constant, left.type != .link,
            left.type == right.type || left.type == .mixed, !constant.isNull || right.type != .null
        else { return .general(comparison.sides(left, right)) }
        return .direct(property, comparison.test(constant, left.type))
    }
}

extension BoundOperand {
    /// True for `@type` of a path that has only one type.
    fileprivate var isFixedType: Bool {
        if case .typeOf(let path) = kind { !path.endsAtObjects && path.type != .mixed } else { false }
    }

    /// True for embedded objects, which nothing can link to.
    var isEmbedded: Bool {
        guard let path, path.endsAtObjects, case .link(let property, _) = path.steps.last else { return false }
        return property.isEmbedded
    }
}

extension [Predicate] {
    /// The parts of a conjunction or disjunction in the order in which clients build them. From left to right, two at a
    /// time make a pair; a part that is such a pair, or several, is replaced by its own parts at the end.
    fileprivate func inBuildingOrder(_ parts: (Predicate) -> [Predicate]?) -> [Predicate] {
        var items = Joined.items(of: self[...])
        var index = 0
        var order: [Predicate] = []
        while index < items.count {
            switch items[index] {
            case .pairs(let slice): items += Joined.items(of: slice)
            case .one(let predicate):
                if let inner = parts(predicate) {
                    items += Joined.items(of: inner[...])
                } else {
                    order.append(predicate)
                }
            }
            index += 1
        }
        return order
    }
}

/// A part of a conjunction or disjunction, or several of its first parts.
private enum Joined {
    case one(Predicate)
    case pairs(ArraySlice<Predicate>)

    /// The last of some parts, and all before it.
    static func items(of parts: ArraySlice<Predicate>) -> [Joined] {
        parts.count > 2 ? [.pairs(parts.dropLast())] + parts.suffix(1).map(Joined.one) : parts.map(Joined.one)
    }
}

extension Comparison {
    fileprivate func sides(_ left: BoundOperand, _ right: BoundOperand) -> Sides {
        Sides(left, right, relation, ignoresCase: ignoresCase)
    }

    fileprivate func test(_ constant: StateValue, _ type: StaticType) -> DirectTest {
        DirectTest(relation, ignoresCase: ignoresCase, constant, type: type)
    }
}
