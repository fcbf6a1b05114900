import AnabranchCore
import Foundation
import Logging

/// Verifies the tokens of another issuer with which users log in (`custom-token`).
struct CustomTokenVerifier: Sendable {
    private let keys: WatchedFile<[TokenKey]>
    private let issuer: String?
    private let audience: String

    /// - Parameters:
    ///   - jwksPath: the file with the public keys. It may change while the server runs.
    ///   - issuer: the required value of `iss`; nil if any value will do.
    ///   - audience: the value that `aud` has to be or to contain.
    init(jwksPath: String, issuer: String?, audience: String, logger: Logger) async throws {
        self.issuer = issuer
        self.audience = audience
        keys = try await WatchedFile(jwksPath, logger: logger) {
            guard let bytes = FileManager.default.contents(atPath: jwksPath),
                let entries = try? JSONValue(parsing: bytes)["keys"]?.array
            else { throw FileError(jwksPath, "not a set of JSON web keys") }
            var keys: [TokenKey] = []
            for entry in entries {
                if let key = try await TokenKey(entry) { keys.append(key) }
            }
            guard !keys.isEmpty else { throw FileError(jwksPath, "no key for RS256, ES256 or HS256") }
            return keys
        }
    }

    /// - Returns: the name by which the issuer knows the user.
    func subject(of text: String, now: Int64) async throws(TokenError) -> String {
        let claims = try JSONWebToken(text).verify(with: await keys.value())
        if let issuer {
            guard try claims.text("iss") == issuer else { throw TokenError("another issuer") }
        }
        guard claims.isFor(audience) else { throw TokenError("for somebody else") }
        try claims.checkTimes(now: now)
        let subject = try claims.text("sub")
        guard subject.utf8.count <= 255 else { throw TokenError("the subject is too long") }
        return subject
    }
}
