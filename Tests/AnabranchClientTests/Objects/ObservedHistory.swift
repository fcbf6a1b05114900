import AnabranchClient
import AnabranchCore
import AnabranchTesting
import Foundation
import Testing

/// A random transaction on a few chores, as the model and the store carry it out.
struct ChoreStep: Sendable {
    enum Action: Sendable {
        case save(Chore), delete(Int), rename(Int, String), tag(Int, [String]), person(Int, String)
    }

    let actions: [Action]

    init(_ random: inout SeededRandom) {
        actions = (0...random.below(4)).map { _ in
            let id = random.below(7)
            switch random.below(8) {
            case 0, 1: return .delete(id)
            case 2, 3: return .rename(id, random.pick(["", "a", "b", "c"]))
            case 4, 5: return .tag(id, (0..<random.below(5)).map { _ in random.pick(["x", "y", "z"]) })
            case 6: return .person(1 + random.below(2), random.pick(["Ann", "Ben"]))
            default:
                let due = random.isOne(in: 3) ? nil : Date(timeIntervalSince1970: Double(random.below(4)))
                return .save(
                    Chore(
                        id: id, title: random.pick(["a", "b"]), isDone: random.isOne(in: 2), due: due,
                        owner: random.isOne(in: 2) ? nil : Link(id: 1 + random.below(2))))
            }
        }
    }

    func carryOut(_ tx: ObjectTransaction) throws {
        for action in actions {
            switch action {
            case .save(let chore): try tx.save(chore)
            case .delete(let id): try tx.delete(Chore.self, id)
            case .rename(let id, let title):
                if try tx.find(Chore.self, id) != nil { try tx.edit(Chore.self, id) { $0.title = title } }
            case .tag(let id, let tags):
                if try tx.find(Chore.self, id) != nil { try tx.edit(Chore.self, id) { $0.tags = tags } }
            case .person(let id, let name): try tx.save(Person(id: id, name: name))
            }
        }
    }
}

/// The objects that the store has to hold.
struct ChoreModel: Equatable, Sendable {
    var chores: [Int: Chore] = [:]
    var names: [Int: String] = [1: "Person 1", 2: "Person 2"]

    mutating func carryOut(_ step: ChoreStep) {
        for action in step.actions {
            switch action {
            case .save(let chore): chores[chore.id] = chore
            case .delete(let id): chores[id] = nil
            case .rename(let id, let title): chores[id]?.title = title
            case .tag(let id, let tags): chores[id]?.tags = tags
            case .person(let id, let name): names[id] = name
            }
        }
    }

    /// The results of a query of `ObservedQuery`.
    func results(_ query: ObservedQuery) -> [Chore] {
        let all = chores.values.sorted { $0.id < $1.id }
        switch query {
        case .all: return all
        case .done: return all.filter(\.isDone)
        case .byTitle: return all.filter { !$0.isDone }.sorted { ($0.title, $0.id) < ($1.title, $1.id) }
        case .firstByDue:
            func time(_ chore: Chore) -> Double { chore.due?.timeIntervalSince1970 ?? -1 }
            return Array(all.sorted { (-time($0), $0.id) < (-time($1), $1.id) }.prefix(3))
        case .ownedByAnn: return all.filter { $0.owner.map { names[$0.id] == "Ann" } ?? false }
        }
    }
}

enum ObservedQuery: CaseIterable, Sendable {
    case all, done, byTitle, firstByDue, ownedByAnn

    var query: ObjectQuery<Chore> {
        switch self {
        case .all: Chore.all
        case .done: Chore.where { $0.isDone }
        case .byTitle: Chore.where { !$0.isDone }.sorted(by: \.title)
        case .firstByDue: Chore.all.sorted(by: \.due, ascending: false).limit(3)
        case .ownedByAnn: Chore.where { $0.owner.name == "Ann" }
        }
    }
}

/// Checks one change against the one before.
struct ResultsFollower {
    let name: String
    private(set) var results: [Chore] = []
    private(set) var hasBegun = false

    mutating func take(_ change: QueryChange<Chore>, _ seed: UInt64) {
        let place = "seed \(seed), \(name)"
        #expect(Array(change.oldResults) == results, "\(place): not what was told before")
        if hasBegun {
            #expect(
                change.deletions.count + change.insertions.count + change.modifications.count > 0, "\(place): no change"
            )
        }
        var applied = results
        for (old, new) in change.modifications {
            #expect(results[old].id == change.results[new].id && results[old] != change.results[new], "\(place)")
            applied[old] = change.results[new]
        }
        for index in change.deletions.reversed() { applied.remove(at: index) }
        for index in change.insertions { applied.insert(change.results[index], at: index) }
        #expect(applied == Array(change.results), "\(place): the indices do not lead there")
        results = Array(change.results)
        hasBegun = true
    }
}

