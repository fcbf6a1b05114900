import AnabranchCore

/// Answers conditions for objects of one source (`Spec/Query.md`, section 6).
struct Evaluation {
    let source: any ObjectSource
    let options: QueryOptions
    let classes: KnownClasses
    let budget: LookBudget
    /// The backlinks in the whole source, as far as they were looked for.
    private let backlinks = BacklinkCache()

    init(source: any ObjectSource, options: QueryOptions, looksMax: Int = QueryLimits.looksMax) {
        self.source = source
        self.options = options
        classes = KnownClasses(source)
        budget = LookBudget(looksMax: looksMax)
    }

    /// True if the object fulfils the condition of a query.
    func matches(_ object: StateObject, _ condition: Condition) throws(QueryError) -> Bool {
        budget.beginObject()
        return try isFulfilled(condition, by: object)
    }

    func isFulfilled(_ condition: Condition, by object: StateObject) throws(QueryError) -> Bool {
        switch condition {
        case .always(let isTrue): return isTrue
        case .and(let parts):
            for part in parts where try !isFulfilled(part, by: object) { return false }
            return true
        case .or(let parts, _):
            for part in parts where try isFulfilled(part, by: object) { return true }
            return false
        case .not(let inner): return try !isFulfilled(inner, by: object)
        case .direct(let property, let test):
            return try test.isFulfilled(by: visible(object.value(of: property)), budget)
        case .isOneOf(let property, _, let values):
            let value = object.value(of: property)
            guard property.collection == .single else { return try values.containsOne(of: value.elements, budget) }
            return try values.contains(try visible(value), budget)
        case .between(let property, let low, let high):
            let value = object.value(of: property)
            return !value.isNull && StateValue.order(low, value) <= 0 && StateValue.order(value, high) <= 0
        case .general(let sides): return try sides.isFulfilled(by: object, in: self)
        case .geoWithin(let path, _, let region, let quantifier):
            let objects = try objects(at: path, from: object)
            return try quantifier.holds(objects) { value throws(QueryError) in
                try budget.count(region.edgeCount)
                return try self.object(value).map(region.contains) == true
            }
        case .filter(let property, let test): return try test.isFulfilled(by: object.value(of: property), budget)
        }
    }

    // MARK: Links

    /// The value that a reader sees: null for a link to an object that does not exist.
    func visible(_ value: StateValue) throws(QueryError) -> StateValue {
        guard case .link(let object) = value, options.links == .followed else { return value }
        do throws(ApplyError) { return try source.contains(object) ? value : .null } catch { throw QueryError(error) }
    }

    func visible(_ values: [StateValue]) throws(QueryError) -> [StateValue] {
        try budget.countRead(values.count)
        var visible: [StateValue] = []
        visible.reserveCapacity(values.count)
        for value in values { visible.append(try self.visible(value)) }
        return visible
    }

    /// The values at the end of a path's steps: objects that exist, or links as keys in their place.
    func objects(at path: BoundPath, from object: StateObject) throws(QueryError) -> [StateValue] {
        var reached: [StateValue] = [.object(object)]
        for step in path.steps {
            var next: [StateValue] = []
            for value in reached {
                guard let object = try self.object(value) else { continue }
                switch step {
                case .link(let property, let index):
                    for value in try visible(object.value(of: property).targets(at: index)) where !value.isNull {
                        next.append(value)
                    }
                case .backlinks(_, let property):
                    guard let target = object.reference else { continue }
                    let owners = try backlinks.owners(of: target, by: property, in: self)
                    try budget.countRead(owners.count)
                    next += owners
                }
            }
            reached = next
        }
        return reached
    }

    /// The objects at the end of a path's steps, to read their properties.
    func owners(at path: BoundPath, from object: StateObject) throws(QueryError) -> [StateObject] {
        guard !path.steps.isEmpty else { return [object] }
        var owners: [StateObject] = []
        for value in try objects(at: path, from: object) {
            if let owner = try self.object(value) { owners.append(owner) }
        }
        return owners
    }

    /// An embedded object, or the one that a link leads to.
    func object(_ value: StateValue) throws(QueryError) -> StateObject? {
        switch value {
        case .object(let object): object
        case .link(let reference): try self.object(reference)
        default: nil
        }
    }

    func object(_ reference: ObjectReference) throws(QueryError) -> StateObject? {
        do throws(ApplyError) { return try source.object(reference) } catch { throw QueryError(error) }
    }
}

extension StateValue {
    /// The links or embedded objects that a property holds, or only the one at an index.
    fileprivate func targets(at index: BoundPath.Index?) -> [StateValue] {
        switch (self, index) {
        case (.null, _): []
        case (.list, .element(let position)), (.set, .element(let position)): element(position).map { [$0] } ?? []
        case (.dictionary(let entries), .key(let key)): entries[key].map { [$0] } ?? []
        case (.list(let list), _): list.values
        case (.set(let set), _): set.values
        case (.dictionary(let entries), _): entries.values
        default: [self]
        }
    }
}

extension Quantifier? {
    /// True if enough values fulfil a condition; without a quantifier one is enough.
    func holds<Value>(
        _ values: [Value], _ isFulfilled: (Value) throws(QueryError) -> Bool
    ) throws(QueryError) -> Bool {
        switch self {
        case .all:
            for value in values where try !isFulfilled(value) { return false }
            return true
        case .none?:
            for value in values where try isFulfilled(value) { return false }
            return true
        case .any, nil:
            for value in values where try isFulfilled(value) { return true }
            return false
        }
    }
}

/// The objects that link to an object, by property: found by one walk over the objects of a class at the first request.
private final class BacklinkCache {
    private var owners: [Property: [ObjectReference: [StateValue]]] = [:]

    func owners(
        of target: ObjectReference, by property: Property, in evaluation: Evaluation
    ) throws(QueryError) -> [StateValue] {
        if let known = owners[property] { return known[target] ?? [] }
        var found: [ObjectReference: [StateValue]] = [:]
        func record(_ object: StateObject) {
            for case .link(let linked) in object.value(of: property).targets(at: nil) {
                found[linked, default: []].append(object.reference.map(StateValue.link) ?? .object(object))
            }
        }
        do throws(ApplyError) {
            for schema in evaluation.source.classes where schema.kind != .embedded {
                try evaluation.source.forEachObject(of: schema.number) { object throws(ApplyError) in
                    object.forEach(ofClass: property.owner, in: evaluation.classes, record)
                }
            }
        } catch {
            throw QueryError(error)
        }
        owners[property] = found
        return found[target] ?? []
    }
}

extension StateObject {
    /// Calls `body` with the object itself or with each embedded one in it, at any depth, that is of a class.
    fileprivate func forEach(ofClass number: ClassID, in classes: KnownClasses, _ body: (StateObject) -> Void) {
        if classID == number { return body(self) }
        guard let schema = classes.schema(of: classID) else { return }
        for property in schema.properties where property.isEmbedded {
            for case .object(let object) in value(of: property).targets(at: nil) {
                object.forEach(ofClass: number, in: classes, body)
            }
        }
    }
}
