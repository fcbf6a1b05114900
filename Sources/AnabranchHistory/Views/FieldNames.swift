import AnabranchCore

/// The properties that decide which objects are in some views: those that before-images have to put back.
struct FieldNames {
    /// By the names of the classes, beside the primary keys.
    private(set) var byClass: [[UInt8]: Set<[UInt8]>] = [:]

    /// By the names of the classes and those that queries name, since which version before-images have them.
    private var first: [[UInt8]: [[UInt8]: ServerVersion]] = [:]

    /// Whether before-images of all entries behind a version say which objects the queries of a view ask for, in the
    /// classes that its role lets its user read as a whole.
    func decide(_ view: ClientView, since version: ServerVersion) -> Bool {
        view.queries.classNames.allSatisfy { className in
            guard view.role[className].read.isAll else { return true }
            return view.queries[className].fields.allSatisfy { first[className]?[$0] ?? .largest <= version }
        }
    }

    /// Adds those that decide about a view. None is ever taken away: a view that is behind may need what one that has
    /// changed since does not.
    mutating func add(_ view: ClientView) {
        for className in view.queries.classNames {
            let fields = view.queries[className].fields.union(view.role[className].read.fields)
            byClass[className, default: []].formUnion(fields)
            for field in view.queries[className].fields {
                let known = first[className]?[field] ?? .largest
                first[className, default: [:]][field] = min(known, view.changed)
            }
        }
    }
}
