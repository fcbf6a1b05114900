public import AnabranchCore
public import AnabranchHistory
public import Foundation
import Synchronization

extension SyncServer {
    /// Writes to the state of a synced file in the name of the server (`Spec/History.md`, section 17). Clients that
    /// have the file open download it at once. It is durable when the call returns.
    ///
    /// - Parameters:
    ///   - path: the file; it is made if there is none. Partition `P` of app `A` has the path `A/P`; clients of the
    ///     bare protocol have an empty app.
    ///   - idempotencyKey: names the write: a second one of the same name in the file does nothing, so it can be
    ///     repeated when nobody knows what became of it.
    ///   - date: when it is made, as the merge rules see it: of two changes to one field the newer one stays.
    ///   - body: makes the transaction, in a turn of the file. Nothing is written if it throws.
    /// - Throws: what `body` throws; `ApplyError` with the place for what makes no sense; `HistoryError` if the server
    ///   does not run or the store is in trouble.
    @discardableResult
    public func write(
        to path: VirtualPath, idempotencyKey: String? = nil, at date: Date = Date(),
        _ body: @escaping @Sendable (WriteTransaction) throws -> Void
    ) async throws -> ServerWrite {
        guard let files = files.withLock({ $0 }) else {
            throw HistoryError(.storeUnusable, "the server does not run")
        }
        let timestamp = ChangesetTime(secondsSince1970: date.timeIntervalSince1970)
        return try await files.write(to: path, idempotencyKey: idempotencyKey, at: timestamp, body)
    }
}
