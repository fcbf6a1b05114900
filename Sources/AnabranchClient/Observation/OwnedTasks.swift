import Synchronization

/// Tasks that belong to objects, and end when these are released or no longer want them.
package final class OwnedTasks: Sendable {
    private struct Owned {
        weak var owner: (any AnyObject & Sendable)?
        var tasks: [Task<Void, Never>]
    }

    private let owned = Mutex<[ObjectIdentifier: Owned]>([:])

    package init() {}

    /// Carries out `body` for each element until the owner is released, or `end` is called.
    /// - Parameter next: the next element; nil at the end.
    package func add<Element: Sendable>(
        _ owner: any AnyObject & Sendable, _ next: sending @escaping () async throws -> Element?,
        _ body: @escaping @Sendable (Element) -> Void
    ) {
        let isOwned: @Sendable () -> Bool = { [weak owner] in owner != nil }
        let task = Task {
            while let element = try? await next(), isOwned(), !Task.isCancelled { body(element) }
        }
        let ended = owned.withLock { owned in
            let gone = owned.filter { $0.value.owner == nil }
            for key in gone.keys { owned[key] = nil }
            owned[ObjectIdentifier(owner), default: Owned(owner: owner, tasks: [])].tasks.append(task)
            return gone.values.flatMap(\.tasks)
        }
        for task in ended { task.cancel() }
    }

    /// Ends the tasks of an owner. A call that is under way still completes.
    package func end(of owner: AnyObject) {
        for task in owned.withLock({ $0.removeValue(forKey: ObjectIdentifier(owner)) })?.tasks ?? [] { task.cancel() }
    }

    /// Ends all tasks.
    package func end() {
        let all = owned.withLock { owned in
            defer { owned = [:] }
            return owned.values.flatMap(\.tasks)
        }
        for task in all { task.cancel() }
    }
}