/// Random transactions, and observers that look at random moments: each has to see what the model says of its last look
/// and of now, and nothing if both are the same.
final class ObservedHistory {
    private let seed: UInt64
    private let store: SyncedStore
    private var random: SeededRandom
    private var model = ChoreModel()

    private var queries:
        [(query: ObservedQuery, changes: ObjectChanges<QueryChange<Chore>>.Iterator, follower: ResultsFollower)] = []
    private var objects: [(id: Int, changes: ObjectChanges<ObjectChange<Chore>>.Iterator, last: Chore?)] = []
    private var lists: [(id: Int, changes: ObjectChanges<ListChange<String>>.Iterator, last: [String])] = []
    private var paths:
        [(path: ObjectPath, scope: PathScope, changes: ObjectChanges<[PathChange]>.Iterator, last: ChoreModel)] = []

    init(seed: UInt64, _ store: SyncedStore) {
        self.seed = seed
        self.store = store
        random = SeededRandom(scrambling: seed)
    }

    func run() async throws {
        try await store.write { tx in
            try tx.delete(Chore.all)
            for id in 1...2 { try tx.save(Person(id: id, name: "Person \(id)")) }
        }
        for _ in 0..<random.below(4) { try await write() }
        try await begin()
        for _ in 0..<(2 + random.below(8)) {
            try await write()
            try await look(oneIn: random.pick([1, 2, 5]))
        }
        try await look(oneIn: 1)
    }

    private func write() async throws {
        let step = ChoreStep(&random)
        try await store.write { try step.carryOut($0) }
        model.carryOut(step)
    }

