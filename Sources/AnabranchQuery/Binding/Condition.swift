import AnabranchCore

/// A predicate that was checked against a class and can be evaluated (`Spec/Query.md`, section 6).
indirect enum Condition: Sendable {
    case always(Bool)
    case and([Condition])
    /// - isInPairs: clients build it from pairs and print it so.
    case or([Condition], isInPairs: Bool)
    case not(Condition)
    /// A property of the object itself and a constant of its type: the direct rule.
    case direct(Property, DirectTest)
    /// A property of the object itself is one of some values of its type; of a list or a set an element is one.
    case isOneOf(Property, [StateValue], ValueSet)
    /// A property of the object itself, of Int or Timestamp, is within bounds.
    case between(Property, StateValue, StateValue)
    /// Two operands: the general rule.
    case general(Sides)
    case geoWithin(BoundPath, Shape, GeoRegion, Quantifier?)
    /// A property of the object itself fulfils a test of a filter.
    case filter(Property, FieldTest)
}

/// One side of a comparison, checked.
struct BoundOperand: Sendable {
    indirect enum Kind: Sendable {
        case constant(StateValue)
        case list([StateValue])
        case path(BoundPath)
        /// The numbers of the values of a path, or their lengths.
        case size(BoundPath)
        /// The lengths of the elements of a collection of strings or binaries.
        case lengths(BoundPath)
        case typeOf(BoundPath)
        case aggregate(BoundAggregate)
        case arithmetic(Arithmetic, BoundOperand, BoundOperand)
        /// The number of objects at the end of a path that fulfil a condition.
        case subquery(BoundPath, variable: [UInt8], Condition)
    }

    var kind: Kind
    var type: StaticType
    /// True if there can be several values.
    var isMany = false
    var quantifier: Quantifier?

    /// True for one constant or a list of them.
    var isConstant: Bool {
        switch kind {
        case .constant, .list: true
        default: false
        }
    }

    /// True for arithmetic that has its type from a constant.
    var hasTypeOfConstant: Bool {
        if case .arithmetic(_, let left, _) = kind { left.isConstant || left.hasTypeOfConstant } else { false }
    }

    var constant: StateValue? { if case .constant(let value) = kind { value } else { nil } }
    var list: [StateValue]? { if case .list(let values) = kind { values } else { nil } }
    /// One constant, or those of a list.
    var constants: [StateValue]? { list ?? constant.map { [$0] } }
    var path: BoundPath? { if case .path(let path) = kind { path } else { nil } }
    /// The property of the object itself that the operand is; nil for other operands.
    var plainProperty: Property? { path?.plainProperty }
    var isNull: Bool { constant?.isNull == true }
}

/// The path from an object to values.
struct BoundPath: Sendable {
    /// From objects to other objects.
    enum Step: Sendable {
        case link(Property, Index?)
        /// The objects of a class that link here by a property.
        case backlinks(className: [UInt8], Property)
    }

    enum Index: Hashable, Sendable {
        case every
        /// An element from 0, −1 for the last one.
        case element(Int)
        case key([UInt8])
    }

    enum End: Sendable {
        /// The objects themselves.
        case objects
        /// A property of these, and the path into the collection or Mixed that it holds.
        case property(Property, [Index])
        /// The keys of a dictionary.
        case keys(Property)
    }

    var steps: [Step]
    var end: End
    /// True if the steps lead to one object at most.
    var isSingle: Bool
    var type: StaticType

    /// The property of the object itself that the path is; nil for other paths.
    var plainProperty: Property? {
        guard steps.isEmpty, case .property(let property, let rest) = end, rest.isEmpty, property.collection == .single
        else { return nil }
        return property
    }

    /// The property of the object itself that the path begins with.
    var firstProperty: Property? {
        switch (steps.first, end) {
        case (.link(let property, _), _): property
        case (.backlinks, _), (nil, .objects): nil
        case (nil, .property(let property, _)), (nil, .keys(let property)): property
        }
    }

    var endsAtObjects: Bool { if case .objects = end { true } else { false } }

    /// True if the path ends at a list, set or dictionary, or within one of values.
    var endsAtCollection: Bool {
        if case .property(let property, _) = end { property.collection != .single } else { false }
    }

    /// The class of the objects at the end.
    var objectClass: ClassID? {
        switch steps.last {
        case .link(let property, _): property.target
        case .backlinks(_, let property): property.owner
        case nil: nil
        }
    }
}

/// An aggregate over the values of a collection, or over a property of linked objects.
struct BoundAggregate: Sendable {
    var path: BoundPath
    var function: Aggregate.Function
    /// The property of the linked objects.
    var property: Property?
    /// The type of the values; Mixed for every dictionary.
    var valueType: StaticType
}

/// A set of values of one type, for look-ups.
struct ValueSet: Sendable {
    private var hasNull = false
    private var integers: Set<Int64> = []
    private var strings: Set<[UInt8]> = []
    /// The longest string, in bytes: a longer value is not read.
    private var stringBytesMax = 0
    private var identifiers: Set<UUIDBytes> = []
    private var objectIDs: Set<ObjectID> = []
    private var others: [StateValue] = []

    init(_ values: [StateValue]) {
        for value in values {
            switch value {
            case .null: hasNull = true
            case .int(let value): integers.insert(value)
            case .string(let value), .binary(let value):
                strings.insert(value)
                stringBytesMax = max(stringBytesMax, value.count)
            case .uuid(let value): identifiers.insert(value)
            case .objectID(let value): objectIDs.insert(value)
            default: others.append(value)
            }
        }
    }

    /// True if a value of the type is in the set; NaN never is.
    func contains(_ value: StateValue, _ budget: LookBudget) throws(QueryError) -> Bool {
        switch value {
        case .null: return hasNull
        case .int(let value): return integers.contains(value)
        case .string(let value), .binary(let value):
            guard value.count <= stringBytesMax else { return false }
            try budget.count(bytes: value.count)
            return strings.contains(value)
        case .uuid(let value): return identifiers.contains(value)
        case .objectID(let value): return objectIDs.contains(value)
        case .float, .double: return !value.isNaN && others.contains { StateValue.compare($0, value) == 0 }
        default: return others.contains { StateValue.order($0, value) == 0 }
        }
    }

    func containsOne(of values: [StateValue], _ budget: LookBudget) throws(QueryError) -> Bool {
        try budget.countRead(values.count)
        for value in values where try contains(value, budget) { return true }
        return false
    }
}
