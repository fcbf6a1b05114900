import AnabranchCore
import AnabranchHistory
import Crypto
import CryptoExtras
import Foundation
import Testing

@testable import AnabranchServer

/// Tokens that look right and are not: none opens a door, and none gets into the log (`Spec/Protocol.md`, section 8.8).
@Suite struct BadTokenTests {
    /// A genuine token of a user, and what is needed to forge others.
    private struct Workshop {
        let key: TokenKey
        let claims: [String: JSONValue]
        let genuine: String
        let refresh: String
        let now: Int64

        var parts: [String] { genuine.split(separator: ".").map(String.init) }

        init(_ rig: AppServicesRig) async throws {
            let login = try await rig.newUser("ann@example.com")
            key = try #require(await rig.services.tokens.keys.keys().first)
            genuine = login.access
            refresh = login.refresh
            now = Int64(rig.clock.now)
            let payload = try #require(Base64URL.decode(genuine.split(separator: ".")[1].utf8))
            claims = try #require(try JSONValue(parsing: payload).object)
        }

        /// Signed with the right key, with other claims.
        func with(_ changes: [String: JSONValue?]) throws -> String {
            var claims = claims
            for (name, value) in changes { claims[name] = value }
            return try JSONWebToken.sign(claims, with: key)
        }

        static let absent: JSONValue? = nil

        func without(_ name: String) throws -> String { try with([name: Self.absent]) }

        /// Signed with the right key, whatever header and payload are.
        func signed(header: String, payload: String? = nil) throws -> String {
            let payload = payload ?? JSONValue.object(claims).encoded
            let signed = Base64URL.encode(header.utf8) + "." + Base64URL.encode(payload.utf8)
            return signed + "." + Base64URL.encode(try key.sign(Array(signed.utf8)))
        }

        func header(_ changes: [String: JSONValue?]) throws -> String {
            var header: [String: JSONValue] = ["alg": "HS256", "typ": "JWT", "kid": .string(key.ident ?? "")]
            for (name, value) in changes { header[name] = value }
            return try signed(header: JSONValue.object(header).encoded)
        }
    }

    /// Letters with accents are fewer characters than bytes: no part of a token is left out.
    @Test func aPlainTokenIsMadeOfDigits() async throws {
        try await AppServicesRig.run { rig async throws in
            let session = String(repeating: "a", count: 24)
            for rest in [String(repeating: "0", count: 40), String(repeating: "\u{301}", count: 20)] {
                let admission = await rig.services.admit(plainToken: session + rest, app: "demo")
                guard case .tokenRefused(let reason) = admission else { throw TokenError("it was admitted") }
                #expect(reason == "it is no token of this server")
            }
        }
    }

    private typealias Forgery = (name: String, token: String)

    private static func forgeries(_ shop: Workshop, otherKey: TokenKey) throws -> [Forgery] {
        try wrongHeaders(shop) + wrongTimes(shop) + wrongNames(shop) + wrongForms(shop)
            + wrongSignatures(shop, otherKey)
    }