    private func begin() async throws {
        for query in ObservedQuery.allCases {
            var changes = store.changes(of: query.query).makeAsyncIterator()
            var follower = ResultsFollower(name: "\(query)")
            follower.take(try #require(try await changes.next()), seed)
            #expect(follower.results == model.results(query), "seed \(seed): \(query) begins")
            queries.append((query, changes, follower))
        }
        for id in [0, 3] {
            var object = try store.changes(of: Chore.self, id).makeAsyncIterator()
            #expect(try await object.next()?.new == model.chores[id], "seed \(seed)")
            objects.append((id, object, model.chores[id]))
            var list = try store.changes(of: \Chore.tags, in: id).makeAsyncIterator()
            #expect(try await list.next()?.elements == model.chores[id]?.tags ?? [], "seed \(seed)")
            lists.append((id, list, model.chores[id]?.tags ?? []))
        }
        let observed: [(ObjectPath, PathScope)] = [
            (.store, .pathAndDescendants), (.store, .pathAndChildren), (.class(Chore.self), .pathAndChildren),
            (try .object(Chore.self, 3), .pathAndChildren), (try .object(Chore.self, 3), .path),
            (try .property(\Chore.title, of: 3), .path),
        ]
        for (path, scope) in observed {
            var changes = store.changes(at: path, scope).makeAsyncIterator()
            #expect(try await changes.next()?.isEmpty == true)
            paths.append((path, scope, changes, model))
        }
    }

    private func look(oneIn count: Int) async throws {
        for index in queries.indices where random.isOne(in: count) {
            let now = model.results(queries[index].query)
            guard now != queries[index].follower.results else { continue }
            queries[index].follower.take(try #require(try await queries[index].changes.next()), seed)
            #expect(queries[index].follower.results == now, "seed \(seed): \(queries[index].query)")
        }
        for index in objects.indices where random.isOne(in: count) {
            let (old, now) = (objects[index].last, model.chores[objects[index].id])
            guard old != now else { continue }
            let change = try #require(try await objects[index].changes.next())
            #expect(change.old == old && change.new == now, "seed \(seed)")
            #expect(change.isChanged(\.title) == (old?.title != now?.title), "seed \(seed)")
            #expect(change.isChanged(\.tags) == (old?.tags != now?.tags), "seed \(seed)")
            objects[index].last = now
        }
        for index in lists.indices where random.isOne(in: count) {
            let now = model.chores[lists[index].id]?.tags ?? []
            guard lists[index].last != now else { continue }
            let change = try #require(try await lists[index].changes.next())
            #expect(change.old == lists[index].last && change.elements == now, "seed \(seed)")
            var applied = change.old
            for (old, new) in change.modifications { applied[old] = now[new] }
            for index in change.deletions.reversed() { applied.remove(at: index) }
            for index in change.insertions { applied.insert(now[index], at: index) }
            #expect(applied == now, "seed \(seed)")
            lists[index].last = now
        }
        for index in paths.indices where random.isOne(in: count) {
            let observed = paths[index]
            let expected = PathModel.changes(from: observed.last, to: model, observed.path, observed.scope)
            guard !expected.isEmpty else { continue }
            let change = try #require(try await paths[index].changes.next())
            #expect(Set(change.map(\.path)).count == change.count, "seed \(seed): a path comes twice")
            #expect(change.allSatisfy { $0.origin == .local })
            let told = Dictionary(uniqueKeysWithValues: change.map { ($0.path, $0.kind) })
            #expect(told == expected, "seed \(seed): \(observed.path) \(observed.scope)")
            paths[index].last = model
        }
    }
}

/// Which paths have changed between two moments.
enum PathModel {
    static func changes(
        from old: ChoreModel, to new: ChoreModel, _ path: ObjectPath, _ scope: PathScope
    ) -> [ObjectPath: PathChange.Kind] {
        var found: [ObjectPath: PathChange.Kind] = [:]
        for id in Set(old.chores.keys).union(new.chores.keys) {
            add("Chore", id, properties(old.chores[id]), properties(new.chores[id]), &found)
        }
        for id in new.names.keys {
            add("Person", id, ["name": old.names[id] ?? ""], ["name": new.names[id] ?? ""], &found)
        }
        let depth = [PathScope.path: 0, .pathAndChildren: 1, .pathAndDescendants: 3][scope] ?? 0
        return found.filter { other, _ in
            (path.className == nil || path.className == other.className) && (path.key == nil || path.key == other.key)
                && (path.property == nil || path.property == other.property)
                && self.depth(other) - self.depth(path) <= depth
        }
    }

    private static func depth(_ path: ObjectPath) -> Int {
        path.property != nil ? 3 : path.key != nil ? 2 : path.className != nil ? 1 : 0
    }

    private static func properties(_ chore: Chore?) -> [String: String]? {
        guard let chore else { return nil }
        return Dictionary(
            uniqueKeysWithValues: Mirror(reflecting: chore).children.compactMap { child in
                child.label.flatMap { $0 == "id" ? nil : ($0, "\(child.value)") }
            })
    }

    private static func add(
        _ className: String, _ id: Int, _ old: [String: String]?, _ new: [String: String]?,
        _ found: inout [ObjectPath: PathChange.Kind]
    ) {
        guard old != new else { return }
        let kind: PathChange.Kind = old == nil ? .created : new == nil ? .deleted : .updated
        found[.store] = .updated
        found[.class(named: className)] = .updated
        let key = PrimaryKey(id)
        found[ObjectPath(className: className, key: key)] = kind
        for name in (old ?? new ?? [:]).keys where old?[name] != new?[name] {
            found[ObjectPath(className: className, key: key, property: name)] = kind
        }
    }
}

/// A writer that does not wait, and readers that run beside it: what each is told is a sequence of moments, none of
/// them twice, none out of order, and the last one is the end.
final class ConcurrentHistory: Sendable {
    private let seed: UInt64
    private let store: SyncedStore

    init(seed: UInt64, _ store: SyncedStore) {
        self.seed = seed
        self.store = store
    }

    func run() async throws {
        try await store.write { tx in
            try tx.delete(Chore.all)
            for id in 1...2 { try tx.save(Person(id: id, name: "Person \(id)")) }
        }
        var random = SeededRandom(scrambling: seed)
        let steps = (0..<20).map { _ in ChoreStep(&random) }
        var moments = [ChoreModel()]
        for step in steps {
            var next = moments[moments.count - 1]
            next.carryOut(step)
            moments.append(next)
        }
        var end = moments[moments.count - 1]
        for chore in Self.last { end.chores[chore.id] = chore }
        end.names[1] = "Ann"
        moments.append(end)
        try await withThrowingTaskGroup(of: Void.self) { [moments] group in
            for query in ObservedQuery.allCases {
                group.addTask { try await self.follow(query, moments) }
            }
            for step in steps { try await store.write { try step.carryOut($0) } }
            try await store.write { tx in
                try tx.save(Person(id: 1, name: "Ann"))
                for chore in Self.last { try tx.insert(chore) }
            }
            try await group.waitForAll()
        }
    }

    /// The events that come with the end: each query has one of them.
    private static let last = [true, false].enumerated().map { index, isDone in
        Chore(id: 100 + index, isDone: isDone, due: Date(timeIntervalSince1970: 100), owner: Link(id: 1))
    }

    private func follow(_ query: ObservedQuery, _ moments: [ChoreModel]) async throws {
        let expected = moments.map { $0.results(query) }
        var follower = ResultsFollower(name: "\(query)"), moment = 0
        for try await change in store.changes(of: query.query) {
            follower.take(change, seed)
            guard let next = expected[moment...].firstIndex(of: follower.results) else {
                let differences = zip(expected.last ?? [], follower.results).filter { $0 != $1 }
                Issue.record(
                    """
                    seed \(seed): \(query): no such moment after \(moment): \(follower.results.map(\.id)), at the end \
                    \(expected.last?.map(\.id) ?? []); \(differences)
                    """)
                return
            }
            moment = next
            if change.results.contains(where: { $0.id >= 100 }) { return }
        }
    }
}
