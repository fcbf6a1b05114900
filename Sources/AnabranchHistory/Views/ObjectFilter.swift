import AnabranchCore
import AnabranchQuery

/// Which objects of a class.
enum ObjectFilter: Sendable {
    case none, all
    case matching(Query)

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
