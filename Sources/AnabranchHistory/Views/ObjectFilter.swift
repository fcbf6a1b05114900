import AnabranchCore
import AnabranchQuery

/// A choice of objects of a class.
enum ObjectFilter: Sendable {
    case none, all
    case matching(ObjectQuery)

    init(_ query: Query) { self = query.index == .always ? .all : .matching(ObjectQuery(query)) }

    /// The index by which they can be found.
    var index: QueryIndex {
        switch self {
        case .none: .never
        case .all: .always
        case .matching(let asked): asked.query.index
        }
    }

    /// The values that alone decide; nil if there is more to it.
    var decidingValues: Set<FieldValue>? {
        switch self {
        case .none: []
        case .all: nil
        case .matching(let asked): asked.query.decidingValues
        }
    }

    var isNone: Bool { if case .none = self { true } else { false } }

    var isAll: Bool { if case .all = self { true } else { false } }

    /// The names of the properties that decide, apart from the primary key.
    var fields: Set<[UInt8]> {
        guard case .matching(let asked) = self else { return [] }
        return Set(asked.query.fields.map(\.name))
    }

    /// True if the value of a property decides.
    /// - Parameter slot: the slot of the property in its class.
    func looks(at slot: Int) -> Bool {
        if case .matching(let asked) = self { asked.slots.contains(slot) } else { false }
    }

    /// True if an object of the class is one of them. One that takes too long to look at is not.
    /// - Parameter object: read as far as `looks(at:)` says, or more.
    /// - Throws: `storeFailed` if objects cannot be read.
    func includes(_ object: StateObject, in state: ObjectGraph) throws(HistoryError) -> Bool {
        try choice(in: state).includes(object)
    }

    /// The choice among the objects of one state: to be asked about many of them.
    func choice(in state: ObjectGraph) -> ObjectChoice {
        switch self {
        case .none: .none
        case .all: .all
        case .matching(let asked): .matching(asked.query.matcher(in: state))
        }
    }
}

/// A choice among the objects of a class in one state.
enum ObjectChoice {
    case none, all
    case matching(QueryMatcher)

    /// As `ObjectFilter.includes`.
    func includes(_ object: StateObject) throws(HistoryError) -> Bool {
        switch self {
        case .none: return false
        case .all: return true
        case .matching(let matcher):
            do {
                return try matcher.matches(object)
            } catch {
                if error.kind == .limit { return false }
                throw HistoryError(readingStateFailed: error)
            }
        }
    }
}

/// A query about objects of a class, and the slots of the properties that it looks at.
final class ObjectQuery: Sendable {
    let query: Query
    let slots: [Int]

    init(_ query: Query) {
        self.query = query
        slots = query.fields.compactMap(\.slot)
    }
}

extension HistoryError {
    /// Objects that a query asks about cannot be read.
    init(readingStateFailed error: QueryError) {
        self.init(error.isOutdated ? .conflict : .storeFailed, "the state cannot be read: \(error.reason)")
    }
}
