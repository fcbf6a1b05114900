import AnabranchCore
import AnabranchHistory
import AnabranchProtocol

/// The present state of a connection.
struct ConnectionReport: Sendable {
    /// Host and port of the client, if they are known.
    let remote: String?
    let principal: Principal
    let protocolVersion: String
    let release: ClientRelease
    let sessions: [SessionReport]
}

/// The present state of a session.
struct SessionReport: Sendable {
    /// The client's name for the session.
    let ident: SessionID
    let path: VirtualPath
    /// 0 until the client has named its file.
    let clientIdent: ClientFileID
}
