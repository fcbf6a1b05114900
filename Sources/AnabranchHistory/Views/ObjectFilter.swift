import AnabranchCore
import AnabranchQuery

/// A choice of objects of a class.
enum ObjectFilter: Sendable {
    case none, all
    case matching(Query)

    /// The index by which they can be found.
    var index: QueryIndex {
        switch self {
        case .none: .never
        case .all: .always
        case .matching(let query): query.index
        }
    }

    /// The values that alone decide; nil if there is more to it.
    var decidingValues: Set<FieldValue>? {
        switch self {
        case .none: []
        case .all: nil
        case .matching(let query): query.decidingValues
        }
    }

    var isNone: Bool { if case .none = self { true } else { false } }

    var isAll: Bool { if case .all = self { true } else { false } }

    /// The names of the properties that decide, apart from the primary key.
    var fields: Set<[UInt8]> {
        guard case .matching(let query) = self else { return [] }
        return Set(query.fields.map(\.name))
    }

    /// True if an object of the class is one of them. One that takes too long to look at is not.
    /// - Throws: `storeFailed` if objects cannot be read.
    func includes(_ object: StateObject, in state: ObjectGraph) throws(HistoryError) -> Bool {
        switch self {
        case .none: return false
        case .all: return true
        case .matching(let query):
            do {
                return try query.matches(object, in: state)
            } catch {
                if error.kind == .limit { return false }
                throw HistoryError(.storeFailed, "the state cannot be read: \(error.reason)")
            }
        }
    }
}
