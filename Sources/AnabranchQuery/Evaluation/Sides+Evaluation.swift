import AnabranchCore

// Two operands compared by the general rule (`Spec/Query.md`, sections 6.1, 6.3 and 6.4).

extension Sides {
    /// True if the comparison holds for one of the collections that each side leads to.
    func isFulfilled(by object: StateObject, in evaluation: Evaluation) throws(QueryError) -> Bool {
        let lefts = try evaluation.values(of: left, for: object)
        for rightValues in try evaluation.values(of: right, for: object) {
            for leftValues in lefts where try holds(leftValues, rightValues, evaluation.budget) { return true }
        }
        return false
    }

    private func holds(_ lefts: Values, _ rights: Values, _ budget: LookBudget) throws(QueryError) -> Bool {
        try budget.count(1 + lefts.values.count + rights.values.count)
        if relation.isOnText {
            let patterns = if let patterns { patterns } else { try prepared(rights.values, budget) }
            return try holds(lefts, patterns, areList: rights.isList) { text, pattern throws(QueryError) in
                try pattern.matches(text, budget)
            }
        }
        if lefts.isList, rights.isList, left.quantifier != nil || right.quantifier != nil,
            let answer = try answerOfOrder(lefts.values, rights.values, budget)
        {
            return answer
        }
        return try holds(lefts, rights.values, areList: rights.isList) { left, right throws(QueryError) in
            try holds(left, right, budget)
        }
    }

    private func prepared(_ values: [StateValue], _ budget: LookBudget) throws(QueryError) -> [ValuePattern] {
        try values.map { value throws(QueryError) in
            try budget.count(bytes: value.bytes?.count ?? 0)
            return ValuePattern(relation, ignoresCase: ignoresCase, value)
        }
    }

    // MARK: Quantifiers

    private func holds<Right>(
        _ leftValues: Values, _ rights: [Right], areList: Bool,
        _ holds: (StateValue, Right) throws(QueryError) -> Bool
    ) throws(QueryError) -> Bool {
        let lefts = leftValues.values
        if !leftValues.isList, !areList {
            for (left, right) in zip(lefts, rights) where try holds(left, right) { return true }
            return false
        }
        if leftValues.isList, areList, left.quantifier == nil, right.quantifier == nil {
            guard lefts.count == rights.count else { return relation == .notEqual }
            for (left, right) in zip(lefts, rights) where try !holds(left, right) { return false }
            return true
        }
        let rights = areList ? rights : Array(rights.prefix(1))
        return try left.quantifier.holds(leftValues.isList ? lefts : Array(lefts.prefix(1))) {
            left throws(QueryError) in
            try right.quantifier.holds(rights) { right throws(QueryError) in try holds(left, right) }
        }
    }

    /// The answer for two lists that can be found in their order; nil if all pairs have to be compared.
    private func answerOfOrder(
        _ lefts: [StateValue], _ rights: [StateValue], _ budget: LookBudget
    ) throws(QueryError) -> Bool? {
        guard lefts.count > 2, rights.count > 2 else { return nil }
        let isFound = relation == .equal && left.quantifier != Quantifier.none && (right.quantifier ?? .any) == .any
        guard isFound || Relation.orders.contains(relation) else { return nil }
        let (lefts, rights) = (try sorted(lefts, budget), try sorted(rights, budget))
        if isFound { return try isFoundInParallel(lefts, rights, budget) }
        let ends = (
            left: [lefts[0], lefts[lefts.count - 1]], right: [rights[0], rights[rights.count - 1]]
        )
        return try left.quantifier.holds(ends.left) { left throws(QueryError) in
            try right.quantifier.holds(ends.right) { right throws(QueryError) in try holds(left, right, budget) }
        }
    }

    /// Sorts both sides and advances in both after a match, as the reference does: this shows where ALL meets repeated
    /// values.
    private func isFoundInParallel(
        _ lefts: [StateValue], _ rights: [StateValue], _ budget: LookBudget
    ) throws(QueryError) -> Bool {
        let needsAll = left.quantifier == .all
        var (leftIndex, rightIndex) = (0, 0)
        while rightIndex < rights.count {
            if try holds(lefts[leftIndex], rights[rightIndex], budget) {
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

    /// Sorts values. Each is compared about as often as their number has binary digits.
    private func sorted(_ values: [StateValue], _ budget: LookBudget) throws(QueryError) -> [StateValue] {
        let digits = Int.bitWidth - values.count.leadingZeroBitCount
        try budget.count(digits * values.count)
        try budget.count(bytes: digits * values.reduce(0) { $0 + ($1.bytes?.count ?? 0) })
        return values.sorted(by: Self.isBelow)
    }

    /// True if the left value comes first. Null is below all.
    private static func isBelow(_ left: StateValue, _ right: StateValue) -> Bool { StateValue.compare(left, right) < 0 }

    // MARK: Two values

    private func holds(_ left: StateValue, _ right: StateValue, _ budget: LookBudget) throws(QueryError) -> Bool {
        try budget.count()
        if isOnTypes {
            guard case .int(let left) = left, case .int(let right) = right, areBothTypes else { return false }
            return (left & right != 0) == (relation == .equal)
        }
        return try relation.holds(left, right, ignoresCase: ignoresCase, budget)
    }
}

extension Relation {
    /// The general rule for two values, of an operator that is not on strings. Counts the bytes that it reads.
    func holds(
        _ left: StateValue, _ right: StateValue, ignoresCase: Bool, _ budget: LookBudget
    ) throws(QueryError) -> Bool {
        switch self {
        case .notEqual: return try !Self.areEqual(left, right, ignoresCase: ignoresCase, budget)
        case .less, .lessOrEqual, .greater, .greaterOrEqual:
            if left.isNull && right.isNull { return self == .lessOrEqual || self == .greaterOrEqual }
            guard StateValue.areComparable(left, right) else { return false }
            try budget.count(comparing: left, right)
            return allows(StateValue.order(left, right))
        default: return try Self.areEqual(left, right, ignoresCase: ignoresCase, budget)
        }
    }

    /// True if two values may have this order.
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

    /// Where case is ignored, the pattern is on the left: if malformed, it matches only zeros.
    private static func areEqual(
        _ left: StateValue, _ right: StateValue, ignoresCase: Bool, _ budget: LookBudget
    ) throws(QueryError) -> Bool {
        if left.isNull, right.isNull { return true }
        guard StateValue.areComparable(left, right) else { return false }
        guard let pattern = left.bytes, let text = right.bytes else { return StateValue.order(left, right) == 0 }
        if ignoresCase { return try CaseFolding.isEqual(text, to: pattern, budget) }
        guard pattern.count == text.count else { return false }
        try budget.count(bytes: text.count)
        return pattern == text
    }
}
