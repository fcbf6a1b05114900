import AnabranchCore
import AnabranchHistory

/// Issues and reads the server's own tokens. An access token is valid for a short time; a refresh token is exchanged
/// for access tokens as long as its session lasts (`Spec/Protocol.md`, sections 1.5 and 8.8).
struct SessionTokens: Sendable {
    enum Kind: String {
        case access, refresh
    }

    /// The session that a token belongs to.
    struct Claims: Equatable, Sendable {
        let user: String
        let session: String
        let app: String
    }

    /// The longest custom data that is put into tokens, in bytes. Tokens have to stay short.
    static let customDataBytesMax = 2 << 10

    let keys: KeyFile
    let issuer: String
    let accessSeconds: Int64

    /// Issues a token. Clients abort if `exp` or `iat` is not an integer.
    func issue(_ kind: Kind, _ session: LoginSession, _ user: User, now: Int64) async throws -> String {
        let sessionEnd = Int64(clamping: session.expiresAt)
        let expiry = kind == .access ? min(now + accessSeconds, sessionEnd) : sessionEnd
        var claims: [String: JSONValue] = [
            "aud": .string(user.app), "exp": .integer(expiry), "iat": .integer(now), "iss": .string(issuer),
            "sid": .string(session.ident), "sub": .string(user.ident), "typ": .string(kind.rawValue),
        ]
        if kind == .access, user.customData.utf8.count <= Self.customDataBytesMax {
            claims["user_data"] = (try? JSONValue(parsing: user.customData.utf8)) ?? [:]
        }
        guard let key = await keys.keys().first else { throw TokenError("there is no key") }
        return try JSONWebToken.sign(claims, with: key)
    }

    /// The claims of a genuine token. The existence of its session is not checked here.
    func read(_ text: String, as kind: Kind, now: Int64) async throws(TokenError) -> Claims {
        let token = try JSONWebToken(text)
        // The server's own tokens always name their key.
        guard token.keyIdent != nil else { throw TokenError("no key named") }
        let claims = try token.verify(with: await keys.keys())
        guard try claims.text("iss") == issuer else { throw TokenError("another issuer") }
        guard try claims.text("typ") == kind.rawValue else { throw TokenError("another kind of token") }
        guard try claims.time("iat") != nil else { throw TokenError("no time of issue") }
        try claims.checkTimes(now: now)
        return Claims(user: try claims.text("sub"), session: try claims.text("sid"), app: try claims.text("aud"))
    }
}
