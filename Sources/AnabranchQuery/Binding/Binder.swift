import AnabranchCore

/// Checks a predicate against a class and prepares it for evaluation (`Spec/Query.md`, sections 4 to 6).
struct Binder {
    let source: any ObjectSource
    let options: QueryOptions
    let arguments: [QueryArgument]
    /// The class that paths begin at.
    var schema: ClassSchema
    /// What a path begins with in a subquery, in place of nothing.
    var variable: [UInt8]?
    /// Below a `not` clients leave pairs as they are.
    private var isNegated = false

    init(source: any ObjectSource, options: QueryOptions, arguments: [QueryArgument], schema: ClassSchema) {
        self.source = source
        self.options = options
        self.arguments = arguments
        self.schema = schema
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
        var (left, right) = try operands(comparison)
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
            return .direct(
                property,
                DirectTest(
                    relation: comparison.relation, ignoresCase: comparison.ignoresCase, constant: constant,
                    type: left.type, pattern: nil))
        }
        return .general(left, comparison.relation, ignoresCase: comparison.ignoresCase, right)
    }

    /// Both sides: a constant is read as the type of the other side asks.
    private func operands(_ comparison: Comparison) throws(QueryError) -> (left: BoundOperand, right: BoundOperand) {
        let offset = comparison.left.offset
        if comparison.left.isConstant, comparison.right.isConstant {
            throw QueryError(.query, at: offset, "two constants are compared: one side must be a property")
        }
        let (left, right): (BoundOperand, BoundOperand)
        if comparison.right.isConstant {
            left = try operand(comparison.left, towards: nil)
            right = try operand(comparison.right, towards: left.type)
            try checkPair(left, right, offset)
        } else {
            right = try operand(comparison.right, towards: nil)
            left = try operand(comparison.left, towards: comparison.left.isConstant ? right.type : nil)
            try checkPair(right, left, offset)
        }
        return (left, right)
    }

    private func checkPair(_ first: BoundOperand, _ second: BoundOperand, _ offset: Int) throws(QueryError) {
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

    /// A property of the object itself and a list of constants: only constants of its own type count.
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
        let relation = comparison.relation
        guard relation != .text else {
            throw QueryError(.query, at: comparison.left.offset, "full text search is not supported")
        }
        guard right.type.holdsText else { throw needsText(right, comparison) }
        if relation == .like,
            let pattern = (right.list ?? [right.constant ?? .null]).lazy.compactMap(\.bytes).max(by: {
                $0.count < $1.count
            }),
            pattern.count > QueryLimits.likeBytesMax
        {
            let reason = "the pattern of LIKE has \(pattern.count) bytes, the most are \(QueryLimits.likeBytesMax)"
            throw QueryError(.limit, at: comparison.right.offset, reason)
        }
        guard let property = left.plainProperty, let constant = right.constant, left.type != .link,
            left.type == right.type || left.type == .mixed, !constant.isNull || right.type != .null
        else { return .general(left, relation, ignoresCase: comparison.ignoresCase, right) }
        let pattern = constant.bytes.map { TextPattern(relation, ignoresCase: comparison.ignoresCase, $0) }
        return .direct(
            property,
            DirectTest(
                relation: relation, ignoresCase: comparison.ignoresCase, constant: constant, type: left.type,
                pattern: pattern))
    }

    // MARK: Ranges and regions

    private func between(_ operand: Operand, _ bounds: ConstantList) throws(QueryError) -> Condition {
        guard bounds.constants.count == 2 else {
            throw QueryError(.query, at: bounds.place.offset, "BETWEEN needs a list of two constants")
        }
        let bound = try self.operand(operand, towards: .int)
        if bound.path?.endsAtCollection == true, bound.quantifier != .all {
            throw QueryError(.query, at: operand.offset, "BETWEEN on a collection needs ALL")
        }
        if let property = bound.plainProperty, bound.type == .int || bound.type == .timestamp {
            let low = try value(bounds.constants[0], towards: bound.type)
            let high = try value(bounds.constants[1], towards: bound.type)
            guard low.type == bound.type, high.type == bound.type else {
                throw QueryError(.query, at: bounds.place.offset, "both bounds must be of type \(bound.type.name)")
            }
            return .between(property, low, high)
        }
        func half(_ relation: Relation, _ constant: Constant) throws(QueryError) -> Condition {
            try comparison(
                Comparison(left: operand, relation: relation, ignoresCase: false, right: .constant(constant)))
        }
        return .and([try half(.greaterOrEqual, bounds.constants[0]), try half(.lessOrEqual, bounds.constants[1])])
    }

    private func geoWithin(_ property: PropertyOperand, _ shape: Shape) throws(QueryError) -> Condition {
        let offset = property.path.place.offset
        let operand = try self.operand(.property(property), towards: nil)
        guard let path = operand.path, path.endsAtObjects, operand.isEmbedded,
            let schema = path.objectClass.flatMap(source.schema(of:))
        else { throw QueryError(.query, at: offset, "GEOWITHIN needs an embedded object") }
        let region: GeoRegion
        do throws(GeoRegion.Problem) {
            region = try GeoRegion(shape, for: schema)
        } catch {
            throw QueryError(.query, at: offset, error.reason)
        }
        return .geoWithin(path, shape, region, operand.quantifier)
    }
}

extension BoundOperand {
    /// `@type` of what has one type only.
    fileprivate var isFixedType: Bool {
        if case .typeOf(let path) = kind { !path.endsAtObjects && path.type != .mixed } else { false }
    }

    /// Embedded objects, which nothing can link to.
    fileprivate var isEmbedded: Bool {
        guard let path, path.endsAtObjects, case .link(let property, _) = path.steps.last else { return false }
        return property.isEmbedded
    }
}

extension [Predicate] {
    /// The parts of a conjunction or disjunction in the order in which clients build them. From left to right two at a
    /// time make a pair; a part that is such a pair, or several, gives way to its own parts at the end.
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

/// A part of a conjunction or disjunction, or the first ones of it.
private enum Joined {
    case one(Predicate)
    case pairs(ArraySlice<Predicate>)

    /// The last of some parts, and all before it.
    static func items(of parts: ArraySlice<Predicate>) -> [Joined] {
        parts.count > 2 ? [.pairs(parts.dropLast())] + parts.suffix(1).map(Joined.one) : parts.map(Joined.one)
    }
}

extension Predicate {
    fileprivate var conjunction: [Predicate]? { if case .and(let parts) = self { parts } else { nil } }
    fileprivate var disjunction: [Predicate]? { if case .or(let parts) = self { parts } else { nil } }
}
