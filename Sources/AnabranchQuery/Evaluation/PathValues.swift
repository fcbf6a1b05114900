import AnabranchCore

/// The values of an operand for one object: one, or those of a collection.
struct Values {
    var values: [StateValue]
    /// True if they are from a list, so that quantifiers count (`Spec/Query.md`, section 5.1).
    var isList: Bool

    static let emptyList = Values(values: [], isList: true)

    init(values: [StateValue], isList: Bool) {
        self.values = values
        self.isList = isList
    }

    /// The values of a path to one object or to several; null where a path to one ends early.
    init(_ values: [StateValue], isSingle: Bool) {
        self.init(values: isSingle && values.isEmpty ? [.null] : values, isList: !isSingle)
    }
}

// The values at the end of a path (`Spec/Query.md`, section 5.1). Each collection found is given by itself.

extension Evaluation {
    func values(at path: BoundPath, from object: StateObject) throws(QueryError) -> [Values] {
        let property: Property
        let rest: [BoundPath.Index]
        switch path.end {
        case .objects:
            return [Values(try objects(at: path, from: object), isSingle: path.isSingle)]
        case .keys(let dictionary):
            let found = try owners(at: path, from: object).map { owner throws(QueryError) in
                guard case .dictionary(let entries) = owner.value(of: dictionary) else { return Values.emptyList }
                try budget.countRead(entries.count)
                return Values(values: entries.keys.map(StateValue.string), isList: true)
            }
            return found.isEmpty ? [.emptyList] : found
        case .property(let end, let indices): (property, rest) = (end, indices)
        }
        let owners = try owners(at: path, from: object)
        switch property.collection {
        case .single where rest.isEmpty:
            let values = try visible(owners.map { $0.value(of: property) })
            return [
                path.steps.isEmpty ? Values(values: values, isList: false) : Values(values, isSingle: path.isSingle)
            ]
        case .single, .dictionary:
            let steps = rest.isEmpty ? [.every] : rest
            var found: [[StateValue]] = []
            for owner in owners { try descend(into: owner.value(of: property), steps[...], &found) }
            let isSingle = property.collection == .single || path.isSingle
            return Self.collections(found, isSingle: isSingle && !steps.contains(.every))
        case .list, .set:
            let found = try owners.map { owner throws(QueryError) in
                try elements(of: owner.value(of: property), at: rest.first)
            }
            guard rest.count > 1 else {
                return found.isEmpty ? [.emptyList] : found.map { Values(values: $0, isList: true) }
            }
            var inner: [[StateValue]] = []
            for value in found.joined() { try descend(into: value, rest.dropFirst(), &inner) }
            return Self.collections(inner, isSingle: !rest.contains(.every))
        }
    }

    private static func collections(_ found: [[StateValue]], isSingle: Bool) -> [Values] {
        if found.isEmpty { return [.emptyList] }
        return found.map { Values(values: $0, isList: !isSingle || $0.isEmpty) }
    }

    /// All elements of a list, or the one at an index: of a list that is too short null, of an empty one nothing.
    private func elements(
        of collection: StateValue, at index: BoundPath.Index?
    ) throws(QueryError) -> [StateValue] {
        guard case .element(let position) = index else { return try visible(collection.elements) }
        return collection.element(0) == nil ? [] : [try visible(collection.element(position) ?? .null)]
    }

    /// Descends into dictionaries and lists, and notes what each end holds.
    private func descend(
        into value: StateValue, _ steps: ArraySlice<BoundPath.Index>, _ found: inout [[StateValue]]
    ) throws(QueryError) {
        guard let step = steps.first else { return }
        let isEnd = steps.count == 1
        let inner = try visible(try values(in: value, at: step, isEnd: isEnd))
        if isEnd { return found.append(inner) }
        for value in inner { try descend(into: value, steps.dropFirst(), &found) }
    }

    private func values(
        in value: StateValue, at step: BoundPath.Index, isEnd: Bool
    ) throws(QueryError) -> [StateValue] {
        switch (value, step) {
        case (.dictionary(let entries), .every): return entries.values
        case (.dictionary(let entries), .key(let key)):
            if let value = entries[key] { return [value] }
            return isEnd && entries.count > 0 ? [.null] : []
        case (.list(let list), .every): return list.values
        case (.list, .element(let position)): return value.element(position).map { [$0] } ?? []
        case (.link(let reference), .key(let name)) where options.links == .followed:
            guard let target = try object(reference), let schema = classes.schema(of: target.classID),
                let property = schema.property(named: name)
            else { return [] }
            return [target.value(of: property)]
        default: return []
        }
    }

    // MARK: Sizes

    /// The number of values, or their lengths; for the ends of links one number in total.
    func sizes(at path: BoundPath, from object: StateObject) throws(QueryError) -> [Values] {
        guard !path.endsAtObjects else {
            return [Values(values: [.int(Int64(try objects(at: path, from: object).count))], isList: false)]
        }
        if case .property(let property, let rest) = path.end, property.collection != .single,
            rest.isEmpty || rest == [.every]
        {
            let sizes = try owners(at: path, from: object).map { $0.value(of: property).size }
            return [Values(sizes, isSingle: path.isSingle)]
        }
        return try values(at: path, from: object).map { Values(values: $0.values.map(\.size), isList: $0.isList) }
    }
}

extension StateValue {
    /// The elements of a list or set.
    var elements: [StateValue] {
        switch self {
        case .list(let list): list.values
        case .set(let set): set.values
        default: []
        }
    }

    /// The element of a list or set at an index, −1 for the last one; nil if there is none.
    func element(_ position: Int) -> StateValue? {
        switch self {
        case .list(let list): Self.index(position, count: list.count).map { list[$0] }
        case .set(let set): Self.index(position, count: set.count).map { set[$0] }
        default: nil
        }
    }

    private static func index(_ position: Int, count: Int) -> Int? {
        let index = position == -1 ? count - 1 : position
        return 0..<count ~= index ? index : nil
    }

    /// The number of bytes or elements; null for other values.
    var size: StateValue {
        switch self {
        case .string(let bytes), .binary(let bytes): .int(Int64(bytes.count))
        case .list(let list): .int(Int64(list.count))
        case .set(let set): .int(Int64(set.count))
        case .dictionary(let entries): .int(Int64(entries.count))
        default: .null
        }
    }

    /// The values of a collection.
    var members: [StateValue] {
        if case .dictionary(let entries) = self { entries.values } else { elements }
    }
}
