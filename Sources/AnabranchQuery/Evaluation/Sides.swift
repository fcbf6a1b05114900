import AnabranchCore

/// Two operands compared by the general rule (`Spec/Query.md`, sections 6.1, 6.3 and 6.4).
struct Sides {
    private let left: BoundOperand
    private let right: BoundOperand
    private let relation: Relation
    private let ignoresCase: Bool
    /// A kind of value is compared: with another kind, or with a Mixed, which it has no order with.
    private let isOnTypes: Bool
    private let areBothTypes: Bool

    init(_ left: BoundOperand, _ right: BoundOperand, _ relation: Relation, ignoresCase: Bool) {
        self.left = left
        self.right = right
        self.relation = relation == .isIn ? .equal : relation
        self.ignoresCase = ignoresCase
        isOnTypes = left.type == .typeOf || right.type == .typeOf
        areBothTypes = left.type == right.type
    }

    /// Whether it holds for one of the collections that each side leads to.
    func isFulfilled(by object: StateObject, in evaluation: Evaluation) throws(ApplyError) -> Bool {
        let lefts = try evaluation.values(of: left, for: object)
        for rightValues in try evaluation.values(of: right, for: object) {
            for leftValues in lefts where holds(leftValues, rightValues) { return true }
        }
        return false
    }

    private func holds(_ leftValues: Values, _ rightValues: Values) -> Bool {
        let (lefts, rights) = (leftValues.values, rightValues.values)
        if !leftValues.isList, !rightValues.isList { return zip(lefts, rights).contains { holds($0, $1) } }
        if leftValues.isList, rightValues.isList, left.quantifier == nil, right.quantifier == nil {
            guard lefts.count == rights.count else { return relation == .notEqual }
            return zip(lefts, rights).allSatisfy { holds($0, $1) }
        }
        return quantified(
            leftValues.isList ? lefts : Array(lefts.prefix(1)), rightValues.isList ? rights : Array(rights.prefix(1)))
    }

    // MARK: Quantifiers

    private func quantified(_ lefts: [StateValue], _ rights: [StateValue]) -> Bool {
        let isText = Relation.onText.contains(relation)
        if lefts.count > 2, rights.count > 2, !isText {
            let (lefts, rights) = (lefts.sorted(by: Self.isBelow), rights.sorted(by: Self.isBelow))
            if relation == .equal, left.quantifier != Quantifier.none, (right.quantifier ?? .any) == .any {
                return isFoundInParallel(lefts, rights)
            }
            if Relation.orders.contains(relation) {
                return everyPair([lefts[0], lefts[lefts.count - 1]], [rights[0], rights[rights.count - 1]])
            }
        }
        return everyPair(lefts, rights)
    }

    private func everyPair(_ lefts: [StateValue], _ rights: [StateValue]) -> Bool {
        left.quantifier.holds(lefts) { leftValue in
            right.quantifier.holds(rights) { rightValue in holds(leftValue, rightValue) }
        }
    }

    /// Both sides sorted, each step forward on both after a match: as the reference does it, which shows where ALL
    /// meets repeated values.
    private func isFoundInParallel(_ lefts: [StateValue], _ rights: [StateValue]) -> Bool {
        let needsAll = left.quantifier == .all
        var (leftIndex, rightIndex) = (0, 0)
        while rightIndex < rights.count {
            if holds(lefts[leftIndex], rights[rightIndex]) {
                (leftIndex, rightIndex) = (leftIndex + 1, rightIndex + 1)
                if !needsAll || leftIndex == lefts.count { return true }
            } else if Self.isBelow(lefts[leftIndex], rights[rightIndex]) {
                guard !needsAll, leftIndex < lefts.count - 1 else { return false }
                leftIndex += 1
            } else {
                rightIndex += 1
            }
        }
        return false
    }

    /// Null is below all.
    private static func isBelow(_ left: StateValue, _ right: StateValue) -> Bool { StateValue.compare(left, right) < 0 }

    // MARK: Two values

