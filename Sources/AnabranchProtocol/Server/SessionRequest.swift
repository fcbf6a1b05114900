public import AnabranchCore

/// Names one session for the caller. It is never used again, unlike the ident, so that an answer that comes too late
/// cannot be taken for an answer to the session's successor.
public struct SessionHandle: Hashable, Sendable {
    /// The client's name for the session.
    public let ident: SessionID
    /// The ordinal number of the session among those of the connection, from 1 on.
    let serial: UInt64
}

/// A request of a session to its synced file. The requests of one session must be handled in their order, except for
/// scans, which may come later; the answer, if there is one, is a `SessionEvent`.
public enum SessionRequest: Equatable, Sendable {
    /// BIND: the session begins. The caller finds the server-side file by the partition value; `failed` with 204
    /// refuses an impossible one. If the client's file needs an ident, the answer is `fileIdentAllocated`.
    case open(BindRequest)
    /// IDENT, in flexible sync with the active subscription set: the answer is `identAccepted` or `failed`, with 108 if
    /// another session of this connection has bound the client file. Scans then show what the set means: steady state,
    /// or a bootstrap of the same version.
    ///
    /// A client whose last connection was lost within a bootstrap keeps the parts that it has, and would take them for
    /// parts of the next one; it drops them when an error 200 makes it begin its session again on the same connection.
    /// `hasRestarted` says that this has just happened: nothing is left from earlier connections.
    case identify(IdentRequest, hasRestarted: Bool)
    /// QUERY of flexible sync. It keeps its order among the UPLOADs: those before it are checked against the previous
    /// set. The file takes the new set as the client's view, in a commit that gives the bootstrap a server version of
    /// its own, and announces that with `versionExposed`; scans that go beyond that version return the bootstrap. Or it
    /// answers `queryRefused`. If another QUERY has followed by then, the bootstrap of that one serves for both. It can
    /// come before the answer to the IDENT; if that is `failed`, the QUERY is dropped.
    case query(SubscriptionSet)
    /// UPLOAD: to be integrated, or refused by `failed`. It can come before the answer to the IDENT; if that is
    /// `failed`, the UPLOAD is dropped.
    case integrate(UploadMessage)
    /// Make the DOWNLOAD that follows this cursor in the log: the answer is `download` or `failed`. In flexible sync it
    /// is `flexibleDownload`, which says whether it is steady state or the first part of a bootstrap.
    case scan(from: DownloadCursor)
    /// Make the next part of a bootstrap that has begun, 1 being the second one; `from` is the cursor before the first.
    /// The answer is `flexibleDownload` with that part, with steady state that comes before the bootstrap in the log,
    /// or with the first part of the bootstrap of a later QUERY; or it is `failed`.
    case scanBootstrap(QueryVersion, part: Int, from: DownloadCursor)
    /// CLIENT_VERSION_REQUEST, which no client of today sends: it asks how much of a client file was integrated. The
    /// answer is `clientVersion`.
    case clientVersion(SaltedFileID)
    /// MARK, where the file may have versions that the connection does not know of, because other nodes write it: the
    /// answer is `newestVersion`, with the newest version by then.
    case newestVersion
    /// UNBIND, or an error that the file does not know of: the session's hold on it ends now. There is no answer.
    case close
}

/// An event of the synced file of a session. Everything that an event tells of is durable (`Spec/History.md`, section
/// 10).
public enum SessionEvent: Equatable, Sendable {
    /// The ident of the client's new file.
    case fileIdentAllocated(SaltedFileID)
    /// The IDENT passed its check: the session runs, from this cursor on. `exposedVersion` is the newest server
    /// version.
    case identAccepted(DownloadCursor, exposedVersion: ServerVersion)
    /// There are server versions up to this one. It may come at any time, and in any order.
    case versionExposed(ServerVersion)
    /// The DOWNLOAD that `scan` requested. One that ends before the previous one did ends the session with 201.
    case download(DownloadProgress, EncodedBody)
    /// The DOWNLOAD of flexible sync that `scan` or `scanBootstrap` requested. One that no client would survive ends
    /// the session with 201: a bootstrap that was not requested, is older than another one, or has no changeset;
    /// compensating writes that are not in the message; a cursor that goes back.
    case flexibleDownload(FlexibleDownload)
    /// The answer to `query`: the set cannot be served, and the view stays as it was. If the client no longer waits for
    /// the set, it gets no answer.
    case queryRefused(QueryRefusal)
    /// The answer to the request of that name: 0 if there is no such client file for the user of the session.
    case clientVersion(ClientVersion)
    /// The answer to the request of that name.
    case newestVersion(ServerVersion)
    /// A line for the client's log; clients below version 10 get nothing.
    case log(LogMessage)
    /// The file has released the session. A code of 200 … 299 ends the session, one of 100 … 199 the connection.
    case failed(ErrorMessage)
    /// Another connection has bound the client file, so this connection is presumed dead. It ends without a message,
    /// and the caller closes the socket.
    case superseded
}

extension ServerConnection {
    /// A task that a message of the client sets the caller.
    public enum Action: Equatable, Sendable {
        /// To be passed on to the session's file.
        case ask(SessionHandle, SessionRequest)
        /// The client could not integrate a DOWNLOAD, which is to be logged. If there is an answer, it is on its way,
        /// the session is over, and its hold on the file ends.
        case clientFailed(SessionHandle, code: Int, text: String, answer: ErrorMessage?)
        /// The client broke the rules: all sessions are over, and their hold on files ends. The error is on its way.
        case connectionFailed(ProtocolError)
    }

    /// The next thing that a connection has to do in order to send its messages.
    public enum Output: Equatable, Sendable {
        /// Send this.
        case message(EncodedMessage)
        /// Pass the request on to the session's file: the answer makes a message, unless the session releases the file
        /// first.
        case ask(SessionHandle, SessionRequest)
        /// Send this and nothing after it, read and discard until the client leaves, and give up after
        /// `Limits.softCloseMillisecondsMax`.
        case lastMessage(EncodedMessage)
        /// Close with this WebSocket close code, and then the socket: all that can be said to a client below version 4.
        case close(code: UInt16)
    }
}
