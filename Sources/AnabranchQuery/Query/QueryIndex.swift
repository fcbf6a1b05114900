public import AnabranchCore

/// A way to find the objects that match a query without evaluating it for each (`Spec/Query.md`, section 12).
public enum QueryIndex: Hashable, Sendable {
    /// No object matches.
    case never
    /// Every object of the class matches.
    case always
    /// An object that matches has at least one of these values; only the query tells whether it matches.
    case oneOf(Set<FieldValue>)
    /// Nothing is known: the query has to be evaluated.
    case evaluated
}

/// A value that a property of the object itself holds, or has as an element if it is a list or a set.
public struct FieldValue: Hashable, Sendable {
    /// The property, of a type whose values are equal only if they are the same.
    public let property: Property
    /// The value, null or of the property's type.
    public let value: Payload

    /// Pairs a property with a value of its type, or null.
    public init(_ property: Property, _ value: Payload) {
        self.property = property
        self.value = value
    }
}

extension StateObject {
    /// The keys under which an object is looked up in an index of queries: the value, or the elements of a list or set,
    /// of a property that an index can name.
    public func indexedValues(of property: Property) -> Set<FieldValue> {
        guard property.hasExactValues else { return [] }
        let value = value(of: property)
        let values = property.collection == .single ? [value] : value.elements
        return Set(values.compactMap { $0.payload.map { FieldValue(property, $0) } })
    }
}

extension Query {
    /// A way to find the objects that match.
    public var index: QueryIndex { condition.index }

    /// The values of which an object has one if and only if it matches; nil if they alone do not decide.
    public var decidingValues: Set<FieldValue>? { condition.decidingValues }

    /// The properties of the object itself, including its primary key, that the predicate reads: while they do not
    /// change, neither does the answer, as far as it does not depend on other objects.
    public var fields: Set<Property> {
        var fields: Set<Property> = []
        condition.addFields(to: &fields)
        return fields
    }
}

// MARK: The index of a condition

extension Condition {
    fileprivate var index: QueryIndex {
        switch self {
        case .always(let isTrue): return isTrue ? .always : .never
        case .and(let parts): return Self.index(ofAll: parts.map(\.index))
        case .or(let parts, _): return Self.index(ofOne: parts.map(\.index))
        case .not(let inner):
            switch inner.index {
            case .never: return .always
            case .always: return .never
            case .oneOf, .evaluated: return .evaluated
            }
        case .direct(let property, let test):
            guard [.equal, .isIn].contains(test.relation), !test.ignoresCase else { return .evaluated }
            return .values([test.constant], of: property)
        case .isOneOf(let property, let values, _): return .values(values, of: property)
        case .general(let sides): return sides.index
        case .between, .geoWithin, .filter: return .evaluated
        }
    }

    fileprivate var decidingValues: Set<FieldValue>? {
        switch self {
        case .direct, .isOneOf: return index.values
        case .general(let sides): return sides.index.values
        case .or(let parts, _):
            var values: Set<FieldValue> = []
            for part in parts {
                guard let more = part.decidingValues else { return nil }
                values.formUnion(more)
            }
            return values
        case .always(let isTrue): return isTrue ? nil : []
        case .and(let parts): return parts.count == 1 ? parts[0].decidingValues : nil
        case .not, .between, .geoWithin, .filter: return nil
        }
    }

    /// Any of the parts will do: the one with the fewest values.
    private static func index(ofAll parts: [QueryIndex]) -> QueryIndex {
        if parts.contains(.never) { return .never }
        if parts.allSatisfy({ $0 == .always }) { return .always }
        let values = parts.compactMap(\.values).min { $0.count < $1.count }
        return values.map(QueryIndex.oneOf) ?? .evaluated
    }

    private static func index(ofOne parts: [QueryIndex]) -> QueryIndex {
        if parts.contains(.always) { return .always }
        if parts.contains(.evaluated) { return .evaluated }
        let values = parts.compactMap(\.values).reduce(into: Set<FieldValue>()) { $0.formUnion($1) }
        return values.isEmpty ? .never : .oneOf(values)
    }
}

extension Sides {
    /// One element of a list or set is a constant; as the canonical text has it, the constant can be on the left.
    fileprivate var index: QueryIndex {
        let (found, other) = right.constant == nil ? (right, left) : (left, right)
        guard relation == .equal, !ignoresCase, let constant = other.constant, other.quantifier == nil,
            found.quantifier == nil || found.quantifier == .any, let property = found.wholeCollection
        else { return .evaluated }
        return .values([constant], of: property)
    }
}

extension BoundOperand {
    /// The list or set of the object itself that this is.
    fileprivate var wholeCollection: Property? {
        guard let path, path.steps.isEmpty, case .property(let property, let rest) = path.end, rest.isEmpty,
            property.collection == .list || property.collection == .set
        else { return nil }
        return property
    }
}

extension QueryIndex {
    fileprivate var values: Set<FieldValue>? { if case .oneOf(let values) = self { values } else { nil } }

    /// A property is one of some values, or has one.
    fileprivate static func values(_ values: [StateValue], of property: Property) -> QueryIndex {
        if values.isEmpty { return .never }
        let type = StaticType(property.type)
        guard property.hasExactValues, values.allSatisfy({ $0.isNull || $0.type == type }) else { return .evaluated }
        return .oneOf(Set(values.compactMap { $0.payload.map { FieldValue(property, $0) } }))
    }
}

// MARK: The fields of a condition

extension Condition {
    fileprivate func addFields(to fields: inout Set<Property>) {
        switch self {
        case .always: break
        case .and(let parts), .or(let parts, _): for part in parts { part.addFields(to: &fields) }
        case .not(let inner): inner.addFields(to: &fields)
        case .direct(let property, _), .isOneOf(let property, _, _), .between(let property, _, _),
            .filter(let property, _):
            fields.insert(property)
        case .general(let sides):
            sides.left.addFields(to: &fields)
            sides.right.addFields(to: &fields)
        case .geoWithin(let path, _, _, _): path.addField(to: &fields)
        }
    }
}

extension BoundOperand {
    fileprivate func addFields(to fields: inout Set<Property>) {
        switch kind {
        case .constant, .list: break
        case .path(let path), .size(let path), .lengths(let path), .typeOf(let path), .subquery(let path, _, _):
            path.addField(to: &fields)
        case .aggregate(let aggregate): aggregate.path.addField(to: &fields)
        case .arithmetic(_, let left, let right):
            left.addFields(to: &fields)
            right.addFields(to: &fields)
        }
    }
}

extension BoundPath {
    fileprivate func addField(to fields: inout Set<Property>) {
        if let firstProperty { fields.insert(firstProperty) }
    }
}
