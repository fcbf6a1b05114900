import AnabranchCore

/// Refuses whatever flexible sync does not allow in subscriptions (`Spec/Query.md`, section 9) and in rules, as soon as
/// it is found, without a look at what it leads to.
struct SubscriptionRules {
    var queryableFields: Set<String>?
    /// True if a path may end at links.
    var allowsLinks = true

    func refuse(_ reason: String, at offset: Int) throws(QueryError) {
        throw QueryError(.refused, at: offset, reason)
    }

    /// Checks a path. It may lead through embedded objects.
    func check(_ path: BoundPath, at offset: Int) throws(QueryError) {
        for (index, step) in path.steps.enumerated() {
            switch step {
            case .backlinks: try refuse("@links is not allowed", at: offset)
            case .link(let property, _):
                let isEnd = path.endsAtObjects && index == path.steps.count - 1
                if !property.isEmbedded, !isEnd || !allowsLinks {
                    let what = allowsLinks ? "paths through links" : "links"
                    try refuse("\(what) to other objects are not allowed", at: offset)
                }
            }
        }
        guard let queryableFields, let first = path.firstProperty, !first.isKey,
            !queryableFields.contains(exactly: String(decoding: first.name, as: UTF8.self))
        else { return }
        try refuse("key \"\(String(excerptOf: first.name))\" is not a queryable field", at: offset)
    }

    func checkAggregate(over path: BoundPath, at offset: Int) throws(QueryError) {
        guard case .link(let property, _) = path.steps.last, !property.isEmbedded else { return }
        try refuse("aggregates over linked objects are not allowed", at: offset)
    }
}
