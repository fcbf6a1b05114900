import AnabranchCore
import AnabranchHistory
import AnabranchProtocol

/// What a connection is doing.
struct ConnectionReport: Sendable {
    /// Host and port of the client, if they are known.
    let remote: String?
    let principal: Principal
    let protocolVersion: String
    let release: ClientRelease
    let sessions: [SessionReport]
}

/// What a session is doing.
struct SessionReport: Sendable {
    /// The client's name for the session.
    let ident: SessionID
    let path: VirtualPath
    /// 0 until the client has named its file.
    let clientIdent: ClientFileID
}
