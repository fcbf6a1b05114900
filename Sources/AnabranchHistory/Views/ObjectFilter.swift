import AnabranchCore
import AnabranchQuery

/// Which objects of a class.
enum ObjectFilter: Sendable {
    case none, all
    case matching(Query)

    /// By what they can be found.
    var index: QueryIndex {
        switch self {
        case .none: .never
        case .all: .always
        case .matching(let query): query.index
        }
    }

    /// The values that are all that decides; nil if there is more to it.
    var decidingValues: Set<FieldValue>? {
        switch self {
        case .none: []
        case .all: nil
        case .matching(let query): query.decidingValues
        }
    }

    var isAll: Bool { if case .all = self { true } else { false } }

    /// The names of the properties, beside the primary key, that decide.
    var fields: Set<[UInt8]> {
        guard case .matching(let query) = self else { return [] }
        return Set(query.fields.map(\.name))
    }

    /// Whether an object of the class is one of them. One that takes too long to look at is none.
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
