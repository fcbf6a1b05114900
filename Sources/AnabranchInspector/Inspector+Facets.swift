import AnabranchCore
import AnabranchExplain
import AnabranchQuery
import AnabranchServer

/// Facets: the values that a property has in the objects of a table, the most frequent ones first.
extension Inspector {
    /// How long is counted, in milliseconds.
    static let facetMilliseconds = 150
    /// The most different values that are counted.
    static let facetValuesMax = 10_000
    /// The most values in an answer.
    private static let facetsShown = 30

    func facets(_ query: PageQuery) async throws(PageError) -> String {
        let className = try query.text("class"), field = try query.text("field"), filter = query["filter"]
        let viewer = try await viewer(query)
        return try await reads.read(try query.path(), at: try query.version("at")) { view in
            let schema = try view.schema(className), state = view.state, texts = ValueTexts(of: state)
            guard let property = schema.property(named: Array(field.utf8)), property.collection == .single,
                !property.isEmbedded
            else { throw PageError.noSuch("property with single values") }
            let filter = try filter.map { try Query(filter: $0, on: schema, of: state) }
            let seen = viewer.seen.objects(in: state)
            let end = ContinuousClock.now + .milliseconds(Self.facetMilliseconds)
            var counts: [ExactString: Int] = [:], looked = 0, isComplete = true, failure: (any Error)?
            try state.forEachObject(of: schema.number, after: nil) { object throws(ApplyError) in
                looked += 1
                do {
                    if try filter?.matches(object, in: state) ?? true,
                        try seen.include(object, of: schema.name, in: state)
                    {
                        var text = ValueText.cell
                        counts[ExactString(text.json(of: object.value(of: property), texts)), default: 0] += 1
                    }
                } catch { failure = error }
                isComplete = counts.count < Self.facetValuesMax && (looked & 63 != 0 || ContinuousClock.now < end)
                return isComplete && failure == nil
            }
            if let failure { throw failure }
            let order = counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
            return jsonObject([
                "version": "\(view.version)", "complete": "\(isComplete)", "looked": "\(looked)",
                "different": "\(counts.count)",
                "facets": jsonArray(
                    order.prefix(Self.facetsShown).map { jsonObject(["value": $0.key.text, "count": "\($0.value)"]) }),
            ])
        }
    }
}
