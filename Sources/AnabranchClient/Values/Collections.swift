public import AnabranchCore

// Optional values and collections that properties can have (`Spec/Objects.md`, section 2).

extension Optional: SyncedValue where Wrapped: SyncedValue {
    public static var _shape: _ValueShape {
        var shape = Wrapped._shape
        if shape.collection != .single {
            shape.problem = "a collection cannot be null: an empty one says the same"
        } else if shape.target != nil {
            shape.problem = nil
        }
        shape.isNullable = true
        return shape
    }

    public static func _sample(_ isSecond: Bool, _ samples: _Samples) throws(ObjectError) -> Wrapped?? {
        guard isSecond else { return .some(nil) }
        return try Wrapped._sample(true, samples).map { .some($0) }
    }

    public init(_ value: StateValue, _ classes: _BoundClasses) throws(ObjectError) {
        if case .null = value { self = nil } else { self = try Wrapped(value, classes) }
    }

    public func _content() throws(ObjectError) -> _ValueContent {
        switch self {
        case nil: .null
        case let value?: try value._content()
        }
    }
}

extension _ValueShape {
    /// The shape of a collection of such elements.
    fileprivate func collected(as collection: CollectionType) -> _ValueShape {
        var shape = self
        shape.collection = collection
        shape.problem = nil
        if self.collection != .single {
            shape.problem = "only AnyValue has collections in collections"
        } else if target != nil, isNullable != (collection == .dictionary) {
            shape.problem =
                isNullable
                ? "objects in a list or set cannot be null"
                : "objects in a dictionary have to be optional: they may be erased by somebody else"
        } else if collection == .set, target?.isEmbedded == true {
            shape.problem = "embedded objects cannot be in a set"
        } else if collection == .set, isNullable, type != .null {
            shape.problem = "a set with null in it cannot be changed by clients of all releases"
        }
        return shape
    }
}

extension Array: SyncedValue where Element: SyncedValue {
    public static var _shape: _ValueShape { Element._shape.collected(as: .list) }

    public static func _sample(_ isSecond: Bool, _ samples: _Samples) throws(ObjectError) -> [Element]? {
        guard isSecond else { return [] }
        return try Element._sample(true, samples).map { [$0] }
    }

    public init(_ value: StateValue, _ classes: _BoundClasses) throws(ObjectError) {
        guard case .list(let list) = value else { throw ObjectError(.badValue, "\(value.kindName) is not a list") }
        self = try list.values.map { element throws(ObjectError) in try Element(element, classes) }
    }

    public func _content() throws(ObjectError) -> _ValueContent {
        .list(try map { element throws(ObjectError) in try element._content() })
    }
}

extension Set: SyncedValue where Element: SyncedValue {
    public static var _shape: _ValueShape { Element._shape.collected(as: .set) }

    public static func _sample(_ isSecond: Bool, _ samples: _Samples) throws(ObjectError) -> Set<Element>? {
        guard isSecond else { return [] }
        return try Element._sample(true, samples).map { [$0] }
    }

    public init(_ value: StateValue, _ classes: _BoundClasses) throws(ObjectError) {
        guard case .set(let set) = value else { throw ObjectError(.badValue, "\(value.kindName) is no set") }
        self = Set(try set.values.map { element throws(ObjectError) in try Element(element, classes) })
    }

    public func _content() throws(ObjectError) -> _ValueContent {
        .set(try map { element throws(ObjectError) in try element._content().payload })
    }
}

/// A dictionary has each key once, however it is composed: `é` as one character is the same as `e` with an accent.
/// Others may have stored both. Then the first one by bytes is read and written, and the other one stays.
extension Dictionary: SyncedValue where Key == String, Value: SyncedValue {
    public static var _shape: _ValueShape { Value._shape.collected(as: .dictionary) }

    public static func _sample(_ isSecond: Bool, _ samples: _Samples) throws(ObjectError) -> [String: Value]? {
        guard isSecond else { return [:] }
        return try Value._sample(true, samples).map { ["": $0] }
    }

    public init(_ value: StateValue, _ classes: _BoundClasses) throws(ObjectError) {
        guard case .dictionary(let entries) = value else {
            throw ObjectError(.badValue, "\(value.kindName) is not a dictionary")
        }
        self.init(minimumCapacity: entries.count)
        for (key, element) in zip(entries.keys, entries.values) {
            let key = String(decoding: key, as: UTF8.self), value = try Value(element, classes)
            if self[key] == nil { self[key] = value }
        }
    }

    public func _content() throws(ObjectError) -> _ValueContent {
        var contents: [String: _ValueContent] = [:]
        for (key, element) in self { contents[key] = try element._content() }
        return .dictionary(contents)
    }
}
