import AnabranchCore
import Crypto
import CryptoExtras
import Foundation

/// A key and the one algorithm that it is used with (RFC 7518, section 3).
struct TokenKey: Sendable {
    private enum Material {
        case secret(SymmetricKey)
        case rsa(_RSA.Signing.PublicKey)
        case p256(P256.Signing.PublicKey)
    }

    /// `kid` of the tokens that the key signs.
    let ident: String?
    private let material: Material

    /// A key for HS256.
    init(ident: String?, secret: [UInt8]) {
        self.ident = ident
        material = .secret(SymmetricKey(data: secret))
    }

    /// `alg` of the tokens that the key signs.
    var algorithm: String {
        switch material {
        case .secret: "HS256"
        case .rsa: "RS256"
        case .p256: "ES256"
        }
    }

    /// True if the signature is this key's.
    func verify(_ signature: [UInt8], signs bytes: [UInt8]) -> Bool {
        switch material {
        case .secret(let key):
            HMAC<SHA256>.isValidAuthenticationCode(signature, authenticating: bytes, using: key)
        case .rsa(let key):
            key.isValidSignature(
                _RSA.Signing.RSASignature(rawRepresentation: signature), for: SHA256.hash(data: bytes),
                padding: .insecurePKCS1v1_5)
        case .p256(let key):
            (try? P256.Signing.ECDSASignature(rawRepresentation: signature))
                .map { key.isValidSignature($0, for: bytes) } ?? false
        }
    }

    /// Signs with a secret.
    /// - Throws: an error for the public keys of others, which sign nothing.
    func sign(_ bytes: [UInt8]) throws(TokenError) -> [UInt8] {
        guard case .secret(let key) = material else { throw TokenError("a public key signs nothing") }
        return Array(HMAC<SHA256>.authenticationCode(for: bytes, using: key))
    }

    /// The keys of a file: a set (RFC 7517), or public keys in PEM, which have no names.
    /// - Throws: `FileError`, as for a set.
    static func keys(ofFile bytes: some Collection<UInt8>, at path: String) throws -> [TokenKey] {
        let text = String(decoding: bytes, as: UTF8.self)
        guard text.contains("-----BEGIN "), text.first(where: { !$0.isWhitespace }) != "{" else {
            return try keys(in: bytes, of: path)
        }
        return try text.matches(of: /-----BEGIN [^-]+-----[^-]*-----END [^-]+-----/).enumerated().map { number, key in
            do { return try TokenKey(pem: String(key.output)) } catch {
                throw FileError(path, "key \(number + 1): \(error)")
            }
        }
    }

    /// A public key: RSA of at least 2048 bits for RS256, or P-256 for ES256.
    private init(pem: String) throws(TokenError) {
        ident = nil
        if let key = try? _RSA.Signing.PublicKey(pemRepresentation: pem) {
            material = .rsa(key)
        } else if let key = try? P256.Signing.PublicKey(pemRepresentation: pem) {
            material = .p256(key)
        } else {
            throw TokenError("no public key of RSA with at least 2048 bits, or of P-256")
        }
    }

    /// The keys of a set (RFC 7517) that can be used.
    /// - Parameter name: the name of the set, for errors.
    /// - Throws: `FileError`, also for a key that is malformed or too weak, which it names.
    static func keys(in text: some Collection<UInt8>, of name: String) throws -> [TokenKey] {
        guard let entries = try? JSONValue(parsing: text)["keys"]?.array else {
            throw FileError(name, "not a set of JSON web keys")
        }
        return try entries.enumerated().compactMap { number, entry in
            do { return try TokenKey(entry) } catch {
                let ident = entry["kid"]?.string.map { ", \(String(excerptOf: $0.utf8))" } ?? ""
                throw FileError(name, "key \(number + 1)\(ident): \(error)")
            }
        }
    }

    /// A public key of a JWKS file (RFC 7517): RSA of at least 2048 bits for RS256, P-256 for ES256, or at least 32
    /// secret bytes for HS256. If the key names an algorithm, it must be this one.
    /// - Returns: nil if the key is for something else: a set may contain such keys.
    /// - Throws: if the key is for one of these algorithms, but malformed or too weak.
    init?(_ jwk: JSONValue) throws(TokenError) {
        if let use = jwk["use"], use != "sig" { return nil }
        let algorithmOfType = ["RSA": "RS256", "EC": "ES256", "oct": "HS256"]
        guard let type = jwk["kty"]?.string, let algorithm = algorithmOfType[type] else { return nil }
        if let named = jwk["alg"], named != .string(algorithm) { return nil }
        if type == "EC", jwk["crv"] != "P-256" { return nil }

        func bytes(_ member: String, atLeast countMin: Int) throws(TokenError) -> [UInt8] {
            guard let bytes = jwk[member]?.string.flatMap({ Base64URL.decode($0.utf8) }), bytes.count >= countMin
            else { throw TokenError("too short or no Base64url") }
            return bytes
        }
        ident = jwk["kid"]?.string
        switch type {
        case "oct": material = .secret(SymmetricKey(data: try bytes("k", atLeast: 32)))
        case "RSA":
            let (modulus, exponent) = try (bytes("n", atLeast: 256), bytes("e", atLeast: 1))
            guard let key = try? _RSA.Signing.PublicKey(n: modulus, e: exponent) else {
                throw TokenError("no public key of RSA with at least 2048 bits and an odd exponent above 1")
            }
            material = .rsa(key)
        default:
            let (x, y) = try (bytes("x", atLeast: 32), bytes("y", atLeast: 32))
            guard let key = try? P256.Signing.PublicKey(rawRepresentation: x + y) else {
                throw TokenError("no point of P-256")
            }
            material = .p256(key)
        }
    }
}
