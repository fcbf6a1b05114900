import AnabranchCore
import AnabranchHistory
import AnabranchQuery
import NIOHTTP1
import Synchronization

/// The objects of a class that a table shows, in its order: found in steps, so that no request takes long. The table
/// stays as it was found while the file changes; objects that are gone by then show that.
final class ObjectList: Sendable {
    /// The contents of a list: the same question has the same list.
    struct Question: Hashable, Sendable {
        var file: SyncedFileID
        var className: ExactString
        var filter: ExactString?
        var sort: ExactString?
        var isDescending = false
        /// The version whose state is asked; nil for the newest one.
        var at: ServerVersion?
        /// The part of the file that is shown.
        var seen = Seen.everything
    }

    /// The most objects that a table has.
    static let countMax = 2_000_000
    /// The most objects that are put in order.
    static let sortedMax = 200_000
    /// How long one request goes on looking, in milliseconds.
    static let stepMilliseconds = 100
    /// The most bytes of values that are compared to put objects in order.
    private static let sortedBytesMax = 64 << 20

    let question: Question
    /// The version at which the search began.
    let version: ServerVersion

    private struct Progress {
        var keys: [PrimaryKey] = []
        var values: [StateValue] = []
        var valueBytes = 0
        /// The last object that was looked at.
        var last: PrimaryKey?
        var lookedCount = 0
        var isComplete = false
        var isCut = false
    }

    private let progress = Mutex(Progress())

    init(_ question: Question, at version: ServerVersion) {
        self.question = question
        self.version = version
    }

    /// One part of a list.
    struct Piece {
        var keys: [PrimaryKey]
        /// The objects that were found so far.
        var count: Int
        var lookedCount: Int
        var isComplete: Bool
        /// True if there are more than a table has.
        var isCut: Bool
    }

    var memoryCount: Int { progress.withLock { $0.keys.count } }

    /// Goes on looking for a while, and returns the keys of some of the objects that were found.
    func piece(from offset: Int, countMax: Int, in view: PageView) throws -> Piece {
        let schema = try view.schema(question.className.text)
        return try progress.withLock { progress in
            if !progress.isComplete { try look(schema, in: view.state, &progress) }
            // Before everything is found nobody knows what is first.
            let isShown = question.sort == nil || progress.isComplete
            let count = progress.keys.count, start = min(offset, count), end = min(start + countMax, count)
            var keys: [PrimaryKey] = []
            if isShown {
                // Without a column the order is that of the keys, from either end.
                let isReversed = question.sort == nil && question.isDescending
                keys =
                    isReversed
                    ? progress.keys[(count - end)..<(count - start)].reversed() : Array(progress.keys[start..<end])
            }
            return Piece(
                keys: keys, count: count, lookedCount: progress.lookedCount, isComplete: progress.isComplete,
                isCut: progress.isCut)
        }
    }

    private func look(_ schema: ClassSchema, in state: ObjectGraph, _ progress: inout Progress) throws {
        let query = try question.filter.map { try Query(filter: $0.text, on: schema, of: state) }
        let column = try question.sort.map { name throws(PageError) in
            guard let property = schema.property(named: Array(name.utf8)) else {
                throw PageError(.badRequest, "Sort", "\(question.className) has no property \(name)")
            }
            return property
        }
        let seen = question.seen.objects(in: state)
        let end = ContinuousClock.now + .milliseconds(Self.stepMilliseconds)
        var failure: (any Error)?, isOver = true
        try state.forEachObject(of: schema.number, after: progress.last) { object throws(ApplyError) in
            progress.last = object.key
            progress.lookedCount += 1
            do {
                if try query?.matches(object, in: state) ?? true,
                    try seen.include(object, of: schema.name, in: state), let key = object.key
                {
                    try add(key, column.map { object.value(of: $0) }, to: &progress)
                }
            } catch { failure = error }
            isOver = failure == nil && !progress.isCut
            // A clock is slower than an object.
            if progress.lookedCount & 63 == 0, isOver { isOver = .now < end }
            return isOver
        }
        if let failure { throw failure }
        guard isOver || progress.isCut else { return }
        progress.isComplete = true
        if column != nil { order(&progress) }
    }

    private func add(_ key: PrimaryKey, _ value: StateValue?, to progress: inout Progress) throws(PageError) {
        guard progress.keys.count < Self.countMax else {
            progress.isCut = true
            return
        }
        progress.keys.append(key)
        guard let value else { return }
        switch value {
        case .string(let bytes), .binary(let bytes): progress.valueBytes += bytes.count
        default: break
        }
        progress.values.append(value.ordered)
        guard progress.values.count <= Self.sortedMax, progress.valueBytes <= Self.sortedBytesMax else {
            throw PageError(
                .conflict, "TooMany", "up to \(Self.sortedMax) objects can be put in order: filter them first")
        }
    }

    private func order(_ progress: inout Progress) {
        let values = progress.values, keys = progress.keys, isDescending = question.isDescending
        let order = values.indices.sorted { left, right in
            let comparison = StateValue.compare(values[left], values[right])
            return comparison == 0 ? left < right : (comparison < 0) != isDescending
        }
        progress.keys = order.map { keys[$0] }
        progress.values = []
    }
}

extension Query {
    /// A filter of a table.
    init(filter: String, on schema: ClassSchema, of state: ObjectGraph) throws {
        let parsed = try ParsedQuery(filter)
        guard parsed.suffixes.isEmpty else {
            throw PageError(
                .badRequest, "Filter", "a filter is a predicate alone: the headings of the table put it in order",
                offset: filter.utf8.count)
        }
        try self.init(parsed, on: schema, of: state)
    }
}

/// The lists of the tables that are looked at, the one that was used last first.
final class ObjectLists: Sendable {
    /// The most lists, and the most objects in all of them but the newest.
    static let listsMax = 8
    private static let keysMax = 4_000_000

    private let lists = Mutex<[ObjectList]>([])

    /// The list of a question: the one that began at `version`, or else a new one of the version now.
    func list(_ question: ObjectList.Question, begunAt version: ServerVersion?, now: ServerVersion) -> ObjectList {
        lists.withLock { lists in
            let wanted = version ?? now
            let known = lists.firstIndex { $0.question == question && $0.version == wanted }
            let list = known.map { lists.remove(at: $0) } ?? ObjectList(question, at: now)
            // The same question is asked again: the older answer is dropped, unless it is requested by its version.
            lists.insert(list, at: 0)
            var count = 0
            lists = Array(
                lists.enumerated().prefix { position, list in
                    count += list.memoryCount
                    return position == 0 || position < Self.listsMax && count <= Self.keysMax
                }.map(\.element))
            return list
        }
    }
}
