import AnabranchCore
import Testing

@testable import AnabranchServer

/// The keys of other issuers, in the forms in which programs write them (RFC 7517).
@Suite struct TokenKeyTests {
    private static func keys(_ keys: [JSONValue]) throws -> [TokenKey] {
        try TokenKey.keys(in: Array(JSONValue.object(["keys": .array(keys)]).encoded.utf8), of: "keys.json")
    }

    private static func changed(_ key: JSONValue, _ member: String, _ change: ([UInt8]) -> [UInt8]) throws -> JSONValue
    {
        var members = try #require(key.object)
        let bytes = try #require(members[member]?.string.flatMap { Base64URL.decode($0.utf8) })
        members[member] = .string(Base64URL.encode(change(bytes)))
        return .object(members)
    }

    /// Some programs write numbers with the zero byte of their sign; and public keys that say "sign" exist
    /// (`findings/jwcrypto-public-key-only-signs.sh`).
    @Test func theirSignaturesAreVerified() throws {
        let issuer = try TokenIssuer(), keys = try issuer.keys
        var operations = try #require(keys[0].object)
        operations["key_ops"] = ["sign"]
        let forms = [
            (keys[0], "RS256"), (try Self.changed(keys[0], "n") { [0] + $0 }, "RS256"),
            (try Self.changed(keys[0], "e") { [0] + $0 }, "RS256"), (keys[1], "ES256"), (.object(operations), "RS256"),
        ]
        for (key, algorithm) in forms {
            let kid = try #require(key["kid"]?.string)
            let token = try JSONWebToken(try issuer.token(kid, alg: algorithm, now: 1_000))
            #expect(try token.verify(with: try Self.keys([key])).text("sub") == "customer 7", "\(key)")
            let others = try Self.keys([key]) + (try Self.keys(try TokenIssuer().keys))
            #expect(throws: TokenError("wrong signature")) {
                try token.verify(with: others.filter { $0.ident == kid }.suffix(1))
            }
        }
    }

    @Test func aMalformedKeyIsNamed() throws {
        let keys = try TokenIssuer().keys
        let malformed: [(JSONValue, String)] = [
            (try Self.changed(keys[0], "n") { $0.suffix(128) }, "too short or no Base64url"),
            (try Self.changed(keys[0], "e") { _ in [1] }, "no public key of RSA"),
            (try Self.changed(keys[1], "x") { [0] + $0 }, "no point of P-256"),
            (try Self.changed(keys[1], "y") { $0.dropLast() + [$0[31] ^ 1] }, "no point of P-256"),
            (try Self.changed(keys[2], "k") { $0.dropLast() }, "too short or no Base64url"),
        ]
        for (key, reason) in malformed {
            let kid = try #require(key["kid"]?.string)
            #expect {
                _ = try Self.keys([keys[3], key])
            } throws: {
                "\($0)".hasPrefix("keys.json: key 2, \(kid): \(reason)")
            }
        }
    }
}
