import AnabranchCore
import AnabranchProtocol
import NIOCore

/// Requests of the rest of the server to a connection. Everything here is called on the connection's event loop.
extension SyncHandler {
    var sessionCount: Int { connection.sessionCount }

    /// The present state of the connection.
    func report() -> ConnectionReport {
        ConnectionReport(
            remote: handshake.remote, principal: handshake.principal,
            protocolVersion: handshake.negotiation.element, release: handshake.negotiation.release,
            sessions: connection.report())
    }

    /// The login that the connection depends on; nil if there is none, or the connection is about to close.
    var login: String? { isLive ? handshake.principal.login : nil }

    func belongs(to user: String) -> Bool { handshake.principal.user.hasBytes(of: user) }

    /// Ends sessions without any permission, after permissions have changed.
    func recheckPermissions() {
        guard let context, isLive else { return }
        connection.recheckPermissions()
        submitRequests()
        send(context)
    }

    /// Closes the connection since the login has ended. A new client tries to fetch another token, is refused that as
    /// well, and logs its user out.
    func endLogin() { refuseToken(because: "the login has ended") }

    /// Closes the connection since the user's token is out of date. A new client fetches another one and comes back at
    /// once.
    func renewToken() { refuseToken(because: "the user's data have changed") }

    /// Closes the connection because of its token. A client that came without a login has no other token to fetch.
    private func refuseToken(because reason: String) {
        let isRenewable = !handshake.negotiation.usesOldCloseStyle && handshake.principal.login != nil
        close(isRenewable ? .tokenRefused : politeCloseCode, because: reason)
    }

    /// Closes the connection; its client connects again.
    func disconnect() { close(politeCloseCode, because: "the operator") }

    /// Ends the session of that name; its client opens it again, or deletes its local file.
    /// - Returns: whether there was one.
    func disconnect(session: SessionID, deletingLocalFile: Bool) -> Bool {
        guard let context, isLive, connection.disconnect(session: session, deletingLocalFile: deletingLocalFile)
        else { return false }
        submitRequests()
        send(context)
        return true
    }
}
