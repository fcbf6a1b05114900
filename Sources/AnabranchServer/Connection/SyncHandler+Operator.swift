import AnabranchCore
import AnabranchProtocol
import NIOCore

/// What the rest of the server asks of a connection. Everything here is called on the connection's event loop.
extension SyncHandler {
    var sessionCount: Int { connection.sessionCount }

    /// What the connection is doing.
    func report() -> ConnectionReport {
        ConnectionReport(
            remote: handshake.remote, principal: handshake.principal,
            protocolVersion: handshake.negotiation.element, release: handshake.negotiation.release,
            sessions: connection.report())
    }

    /// The login that the connection depends on; nil if there is none, or the connection is about to close.
    var login: String? { isLive ? handshake.principal.login : nil }

    func belongs(to user: String) -> Bool { handshake.principal.user == user }

    /// Permissions have changed: sessions without any permission end.
    func recheckPermissions() {
        guard let context, isLive else { return }
        connection.recheckPermissions()
        submitRequests()
        send(context)
    }

    /// The login has ended. A new client fetches another token, is refused that as well, and logs its user out.
    func endLogin() {
        close(handshake.negotiation.usesOldCloseStyle ? politeCloseCode : .tokenRefused, because: "the login has ended")
    }

    /// Closes the connection; its client connects again.
    func disconnect() { close(politeCloseCode, because: "the operator") }

    /// Ends the session of that name; its client opens it again.
    /// - Returns: whether there was one.
    func disconnect(session: SessionID) -> Bool {
        guard let context, isLive, connection.disconnect(session: session) else { return false }
        submitRequests()
        send(context)
        return true
    }
}
