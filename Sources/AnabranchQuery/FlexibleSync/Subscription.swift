import AnabranchCore

// The rules of flexible sync for subscriptions: they may depend only on the contents of the object itself
// (`Spec/Query.md`, section 9).

extension Query {
    /// Reads the query of a subscription: links count as their class and key.
    ///
    /// - Parameter queryableFields: the names of the properties that the query may use; nil for all. The primary key is
    ///   always allowed.
    /// - Throws: `QueryError`, of the kind `refused` for a query that is not allowed here. Its reason is the text for
    ///   clients: `Invalid query: "Class": …`.
    public init(
        subscribingTo className: String, where text: String, of source: some ObjectSource,
        queryableFields: Set<String>? = nil
    ) throws(QueryError) {
        do throws(QueryError) {
            let parsed = try ParsedQuery(text)
            guard let schema = source.schema(ofClass: Array(className.utf8)) else {
                throw QueryError(.query, at: 0, "there is no such class")
            }
            guard schema.kind == .topLevel else {
                throw QueryError(.refused, at: 0, "embedded and asymmetric classes cannot be subscribed to")
            }
            let binder = Binder(
                source: source, options: QueryOptions(links: .keys), schema: schema,
                rules: SubscriptionRules(queryableFields: queryableFields))
            try self.init(parsed, binder)
        } catch {
            let name = String(excerptOf: Array(className.utf8))
            throw QueryError(error.kind, at: error.offset, "Invalid query: \"\(name)\": \(error.reason)")
        }
    }
}
