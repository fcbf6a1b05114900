public import AnabranchCore
public import AnabranchHistory
public import Foundation

extension SyncServer {
    /// Writes to the state of a synced file in the name of the server (`Spec/History.md`, section 17). Clients that
    /// have the file open download it at once. It is durable when the call returns.
    ///
    /// - Parameters:
    ///   - path: the file; it is made if there is none.
    ///   - date: when it is made, as the merge rules see it: of two changes to one field the newer one stays.
    ///   - body: makes the transaction, in a turn of the file. Nothing is written if it throws.
    /// - Throws: what `body` throws; `ApplyError` with the place for what makes no sense; `SyncServerError` if the
    ///   server does not run; `HistoryError` if the store fails.
    @discardableResult
    public func write<Value: Sendable>(
        to path: VirtualPath, at date: Date = Date(), _ body: @escaping @Sendable (WriteTransaction) throws -> Value
    ) async throws -> CompletedWrite<Value> {
        let made = try await runningFiles().write(to: path, idempotencyKey: nil, at: date.changesetTime, body)
        guard let value = made.value else { preconditionFailure("only a key makes a write a repetition") }
        return CompletedWrite(version: made.version, isRepetition: false, value: value)
    }

    /// Makes a write that takes effect once, however often it is tried: a second one with the same key in the file does
    /// nothing. So it can be repeated when nobody knows what became of it.
    ///
    /// - Parameters:
    ///   - path: the file; it is made if there is none.
    ///   - idempotencyKey: names the write; nil if it has no name, as where a request has no such header. The file
    ///     remembers the newest 10,000 names.
    ///   - date: when it is made, as the merge rules see it.
    ///   - body: makes the transaction. It is not called for a repetition, and nothing is written if it throws.
    /// - Returns: without a value for a repetition.
    /// - Throws: as a write without a key.
    @discardableResult
    public func write<Value: Sendable>(
        to path: VirtualPath, idempotencyKey: String?, at date: Date = Date(),
        _ body: @escaping @Sendable (WriteTransaction) throws -> Value
    ) async throws -> CompletedWrite<Value?> {
        try await runningFiles().write(to: path, idempotencyKey: idempotencyKey, at: date.changesetTime, body)
    }
}
