/// The result of a local transaction.
public struct WriteResult<Result> {
    /// The value that the closure returned.
    public var result: Result
    /// The recorded changeset, empty if nothing was touched; it can consist of strings alone.
    public var changeset: [UInt8]
    /// The changes of the state, from which the rows to write follow.
    public var changes: StateChanges
    /// The digests of the elements of lists that were changed or erased, in the order of the instructions.
    package var changedElements: [UInt64] = []
}

extension ObjectGraph {
    /// Writes to the state and records how; the state is as before when `body`, or an assignment in it, throws.
    ///
    /// - Parameters:
    ///   - ident: The file ident of the writing client; 0 as long as it has none; 1 is the server's own file.
    ///   - objectBytesMax: How large an object can grow, in bytes; a larger one may shrink (`Spec/State.md`, B11).
    public mutating func write<Result>(
        as ident: ClientFileID, objectBytesMax: Int = .max, _ body: (WriteTransaction) throws -> Result
    ) throws -> WriteResult<Result> {
        let transaction = WriteTransaction(on: self, as: ident, objectBytesMax: objectBytesMax)
        let result = try body(transaction)
        let finished = try transaction.finish()
        self = finished.graph
        changesetBytes += transaction.recorder.bytes.count
        return WriteResult(
            result: result, changeset: transaction.recorder.bytes, changes: finished.changes,
            changedElements: transaction.changedDigests)
    }

    /// Reads the state through the handles of a transaction that refuses to write.
    public func read<Result>(_ body: (WriteTransaction) throws -> Result) throws -> Result {
        let transaction = WriteTransaction(on: self, as: 0, isReadOnly: true)
        let result = try body(transaction)
        _ = try transaction.finish()
        return result
    }
}