    private func holds(_ left: StateValue, _ right: StateValue) -> Bool {
        if isOnTypes {
            guard case (.int(let left), .int(let right)) = (left, right), areBothTypes else { return false }
            return (left & right != 0) == (relation == .equal)
        }
        return relation.holds(left, right, ignoresCase: ignoresCase)
    }
}

extension Relation {
    static let orders: Set<Relation> = [.less, .lessOrEqual, .greater, .greaterOrEqual]
    static let onText: Set<Relation> = [.beginsWith, .endsWith, .contains, .like]

    /// The general rule for two values.
    func holds(_ left: StateValue, _ right: StateValue, ignoresCase: Bool) -> Bool {
        switch self {
        case .equal, .isIn: Self.areEqual(left, right, ignoresCase: ignoresCase)
        case .notEqual: !Self.areEqual(left, right, ignoresCase: ignoresCase)
        case .less, .lessOrEqual, .greater, .greaterOrEqual:
            if left.isNull && right.isNull {
                self == .lessOrEqual || self == .greaterOrEqual
            } else {
                StateValue.areComparable(left, right) && allows(StateValue.order(left, right))
            }
        default: holdsOnText(left, right, ignoresCase: ignoresCase)
        }
    }

    /// Whether two values may have this order.
    func allows(_ order: Int) -> Bool {
        switch self {
        case .less: order < 0
        case .lessOrEqual: order <= 0
        case .greater: order > 0
        case .greaterOrEqual: order >= 0
        case .notEqual: order != 0
        default: order == 0
        }
    }

    /// The pattern is on the left where case is ignored: malformed there, it matches zeros alone.
    private static func areEqual(_ left: StateValue, _ right: StateValue, ignoresCase: Bool) -> Bool {
        if left.isNull, right.isNull { return true }
        guard StateValue.areComparable(left, right) else { return false }
        guard ignoresCase, let pattern = left.bytes, let text = right.bytes else {
            return StateValue.order(left, right) == 0
        }
        return CaseFolding.foldedPattern(pattern) == CaseFolding.folded(text)
    }

    private func holdsOnText(_ text: StateValue, _ pattern: StateValue, ignoresCase: Bool) -> Bool {
        if pattern.isNull { return self == .contains ? !text.isNull : self == .like && text.isNull }
        guard text.type == pattern.type, let textBytes = text.bytes, let bytes = pattern.bytes else { return false }
        return TextPattern(self, ignoresCase: ignoresCase, bytes).matches(textBytes)
    }
}

extension DirectTest {
    /// The direct rule (`Spec/Query.md`, section 6.2).
    func isFulfilled(by value: StateValue) -> Bool {
        if Relation.onText.contains(relation) { return isTextFulfilled(by: value) }
        switch (type, value, constant) {
        case (.float, .float(let left), .float(let right)): return ieee(left, right)
        case (.double, .double(let left), .double(let right)): return ieee(left, right)
        case (.string, _, _) where Relation.orders.contains(relation):
            guard !value.isNull, !constant.isNull else {
                return relation.allows((value.isNull ? 0 : 1) - (constant.isNull ? 0 : 1))
            }
            return relation.allows(StateValue.order(value, constant))
        case (.string, .string(let text), .string(let pattern)) where ignoresCase,
            (.binary, .binary(let text), .binary(let pattern)) where ignoresCase:
            let isEqual = CaseFolding.foldedPattern(pattern) == CaseFolding.folded(text)
            return isEqual == (relation != .notEqual)
        default: return relation.holds(value, constant, ignoresCase: ignoresCase)
        }
    }

    private func ieee<Real: BinaryFloatingPoint>(_ left: Real, _ right: Real) -> Bool {
        if left.isNaN || right.isNaN { return relation == .notEqual }
        return relation.allows(left < right ? -1 : left == right ? 0 : 1)
    }

    private func isTextFulfilled(by value: StateValue) -> Bool {
        guard !constant.isNull else {
            if type == .string || type == .binary { return relation != .like || value.isNull }
            return relation.holds(value, constant, ignoresCase: ignoresCase)
        }
        guard value.type == constant.type, let bytes = value.bytes else { return false }
        return pattern?.matches(bytes) == true
    }
}
