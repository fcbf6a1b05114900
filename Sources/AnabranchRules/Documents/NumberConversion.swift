import AnabranchCore
import AnabranchQuery

// Numbers in fields of other numeric types: the same number, or none (`Spec/Export.md`, section 4).

extension DocumentValue {
    /// The value in a type that holds it exactly; nil if it does not.
    func converted(to type: PayloadType) -> Payload? {
        switch (self, type) {
        case (.number(let digits), .decimal): DecimalText(digits).flatMap { Decimal128($0) }.map(Payload.decimal)
        case (.number(let digits), .int): DecimalText(digits)?.integer.map(Payload.int)
        default: payload.flatMap { $0.type == type ? $0 : $0.number(as: type) }
        }
    }
}

extension Payload {
    fileprivate func number(as type: PayloadType) -> Payload? {
        switch type {
        case .int: integer.map(Payload.int)
        case .double: double.map(Payload.double)
        case .float: double.flatMap(Self.float).map(Payload.float)
        case .decimal: decimal.map(Payload.decimal)
        default: nil
        }
    }

    private var integer: Int64? {
        switch self {
        case .double(let value): Int64(exactly: value)
        case .decimal(let value): value.text?.integer
        default: nil
        }
    }

    private var double: Double? {
        switch self {
        case .int(let value): return Double(exactly: value)
        case .double(let value): return value
        case .decimal(let value):
            if value.isNaN { return .nan }
            if value.isInfinite { return value.isNegative ? -.infinity : .infinity }
            guard let text = value.text, let nearest = Double("\(text.significand)e\(text.exponent)"),
                DecimalText(exactly: nearest)?.hasValue(of: text) == true
            else { return nil }
            return text.isNegative ? -nearest : nearest
        default: return nil
        }
    }

    private static func float(_ value: Double) -> Float? { value.isNaN ? .nan : Float(exactly: value) }

    private var decimal: Decimal128? {
        switch self {
        case .int(let value): DecimalText("\(value)".utf8).flatMap { Decimal128($0) }
        case .double(let value) where value.isFinite: DecimalText(exactly: value).flatMap { Decimal128($0) }
        // The description of a NaN with a sign or other bits has more text than this.
        case .double(let value): Decimal128(text: Array((value.isNaN ? "NaN" : "\(value)").utf8))
        default: nil
        }
    }
}
