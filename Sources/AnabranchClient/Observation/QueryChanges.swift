import AnabranchCore
import AnabranchQuery

/// The objects that fulfil a query, in its order, as they were at one moment. A copy costs nothing.
public struct ObjectResults<Object: SyncedObject>: RandomAccessCollection, Sendable {
    private(set) var tree = CountedTree<Entry>()
    /// The limit of the query: objects after it are not part of the results.
    fileprivate var countMax = Int.max

    /// An object among others.
    struct Entry: TreeElement, Sendable {
        let place: Place
        let object: Object
        var separator: Place { place }
        var size: Int { 0 }
        static var leafCountMax: Int { 64 }
    }

    /// The place of an object in the order.
    struct Place: Sendable {
        let values: [StateValue]
        let key: PrimaryKey
    }

    /// 0.
    public var startIndex: Int { 0 }
    /// The number of objects.
    public var endIndex: Int { Swift.min(tree.count, countMax) }
    /// An object by its place.
    public subscript(index: Int) -> Object {
        precondition(indices.contains(index), "there is no object \(index)")
        return tree.loadedElement(at: index).object
    }

    func find(_ place: Place, _ query: Query) -> (index: Int, entry: Entry?) {
        let found = tree.findLoaded { other in
            let order = query.compare(other.values, place.values)
            return order != 0 ? order : other.key < place.key ? -1 : other.key == place.key ? 0 : 1
        }
        return (found.index, found.element)
    }

    fileprivate mutating func set(_ entry: Entry, _ query: Query) {
        let found = find(entry.place, query)
        if found.entry != nil { tree.remove(at: found.index) }
        tree.insert(entry, at: found.index)
    }

    fileprivate mutating func remove(_ place: Place, _ query: Query) {
        let found = find(place, query)
        if found.entry != nil { tree.remove(at: found.index) }
    }

    fileprivate mutating func fill(_ entries: [Entry]) { tree = CountedTree(entries) }
}

/// A change to the objects that fulfil a query.
public struct QueryChange<Object: SyncedObject>: Sendable {
    /// The results before; empty with the first change.
    public let oldResults: ObjectResults<Object>
    /// The results now.
    public let results: ObjectResults<Object>
    /// The indices in `oldResults` of the objects that are gone or have moved; ascending.
    public let deletions: [Int]
    /// The indices in `results` of the objects that are new or have moved; ascending. With the first change all of
    /// them.
    public let insertions: [Int]
    /// The indices in `oldResults` and in `results` of the objects that have changed and not moved; ascending.
    public let modifications: [(old: Int, new: Int)]
}

struct QuerySource<Object: SyncedObject>: ChangeSource {
    typealias Results = ObjectResults<Object>

    private let objectQuery: ObjectQuery<Object>
    private(set) var interest = Interest.everything
    private var hasLooked = false
    private var results = Results()
    /// The place of each object, if it does not depend on the key alone.
    private var places: [PrimaryKey: Results.Place] = [:]
    /// The query and what it needs; nil as long as there is no such class, or if it depends on more than the object
    /// itself whether it matches.
    private var bound: (query: Query, state: ObjectGraph, classes: _BoundClasses)?

    init(_ query: ObjectQuery<Object>) { objectQuery = query }

    // MARK: Everything

    mutating func look(at state: StoredState, _ classes: _BoundClasses) throws -> QueryChange<Object>? {
        let old = results
        results = Results()
        (places, bound, interest) = ([:], nil, .classes([Array(Object.className.utf8)]))
        let view = _ObjectView(graph: state.graph, classes: classes, index: state.index)
        if let reader = try view.reader(of: try ObjectSchema.of(Object.self), Object.self) {
            let query = try objectQuery.query(of: state.graph)
            var entries: [Results.Entry] = []
            if let countMax = query.prefixCount, query.isAboutObjectsAlone {
                bound = (query, state.graph.withoutObjects, classes)
                results.countMax = countMax
            } else if !query.isAboutObjectsAlone {
                interest = .everything
            }
            let isFollowed = bound != nil
            let plan = QueryPlan(isFollowed ? query.withoutLimit : query, in: view)
            try plan.forEach { object throws(ObjectError) in
                let position = isFollowed ? nil : entries.count
                entries.append(try self.entry(object, query, reader.reader, position, state.graph))
            }
            if isFollowed, query.isSorted { for entry in entries { places[entry.place.key] = entry.place } }
            results.fill(entries)
        }
        defer { hasLooked = true }
        guard hasLooked else { return QueryChange(first: results) }
        let change = try QueryChange(from: old, to: results)
        return change.isEmpty ? nil : change
    }

    /// - Parameter position: the object's index if the place cannot be computed from the object itself.
    private func entry(
        _ object: StateObject, _ query: Query, _ reader: ObjectReader, _ position: Int?, _ source: ObjectGraph
    ) throws(ObjectError) -> Results.Entry {
        do {
            let values = try position.map { [.int(Int64($0))] } ?? query.sortValues(of: object, in: source)
            return Results.Entry(
                place: Results.Place(values: values, key: object.key ?? .null),
                object: try reader.read(Object.self, object))
        } catch {
            throw ObjectError(asking: error)
        }
    }

    // MARK: Some changes

    mutating func take(_ pending: PendingChanges) throws -> SourceUpdate<QueryChange<Object>> {
        guard let (query, state, classes) = bound else { return .unknown }
        let old = results
        let reader = try classes.reader(of: try ObjectSchema.of(Object.self))
        var touched: [(before: Results.Place?, after: Results.Place?)] = []
        for change in pending.changes where change.object.classID == query.schema.number {
            let key = change.object.key
            let before = places[key] ?? Results.Place(values: [], key: key)
            let wasThere = query.isSorted ? places[key] != nil : old.find(before, query).entry != nil
            var after: Results.Place?
            if let object = change.after, try query.matches(object, in: state) {
                let entry = try entry(object, query, reader, nil, state)
                if wasThere { results.remove(before, query) }
                results.set(entry, query)
                after = entry.place
            } else if wasThere {
                results.remove(before, query)
            }
            if query.isSorted { places[key] = after }
            if wasThere || after != nil { touched.append((wasThere ? before : nil, after)) }
        }
        if touched.isEmpty { return .nothing }
        let change =
            results.countMax == .max
            ? try QueryChange(from: old, to: results, touched, query) : try QueryChange(from: old, to: results)
        return change.isEmpty ? .nothing : .change(change)
    }
}
