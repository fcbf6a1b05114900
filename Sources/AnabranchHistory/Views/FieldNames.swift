/// The properties that decide which objects are in some views: those that before-images have to put back.
struct FieldNames {
    /// By the names of the classes, beside the primary keys.
    private(set) var byClass: [[UInt8]: Set<[UInt8]>] = [:]

    /// Adds those that decide about a view. None is ever taken away: a view that is behind may need what one that has
    /// changed since does not.
    mutating func add(_ view: ClientView) {
        for className in view.queries.classNames {
            let fields = view.queries[className].fields.union(view.role[className].read.fields)
            byClass[className, default: []].formUnion(fields)
        }
    }
}
