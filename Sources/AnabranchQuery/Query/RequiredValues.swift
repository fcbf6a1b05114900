public import AnabranchCore

/// What all objects that match a query have in common: a property of the object itself holds one of some values.
///
/// With it queries can be found by the values of an object: one that has none of them here is not worth asking about.
public struct RequiredValues: Sendable {
    /// The property, of a type whose values are equal only if they are the same.
    public let property: Property
    /// The values, null among them; each of the property's type.
    public let values: [StateValue]
}

extension Query {
    /// What equalities in the predicate demand of every match: of several the one with the fewest values. Nil if they
    /// demand nothing.
    public var requiredValues: RequiredValues? { condition.requiredValues }
}

extension Condition {
    fileprivate var requiredValues: RequiredValues? {
        switch self {
        case .direct(let property, let test) where [.equal, .isIn].contains(test.relation) && !test.ignoresCase:
            return property.hasExactEquality ? RequiredValues(property: property, values: [test.constant]) : nil
        case .isOneOf(let property, let values, _):
            return property.hasExactEquality ? RequiredValues(property: property, values: values) : nil
        case .and(let parts): return parts.compactMap(\.requiredValues).min { $0.values.count < $1.values.count }
        case .or(let parts, _):
            let required = parts.compactMap(\.requiredValues)
            guard let first = required.first, required.count == parts.count,
                required.allSatisfy({ $0.property == first.property })
            else { return nil }
            return RequiredValues(property: first.property, values: required.flatMap(\.values))
        case .always, .not, .direct, .between, .general, .geoWithin: return nil
        }
    }
}

extension Property {
    /// Whether equal values are the same: not so of numbers with a point, of Mixed, and of links, which can dangle.
    fileprivate var hasExactEquality: Bool {
        [.int, .bool, .string, .binary, .timestamp, .objectID, .uuid].contains(type) && collection == .single
    }
}
