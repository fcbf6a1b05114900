package import AnabranchCore
package import AnabranchQuery
package import AnabranchRules

/// The queries of a client: one for each class of which it wants objects (`Spec/FlexibleSync.md`).
package struct ViewQueries: Sendable {
    /// By the names of the classes, as the client has sent them.
    package let predicates: Predicates
    private let queries: [[UInt8]: Query]

    /// The largest number of classes that a client can ask for objects of.
    static let classesMax = 1_000

    /// The queries that ask for no objects.
    package static let empty = ViewQueries(predicates: [:], queries: [:])

    private init(predicates: Predicates, queries: [[UInt8]: Query]) {
        self.predicates = predicates
        self.queries = queries
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
        var queries: [[UInt8]: Query] = [:]
        for className in predicates.keys.sorted() {
            queries[Array(className.utf8)] = try queryableFields.query(
                subscribingTo: className.text, where: predicates[className]?.text ?? "", of: state)
        }
        self.init(predicates: predicates, queries: queries)
    }

    /// Reads queries that were accepted once: a class whose query is not acceptable any more has no objects.
    init(accepted predicates: Predicates, in state: ObjectGraph) {
        var queries: [[UInt8]: Query] = [:]
        for (className, text) in predicates {
            queries[Array(className.utf8)] = try? Query(subscribingTo: className.text, where: text.text, of: state)
        }
        self.init(predicates: predicates, queries: queries)
    }

    /// The names of the classes that there are queries of.
    var classNames: some Sequence<[UInt8]> { queries.keys }

    subscript(className: [UInt8]) -> ObjectFilter { queries[className].map { .matching($0) } ?? .none }
}
