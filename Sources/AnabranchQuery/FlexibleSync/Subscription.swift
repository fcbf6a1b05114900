import AnabranchCore

// What flexible sync allows in subscriptions: only what depends on the contents of the object itself (`Spec/Query.md`,
// section 9).

extension Query {
    /// Reads the query of a subscription: links count as their class and key.
    ///
    /// - Parameter queryableFields: the names of the properties that may be asked for; nil for all. The primary key
    ///   always may.
    /// - Throws: `QueryError`, of the kind `refused` for what is a query but not allowed here. Its reason is the text
    ///   that clients are told: `Invalid query: "Class": …`.
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
            try self.init(parsed, on: schema, of: source, options: QueryOptions(links: .keys))
            try SubscriptionRules(source: source, schema: schema, queryableFields: queryableFields).check(parsed)
        } catch {
            let name = String(excerptOf: Array(className.utf8))
            throw QueryError(error.kind, at: error.offset, "Invalid query: \"\(name)\": \(error.reason)")
        }
    }
}

/// Looks for what is not allowed.
private struct SubscriptionRules {
    let source: any ObjectSource
    let schema: ClassSchema
    let queryableFields: Set<String>?

    func check(_ query: ParsedQuery) throws(QueryError) {
        guard query.suffixes.isEmpty else {
            throw QueryError(.refused, at: 0, "SORT, DISTINCT and LIMIT are not allowed")
        }
        try check(query.predicate)
    }

    private func check(_ predicate: Predicate) throws(QueryError) {
        switch predicate {
        case .always: break
        case .and(let parts), .or(let parts): for part in parts { try check(part) }
        case .not(let inner): try check(inner)
        case .comparison(let comparison):
            try check(comparison.left)
            try check(comparison.right)
        case .between(let operand, _): try check(operand)
        case .geoWithin(let property, _): try check(property.path)
        }
    }

    private func check(_ operand: Operand) throws(QueryError) {
        switch operand {
        case .constant, .list: break
        case .property(let property): try check(property.path)
        case .aggregate(let aggregate):
            let end = try check(aggregate.path)
            if aggregate.property != nil, end?.isEmbedded == false {
                throw refusal(of: aggregate.path, "aggregates over linked objects are not allowed")
            }
        case .arithmetic(_, let left, let right):
            try check(left)
            try check(right)
        case .subquery(let subquery): throw refusal(of: subquery.path, "subqueries are not allowed")
        }
    }

    /// - Returns: the last property of the path.
    @discardableResult
    private func check(_ path: PropertyPath) throws(QueryError) -> Property? {
        guard case .name(let name) = path.steps.first, let first = schema.property(named: name) else {
            throw refusal(of: path, "@links is not allowed")
        }
        let text = String(decoding: name, as: UTF8.self)
        if let queryableFields, !first.isKey, !queryableFields.contains(text) {
            throw refusal(of: path, "key \"\(String(excerptOf: name))\" is not a queryable field")
        }
        var last = first
        for case .name(let name) in path.steps.dropFirst() {
            guard let target = last.target, let next = source.schema(of: target)?.property(named: name) else {
                continue
            }
            guard last.isEmbedded else {
                throw refusal(of: path, "paths through links to other objects are not allowed")
            }
            last = next
        }
        return last
    }

    private func refusal(of path: PropertyPath, _ reason: String) -> QueryError {
        QueryError(.refused, at: path.place.offset, reason)
    }
}
