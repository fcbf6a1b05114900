import AnabranchCore
import AnabranchHistory
import Logging
package import NIOHTTP1

/// Logins for wires whose tokens are plain texts of letters and digits: the ident of the session, and what proves that
/// the server has made it.
extension AppServices {
    /// A login with such a token.
    package struct PlainLogin: Sendable {
        /// 64 hexadecimal digits.
        package let token: String
        /// The ident of the user.
        package let user: String
    }

    /// The reason for which there is no login.
    package struct LoginRefusal: Error, Sendable {
        package let status: HTTPResponseStatus
        /// The error's name, as clients of App Services know it.
        package let code: String

        init(_ error: HTTPError) {
            status = error.status
            code = error.code
        }
    }

    /// Logs in with an e-mail address and a password.
    /// - Parameters:
    ///   - isNew: true to register the user first.
    ///   - address: that of the client.
    package func logIn(
        _ email: String, password: String, to app: String, isNew: Bool, from address: String?
    ) async throws(LoginRefusal) -> PlainLogin {
        do throws(HTTPError) {
            try checkRate(of: address)
            try require(.emailPassword, in: app)
            if isNew {
                try await register(
                    ["email": .string(email), "password": .string(password)], in: app, from: address)
            }
            let (user, secret) = try await checkPassword(
                ["username": .string(email), "password": .string(password)], in: app, from: address)
            guard !user.isDisabled else { throw HTTPError.unauthorized }
            let now = unixSeconds()
            let session = LoginSession(
                ident: RandomText.hexadecimal(bytes: 12), user: user.ident, provider: Provider.emailPassword.rawValue,
                createdAt: now, expiresAt: now + settings.sessionSeconds)
            try await store { accounts throws(AccountError) in try accounts.add(session, by: secret) }
            logger.info(
                "logged in",
                metadata: [
                    "app": "\(user.app)", "user": "\(user.ident)", "provider": "\(session.provider)",
                    "remote": "\(address ?? "unknown")",
                ])
            return PlainLogin(token: try await plainToken(of: session.ident), user: user.ident)
        } catch {
            throw LoginRefusal(error)
        }
    }

    /// Decides about a plain token of an app, whose case does not count.
    package func admit(plainToken token: String, app: String) async -> Admission {
        guard let bytes = Hex.decode(token), bytes.count == 32 else {
            return .tokenRefused(reason: "it is no token of this server")
        }
        let name = String(token.prefix(Self.sessionDigits)), mac = bytes.dropFirst(Self.sessionDigits / 2)
        do {
            let macs = try await tokens.keys.keys().map { try Self.mac(of: name, by: $0) }
            guard macs.contains(where: { zip($0, mac).reduce(0) { $0 | $1.0 ^ $1.1 } == 0 }) else {
                return .tokenRefused(reason: "it is no token of this server")
            }
            let found = try await store { accounts throws(AccountError) in try accounts.session(name) }
            guard let (session, user) = found, session.expiresAt > unixSeconds(), !user.isDisabled else {
                return .tokenRefused(reason: "the login has ended, or the user is disabled")
            }
            guard user.app.lowercased() == app.lowercased(), allowed(in: user.app) != nil else {
                return .userRefused(reason: "the token is for the app \(user.app)")
            }
            return .admitted(Self.principal(of: user, by: session.provider, login: session.ident))
        } catch {
            return .unavailable
        }
    }

    /// Decides about a user for whom somebody else acts, of an app whose case does not count.
    package func admit(ident: String, app: String) async -> Admission {
        do {
            let found = try await store { accounts throws(AccountError) in try accounts.user(ident) }
            guard let user = found, !user.isDisabled, user.app.lowercased() == app.lowercased(),
                allowed(in: user.app) != nil
            else { return .userRefused(reason: "the app has no such user, or the user is disabled") }
            return .admitted(Self.principal(of: user, by: user.identities.first?.provider ?? "", login: nil))
        } catch {
            return .unavailable
        }
    }

    /// The digits of a session's ident.
    private static let sessionDigits = 24

    private func plainToken(of session: String) async throws(HTTPError) -> String {
        do {
            guard let key = await tokens.keys.keys().first else { throw TokenError("there is no key") }
            return session + Hex.encode(try Self.mac(of: session, by: key))
        } catch {
            throw blocking.internalError(error)
        }
    }

    private static func mac(of session: String, by key: TokenKey) throws(TokenError) -> [UInt8] {
        Array(try key.sign(Array("plain token of \(session)".utf8)).prefix(20))
    }
}
