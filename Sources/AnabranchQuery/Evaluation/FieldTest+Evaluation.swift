import AnabranchCore

extension FieldTest {
    /// True if a value fulfils the test; of a list or a set one element is enough.
    func isFulfilled(by value: StateValue, _ budget: LookBudget) throws(QueryError) -> Bool {
        guard relation != .exists else { return !value.isNull }
        let values: [StateValue] =
            switch value {
            case .list, .set: value.elements
            default: [value]
            }
        try budget.countRead(values.count)
        for value in values {
            for constant in constants {
                try budget.count()
                try budget.count(comparing: value, constant)
                if relation.holds(value, constant) { return true }
            }
        }
        return false
    }
}
