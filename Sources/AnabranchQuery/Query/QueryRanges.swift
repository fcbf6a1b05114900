package import AnabranchCore

// Facts about a query for callers that have an index of a property, or that keep its answer.

/// Values of a property, from the least to the greatest, both included; nil where there is no bound. Null lies in a
/// range only if it is both of its bounds.
package struct ValueRange: Hashable, Sendable {
    package var least: Payload?
    package var greatest: Payload?

    package init(least: Payload? = nil, greatest: Payload? = nil) {
        self.least = least
        self.greatest = greatest
    }

    /// True if the range has exactly one value.
    package var isOneValue: Bool { least != nil && least == greatest }
}

extension Query {
    /// Ranges of a property, one of which has every object that matches; only the query tells whether an object does.
    /// Nil if the property tells nothing, also if its values are not compared as integers and times are.
    package func ranges(of property: Property) -> [ValueRange]? {
        guard property.collection == .single, property.hasExactValues else { return nil }
        return condition.ranges(of: property)
    }

    /// True if only an object itself decides whether it matches, and where it stands among others.
    package var isAboutObjectsAlone: Bool {
        guard condition.isAboutObjectAlone else { return false }
        return suffixes.allSatisfy { suffix in
            if case .sort(let keys) = suffix { keys.allSatisfy { $0.path.isAboutObjectAlone } } else { true }
        }
    }

    /// The limit of objects, `Int.max` if there is none; nil if anything but a SORT and then a LIMIT follows the
    /// predicate.
    package var prefixCount: Int? {
        switch (suffixes.count, suffixes.first, suffixes.last) {
        case (0, _, _), (1, .sort, _): .max
        case (1, .limit(let count), _), (2, .sort, .limit(let count)): count
        default: nil
        }
    }

    /// True if the query gives an order of the objects.
    package var isSorted: Bool { if case .sort? = suffixes.first { true } else { false } }

    /// The same query without limits.
    package var withoutLimit: Query {
        var query = self
        query.suffixes.removeAll { if case .limit = $0 { true } else { false } }
        return query
    }

    /// True if nothing follows the predicate.
    package var hasNoSuffixes: Bool { suffixes.isEmpty }

    /// The ones among some objects that fulfil the query, in its order; `objects` are in the order of their keys.
    package func objects(
        among objects: [StateObject], in source: some ObjectSource
    ) throws(QueryError) -> [StateObject] {
        let evaluation = Evaluation(source: source, options: options)
        var found: [StateObject] = []
        for object in objects where try evaluation.matches(object, condition) { found.append(object) }
        for suffix in suffixes { found = try suffix.applied(to: found, in: evaluation) }
        return found
    }

    /// The values by which an object is sorted among others; its key comes after them.
    package func sortValues(of object: StateObject, in source: some ObjectSource) throws(QueryError) -> [StateValue] {
        guard case .sort(let keys)? = suffixes.first else { return [] }
        return try Evaluation(source: source, options: options).firstValues(at: keys.map(\.path), of: object)
    }

    /// The order of two objects by such values: negative, zero or positive.
    package func compare(_ left: [StateValue], _ right: [StateValue]) -> Int {
        guard case .sort(let keys)? = suffixes.first else { return 0 }
        for (index, key) in keys.enumerated() {
            let order = StateValue.compare(left[index], right[index])
            if order != 0 { return key.isAscending ? order : -order }
        }
        return 0
    }

    /// The property that alone decides the order, if the query is sorted by one of the object's own.
    package var sortProperty: (property: Property, isAscending: Bool)? {
        guard case .sort(let keys)? = suffixes.first, keys.count == 1, let property = keys[0].path.plainProperty else {
            return nil
        }
        return (property, keys[0].isAscending)
    }
}

// MARK: Ranges

