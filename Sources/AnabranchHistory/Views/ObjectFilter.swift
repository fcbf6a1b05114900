import AnabranchCore
package import AnabranchQuery

/// Which objects of a class.
package enum ObjectFilter: Sendable {
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

/// What a user may do with the objects of a class (`Spec/FlexibleSync.md`).
package struct ClassPermissions: Sendable {
    /// Which objects the user may read.
    package var read: ObjectFilter
    /// Which objects the user may change: as they were before, and as they are afterwards.
    package var write: ObjectFilter
    package var mayInsert: Bool
    package var mayDelete: Bool

    package init(read: ObjectFilter, write: ObjectFilter, mayInsert: Bool, mayDelete: Bool) {
        self.read = read
        self.write = write
        self.mayInsert = mayInsert
        self.mayDelete = mayDelete
    }

    package static let full = ClassPermissions(read: .all, write: .all, mayInsert: true, mayDelete: true)
    package static let none = ClassPermissions(read: .none, write: .none, mayInsert: false, mayDelete: false)
}

/// What a user may do with all objects: the same for the whole of a session.
package struct ViewRole: Sendable {
    /// Equal roles have equal names.
    package let name: String
    private let classes: [[UInt8]: ClassPermissions]
    private let others: ClassPermissions

    /// - Parameter classes: by the names of the classes.
    package init(name: String, classes: [[UInt8]: ClassPermissions], others: ClassPermissions) {
        self.name = name
        self.classes = classes
        self.others = others
    }

    /// Everybody may do everything.
    package static let full = ViewRole(name: "", classes: [:], others: .full)

    subscript(className: [UInt8]) -> ClassPermissions { classes[className] ?? others }
}
