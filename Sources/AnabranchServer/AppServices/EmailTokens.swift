import AnabranchCore
import AnabranchHistory
import Crypto

/// Tokens that travel by e-mail. Nothing is stored for them: each is signed, and good for one purpose, one user and the
/// password that the user had. A token that resets a password is worthless once it is used.
struct EmailTokens: Sendable {
    let keys: KeyFile
    let issuer: String

    /// - Parameter identity: the user's, with an e-mail address.
    func issue(
        _ kind: AccountEmail.Kind, _ user: User, _ identity: Identity, now: Int64, seconds: Int64
    ) async throws -> String {
        let claims: [String: JSONValue] = [
            "aud": .string(user.app), "exp": .integer(now + seconds), "iss": .string(issuer),
            "sub": .string(user.ident), "typ": .string(Self.type(kind)), "was": .string(Self.digest(of: identity)),
        ]
        guard let key = await keys.keys().first else { throw TokenError("there is no key") }
        return try JSONWebToken.sign(claims, with: key)
    }

    /// The one of the user's identities that a token of this kind was issued for. Its password must not have changed.
    func identity(
        of text: String, _ kind: AccountEmail.Kind, _ user: User, now: Int64
    ) async throws(TokenError) -> Identity {
        let token = try JSONWebToken(text)
        guard token.keyIdent != nil else { throw TokenError("no key named") }
        let claims = try token.verify(with: await keys.keys())
        guard try claims.text("iss") == issuer, try claims.text("typ") == Self.type(kind) else {
            throw TokenError("another kind of token")
        }
        guard try claims.text("aud").hasBytes(of: user.app), try claims.text("sub").hasBytes(of: user.ident) else {
            throw TokenError("of another user")
        }
        try claims.checkTimes(now: now)
        let digest = try claims.text("was")
        guard let identity = user.emailIdentities.first(where: { Self.digest(of: $0) == digest }) else {
            throw TokenError("used, or of another password")
        }
        return identity
    }

    /// The type of a token. It differs from those of session tokens, so that neither passes for the other.
    private static func type(_ kind: AccountEmail.Kind) -> String { "email-\(kind.rawValue)" }

    /// A digest that changes with the password, even if the same one is chosen again: stored passwords are salted.
    private static func digest(of identity: Identity) -> String {
        Base64URL.encode(SHA256.hash(data: Array("\(identity.name)\n\(identity.secret ?? "")".utf8)))
    }
}
