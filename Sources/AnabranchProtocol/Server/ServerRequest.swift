import AnabranchCore

/// Names one session for the caller. It is never used again, unlike the ident, so that an answer that comes too late
/// cannot be taken for an answer to the session's successor.
public struct SessionHandle: Hashable, Sendable {
    /// The client's name for the session.
    public let ident: SessionID
    /// How many sessions the connection has had, this one included.
    let serial: UInt64
}

extension ServerConnection {
    /// What a message of the client asks the caller to do.
    public enum Request: Equatable, Sendable {
        /// A session begins. The caller finds the server-side file and, if the client needs one, allocates a file ident
        /// (`fileIdentAllocated`). An impossible partition value is refused by `fail` with 204.
        case open(SessionHandle, BindRequest)
        /// IDENT: to be answered by `identAccepted`, `fail`, or, if another session of this connection has bound the
        /// file, `failConnection` with 108.
        case check(SessionHandle, IdentRequest)
        /// UPLOAD: to be integrated, or refused by `fail`. It can come while the check of the IDENT is under way: the
        /// order has to be kept, and if the check fails the UPLOAD is void.
        case integrate(SessionHandle, UploadMessage)
        /// UNBIND: the session's hold on its file ends now. There is nothing to answer.
        case detach(SessionHandle)
        /// The client could not integrate a DOWNLOAD: for the log. With an answer, which is on its way, the session is
        /// over and its hold on the file ends.
        case clientFailed(SessionHandle, code: Int, text: String, answer: ErrorMessage?)
        /// The client broke the rules: all sessions are over, and their hold on files ends. The error is on its way.
        case connectionFailed(ProtocolError)
    }

    /// What a connection has to do next in order to say what it has to say.
    public enum Output: Equatable, Sendable {
        /// Send this.
        case message(EncodedMessage)
        /// Scan the log from here on and answer by `downloadReady`, or by `fail`.
        case scan(SessionHandle, from: DownloadCursor)
        /// Send this and nothing after it, read and discard until the client leaves, and give up after
        /// `Limits.softCloseMillisecondsMax`.
        case lastMessage(EncodedMessage)
        /// Close with this WebSocket close code, and then the socket: all that can be said to a client below version 4.
        case close(code: UInt16)
    }
}
