import AnabranchCore
import Foundation
import Logging

/// Verifies the tokens of another issuer with which users log in (`custom-token`).
struct CustomTokenVerifier: Sendable {
    private enum Keys: Sendable {
        case file(WatchedFile<[TokenKey]>)
        case url(FetchedKeys)
    }

    private let keys: Keys
    private let issuer: String?
    private let audience: String
    /// True if the configuration names the audience.
    let namesAudience: Bool

    /// Reads the keys of a file. A URL that cannot be read now is tried again at a login.
    /// - Parameter now: seconds since 1970.
    /// - Throws: `FileError` if a file, or the settings of a URL, cannot be used.
    init(_ issuer: CustomTokenIssuer, app: String, logger: Logger, now: Int64) async throws {
        self.issuer = issuer.issuer
        audience = issuer.audience ?? app
        namesAudience = issuer.audience != nil
        if issuer.isURL {
            let fetched = try FetchedKeys(url: issuer.jwks, authority: issuer.authority, logger: logger)
            await fetched.refresh(now: now)
            keys = .url(fetched)
        } else {
            let path = issuer.jwks
            keys = .file(
                try await WatchedFile(path, logger: logger) {
                    guard let bytes = FileManager.default.contents(atPath: path) else {
                        throw FileError(path, "not a set of JSON web keys")
                    }
                    let keys = try TokenKey.keys(ofFile: bytes, at: path)
                    guard !keys.isEmpty else { throw FileError(path, "no key for RS256, ES256 or HS256") }
                    return keys
                })
        }
    }

    /// - Returns: the claims of a token of the issuer, whose times are not checked. If it names an audience, or has to,
    ///   it is for this app.
    func claims(of token: JSONWebToken, needsAudience: Bool, now: Int64) async throws(TokenError) -> TokenClaims {
        let verified =
            switch keys {
            case .file(let file): try token.verify(with: await file.value())
            case .url(let fetched): try token.verify(with: try await fetched.keys(naming: token.keyIdent, now: now))
            }
        let claims = verified.ofIssuer
        if let issuer {
            guard try claims.text("iss").hasBytes(of: issuer) else { throw TokenError("another issuer") }
        }
        guard claims.isFor(audience) || (!needsAudience && claims.members["aud"] == nil) else {
            throw TokenError("for somebody else")
        }
        return claims
    }

    /// - Returns: the name by which the issuer knows the user.
    func subject(of text: String, now: Int64) async throws(TokenError) -> String {
        let claims = try await claims(of: try JSONWebToken(text), needsAudience: true, now: now)
        try claims.checkTimes(now: now)
        return try claims.subject("sub")
    }
}
