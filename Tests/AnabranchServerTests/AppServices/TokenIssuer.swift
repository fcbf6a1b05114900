import AnabranchCore
import Crypto
import CryptoExtras
import Foundation

@testable import AnabranchServer

/// An issuer with one key of each kind in a file, which goes with it.
final class TokenIssuer {
    let path: String
    let rsa: _RSA.Signing.PrivateKey
    let ecdsa = P256.Signing.PrivateKey()
    let secret = [UInt8](repeating: 9, count: 32)

    init() throws {
        path = FileManager.default.temporaryDirectory.appendingPathComponent("jwks-\(UUID().uuidString)").path
        rsa = try _RSA.Signing.PrivateKey(keySize: .bits2048)
        try write(keys)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    var keys: [JSONValue] {
        get throws {
            let numbers = try rsa.publicKey.getKeyPrimitives()
            let point = ecdsa.publicKey.rawRepresentation
            return [
                [
                    "kty": "RSA", "kid": "r", "alg": "RS256", "use": "sig",
                    "n": .string(Base64URL.encode(numbers.modulus)),
                    "e": .string(Base64URL.encode(numbers.publicExponent)),
                ],
                [
                    "kty": "EC", "kid": "e", "crv": "P-256", "x": .string(Base64URL.encode(point.prefix(32))),
                    "y": .string(Base64URL.encode(point.suffix(32))),
                ],
                ["kty": "oct", "kid": "h", "alg": "HS256", "k": .string(Base64URL.encode(secret))],
                ["kty": "RSA", "kid": "for encryption", "use": "enc"],
            ]
        }
    }

    func write(_ keys: [JSONValue]) throws {
        let draft = path + ".new"
        try JSONValue.object(["keys": .array(keys)]).encoded.write(
            toFile: draft, atomically: false, encoding: .utf8)
        guard rename(draft, path) == 0 else { throw FileError.last(path) }
    }

    func token(_ kid: String, alg: String, _ changes: [String: JSONValue] = [:], now: UInt64) throws -> String {
        let claims: [String: JSONValue] = [
            "sub": "customer 7", "aud": "demo", "iss": "https://id.example.com", "exp": .integer(Int64(now) + 60),
        ]
        let header: JSONValue = ["alg": .string(alg), "kid": .string(kid)]
        let payload = JSONValue.object(claims.merging(changes) { $1 })
        let signed = Base64URL.encode(header.encoded.utf8) + "." + Base64URL.encode(payload.encoded.utf8)
        let bytes = Array(signed.utf8)
        let signature: [UInt8]
        switch alg {
        case "RS256":
            signature = Array(try rsa.signature(for: bytes, padding: .insecurePKCS1v1_5).rawRepresentation)
        case "ES256": signature = Array(try ecdsa.signature(for: bytes).rawRepresentation)
        // With the secret that is asked for, or with the text of a public key, as in the well-known attack.
        default:
            let key = kid == "h" ? secret : Array(rsa.publicKey.pemRepresentation.utf8)
            signature = Array(HMAC<SHA256>.authenticationCode(for: bytes, using: SymmetricKey(data: key)))
        }
        return signed + "." + Base64URL.encode(signature)
    }
}
