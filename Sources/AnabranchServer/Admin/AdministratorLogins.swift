package import AnabranchCore
import AnabranchHistory
import Logging
package import NIOHTTP1

/// The log-ins of users to pages for people. They are sessions in the account store: they end with the user's other
/// logins when the operator revokes those, disables the user or sets another password, and outlive a restart.
extension AdminAccess {
    /// The reason why somebody is not let in.
    package struct LogInRefusal: Error {
        /// The status of the answer.
        package let status: HTTPResponseStatus
        package let code: String
        package let message: String
    }

    /// Checks an e-mail address and a password as a login to an app does, with the same limits, and begins a session.
    /// The address of anybody else takes as long as a wrong password, and is refused in the same words.
    /// - Parameters:
    ///   - body: `username` and `password`.
    ///   - administrators: the idents of the users who may log in here.
    ///   - seconds: the duration of the session.
    /// - Returns: the ident of the session.
    package func logIn(
        _ body: JSONValue, among administrators: Set<String>, from address: String?, for seconds: UInt64
    ) async throws(LogInRefusal) -> String {
        do throws(HTTPError) {
            return try await logIn(body.object ?? [:], administrators, address, seconds)
        } catch {
            endpoints.logger.notice(
                "request refused",
                metadata: [
                    "status": "\(error.status.code)", "error": "\(error.code)", "reason": "\(error.message)",
                    "remote": "\(address ?? "unknown")", "path": "/log-in",
                ])
            throw LogInRefusal(status: error.status, code: error.code, message: error.message)
        }
    }

    private func logIn(
        _ body: [String: JSONValue], _ administrators: Set<String>, _ address: String?, _ seconds: UInt64
    ) async throws(HTTPError) -> String {
        guard let services = authenticator as? AppServices else {
            throw HTTPError(
                status: .forbidden, code: "Forbidden", message: "this server knows no users who could log in")
        }
        try services.checkRate(of: address)
        let email = try AppServices.email(in: body, "username")
        let known = try await endpoints.accounts { accounts throws(AccountError) -> User? in
            for ident in administrators.sorted() {
                if let user = try accounts.user(ident), user.identity(withEmail: email) != nil { return user }
            }
            return nil
        }
        // No app has this name: what follows hashes all the same.
        let app = known.map(\.app) ?? ""
        let (user, secret) = try await services.checkPassword(body, in: app, from: address)
        guard administrators.contains(user.ident) else { throw AppServices.invalidPassword }
        try services.require(.emailPassword, in: app)
        guard !user.isDisabled else {
            throw HTTPError(status: .unauthorized, code: "UserDisabled", message: "user disabled")
        }
        let now = endpoints.server.unixSeconds()
        let session = LoginSession(
            ident: RandomText.hexadecimal(bytes: 12), user: user.ident, provider: Provider.emailPassword.rawValue,
            createdAt: now, expiresAt: now + seconds)
        try await services.store { accounts throws(AccountError) in try accounts.add(session, by: secret) }
        endpoints.logger.audit(
            "log-in", "logged in to the inspector",
            ["app": "\(user.app)", "user": "\(user.ident)", "by": "\(user.ident) from \(address ?? "unknown")"])
        return session.ident
    }

    /// The user of a session.
    /// - Returns: nil if the session is over, or its user is disabled; also if the accounts cannot be read now.
    package func user(ofLogin session: String) async -> String? {
        let found = try? await endpoints.accounts { accounts throws(AccountError) in try accounts.session(session) }
        guard let (session, user) = found, session.expiresAt > endpoints.server.unixSeconds(),
            !user.isDisabled
        else { return nil }
        return user.ident
    }

    /// Ends a session.
    /// - Returns: false if the accounts cannot be written now.
    package func endLogin(_ session: String) async -> Bool {
        let ended: Void? = try? await endpoints.accounts { accounts throws(AccountError) in
            try accounts.removeSession(session)
        }
        return ended != nil
    }
}
