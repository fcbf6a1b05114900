public import AnabranchCore
public import AnabranchHistory
public import Foundation

extension SyncServer {
    /// Writes to the state of a synced file in the name of the server (`Spec/History.md`, section 17). Clients that
    /// have the file open download it immediately. It is durable when the call returns.
    ///
    /// - Parameters:
    ///   - path: the file, created if it does not exist.
    ///   - date: the time of the write for the merge rules: of two changes to one field the newer one wins.
    ///   - body: makes the changes, in a turn of the file. Nothing is written if it throws.
    /// - Throws: what `body` throws; `ApplyError` with the place for what makes no sense; `SyncServerError` if the
    ///   server does not run; `HistoryError` if the store fails, with the code `noRoom` while the disk or the store is
    ///   full (`ServerSettings.freeBytesMin`, `storeBytesMax`).
    @discardableResult
    public func write<Value: Sendable>(
        to path: VirtualPath, at date: Date = Date(), _ body: @escaping @Sendable (WriteTransaction) throws -> Value
    ) async throws -> CompletedWrite<Value> {
        let made = try await runningFiles().write(to: path, idempotencyKey: nil, at: date.changesetTime, body)
        guard let value = made.value else { preconditionFailure("only a key makes a write a repetition") }
        return CompletedWrite(version: made.version, isRepetition: false, value: value)
    }

    /// Makes a write that takes effect once, however often it is tried: a second one with the same key in the file does
    /// nothing. So it can be repeated when its outcome is unknown.
    ///
    /// - Parameters:
    ///   - path: the file, created if it does not exist.
    ///   - idempotencyKey: the name of the write; nil for none, as when a request lacks such a header. The file
    ///     remembers the newest 10,000 names.
    ///   - date: the time of the write for the merge rules.
    ///   - body: makes the changes. It is not called for a repetition, and nothing is written if it throws.
    /// - Returns: the outcome, without a value for a repetition.
    /// - Throws: as a write without a key.
    @discardableResult
    public func write<Value: Sendable>(
        to path: VirtualPath, idempotencyKey: String?, at date: Date = Date(),
        _ body: @escaping @Sendable (WriteTransaction) throws -> Value
    ) async throws -> CompletedWrite<Value?> {
        try await runningFiles().write(to: path, idempotencyKey: idempotencyKey, at: date.changesetTime, body)
    }
}
