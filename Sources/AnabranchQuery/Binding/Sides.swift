import AnabranchCore

/// Two operands that are compared by the general rule (`Spec/Query.md`, sections 6.1, 6.3 and 6.4).
struct Sides: Sendable {
    let left: BoundOperand
    let right: BoundOperand
    let relation: Relation
    let ignoresCase: Bool
    /// The right side of a string operator, if it is constant.
    let patterns: [ValuePattern]?
    /// A kind of value is compared: with another kind, or with a Mixed, which it has no order with.
    let isOnTypes: Bool
    let areBothTypes: Bool

    init(_ left: BoundOperand, _ right: BoundOperand, _ relation: Relation, ignoresCase: Bool) {
        self.left = left
        self.right = right
        self.relation = relation == .isIn ? .equal : relation
        self.ignoresCase = ignoresCase
        isOnTypes = left.type == .typeOf || right.type == .typeOf
        areBothTypes = left.type == right.type
        patterns =
            relation.isOnText
            ? right.constants?.map { ValuePattern(relation, ignoresCase: ignoresCase, $0) } : nil
    }
}

/// A relation and constant with which a property is compared directly (`Spec/Query.md`, section 6.2).
struct DirectTest: Sendable {
    let relation: Relation
    let ignoresCase: Bool
    let constant: StateValue
    let type: StaticType
    /// The pattern of a string operator.
    let pattern: ValuePattern?

    init(_ relation: Relation, ignoresCase: Bool, _ constant: StateValue, type: StaticType) {
        self.relation = relation
        self.ignoresCase = ignoresCase
        self.constant = constant
        self.type = type
        pattern = relation.isOnText ? ValuePattern(relation, ignoresCase: ignoresCase, constant) : nil
    }
}

extension Relation {
    static let orders: Set<Relation> = [.less, .lessOrEqual, .greater, .greaterOrEqual]

    /// True for operators on strings, whose right side is a pattern.
    var isOnText: Bool { [.beginsWith, .endsWith, .contains, .like].contains(self) }
}
