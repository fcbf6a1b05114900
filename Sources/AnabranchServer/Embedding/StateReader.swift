public import AnabranchCore

/// The state of a synced file, as `SyncServer.read` passes it on. Use it and its objects only within that call.
public struct StateReader {
    let transaction: WriteTransaction
    /// The end of the log: `SyncServer.changes(in:after:)` goes on with the transactions that follow.
    public let cursor: ChangeCursor

    /// The names of the classes, in the order in which they were added. A file that nobody has written yet has none.
    public var classNames: [String] { transaction.classNames }

    /// The object with a key; nil if there is none.
    /// - Throws: `ApplyError` if there is no such class, or the state cannot be read.
    public func object(_ className: String, key: PrimaryKey) throws(ApplyError) -> DynamicObject? {
        try transaction.object(className, key: key)
    }

    /// The objects of a class in the order of their keys.
    /// - Throws: `ApplyError` if there is no such class, or the state cannot be read.
    public func objects(_ className: String) throws(ApplyError) -> [DynamicObject] {
        try transaction.objects(className)
    }
}
