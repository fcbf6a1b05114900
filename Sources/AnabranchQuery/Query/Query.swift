public import AnabranchCore

/// A query on one class of a state: which objects fulfil it, and its canonical text (`Spec/Query.md`).
///
///     let query = try Query("age >= 18 and name BEGINSWITH[c] 'jo'", on: "Person", of: graph)
///     let people = try query.objects(in: graph)
///
/// A value. It remains valid for later states as long as the properties that it names are there.
public struct Query: Sendable {
    /// The class that the query was checked against.
    public let schema: ClassSchema
    /// The options, with the meaning of links.
    public let options: QueryOptions
    /// The text in which clients send the query: made from the parsed query, not a copy of its source (`Spec/Query.md`,
    /// section 8).
    public let canonicalText: String
    let condition: Condition
    var suffixes: [BoundSuffix]

    /// Reads a text and checks it against a class.
    ///
    /// - Parameters:
    ///   - className: without the prefix that a database gives its table.
    ///   - arguments: the arguments for `$0`, `$1` …
    /// - Throws: `QueryError` with the place in the text.
    public init(
        _ text: String, on className: String, of source: some ObjectSource, _ arguments: [QueryArgument] = [],
        options: QueryOptions = QueryOptions()
    ) throws(QueryError) {
        guard let schema = source.schema(ofClass: Array(className.utf8)) else {
            throw QueryError(.query, at: 0, "there is no class \"\(String(excerptOf: Array(className.utf8)))\"")
        }
        try self.init(try ParsedQuery(text), on: schema, of: source, arguments, options: options)
    }

    /// Checks a query that was read against a class.
    ///
    /// - Throws: `QueryError` of the kinds `query` and `unavailable`, and of the kind `syntax` for errors that are
    ///   found late: bad base64, and seconds and nanoseconds of different signs.
    public init(
        _ parsed: ParsedQuery, on schema: ClassSchema, of source: some ObjectSource, _ arguments: [QueryArgument] = [],
        options: QueryOptions = QueryOptions()
    ) throws(QueryError) {
        try self.init(parsed, Binder(source: source, options: options, arguments: arguments, schema: schema))
    }

    init(_ parsed: ParsedQuery, _ binder: Binder) throws(QueryError) {
        schema = binder.schema
        options = binder.options
        condition = try binder.condition(parsed.predicate)
        suffixes = try binder.suffixes(parsed.suffixes)
        let writer = CanonicalText(classes: binder.classes)
        canonicalText = writer.text(of: condition) + suffixes.map(writer.text).joined()
    }

    private init(_ condition: Condition, _ suffixes: [BoundSuffix], of query: Query, text: String) {
        schema = query.schema
        options = query.options
        self.condition = condition
        self.suffixes = suffixes
        canonicalText = text
    }

    /// Creates a query from a filter on a class, with links as in subscriptions. Conditions that no predicate can
    /// express stand in the canonical text as the filter has them.
    ///
    /// - Throws: `QueryError` of the kind `query` where the class lacks a field that the filter names, or has one that
    ///   a predicate of it does not fit; `refused` where a predicate names links.
    public init(_ filter: Filter, on schema: ClassSchema, of source: some ObjectSource) throws(QueryError) {
        self.schema = schema
        options = QueryOptions(links: .keys)
        condition = try Condition(filter, on: schema, of: source)
        suffixes = []
        canonicalText = CanonicalText(classes: KnownClasses(source)).text(of: condition)
    }

    /// Creates a query for every object of a class, or none.
    package init(always isTrue: Bool, on schema: ClassSchema) {
        self.schema = schema
        options = QueryOptions(links: .keys)
        condition = .always(isTrue)
        suffixes = []
        canonicalText = isTrue ? "TRUEPREDICATE" : "FALSEPREDICATE"
    }

    /// This query on the objects that fulfil the predicate of another one on the same class, which has the same meaning
    /// of links.
    public func restricted(by other: Query) -> Query {
        let text = "(\(canonicalText)) and (\(other.canonicalText))"
        return Query(.and([condition, other.condition]), suffixes, of: self, text: text)
    }

    // MARK: Evaluation

    /// True if an object of the class fulfils the predicate; the suffixes do not count.
    ///
    /// - Throws: `QueryError` of the kind `unavailable` when objects cannot be read, and `limit` when this takes longer
    ///   than `QueryLimits.looksMax` allows.
    public func matches(_ object: StateObject, in source: some ObjectSource) throws(QueryError) -> Bool {
        try matcher(in: source).matches(object)
    }

    /// Asks the predicate about many objects of a source: what that needs is made once.
    package func matcher(in source: some ObjectSource) -> QueryMatcher {
        QueryMatcher(evaluation: Evaluation(source: source, options: options), condition: condition)
    }

    /// The objects that fulfil the query: in the order of their keys, unless it says another one.
    ///
    /// - Throws: `QueryError` of the kind `unavailable` when objects cannot be read, and `limit` when this takes longer
    ///   for one of them than `QueryLimits.looksMax` allows.
    public func objects(in source: some ObjectSource) throws(QueryError) -> [StateObject] {
        try objects(in: source, looksMax: QueryLimits.looksMax)
    }

    func objects(in source: some ObjectSource, looksMax: Int) throws(QueryError) -> [StateObject] {
        let evaluation = Evaluation(source: source, options: options, looksMax: looksMax)
        var found: [StateObject] = []
        var failure: QueryError?
        do throws(ApplyError) {
            try source.forEachObject(of: schema.number) { object throws(ApplyError) in
                do throws(QueryError) {
                    if try evaluation.matches(object, condition) { found.append(object) }
                } catch {
                    failure = error
                    // No further object is read.
                    throw ApplyError.unavailable(error.reason)
                }
            }
        } catch {
            throw failure ?? QueryError(error)
        }
        for suffix in suffixes { found = try suffix.applied(to: found, in: evaluation) }
        return found
    }
}

/// The predicate of a query and the source of the objects that it is asked about.
package struct QueryMatcher {
    fileprivate let evaluation: Evaluation
    fileprivate let condition: Condition

    /// True if an object of the class fulfils the predicate.
    ///
    /// - Throws: as `Query.matches`.
    package func matches(_ object: StateObject) throws(QueryError) -> Bool {
        try evaluation.matches(object, condition)
    }
}
