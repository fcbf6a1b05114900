package import AnabranchCore
package import AnabranchQuery
package import AnabranchRules

/// The queries of a client: one for each class of which it wants objects (`Spec/FlexibleSync.md`).
package struct ViewQueries: Sendable {
    /// By the names of the classes, as the client has sent them.
    package let predicates: Predicates
    private let filters: [[UInt8]: ObjectFilter]

    /// The largest number of classes that a client can ask for objects of.
    static let classesMax = 1_000

    /// The queries that ask for no objects.
    package static let empty = ViewQueries(predicates: [:], filters: [:])

    private init(predicates: Predicates, filters: [[UInt8]: ObjectFilter]) {
        self.predicates = predicates
        self.filters = filters
    }

    /// Reads the queries of a client.
    ///
    /// - Parameters:
    ///   - queryableFields: the properties that queries may use.
    /// - Throws: `QueryError` with the text for the client.
    package init(
        _ predicates: Predicates, in state: ObjectGraph, queryableFields: QueryableFields = QueryableFields()
    ) throws(QueryError) {
        guard predicates.count <= Self.classesMax else {
            throw QueryError(.limit, at: 0, "Invalid query: more than \(Self.classesMax) classes")
        }
        var filters: [[UInt8]: ObjectFilter] = [:]
        for className in predicates.keys.sorted() {
            filters[Array(className.utf8)] = ObjectFilter(
                try queryableFields.query(
                    subscribingTo: className.text, where: predicates[className]?.text ?? "", of: state))
        }
        self.init(predicates: predicates, filters: filters)
    }

    /// Reads queries that were accepted once: a class whose query is not acceptable any more has no objects.
    init(accepted predicates: Predicates, in state: ObjectGraph) {
        var filters: [[UInt8]: ObjectFilter] = [:]
        for (className, text) in predicates {
            let query = try? Query(subscribingTo: className.text, where: text.text, of: state)
            filters[Array(className.utf8)] = query.map { ObjectFilter($0) }
        }
        self.init(predicates: predicates, filters: filters)
    }

    /// The names of the classes that there are queries of.
    var classNames: some Sequence<[UInt8]> { filters.keys }

    subscript(className: [UInt8]) -> ObjectFilter { filters[className] ?? .none }
}