extension Condition {
    fileprivate func ranges(of property: Property) -> [ValueRange]? {
        switch self {
        case .always(let isTrue): return isTrue ? nil : []
        case .and(let parts): return parts.compactMap { $0.ranges(of: property) }.reduce(nil, Self.intersection)
        case .or(let parts, _):
            return parts.reduce([]) { ranges, part in
                guard let ranges, let more = part.ranges(of: property) else { return nil }
                return ranges + more
            }
        case .direct(property, let test): return test.ranges
        case .isOneOf(property, let values, _): return Self.points(values)
        case .between(property, let least, let greatest):
            return [ValueRange(least: least.payload, greatest: greatest.payload)]
        case .not, .direct, .isOneOf, .between, .general, .geoWithin, .filter: return nil
        }
    }

    fileprivate static func points(_ values: [StateValue]) -> [ValueRange]? {
        let payloads = values.compactMap(\.payload)
        guard payloads.count == values.count else { return nil }
        return payloads.map { ValueRange(least: $0, greatest: $0) }
    }

    /// The values in both; where that is hard to tell, a superset: the values in one of them.
    private static func intersection(_ some: [ValueRange]?, _ others: [ValueRange]) -> [ValueRange]? {
        guard let some, !some.isEmpty else { return some ?? others }
        if others.allSatisfy(\.isOneValue), !some.allSatisfy(\.isOneValue) { return others }
        guard some.count == 1, others.count == 1, !some[0].isOneValue else {
            return others.count < some.count && others.allSatisfy(\.isOneValue) ? others : some
        }
        return [
            ValueRange(least: some[0].least ?? others[0].least, greatest: some[0].greatest ?? others[0].greatest)
        ]
    }
}

extension DirectTest {
    fileprivate var ranges: [ValueRange]? {
        guard !ignoresCase, let value = constant.payload else { return nil }
        // Values that an index reads as bytes have another order than values of other types.
        let hasOrder = type == .int || type == .timestamp
        switch relation {
        case .equal, .isIn: return [ValueRange(least: value, greatest: value)]
        case .less, .lessOrEqual: return hasOrder && value != .null ? [ValueRange(greatest: value)] : nil
        case .greater, .greaterOrEqual: return hasOrder && value != .null ? [ValueRange(least: value)] : nil
        default: return nil
        }
    }
}

// MARK: Other objects

extension Condition {
    fileprivate var isAboutObjectAlone: Bool {
        switch self {
        case .always: true
        case .and(let parts), .or(let parts, _): parts.allSatisfy(\.isAboutObjectAlone)
        case .not(let inner): inner.isAboutObjectAlone
        case .direct(let property, _), .isOneOf(let property, _, _), .between(let property, _, _),
            .filter(let property, _):
            property.holdsNoLinks
        case .general(let sides): sides.left.isAboutObjectAlone && sides.right.isAboutObjectAlone
        case .geoWithin(let path, _, _, _): path.isAboutObjectAlone
        }
    }
}

extension BoundOperand {
    fileprivate var isAboutObjectAlone: Bool {
        switch kind {
        case .constant, .list: true
        case .path(let path), .size(let path), .lengths(let path), .typeOf(let path): path.isAboutObjectAlone
        case .subquery(let path, _, let condition): path.isAboutObjectAlone && condition.isAboutObjectAlone
        case .aggregate(let aggregate): aggregate.path.isAboutObjectAlone
        case .arithmetic(_, let left, let right): left.isAboutObjectAlone && right.isAboutObjectAlone
        }
    }
}

extension BoundPath {
    fileprivate var isAboutObjectAlone: Bool {
        let stays = steps.allSatisfy { step in
            if case .link(let property, _) = step { property.holdsNoLinks } else { false }
        }
        switch end {
        case .objects: return stays
        case .property(let property, _), .keys(let property): return stays && property.holdsNoLinks
        }
    }
}

extension Property {
    /// True unless the property holds links to other objects: whether such an object exists, the object itself does not
    /// tell.
    fileprivate var holdsNoLinks: Bool { isEmbedded || target == nil && type != .null }
}
