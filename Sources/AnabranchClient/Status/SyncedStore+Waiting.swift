/// Reads that wait for the server.
extension SyncedStore {
    /// How long a read waits for an object that is not in the store.
    public enum Waiting: Sendable {
        /// Until the store has had everything that the server had, once in its life; then the object does not exist.
        case firstSync
        /// Until everything is here that the server has at the time of the call.
        case download
        /// Until the object exists, no matter who creates it.
        case object
    }

    /// The object with a key: from the store if it is there, else from the server if that can be reached.
    /// - Throws: `SyncIssue`, the one that keeps the store from being synchronized; `SyncError` if no client
    ///   synchronizes it; `ObjectError` with the code `notFound` if there is no such object; `CancellationError`.
    public func get<Object: SyncedObject & Sendable>(
        _ type: Object.Type, _ id: Object.ID, waiting: Waiting
    ) async throws -> Object where Object.ID: Sendable {
        if let object = try find(type, id) { return object }
        let changes = try changes(of: type, id)
        return try await withThrowingTaskGroup(of: Object?.self) { group in
            group.addTask { [issues] in
                for await case .occurred(let issue) in issues { throw issue }
                return nil
            }
            group.addTask { [self] in
                guard status.isRunning else { throw SyncError(.notSynchronized, "no client synchronizes the store") }
                switch waiting {
                case .firstSync: try await wait(for: .firstSync)
                case .download: try await wait(for: .download)
                case .object: for try await _ in changes { if let object = try find(type, id) { return object } }
                }
                return try get(type, id)
            }
            defer { group.cancelAll() }
            while let found = try await group.next() { if let found { return found } }
            throw CancellationError()
        }
    }
}
