import AnabranchCore

// MARK: - From the client

/// A message of a client (`Spec/Protocol.md`, section 4). It is well formed and its numbers are in range; whether it
/// is in order is for `ServerConnection` to say.
public enum ClientMessage: Equatable, Sendable {
    case bind(session: SessionID, BindRequest)
    case ident(session: SessionID, IdentRequest)
    case upload(session: SessionID, UploadMessage)
    case mark(session: SessionID, request: UInt64)
    case unbind(session: SessionID)
    /// Milliseconds of the client's monotonic clock, and the duration of the exchange before.
    case ping(timestamp: Int64, roundTripMilliseconds: UInt64)
    /// JSON_ERROR: the client could not integrate a DOWNLOAD. The code may be any number, the text is JSON.
    case error(session: SessionID, code: Int, text: ArraySlice<UInt8>)
    /// Only clients built for tests send it, and they may be left without an answer.
    case testCommand(session: SessionID)
}

/// BIND: a session begins.
public struct BindRequest: Equatable, Sendable {
    /// Selects the server-side file: opaque bytes, possibly empty, never to be used as the name of a file.
    public var partition: [UInt8]
    /// The client's file is new and wants an ident.
    public var needsFileIdent: Bool
}

/// UPLOAD: changesets of the client, and progress of its scan even if there are none.
public struct UploadMessage: Equatable, Sendable {
    /// How far the client's scan of its own log has come.
    public var progress: UploadCursor
    /// The client refers to no history at or below the lower of this and `progress.serverVersion`.
    public var lockedVersion: ServerVersion
    /// The changesets, still in the message that they came in.
    public var entries: UploadEntries

    /// What the message says, in arrays of its own: the message itself can go.
    public var upload: Upload {
        Upload(progress: progress, lockedVersion: lockedVersion, changesets: Array(entries))
    }
}

// MARK: - From the server

/// A message of the server (`Spec/Protocol.md`, section 5).
public enum ServerMessage: Sendable {
    case ident(session: SessionID, SaltedFileID)
    case download(session: SessionID, DownloadProgress, DownloadBody)
    case mark(session: SessionID, request: UInt64)
    case unbound(session: SessionID)
    case pong(timestamp: Int64)
    /// Session 0 is the connection.
    case log(session: SessionID, LogMessage)
    /// JSON_ERROR; session 0 is the connection.
    case error(session: SessionID, ErrorMessage)
}
