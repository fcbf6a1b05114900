import AnabranchCore

// The values of operands (`Spec/Query.md`, section 5).

extension Evaluation {
    func values(of operand: BoundOperand, for object: StateObject) throws(QueryError) -> [Values] {
        switch operand.kind {
        case .constant(let value): return [Values(values: [value], isList: false)]
        case .list(let values): return [Values(values: values, isList: true)]
        case .path(let path): return try values(at: path, from: object)
        case .size(let path): return try sizes(at: path, from: object)
        case .lengths(let path):
            return try values(at: path, from: object).map { Values(values: $0.values.map(\.size), isList: $0.isList) }
        case .typeOf(let path): return try types(at: path, from: object)
        case .aggregate(let aggregate): return try values(of: aggregate, for: object)
        case .arithmetic(let operation, let left, let right):
            return try values(of: operation, left, right, for: object)
        case .subquery(let path, _, let condition):
            var count: Int64 = 0
            for object in try owners(at: path, from: object) where try isFulfilled(condition, by: object) { count += 1 }
            return [Values(values: [.int(count)], isList: false)]
        }
    }

    private func types(at path: BoundPath, from object: StateObject) throws(QueryError) -> [Values] {
        guard !path.endsAtObjects, path.type == .mixed else {
            return [Values(values: [TypeSet(path.type).value], isList: false)]
        }
        return try values(at: path, from: object).map { found in
            Values(values: found.values.map { TypeSet(of: $0).value }, isList: found.isList)
        }
    }

    // MARK: Arithmetic

    private func values(
        of operation: Arithmetic, _ left: BoundOperand, _ right: BoundOperand, for object: StateObject
    ) throws(QueryError) -> [Values] {
        var results: [Values] = []
        let rights = try values(of: right, for: object)
        for first in try values(of: left, for: object) {
            for second in rights {
                let result =
                    if let constant = left.constant {
                        Values(values: second.values.map { operation(constant, $0) }, isList: second.isList)
                    } else if let constant = right.constant {
                        Values(values: first.values.map { operation($0, constant) }, isList: first.isList)
                    } else {
                        Values(
                            values: zip(first.values, second.values).map { operation($0, $1) },
                            isList: first.isList || second.isList)
                    }
                // Where both sides lead to several collections, each calculation multiplies them.
                try budget.countRead(Self.looksOfCollection + result.values.count)
                results.append(result)
            }
        }
        return results
    }

    private static let looksOfCollection = 16

    // MARK: Aggregates

    private func values(of aggregate: BoundAggregate, for object: StateObject) throws(QueryError) -> [Values] {
        let owners = try owners(at: aggregate.path, from: object)
        if let property = aggregate.property {
            let values = try visible(owners.map { $0.value(of: property) })
            return [Values(values: [try aggregate.value(of: values, budget)], isList: false)]
        }
        guard case .property(let property, _) = aggregate.path.end else { return [] }
        let values = try owners.map { owner throws(QueryError) in
            try aggregate.value(of: try visible(owner.value(of: property).members), budget)
        }
        return [Values(values, isSingle: aggregate.path.isSingle)]
    }
}

extension BoundAggregate {
    /// The aggregate of values, without null and NaN.
    fileprivate func value(of values: [StateValue], _ budget: LookBudget) throws(QueryError) -> StateValue {
        let isMixed = valueType == .mixed
        switch function {
        case .min, .max:
            var best = StateValue.null
            for value in values where !value.isNull && (!value.isNaN || isMixed && value.type != .decimal) {
                try budget.count(comparing: value, best)
                let order = best.isNull ? 0 : StateValue.compare(value, best)
                if best.isNull || (function == .min ? order < 0 : order > 0) { best = value }
            }
            return best
        case .sum, .average: return total(values.filter { !$0.isNull && (isMixed ? $0.type.isNumeric : !$0.isNaN) })
        }
    }

    private func total(_ values: [StateValue]) -> StateValue {
        if function == .average, values.isEmpty { return .null }
        switch valueType {
        case .int where function == .sum:
            return .int(values.reduce(0) { sum, value in if case .int(let next) = value { sum &+ next } else { sum } })
        case .int, .float, .double:
            let sum = values.reduce(0.0) { $0 + ($1.asDouble ?? 0) }
            return .double(function == .sum ? sum : sum / Double(values.count))
        default:
            let sum = values.reduce(Decimal128.zero) { Decimal128.adding($0, $1.asDecimal ?? .zero) }
            return .decimal(function == .sum ? sum : Decimal128.dividing(sum, by: Decimal128(Int64(values.count))))
        }
    }
}
