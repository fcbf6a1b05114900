import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchTesting
import Crypto
import CryptoExtras
import Foundation
import Testing

@testable import AnabranchServer

/// Tokens of an app's own issuer, with which clients of forks come (`Spec/Forks.md`, sections 3 and 5).
@Suite(.timeLimit(.minutes(30))) struct IssuedTokenTests {
    @Test(arguments: [("r", "RS256"), ("e", "ES256"), ("h", "HS256")])
    func eachKindOfKeySigns(_ key: String, _ algorithm: String) async throws {
        try await ForkRig.run { rig async throws in
            #expect(try await rig.outcome(rig.token(key: key, alg: algorithm)) == "ident")
        }
    }

    @Test func claimsHaveTwoNames() async throws {
        try await ForkRig.run { rig async throws in
            let token = try rig.token([
                "sub": .null, "identity": "u1", "app_id": .null, "appId": "shop", "exp": .null,
                "expires": .integer(rig.now + 60), "iat": .null, "timestamp": .integer(rig.now),
            ])
            #expect(try await rig.outcome(token) == "ident")
            #expect(try await rig.outcome(rig.token(["app_id": .null])) == "ident")
        }
    }

    /// Python's `time.time() + 3600` has one.
    @Test func timesCanHaveFractions() async throws {
        try await ForkRig.run { rig async throws in
            let now = Double(rig.now)
            let token = try rig.token(["exp": .real(now + 60.5), "iat": .real(now - 0.25), "nbf": .real(now - 0.5)])
            #expect(try await rig.outcome(token) == "ident")
            #expect(try await rig.outcome(rig.token(["exp": .real(now - 0.5)])) == "closed with 4001")
        }
    }

    /// Each is refused so that the app is told and the client does not come back by itself.
    @Test(
        arguments: [
            ["sub": ""], ["sub": 7], ["sub": .null], ["sub": .string(String(repeating: "u", count: 256))],
            ["sub": "ann\0"],
            ["app_id": "other"], ["app_id": 7], ["appId": "other"], ["access": .null], ["access": "download"],
            ["access": ["upload"]], ["access": ["download", 7]], ["path": 7], ["path": ""], ["path": ["list"]],
            ["exp": .null], ["exp": 0], ["exp": "tomorrow"], ["exp": -1], ["exp": .real(1e30)],
            ["expires": 1_900_000_000],
            ["exp": 99_999_999_999_999], ["iat": 1_900_000_000], ["nbf": 1_900_000_000], ["timestamp": 1_900_000_000],
            ["admin": "yes"], ["aud": "elsewhere"],
        ] as [[String: JSONValue]]) func aTokenThatSaysSomethingElseOpensNothing(_ claims: [String: JSONValue])
        async throws
    {
        try await ForkRig.run { rig async throws in
            #expect(try await rig.outcome(rig.token(claims)) == "closed with 4002")
        }
    }

    @Test func forgeriesOpenNothing() async throws {
        try await ForkRig.run { rig async throws in
            let token = try rig.token(), parts = token.split(separator: ".").map(String.init)
            let unsigned = Base64URL.encode(#"{"alg":"none"}"#.utf8)
            let signature = Base64URL.decode(parts[2].utf8) ?? []
            for forged in [
                parts[0] + "." + parts[1] + "." + Base64URL.encode([signature[0] ^ 1] + signature.dropFirst()),
                "\(unsigned).\(parts[1]).", "\(unsigned).\(parts[1]).\(parts[2])", "\(parts[0]).\(parts[1]).",
                try rig.token(key: "r", alg: "HS256"), try rig.oldToken(), "", "x", String(token.dropLast()),
                "\(token).\(parts[2])", parts[1], try ForkRig.tokenOfAnotherIssuer(rig),
            ] {
                #expect(try await rig.outcome(forged) == "closed with 4002", "\(forged)")
            }
            #expect(!rig.server.log.text.contains(parts[2]))
        }
    }

    @Test func tokensOfTheObjectServerAreTakenWhereTheyAreAllowed() async throws {
        try await ForkRig.run { app in
            app.forks[.barq]?.takesOldTokens = true
        } _: { rig async throws in
            let token = try rig.oldToken()
            #expect(try await rig.outcome(token) == "ident")
            #expect(try await rig.outcome(String(token.dropLast(8)) + "AAAAAA==") == "closed with 4002")
            // Some leave the padding out.
            #expect(try await rig.outcome(token.replacing("=", with: "")) == "ident")
        }
    }

    @Test func keysCanBeInPEM() async throws {
        let other = try _RSA.Signing.PrivateKey(keySize: .bits2048)
        try await ForkRig.run { app in
            app.issuer?.jwks += ".pem"
        } prepare: { issuer in
            // The old key and the new one, with words between.
            let text =
                "old:\n\(other.publicKey.pemRepresentation)\nnew:\n\(issuer.rsa.publicKey.pemRepresentation)\n"
                + issuer.ecdsa.publicKey.pemRepresentation
            try text.write(toFile: issuer.path + ".pem", atomically: true, encoding: .utf8)
        } _: { rig async throws in
            #expect(try await rig.outcome(rig.token()) == "ident")
            #expect(try await rig.outcome(rig.token(key: "e", alg: "ES256")) == "ident")
            #expect(try await rig.outcome(rig.token(key: "r", alg: "HS256")) == "closed with 4002")
        }
    }

    // MARK: Expiry

    /// The first answer has a client fetch another token; who comes with the same again has none, and is told to wait.
    @Test func whoComesAgainWithAnExpiredTokenIsToldToWait() async throws {
        try await ForkRig.run { rig async throws in
            let token = try rig.token(["exp": .integer(rig.now - 1)])
            #expect(try await rig.outcome(token) == "closed with 4001")
            for _ in 0..<2 { #expect(try await rig.outcome(token) == "101 to 0: Warning, try again: true") }
            #expect(try await rig.outcome(rig.token(["exp": .integer(rig.now)])) == "closed with 4001")
        }
    }

    @Test func aConnectionEndsWithItsToken() async throws {
        try await ForkRig.run { rig async throws in
            let token = try rig.token(["exp": .integer(rig.now + 1)])
            let client = rig.client("list", token)
            try await client.reconnect()
            #expect(try await client.receiveAll() == 4001)
            rig.server.clock.advance(by: 1)
            #expect(try await rig.outcome(token) == "101 to 0: Warning, try again: true")
        }
    }

    @Test func aTokenWithoutEndIsTakenWhereThatIsAllowed() async throws {
        try await ForkRig.run { app in
            app.forks[.barq]?.needsExpiry = false
        } _: { rig async throws in
            for expiry in [JSONValue.null, 0] {
                #expect(try await rig.outcome(rig.token(["exp": expiry])) == "ident")
            }
            // Beyond what a timer can wait for.
            #expect(try await rig.outcome(rig.token(["exp": 253_402_300_799])) == "ident")
        }
    }

    // MARK: Users

    @Test func aUserWhoIsDisabledIsShutOut() async throws {
        try await ForkRig.run { rig async throws in
            let token = try rig.token(), client = rig.client("list", token)
            try await client.reconnect()
            let users = try rig.server.accounts.users(after: "", countMax: 10)
            #expect(users.map(\.identities[0].name) == ["u1"])
            #expect(try await rig.server.admin("/v1/users/disable", ["user": .string(users[0].ident)]).status == 200)
            #expect(try await client.receiveAll() == 4001)
            #expect(try await rig.outcome(token) == "closed with 4002")
        }
    }

    @Test func severalAppsAreToldApartByTheClaim() async throws {
        let second = try TokenIssuer()
        var app = AppSettings(providers: [], issuer: CustomTokenIssuer(jwks: second.path))
        app.forks = [.barq: ForkSettings()]
        try await ForkRig.run(others: ["games": app]) { rig async throws in
            #expect(try await rig.outcome(rig.token()) == "ident")
            #expect(try await rig.outcome(rig.token(["app_id": .null])) == "closed with 4002")
            // Not with the key of another app.
            #expect(try await rig.outcome(rig.token(["app_id": "games"])) == "closed with 4002")
        }
    }

    /// Most changes of a token make it worthless; those that do not, give nothing that it did not have.
    @Test func randomDamageOpensNothing() async throws {
        try await ForkRig.run { rig async throws in
            let seed = UInt64.random(in: 0...UInt64.max)
            var random = SeededRandom(seed: seed)
            let good = Array(try rig.token(key: "e", alg: "ES256").utf8)
            for _ in 0..<2_000 {
                var bytes = good
                switch random.number(0...3) {
                case 0: bytes[Int(random.number(0...UInt64(bytes.count - 1)))] ^= UInt8(1 << random.number(0...6))
                case 1: bytes.removeLast(Int(random.number(1...UInt64(bytes.count))))
                case 2: bytes.insert(UInt8(random.number(0x21...0x7e)), at: Int(random.number(0...UInt64(bytes.count))))
                default: bytes += [UInt8](repeating: UInt8(ascii: "A"), count: Int(random.number(1...1 << 20)))
                }
                let token = String(decoding: bytes, as: UTF8.self)
                let answer = await rig.server.services.admit(
                    Credentials(dialect: .barq, app: "", token: token, address: nil))
                guard case .userRefused = answer else {
                    // Padding is no change.
                    #expect(token.replacing("=", with: "") == String(decoding: good, as: UTF8.self), "seed \(seed)")
                    continue
                }
            }
        }
    }

    @Test func inDevelopmentEveryTokenIsTaken() async throws {
        var settings = AppServicesRig.development
        settings.takesAnyToken = true
        settings.userWithoutToken = "developer"
        try await AppServicesRig.run(settings) {
            $0.forks = WireDialect.forks
        } _: { server async throws in
            let rig = ForkRig(server: server, issuer: try TokenIssuer())
            for token in ["", "junk", try rig.token(), try rig.token(["exp": 0])] {
                #expect(try await rig.outcome(token) == "ident", "\(token)")
            }
            let answer = await server.services.admit(
                Credentials(dialect: .barq, app: "", token: try rig.token(), address: nil))
            guard case .admitted(let principal) = answer else {
                Issue.record("not admitted")
                return
            }
            #expect(principal.app == "shop" && principal.subject == "u1" && principal.provider == "custom-token")
            let page = Credentials(dialect: .barq, app: "", token: "junk", address: nil, isOfWebPage: true)
            guard case .userRefused = await server.services.admit(page) else {
                Issue.record("a web page is let in")
                return
            }
        }
    }
}
