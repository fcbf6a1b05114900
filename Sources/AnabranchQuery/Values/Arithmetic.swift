import AnabranchCore

extension Arithmetic {
    /// The result for two numbers; null if one is null or no number (`Spec/Query.md`, section 5.5).
    func callAsFunction(_ left: StateValue, _ right: StateValue) -> StateValue {
        switch (left, right) {
        case (.int(let left), .int(let right)): return .int(onIntegers(left, right))
        case (.decimal, _), (_, .decimal):
            guard let left = left.asDecimal, let right = right.asDecimal else { return .null }
            return .decimal(onDecimals(left, right))
        case (.double, _), (_, .double):
            guard let left = left.asDouble, let right = right.asDouble else { return .null }
            return .double(onReals(left, right))
        default:
            guard let left = left.asFloat, let right = right.asFloat else { return .null }
            return .float(onReals(left, right))
        }
    }

    private func onIntegers(_ left: Int64, _ right: Int64) -> Int64 {
        switch self {
        case .add: left &+ right
        case .subtract: left &- right
        case .multiply: left &* right
        case .divide: right == 0 ? (left < 0 ? .min : .max) : left.dividedReportingOverflow(by: right).partialValue
        }
    }

    private func onReals<Real: BinaryFloatingPoint>(_ left: Real, _ right: Real) -> Real {
        switch self {
        case .add: left + right
        case .subtract: left - right
        case .multiply: left * right
        case .divide: left / right
        }
    }

    private func onDecimals(_ left: Decimal128, _ right: Decimal128) -> Decimal128 {
        switch self {
        case .add: Decimal128.adding(left, right)
        case .subtract: Decimal128.adding(left, right, negatingRight: true)
        case .multiply: Decimal128.multiplying(left, right)
        case .divide: Decimal128.dividing(left, by: right)
        }
    }
}

extension StateValue {
    /// A number as a Decimal: 7 digits for a Float, 15 for a Double (`Spec/State.md`, A7).
    var asDecimal: Decimal128? {
        switch self {
        case .decimal(let value): value
        case .int(let value): Decimal128(value)
        case .float(let value): Decimal128(Double(value), digits: 7)
        case .double(let value): Decimal128(value, digits: 15)
        default: nil
        }
    }

    var asDouble: Double? {
        switch self {
        case .int(let value): Double(value)
        case .float(let value): Double(value)
        case .double(let value): value
        default: nil
        }
    }

    fileprivate var asFloat: Float? {
        switch self {
        case .int(let value): Float(value)
        case .float(let value): value
        default: nil
        }
    }
}
