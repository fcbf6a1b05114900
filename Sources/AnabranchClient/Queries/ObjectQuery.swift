import AnabranchCore
import AnabranchQuery

/// A query for objects of a class: a condition, an order and a limit (`Spec/Objects.md`, section 5).
///
///     let open = Chore.where { !$0.isDone && $0.title.contains("milk") }.sorted(by: \.due).limit(20)
///     let tasks = try store.read { try $0.objects(open) }
public struct ObjectQuery<Object: SyncedObject>: Sendable {
    private var predicate: QueryText?
    private var order: [(path: QueryText, isAscending: Bool)] = []
    private var countMax: Int?

    /// All objects of the class, in the order of their keys.
    public init() {}

    /// The objects that fulfil one more condition.
    public func `where`(_ condition: (QueryProperty<Object>) -> some QueryCondition) -> ObjectQuery {
        adding(condition(QueryProperty<Object>(path: .root)).condition.text)
    }

    /// The objects that fulfil one more condition, in the language of `Spec/Query.md`.
    /// - Parameters:
    ///   - text: the condition, such as `title CONTAINS[c] $0 AND due < $1`.
    ///   - values: the values that `$0`, `$1` … stand for.
    public func `where`(_ text: String, _ values: any SyncedValue...) -> ObjectQuery {
        adding(QueryText(text, arguments: values))
    }

    /// The same objects, sorted by the values of a property, after any earlier orders.
    public func sorted(by keyPath: KeyPath<Object, some SyncedValue>, ascending: Bool = true) -> ObjectQuery {
        var sorted = self
        let property = QueryText { () throws(ObjectError) in .text(try Object._name(of: keyPath).queryName) }
        sorted.order.append((property, ascending))
        return sorted
    }

    /// The first objects, at most `count`.
    public func limit(_ count: Int) -> ObjectQuery {
        var limited = self
        limited.countMax = min(max(count, 0), countMax ?? .max)
        return limited
    }

    fileprivate func adding(_ text: QueryText) -> ObjectQuery {
        var query = self
        query.predicate = predicate.map { "(" + $0 + ") AND (" + text + ")" } ?? text
        return query
    }

    /// True if it selects all objects in the order of their keys.
    var isEverything: Bool { predicate == nil && order.isEmpty && countMax == nil }

    /// The query in the language of `Spec/Query.md`.
    var text: QueryText {
        var text = predicate ?? QueryText("TRUEPREDICATE")
        for (index, key) in order.enumerated() {
            text = text + (index == 0 ? " SORT(" : ", ") + key.path + (key.isAscending ? " ASC" : " DESC")
        }
        if !order.isEmpty { text = text + ")" }
        if let countMax { text = text + " LIMIT(\(countMax))" }
        return text
    }

    func query(of source: some ObjectSource) throws(ObjectError) -> Query {
        try text.query(on: Object.className, of: source)
    }

    /// The query in the form that a server accepts (`Spec/Query.md`, section 9).
    func subscriptionText(in source: some ObjectSource) throws(ObjectError) -> String {
        let query = try text.query(on: Object.className, of: source, QueryOptions(links: .keys)).canonicalText
        do throws(QueryError) {
            _ = try Query(subscribingTo: Object.className, where: query, of: source)
        } catch {
            throw ObjectError(.badQuery, error.reason)
        }
        return query
    }
}

extension SyncedObject {
    /// All objects of the class, in the order of their keys.
    public static var all: ObjectQuery<Self> { ObjectQuery() }

    /// The objects that fulfil a condition: `Chore.where { $0.isDone }`.
    public static func `where`(
        _ condition: (QueryProperty<Self>) -> some QueryCondition
    ) -> ObjectQuery<Self> { ObjectQuery().where(condition) }

    /// The objects that fulfil a condition in the language of `Spec/Query.md`; see `ObjectQuery.where`.
    public static func `where`(_ text: String, _ values: any SyncedValue...) -> ObjectQuery<Self> {
        ObjectQuery().adding(QueryText(text, arguments: values))
    }
}
