import AnabranchCore
import Crypto
import Foundation
import JWTKit

/// A key and the one algorithm that it is used with.
struct TokenKey: Sendable {
    /// `kid` of the tokens that the key signs.
    let ident: String?
    let algorithm: any JWTAlgorithm

    /// HS256.
    init(ident: String?, secret: [UInt8]) async throws {
        self.ident = ident
        algorithm = try await JWTKeyCollection()
            .add(hmac: HMACKey(key: SymmetricKey(data: secret)), digestAlgorithm: .sha256).getKey()
    }

    /// The keys of a set (RFC 7517) that can be used.
    /// - Parameter name: of the set, for errors.
    /// - Throws: `FileError`, or `TokenError` for a key that is malformed or too weak.
    static func keys(in text: some Collection<UInt8>, of name: String) async throws -> [TokenKey] {
        guard let entries = try? JSONValue(parsing: text)["keys"]?.array else {
            throw FileError(name, "not a set of JSON web keys")
        }
        var keys: [TokenKey] = []
        for entry in entries {
            if let key = try await TokenKey(entry) { keys.append(key) }
        }
        return keys
    }

    /// A public key of a JWKS file (RFC 7517): RSA of at least 2048 bits for RS256, P-256 for ES256, or at least 32
    /// secret bytes for HS256. If the key names an algorithm, it must be this one.
    /// - Returns: nil if the key is for something else: a set may contain such keys.
    /// - Throws: if the key is for one of these algorithms, but malformed or too weak.
    init?(_ jwk: JSONValue) async throws {
        if let use = jwk["use"], use != "sig" { return nil }
        let algorithmOfType = ["RSA": "RS256", "EC": "ES256", "oct": "HS256"]
        guard let type = jwk["kty"]?.string, let algorithm = algorithmOfType[type] else { return nil }
        if let named = jwk["alg"], named != .string(algorithm) { return nil }
        if type == "EC", jwk["crv"] != "P-256" { return nil }

        func bytes(_ member: String, atLeast countMin: Int) throws(TokenError) -> [UInt8] {
            guard let bytes = jwk[member]?.string.flatMap({ Base64URL.decode($0.utf8) }), bytes.count >= countMin
            else { throw TokenError("a key is too short or no Base64url") }
            return bytes
        }
        let ident = jwk["kid"]?.string
        switch type {
        case "oct":
            try await self.init(ident: ident, secret: try bytes("k", atLeast: 32))
            return
        case "RSA": _ = try (bytes("n", atLeast: 256), bytes("e", atLeast: 1))
        default: _ = try (bytes("x", atLeast: 32), bytes("y", atLeast: 32))
        }
        // Only the public members, and any `kid`: the collection takes no key without one.
        var members = (jwk.object ?? [:]).filter { ["kty", "crv", "n", "e", "x", "y"].contains($0.key) }
        members["alg"] = .string(algorithm)
        members["kid"] = "-"
        let key = try JSONDecoder().decode(JWK.self, from: Data(JSONValue.object(members).encoded.utf8))
        self.init(ident: ident, algorithm: try await JWTKeyCollection().add(jwk: key).getKey())
    }

    private init(ident: String?, algorithm: any JWTAlgorithm) {
        self.ident = ident
        self.algorithm = algorithm
    }
}
