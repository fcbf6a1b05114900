public import AnabranchHistory

/// The reason why a server cannot do what its program asks for.
public enum SyncServerError: Error, Equatable, Sendable, CustomStringConvertible {
    /// `SyncServer.run` was not called yet, or has ended.
    case notRunning
    /// The log has forgotten the transactions that follow the cursor. Read the state, and go on from there.
    case changesForgotten(in: VirtualPath)
    /// The cursor is not of this file's log: the file was deleted, or restored from a backup that is older than the
    /// cursor. Read the state, and go on from there.
    case unknownCursor(in: VirtualPath)

    /// A description of the mistake, and of what to do about it.
    public var description: String {
        switch self {
        case .notRunning: "the server does not run: call run() in a task of its own, and await listening()"
        case .changesForgotten(let path):
            "\(path): the log has forgotten what follows the cursor; read the state and go on from its cursor"
        case .unknownCursor(let path):
            "\(path): the log never had the cursor, since the file was deleted or restored; read the state and go on"
                + " from its cursor"
        }
    }
}
