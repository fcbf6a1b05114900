import AnabranchCore
import Synchronization

/// The bound classes of the state that was read last: most often the next one has the same.
final class ClassCache: Sendable {
    private let last = Mutex<(stamp: SchemaStamp, classes: _BoundClasses)?>(nil)

    func classes(of state: ObjectGraph) -> _BoundClasses {
        let stamp = state.schemaStamp
        if let known = last.withLock({ $0 }), known.stamp == stamp { return known.classes }
        let classes = _BoundClasses(state.classes)
        last.withLock { $0 = (stamp, classes) }
        return classes
    }

    /// The class of a schema in a transaction; nil if there is none.
    func bound(_ schema: ObjectSchema, in transaction: WriteTransaction) throws(ObjectError) -> BoundClass? {
        try classes(stamp: transaction.schemaStamp) { transaction.state }.bound(schema)
    }

    /// The class of a schema in a transaction; nil unless it and all classes that it leads to have everything that is
    /// declared.
    func complete(
        _ schema: ObjectSchema, in transaction: WriteTransaction
    ) throws -> (BoundClass, _BoundClasses)? {
        let classes = classes(stamp: transaction.schemaStamp) { transaction.state }
        guard let bound = try classes.bound(schema), try classes.areComplete(schema) else { return nil }
        return (bound, classes)
    }

    private func classes(stamp: SchemaStamp, _ state: () -> ObjectGraph) -> _BoundClasses {
        if let known = last.withLock({ $0 }), known.stamp == stamp { return known.classes }
        return classes(of: state())
    }
}
