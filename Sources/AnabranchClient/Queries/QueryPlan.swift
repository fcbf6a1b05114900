import AnabranchCore
import AnabranchQuery

/// The way in which the objects that fulfil a query are found: by the primary key, by an indexed property, or by
/// reading all objects.
struct QueryPlan {
    private let query: Query
    private let view: _ObjectView

    init(_ query: Query, in view: _ObjectView) {
        self.query = query
        self.view = view
    }

    /// Calls `body` with each object that fulfils the query, in its order.
    func forEach(_ body: (StateObject) throws(ObjectError) -> Void) throws {
        if let keys = try keys() { return try forEach(withOneOf: keys, body) }
        if let prefix = sortedPrefix { return try forEach(of: prefix, body) }
        guard query.hasNoSuffixes else {
            for object in try translatingErrors({ try query.objects(in: view.graph) }) { try body(object) }
            return
        }
        var failure: (any Error)?
        do throws(ApplyError) {
            try view.graph.forEachObject(of: query.schema.number) { object throws(ApplyError) in
                do {
                    if try query.matches(object, in: view.graph) { try body(object) }
                } catch {
                    failure = error
                    throw ApplyError.unavailable("the query has ended")
                }
            }
        } catch {
            throw failure.map(ObjectError.init(asking:)) ?? ObjectError(asking: error)
        }
    }

    private func translatingErrors<Value>(_ body: () throws -> Value) throws(ObjectError) -> Value {
        do { return try body() } catch { throw ObjectError(asking: error) }
    }

    // MARK: Indexes

    /// The keys of objects among which are all that match; nil if no index can tell.
    private func keys() throws -> [PrimaryKey]? {
        if let key = query.schema.key, let ranges = query.ranges(of: key), ranges.allSatisfy(\.isOneValue) {
            return ranges.compactMap { $0.least.flatMap(PrimaryKey.init) }
        }
        guard let index = view.index else { return nil }
        var best: (property: Property, ranges: [ValueRange])?
        for property in query.schema.properties where index.isIndexed(property) {
            guard let ranges = query.ranges(of: property) else { continue }
            if ranges.allSatisfy(\.isOneValue) {
                best = (property, ranges)
                break
            }
            best = best ?? (property, ranges)
        }
        guard let best else { return nil }
        var keys = view.changed.filter { $0.classID == query.schema.number }.map(\.key)
        for range in best.ranges {
            try index.forEachKey(of: best.property, in: range) { key, _ in
                keys.append(key)
                return true
            }
        }
        return keys
    }

    private func forEach(
        withOneOf keys: [PrimaryKey], _ body: (StateObject) throws(ObjectError) -> Void
    ) throws {
        let found = try view.graph.objects(of: query.schema.number, Set(keys).sorted())
        for object in try translatingErrors({ try query.objects(among: found, in: view.graph) }) { try body(object) }
    }

    /// The first objects of a query, in an order that an index has.
    private struct SortedPrefix {
        let index: StoredIndex
        let property: Property
        let isAscending: Bool
        let countMax: Int
    }

    private var sortedPrefix: SortedPrefix? {
        guard let index = view.index, view.changed.isEmpty, let (property, isAscending) = query.sortProperty,
            let countMax = query.prefixCount, countMax < .max, index.isIndexed(property)
        else { return nil }
        return SortedPrefix(index: index, property: property, isAscending: isAscending, countMax: countMax)
    }

    private func forEach(
        of prefix: SortedPrefix, _ body: (StateObject) throws(ObjectError) -> Void
    ) throws {
        var count = 0
        // Objects whose values have the same beginning, and are longer than the index has them.
        var alike: (beginning: [UInt8]?, objects: [StateObject]) = (nil, [])
        func tellAlike() throws {
            let sorted = try query.objects(among: alike.objects, in: view.graph)
            for object in sorted.prefix(prefix.countMax - count) { try body(object) }
            count += sorted.count
            alike = (nil, [])
        }
        let null = ValueRange(least: .null, greatest: .null)
        for range in prefix.isAscending ? [null, ValueRange()] : [ValueRange(), null] where count < prefix.countMax {
            try prefix.index.forEachKey(of: prefix.property, in: range, isAscending: prefix.isAscending) {
                key, beginning in
                if beginning != alike.beginning { try tellAlike() }
                let reference = ObjectReference(classID: query.schema.number, key: key)
                guard count < prefix.countMax, let object = try view.graph.object(reference) else {
                    return count < prefix.countMax
                }
                if let beginning {
                    alike.beginning = beginning
                    alike.objects.append(object)
                } else if try query.matches(object, in: view.graph) {
                    try body(object)
                    count += 1
                }
                return count < prefix.countMax
            }
            if count < prefix.countMax { try tellAlike() }
        }
    }
}

extension ObjectError {
    /// The error of a query that has failed.
    init(asking error: any Error) {
        switch error {
        case let error as ObjectError: self = error
        case let error as QueryError: self.init(error.kind == .unavailable ? .storeFailed : .badQuery, error.reason)
        case let error as ApplyError: self.init(.storeFailed, error.reason)
        default: self.init(.storeFailed, "\(error)")
        }
    }
}
