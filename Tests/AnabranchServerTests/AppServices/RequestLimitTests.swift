import AnabranchCore
import AnabranchHistory
import Testing

@testable import AnabranchServer

/// How long texts and tokens may be, and how many things a user has: one less than the limit, the limit, and one more
/// (`Spec/Limits.md`, section 3).
@Suite struct RequestLimitTests {
    private static let providers = "/api/client/v2.0/app/demo/auth/providers/local-userpass"

    @Test(arguments: [(0, 400), (1, 201), (254, 201), (255, 201), (256, 400)])
    func textsAreShort(length: Int, status: Int) async throws {
        try await AppServicesRig.run { rig async throws in
            let email = String(repeating: "x", count: length)
            let answer = try await rig.post(
                Self.providers + "/register", ["email": .string(email), "password": "correct horse"])
            #expect(answer.status == status)
        }
    }

    @Test(arguments: [(5, 400), (6, 201), (7, 201), (127, 201), (128, 201), (129, 400)])
    func passwordsAreNeitherShortNorLong(length: Int, status: Int) async throws {
        try await AppServicesRig.run { rig async throws in
            let password = String(repeating: "é", count: length)
            let answer = try await rig.post(
                Self.providers + "/register", ["email": "ann@example.com", "password": .string(password)])
            #expect(answer.status == status)
            guard status == 201 else { return }
            let login = try await rig.post(
                Self.providers + "/login", ["username": "ann@example.com", "password": .string(password)])
            #expect(login.status == 200)
        }
    }

    @Test func aUserHasSoManyAPIKeys() async throws {
        var settings = AppServicesRig.development
        settings.apiKeysPerUserMax = 2
        try await AppServicesRig.run(settings) { rig async throws in
            let login = try await rig.newUser("ann@example.com"), keys = "/api/client/v2.0/auth/api_keys"
            let first = try await rig.post(keys, token: login.refresh, ["name": "one"])
            #expect(first.status == 201)
            #expect(try await rig.post(keys, token: login.refresh, ["name": "two"]).status == 201)
            #expect(try await rig.post(keys, token: login.refresh, ["name": "three"]).status == 400)
            let ident = try #require(first.json?["_id"]?.string)
            #expect(try await rig.request("DELETE", "\(keys)/\(ident)", token: login.refresh).status == 204)
            #expect(try await rig.post(keys, token: login.refresh, ["name": "three"]).status == 201)
        }
    }

    @Test func keysMadeAtTheSameTimeAreNotTooMany() async throws {
        var settings = AppServicesRig.development
        settings.apiKeysPerUserMax = 2
        try await AppServicesRig.run(settings) { rig async throws in
            let login = try await rig.newUser("ann@example.com"), keys = "/api/client/v2.0/auth/api_keys"
            let made = try await withThrowingTaskGroup(of: Int.self) { group in
                for number in 0..<16 {
                    group.addTask {
                        try await rig.post(keys, token: login.refresh, ["name": .string("\(number)")]).status
                    }
                }
                return try await group.reduce(into: 0) { $0 += $1 == 201 ? 1 : 0 }
            }
            #expect(made == 2)
        }
    }

    @Test(arguments: [(-1, true), (0, true), (1, false)])
    func longCustomDataStaysOutOfTokens(excess: Int, isThere: Bool) async throws {
        try await AppServicesRig.run { rig async throws in
            let login = try await rig.newUser("ann@example.com")
            let length = SessionTokens.customDataBytesMax + excess - #"{"a":""}"#.utf8.count
            let text = #"{"a":""# + String(repeating: "x", count: length) + #""}"#
            #expect(text.utf8.count == SessionTokens.customDataBytesMax + excess)
            try rig.accounts.setCustomData(text, user: login.user)
            let answer = try await rig.request("POST", "/api/client/v2.0/auth/session", token: login.refresh)
            let access = try #require(answer.json?["access_token"]?.string)
            let payload = try #require(Base64URL.decode(access.split(separator: ".")[1].utf8))
            #expect((try JSONValue(parsing: payload)["user_data"] != nil) == isThere)
            #expect(try await rig.handshakeOutcome(token: access) == (101, 1000))
        }
    }

    @Test(arguments: [(-1, "not three parts"), (0, "not three parts"), (1, "too long")])
    func tokensAreShort(excess: Int, reason: String) {
        let text = String(repeating: "x", count: JSONWebToken.bytesMax + excess)
        let refusal = #expect(throws: TokenError.self) { try JSONWebToken(text) }
        #expect(refusal?.description == reason)
    }

    @Test(arguments: ["iat", "nbf"]) func clocksMayBeAMinuteApart(name: String) {
        let now: Int64 = 1_800_000_000
        for (ahead, isRefused) in [(59, false), (60, false), (61, true)] as [(Int64, Bool)] {
            let claims = TokenClaims(members: ["exp": .integer(now + 1000), name: .integer(now + ahead)])
            #expect((try? claims.checkTimes(now: now)) == nil ? isRefused : !isRefused, "\(ahead) s ahead")
        }
        for (ahead, isRefused) in [(-1, true), (0, true), (1, false)] as [(Int64, Bool)] {
            let claims = TokenClaims(members: ["exp": .integer(now + ahead)])
            #expect((try? claims.checkTimes(now: now)) == nil ? isRefused : !isRefused, "expires in \(ahead) s")
        }
    }
}