    private static func wrongHeaders(_ shop: Workshop) throws -> [Forgery] {
        let kid = shop.key.ident ?? "", parts = shop.parts
        let unsigned = Base64URL.encode(#"{"alg":"none","typ":"JWT"}"#.utf8) + "." + parts[1] + "."
        let changes: [(String, [String: JSONValue?])] = [
            ("alg None", ["alg": "None"]), ("alg HS512", ["alg": "HS512"]), ("alg hs256", ["alg": "hs256"]),
            ("alg RS256", ["alg": "RS256"]), ("alg ES256", ["alg": "ES256"]), ("alg a number", ["alg": 256]),
            ("alg null", ["alg": .some(.null)]), ("no alg", ["alg": Workshop.absent]),
            ("unknown key", ["kid": "other"]),
            ("no key named", ["kid": Workshop.absent]), ("key ident a number", ["kid": 1]),
            ("key ident empty", ["kid": ""]), ("key ident a path", ["kid": "../../dev/null"]),
            ("crit", ["crit": ["exp"]]),
            ("crit empty", ["crit": []]), ("b64 and crit", ["crit": ["b64"], "b64": false]),
            ("another type", ["typ": "JWE"]), ("type a number", ["typ": 1]),
        ]
        var forgeries: [Forgery] = try changes.map { ($0.0, try shop.header($0.1)) }
        forgeries.append(("alg none, no signature", unsigned))
        forgeries.append(("alg none, old signature", unsigned + parts[2]))
        forgeries.append(("header no object", try shop.signed(header: "[]")))
        forgeries.append(("header no JSON", try shop.signed(header: "{")))
        forgeries.append(("alg twice", try shop.signed(header: #"{"alg":"none","alg":"HS256","kid":"\#(kid)"}"#)))
        return forgeries
    }

    private static func wrongTimes(_ shop: Workshop) throws -> [Forgery] {
        let changes: [(String, [String: JSONValue?])] = [
            ("no exp", ["exp": Workshop.absent]), ("exp past", ["exp": .integer(shop.now - 1)]),
            ("exp now", ["exp": .integer(shop.now)]), ("exp huge", ["exp": .integer(.max)]),
            ("exp beyond 64 bits", ["exp": .real(1e30)]), ("exp negative", ["exp": -1]),
            ("exp a text", ["exp": "1900000000"]), ("exp a fraction", ["exp": .real(1_900_000_000.5)]),
            ("exp null", ["exp": .some(.null)]), ("exp true", ["exp": true]), ("exp a list", ["exp": [1_900_000_000]]),
            ("no iat", ["iat": Workshop.absent]), ("iat future", ["iat": .integer(shop.now + 61)]),
            ("iat a text", ["iat": "1"]), ("iat negative", ["iat": -1]),
            ("nbf future", ["nbf": .integer(shop.now + 61)]),
            ("nbf a text", ["nbf": "0"]),
        ]
        return try changes.map { ($0.0, try shop.with($0.1)) }
    }

    private static func wrongNames(_ shop: Workshop) throws -> [Forgery] {
        let changes: [(String, [String: JSONValue?])] = [
            ("wrong iss", ["iss": "anabranch.example.com"]), ("no iss", ["iss": Workshop.absent]),
            ("iss a list", ["iss": ["anabranch"]]), ("no aud", ["aud": Workshop.absent]), ("aud empty", ["aud": ""]),
            ("another app's aud", ["aud": "other"]), ("aud a list", ["aud": ["demo"]]),
            ("no sub", ["sub": Workshop.absent]), ("sub of nobody", ["sub": "0123456789abcdef01234567"]),
            ("sub a number", ["sub": 1]), ("sub null", ["sub": .some(.null)]), ("no session", ["sid": Workshop.absent]),
            ("another session", ["sid": "abc"]), ("no kind", ["typ": Workshop.absent]),
            ("unknown kind", ["typ": "admin"]),
        ]
        return try changes.map { ($0.0, try shop.with($0.1)) } + [("the refresh token", shop.refresh)]
    }

    private static func wrongForms(_ shop: Workshop) throws -> [Forgery] {
        let parts = shop.parts, header = #"{"alg":"HS256","kid":"\#(shop.key.ident ?? "")"}"#
        let twice = #"{"sub":"admin","# + JSONValue.object(shop.claims).encoded.dropFirst()
        let noText = Base64URL.encode([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])
        return [
            ("empty", ""), ("one part", "abc"), ("two parts", parts[0] + "." + parts[1]),
            ("four parts", shop.genuine + ".abc"), ("dots", ".."), ("many dots", String(repeating: ".", count: 8000)),
            ("sub twice", try shop.signed(header: header, payload: twice)),
            ("payload no object", try shop.signed(header: header, payload: "7")),
            ("payload not UTF-8", parts[0] + "." + noText + "." + parts[2]),
            ("padding", shop.genuine + "="), ("padded header", parts[0] + "=." + parts[1] + "." + parts[2]),
            ("bits left over", String(shop.genuine.dropLast()) + withBitsLeftOver(parts[2])),
            ("standard alphabet", parts[0] + "." + parts[1] + "." + inStandardAlphabet(parts[2])),
            ("space before", "%20" + shop.genuine), ("line feed inside", parts[0] + "%0a." + parts[1] + "." + parts[2]),
            ("Bearer", "Bearer%20" + shop.genuine),
            ("8 KiB + 1", try shop.with(["pad": .string(String(repeating: "x", count: JSONWebToken.bytesMax))])),
        ]
    }

    private static func wrongSignatures(_ shop: Workshop, _ otherKey: TokenKey) throws -> [Forgery] {
        let parts = shop.parts
        let unsigned = parts[0] + "." + parts[1] + "."
        let changed = (parts[2].hasPrefix("A") ? "B" : "A") + parts[2].dropFirst()
        return [
            ("no signature", unsigned), ("truncated signature", String(shop.genuine.dropLast(4))),
            ("signature one character short", String(shop.genuine.dropLast())),
            ("signature of another key", try JSONWebToken.sign(shop.claims, with: otherKey)),
            ("signature changed", unsigned + changed),
            ("signature of another token", unsigned + shop.refresh.split(separator: ".")[2]),
        ]
    }

    /// The last character of 32 bytes has two bits to spare; another value of them stands for the same bytes.
    private static func withBitsLeftOver(_ signature: String) -> String {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
        let value = alphabet.firstIndex { $0 == signature.last } ?? 0
        return String(alphabet[value | 1])
    }

    private static func inStandardAlphabet(_ signature: String) -> String {
        let standard = String(signature.map { $0 == "-" ? "+" : $0 == "_" ? "/" : $0 })
        return standard == signature ? "+" + signature.dropFirst() : standard
    }

    @Test func noForgeryOpensADoorOrGetsIntoTheLog() async throws {
        try await AppServicesRig.run { rig async throws in
            let shop = try await Workshop(rig)
            let otherKey = TokenKey(ident: shop.key.ident, secret: [UInt8](repeating: 7, count: 32))
            let forgeries = try Self.forgeries(shop, otherKey: otherKey)
            #expect(forgeries.count >= 60)
            #expect(Set(forgeries.map(\.token)).count == forgeries.count)
            for (name, token) in forgeries {
                let admission = await rig.services.admit(Credentials(app: "demo", token: token, address: nil))
                guard case .tokenRefused = admission else {
                    Issue.record("\(name): \(admission)")
                    continue
                }
                #expect(try await rig.handshakeOutcome(token: token) == (101, 4001), "\(name)")
                let profile = try await rig.request("GET", "/api/client/v2.0/auth/profile", token: token)
                #expect([400, 401].contains(profile.status), "\(name)")
            }
            #expect(try await rig.handshakeOutcome(token: shop.genuine) == (101, 1000))
            let log = rig.log.text
            let refusals = log.split(separator: "\n").filter { $0.hasPrefix("notice connection refused") }
            #expect(refusals.count == forgeries.count)
            #expect(refusals.allSatisfy { $0.contains(#""reason": "#) && $0.contains(#""remote": "#) })
            for token in forgeries.map(\.token) + [shop.genuine, shop.refresh] {
                // The signature is what makes a token worth stealing.
                for part in token.split(separator: ".") where part.utf8.count > 20 {
                    #expect(!log.contains(part))
                }
            }
        }
    }

    /// What the handshake refuses, the session endpoint does not issue again, or the client would run in a circle.
    @Test func aGenuineTokenOfAnotherAppIsNoReasonToRefresh() async throws {
        try await AppServicesRig.run { rig async throws in
            let login = try await rig.newUser("ann@example.com", app: "other")
            let admission = await rig.services.admit(Credentials(app: "demo", token: login.access, address: nil))
            if case .userRefused(reason: "the token is for the app other") = admission { return }
            Issue.record("\(admission)")
        }
    }

    @Test func tokensAreLimited() async throws {
        try await AppServicesRig.run { rig async throws in
            let shop = try await Workshop(rig), bytesMax = JSONWebToken.bytesMax
            let bare = try shop.with(["pad": ""]), padding = (bytesMax - bare.utf8.count) * 3 / 4
            // Four characters stand for three bytes: not every length can be had.
            let tokens = try (padding - 3...padding + 3).map { count in
                try shop.with(["pad": .string(String(repeating: "x", count: count))])
            }
            let longest = try #require(tokens.last { $0.utf8.count <= bytesMax })
            let tooLong = try #require(tokens.first { $0.utf8.count > bytesMax })
            #expect(longest.utf8.count >= bytesMax - 1)
            for token in [longest, tooLong] {
                let admission = await rig.services.admit(Credentials(app: "demo", token: token, address: nil))
                if case .admitted = admission { #expect(token == longest) } else { #expect(token == tooLong) }
            }
        }
    }

    // MARK: Somebody else's tokens

    private static let login = "/api/client/v2.0/app/demo/auth/providers/custom-token/login"

    private static func settings(_ issuer: TokenIssuer) -> AppServicesSettings {
        var settings = AppServicesRig.development
        settings.apps["demo"] = AppSettings(
            providers: [.customToken],
            issuer: CustomTokenIssuer(jwks: issuer.path, issuer: "https://id.example.com"))
        return settings
    }

    @Test func tokensOfAnIssuerLogIn() async throws {
        let issuer = try TokenIssuer()
        try await AppServicesRig.run(Self.settings(issuer)) { rig async throws in
            var users: Set<String> = []
            for (kid, alg) in [("r", "RS256"), ("e", "ES256"), ("h", "HS256")] {
                let token = try issuer.token(kid, alg: alg, now: rig.clock.now)
                let login = try AppServicesRig.Login(try await rig.post(Self.login, ["token": .string(token)]))
                users.insert(login.user)
            }
            #expect(users.count == 1)
            let list = try issuer.token("h", alg: "HS256", ["aud": ["a", "demo"]], now: rig.clock.now)
            #expect(try await rig.post(Self.login, ["token": .string(list)]).status == 200)
        }
    }

    @Test func badTokensOfAnIssuerDoNot() async throws {
        let issuer = try TokenIssuer()
        try await AppServicesRig.run(Self.settings(issuer)) { rig async throws in
            let now = rig.clock.now
            let bad: [(String, String)] = [
                ("HS256 with the RSA public key", try issuer.token("r", alg: "HS256", now: now)),
                ("ES256 named as RSA", try issuer.token("r", alg: "ES256", now: now)),
                ("unknown key", try issuer.token("x", alg: "RS256", now: now)),
                ("for encryption", try issuer.token("for encryption", alg: "RS256", now: now)),
                ("wrong aud", try issuer.token("r", alg: "RS256", ["aud": "other"], now: now)),
                ("aud with a number", try issuer.token("r", alg: "RS256", ["aud": ["demo", 1]], now: now)),
                ("wrong iss", try issuer.token("r", alg: "RS256", ["iss": "https://id.example.org"], now: now)),
                ("no sub", try issuer.token("r", alg: "RS256", ["sub": .null], now: now)),
                (
                    "long sub",
                    try issuer.token("r", alg: "RS256", ["sub": .string(String(repeating: "s", count: 256))], now: now)
                ),
                ("NUL in sub", try issuer.token("r", alg: "RS256", ["sub": "customer 7\0"], now: now)),
                ("past", try issuer.token("r", alg: "RS256", now: now - 61)),
                ("nbf future", try issuer.token("e", alg: "ES256", ["nbf": .integer(Int64(now) + 61)], now: now)),
            ]
            for (name, token) in bad {
                let answer = try await rig.post(Self.login, ["token": .string(token)])
                #expect(answer.status == 401, "\(name)")
                #expect(!rig.log.text.contains(token), "\(name)")
            }
        }
    }

    @Test func keysOfAnIssuerAreReadAgain() async throws {
        let issuer = try TokenIssuer()
        try await AppServicesRig.run(Self.settings(issuer)) { rig async throws in
            let token: JSONValue = ["token": .string(try issuer.token("r", alg: "RS256", now: rig.clock.now))]
            #expect(try await rig.post(Self.login, token).status == 200)
            try issuer.write(Array(try issuer.keys.dropFirst()))
            #expect(try await rig.post(Self.login, token).status == 401)
            try issuer.write([])
            let other: JSONValue = ["token": .string(try issuer.token("e", alg: "ES256", now: rig.clock.now))]
            #expect(try await rig.post(Self.login, other).status == 200, "an unusable file leaves things as they are")
        }
    }
}
