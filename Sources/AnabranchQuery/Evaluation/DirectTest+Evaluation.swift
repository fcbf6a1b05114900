import AnabranchCore

extension DirectTest {
    /// True if the value fulfils the direct rule (`Spec/Query.md`, section 6.2).
    func isFulfilled(by value: StateValue, _ budget: LookBudget) throws(QueryError) -> Bool {
        if let pattern {
            if constant.isNull, type == .string || type == .binary { return relation != .like || value.isNull }
            return try pattern.matches(value, budget)
        }
        switch (type, value, constant) {
        case (.float, .float(let left), .float(let right)): return ieee(left, right)
        case (.double, .double(let left), .double(let right)): return ieee(left, right)
        case (.string, _, _) where Relation.orders.contains(relation):
            guard !value.isNull, !constant.isNull else {
                return relation.allows((value.isNull ? 0 : 1) - (constant.isNull ? 0 : 1))
            }
            try budget.count(comparing: value, constant)
            return relation.allows(StateValue.order(value, constant))
        case (.string, .string(let text), .string(let pattern)) where ignoresCase,
            (.binary, .binary(let text), .binary(let pattern)) where ignoresCase:
            return try CaseFolding.isEqual(text, to: pattern, budget) == (relation != .notEqual)
        default: return try relation.holds(value, constant, ignoresCase: ignoresCase, budget)
        }
    }

    private func ieee<Real: BinaryFloatingPoint>(_ left: Real, _ right: Real) -> Bool {
        if left.isNaN || right.isNaN { return relation == .notEqual }
        return relation.allows(left < right ? -1 : left == right ? 0 : 1)
    }
}
