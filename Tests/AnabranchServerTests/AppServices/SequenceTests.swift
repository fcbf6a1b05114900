import AnabranchCore
import Foundation
import Testing

@testable import AnabranchHistory
@testable import AnabranchServer

/// The requests of an SDK before it syncs and afterwards, over sockets (`Spec/Protocol.md`, section 1).
@Suite struct SequenceTests {
    private static let app = "/api/client/v2.0/app/demo"
    private static let base = "/api/client/v2.0"

    @Test func anSDKLogsInSyncsRefreshesAndLogsOut() async throws {
        try await AppServicesRig.run { rig async throws in
            let location = try await rig.request("GET", Self.app + "/location")
            #expect(location.status == 200)
            #expect(location.headers["content-type"] == "application/json")
            #expect(location.json?["hostname"] == .string("http://127.0.0.1:\(rig.port)"))
            #expect(location.json?["ws_hostname"] == .string("ws://127.0.0.1:\(rig.port)"))
            #expect(location.json?["deployment_model"] == "GLOBAL")
            #expect(location.json?["location"] == "US-VA")

            let password: JSONValue = "correct horse"
            let providers = Self.app + "/auth/providers/local-userpass"
            let registered = try await rig.post(
                providers + "/register", ["email": "ann@example.com", "password": password])
            #expect(registered.status == 201)

            let device: JSONValue = ["device": ["appId": "demo", "sdk": "Swift", "coreVersion": "14.14.0"]]
            let login = try await rig.post(
                providers + "/login",
                [
                    "provider": "local-userpass", "username": "ann@example.com", "password": password,
                    "options": device,
                ])
            let tokens = try AppServicesRig.Login(login)
            #expect(login.json?["device_id"]?.string?.count == 24)
            #expect(tokens.user.count == 24)

            let profile = try await rig.request("GET", Self.base + "/auth/profile", token: tokens.access)
            #expect(profile.status == 200)
            #expect(profile.json?["identities"]?.array?.count == 1)
            #expect(profile.json?["identities"]?.array?[0]["provider_type"] == "local-userpass")
            #expect(profile.json?["data"]?["email"] == "ann@example.com")

            #expect(try await rig.handshakeOutcome(token: tokens.access) == (101, 1000))

            rig.clock.advance(by: 1801)
            #expect(try await rig.handshakeOutcome(token: tokens.access) == (101, 4001))
            let refreshed = try await rig.request("POST", Self.base + "/auth/session", token: tokens.refresh)
            #expect(refreshed.status == 201)
            let access = try #require(refreshed.json?["access_token"]?.string)
            try await Self.sync(rig, path: Self.app + "/realm-sync?baas_at=" + access)

            let loggedOut = try await rig.request("DELETE", Self.base + "/auth/session", token: tokens.refresh)
            #expect(loggedOut.status == 204)
            let again = try await rig.request("POST", Self.base + "/auth/session", token: tokens.refresh)
            #expect(again.status == 401)
            #expect(again.headers["content-type"] == "application/json")
            #expect(again.json?["error_code"] == "InvalidSession")
            #expect(try await rig.handshakeOutcome(token: access) == (101, 4001))
        }
    }

    /// A new file, up to the point from which its client uploads; then a request for flexible sync.
    private static func sync(_ rig: AppServicesRig, path: String) async throws {
        let client = try await WebSocketClient.open(port: rig.port, path: path)
        #expect(client.response.lowercased().contains("sec-websocket-protocol: com.mongodb.realm-sync#14\r\n"))
        try await client.send("bind 1 7 0 1 0\n\"notes\"")
        let ident = try await client.message().words
        #expect(ident.prefix(3) == ["ident", "1", "2"])
        try await client.send("ident 1 \(ident[2]) \(ident[3]) 0 0 0 0\n")
        try await client.send("mark 1 1\n")
        #expect(
            try await client.message().words == "download 1 0 0 0 0 0 0 0 0 0 0".split(separator: " ").map(String.init))
        #expect(try await client.message().words == ["mark", "1", "1"])
        try await client.send("bind 2 0 0 1 0\n")
        #expect(try await client.message().words.prefix(2) == ["json_error", "204"])
        try await client.close()

        let flexible = try await WebSocketClient.open(
            port: rig.port, path: path, offer: "com.mongodb.realm-query-sync#14, com.mongodb.realm-query-sync#13")
        #expect(flexible.response.lowercased().contains("sec-websocket-protocol: com.mongodb.realm-query-sync#14\r\n"))
        let refusal = try await flexible.message()
        #expect(refusal.words.prefix(2) == ["json_error", "114"])
        #expect(String(decoding: refusal.body, as: UTF8.self).contains("\"action\":\"ApplicationBug\""))
    }

    @Test func tokensHoldWhatClientsReadWithoutChecking() async throws {
        try await AppServicesRig.run { rig async throws in
            let login = try await rig.newUser("bob@example.com")
            for token in [login.access, login.refresh] {
                let payload = try #require(Base64URL.decode(token.split(separator: ".")[1].utf8))
                let claims = try JSONValue(parsing: payload)
                #expect(claims["exp"]?.integer != nil)
                #expect(claims["iat"]?.integer == Int64(rig.clock.now))
                #expect(claims["sub"] == .string(login.user))
            }
        }
    }

    @Test func anAnonymousUserHasOneIdentity() async throws {
        try await AppServicesRig.run { rig async throws in
            let login = try AppServicesRig.Login(
                try await rig.post(Self.app + "/auth/providers/anon-user/login", ["provider": "anon-user"]))
            let profile = try await rig.request("GET", Self.base + "/auth/profile", token: login.access)
            #expect(profile.json?["identities"]?.array?.map { $0["provider_type"] } == ["anon-user"])
            #expect(profile.json?["data"] == [:])
        }
    }

    @Test func anAnonymousUserBecomesOneWithAnAddress() async throws {
        try await AppServicesRig.run { rig async throws in
            let anonymous = try AppServicesRig.Login(
                try await rig.post(Self.app + "/auth/providers/anon-user/login", ["provider": "anon-user"]))
            let providers = Self.app + "/auth/providers/local-userpass"
            let credentials: JSONValue = ["username": "cat@example.com", "password": "correct horse"]
            _ = try await rig.post(
                providers + "/register", ["email": "cat@example.com", "password": "correct horse"])
            let linked = try await rig.post(providers + "/login?link=true", token: anonymous.access, credentials)
            #expect(linked.status == 200)
            #expect(linked.json?["access_token"]?.string != nil)
            let login = try AppServicesRig.Login(try await rig.post(providers + "/login", credentials))
            #expect(login.user == anonymous.user)
            let other = try await rig.newUser("dan@example.com")
            #expect(try await rig.post(providers + "/login?link=true", token: other.access, credentials).status == 409)
        }
    }

    /// A disabled user would be back under its address.
    @Test func theAddressOfADisabledUserIsNotLinked() async throws {
        try await AppServicesRig.run { rig async throws in
            let providers = Self.app + "/auth/providers/local-userpass"
            let credentials: JSONValue = ["username": "cat@example.com", "password": "correct horse"]
            _ = try await rig.post(providers + "/register", ["email": "cat@example.com", "password": "correct horse"])
            let found = try rig.accounts.user(of: "demo", provider: "local-userpass", name: "cat@example.com")
            let cat = try #require(found).ident
            try rig.accounts.setDisabled(true, user: cat)
            let anonymous = try AppServicesRig.Login(
                try await rig.post(Self.app + "/auth/providers/anon-user/login", ["provider": "anon-user"]))
            let linked = try await rig.post(providers + "/login?link=true", token: anonymous.access, credentials)
            #expect(linked.status == 401 && linked.json?["error_code"] == "UserDisabled")
            #expect(try rig.accounts.user(cat)?.identities.count == 1)
        }
    }

    @Test func anAPIKeyLogsInUntilItIsDisabled() async throws {
        try await AppServicesRig.run { rig async throws in
            let owner = try await rig.newUser("eve@example.com")
            let keys = Self.base + "/auth/api_keys"
            let made = try await rig.post(keys, token: owner.refresh, ["name": "backup"])
            #expect(made.status == 201)
            let key = try #require(made.json?["key"]), ident = try #require(made.json?["_id"]?.string)
            #expect(try await rig.post(keys, token: owner.refresh, ["name": "backup"]).status == 409)
            #expect(try await rig.post(keys, token: owner.refresh, ["name": "other\0"]).status == 400)
            let listed = try await rig.request("GET", keys, token: owner.refresh)
            #expect(listed.json == [["_id": .string(ident), "disabled": false, "name": "backup"]])

            let login = Self.app + "/auth/providers/api-key/login"
            #expect(try AppServicesRig.Login(try await rig.post(login, ["key": key])).user == owner.user)
            #expect(try await rig.request("PUT", "\(keys)/\(ident)/disable", token: owner.refresh).status == 204)
            #expect(try await rig.post(login, ["key": key]).status == 401)
            #expect(try await rig.request("PUT", "\(keys)/\(ident)/enable", token: owner.refresh).status == 204)
            #expect(try await rig.post(login, ["key": key]).status == 200)
            #expect(try await rig.request("DELETE", "\(keys)/\(ident)", token: owner.refresh).status == 204)
            #expect(try await rig.request("GET", "\(keys)/\(ident)", token: owner.refresh).status == 404)
        }
    }

    @Test func aDeletedUserIsGone() async throws {
        try await AppServicesRig.run { rig async throws in
            let login = try await rig.newUser("fay@example.com")
            #expect(try await rig.request("DELETE", Self.base + "/auth/delete", token: login.access).status == 204)
            #expect(try await rig.request("GET", Self.base + "/auth/profile", token: login.access).status == 401)
            #expect(try await rig.request("POST", Self.base + "/auth/session", token: login.refresh).status == 401)
            #expect(try await rig.newUser("fay@example.com").user != login.user)
        }
    }

    @Test func unknownUserAndWrongPasswordAreToldTheSame() async throws {
        try await AppServicesRig.run { rig async throws in
            _ = try await rig.newUser("gus@example.com")
            let login = Self.app + "/auth/providers/local-userpass/login"
            var answers: [String] = []
            for name in ["gus@example.com", "nobody@example.com"] {
                for password in ["wrong", ""] {
                    let answer = try await rig.post(login, ["username": .string(name), "password": .string(password)])
                    #expect(answer.status == 401)
                    answers.append(answer.body)
                }
            }
            #expect(
                Set(answers) == [#"{"error":"invalid username/password","error_code":"InvalidPassword","link":""}"#])
        }
    }

    @Test func withoutAHookEMailsAreRefusedInWords() async throws {
        try await AppServicesRig.run { rig async throws in
            let providers = Self.app + "/auth/providers/local-userpass/"
            for (action, body): (String, JSONValue) in [
                ("confirm/send", ["email": "a@b"]),
                ("reset/send", ["email": "a@b"]),
            ] {
                let answer = try await rig.post(providers + action, body)
                #expect(answer.status == 400)
                #expect(answer.json?["error_code"] == "EmailNotConfigured")
            }
        }
    }

    @Test func anAppAllowsWhatItsSettingsSay() async throws {
        var settings = AppServicesSettings()
        settings.apps = [
            "strict": AppSettings(providers: [.emailPassword]), "open": AppSettings(providers: [.anonymous]),
        ]
        try await AppServicesRig.run(settings) { rig async throws in
            let apps = "/api/client/v2.0/app/"
            #expect(try await rig.request("GET", apps + "strict/location").status == 200)
            let unknown = try await rig.request("GET", apps + "other/location")
            #expect(unknown.status == 404)
            #expect(unknown.json?["error_code"] == "AppNotFound")
            #expect(try await rig.post(apps + "open/auth/providers/anon-user/login", [:]).status == 200)
            let refused = try await rig.post(apps + "strict/auth/providers/anon-user/login", [:])
            #expect(refused.status == 404)
            #expect(refused.json?["error_code"] == "AuthProviderNotFound")
        }
    }

    /// With the codes that SDKs have names for (`Spec/Protocol.md`, section 1.6).
    @Test func whatIsNotHereIsRefusedAsAppServicesWould() async throws {
        try await AppServicesRig.run { rig async throws in
            let login = try await rig.newUser("ann@example.com"), call = Self.app + "/functions/call"
            func refusal(_ method: String, _ path: String, token: String? = login.access, _ body: String = "")
                async throws -> String
            {
                let answer = try await rig.request(method, path, token: token, body)
                let json = try #require(answer.json)
                return "\(answer.status) \(json["error_code"]?.string ?? "") \(json["error"]?.string ?? "")"
            }
            let sum = #"{"name":"sum","arguments":[{"$numberInt":"1"}]}"#
            #expect(try await refusal("POST", call, sum) == "404 FunctionNotFound function not found: 'sum'")
            let find = #"{"name":"findOne","arguments":[{"database":"d"}],"service":"mongodb-atlas"}"#
            #expect(try await refusal("POST", call, find) == "404 ServiceNotFound service not found: 'mongodb-atlas'")
            let watch = call + "?baas_request=e30=&baas_at=" + login.access
            #expect(try await refusal("GET", watch).hasPrefix("404 ServiceNotFound"))
            #expect(try await refusal("POST", call, "{}").hasPrefix("400 InvalidParameter"))
            #expect(try await refusal("POST", call, token: nil, sum).hasPrefix("401 InvalidSession"))
            let other = try await rig.newUser("ann@example.com", app: "other")
            #expect(try await refusal("POST", call, token: other.access, sum).hasPrefix("401 InvalidSession"))
            let push = Self.app + "/push/providers/gcm/registration"
            for method in ["PUT", "DELETE"] {
                let body = #"{"registrationToken":"x"}"#
                #expect(try await refusal(method, push, body) == "404 ServiceNotFound service not found: 'gcm'")
                #expect(try await refusal(method, push, token: nil, body).hasPrefix("401"))
            }
            for provider in ["custom-function", "oauth2-google", "oauth2-apple", "oauth2-facebook", "custom-token"] {
                let path = Self.app + "/auth/providers/\(provider)/login"
                #expect(
                    try await refusal("POST", path, token: nil, "{}")
                        == "404 AuthProviderNotFound authentication provider not found: '\(provider)'")
            }
        }
    }

    @Test func oldClientsAreRefusedByStatusAndNewOnesByCloseCode() async throws {
        try await AppServicesRig.run { rig async throws in
            let login = try await rig.newUser("ida@example.com", app: "one")
            let old = 2...7, new = 2...14
            #expect(try await rig.handshakeOutcome(app: "one", token: "junk", versions: new) == (101, 4001))
            #expect(try await rig.handshakeOutcome(app: "one", token: "junk", versions: old).status == 401)
            #expect(try await rig.handshakeOutcome(app: "two", token: login.access, versions: new) == (101, 4002))
            #expect(try await rig.handshakeOutcome(app: "two", token: login.access, versions: old).status == 403)
            #expect(try await rig.handshakeOutcome(app: "one", token: login.refresh, versions: new) == (101, 4001))
            #expect(try await rig.handshakeOutcome(app: "one", token: "") == (101, 4001))
        }
    }

    @Test func aDisabledUserIsRefusedAtBothEnds() async throws {
        try await AppServicesRig.run { rig async throws in
            let login = try await rig.newUser("jim@example.com")
            try rig.accounts.setDisabled(true, user: login.user)
            #expect(try await rig.handshakeOutcome(token: login.access) == (101, 4001))
            #expect(try await rig.request("POST", Self.base + "/auth/session", token: login.refresh).status == 401)
        }
    }

    @Test func inDevelopmentWhoeverHasNoTokenIsOneUser() async throws {
        var settings = AppServicesRig.development
        settings.userWithoutToken = "developer"
        try await AppServicesRig.run(settings) { rig async throws in
            #expect(try await rig.handshakeOutcome(token: "") == (101, 1000))
            #expect(try await rig.handshakeOutcome(token: "junk") == (101, 4001))
            #expect(rig.log.text.contains(#""user": developer"#))
        }
    }

    @Test func aNewKeyEndsNoSession() async throws {
        try await AppServicesRig.run { rig async throws in
            let login = try await rig.newUser("kim@example.com")
            let day: UInt64 = 24 * 3600
            let ident = try KeyFile.rotate(path: rig.keyPath, now: rig.clock.now, lifetimeSeconds: 60 * day)
            #expect(try await rig.handshakeOutcome(token: login.access) == (101, 1000))
            let refreshed = try await rig.request("POST", Self.base + "/auth/session", token: login.refresh)
            let access = try #require(refreshed.json?["access_token"]?.string)
            #expect(try JSONWebToken(access).keyIdent == ident)

            rig.clock.advance(by: 61 * day)
            _ = try KeyFile.rotate(path: rig.keyPath, now: rig.clock.now, lifetimeSeconds: 60 * day)
            #expect(await rig.services.tokens.keys.keys().count == 2)
            let mode = try FileManager.default.attributesOfItem(atPath: rig.keyPath)[.posixPermissions] as? Int
            #expect(mode == 0o600)
        }
    }

    @Test func aKeyFileThatOthersCanReadIsRefused() async throws {
        try await AppServicesRig.run { rig async throws in
            chmod(rig.keyPath, 0o644)
            await #expect(throws: FileError.self) {
                try await KeyFile(path: rig.keyPath, now: 1, logger: rig.log.logger)
            }
        }
    }

    /// The operator has put a new key there that others can read, and mends that: the content stays as it is.
    @Test func aKeyFileWhoseModeIsMendedIsReadAgain() async throws {
        try await AppServicesRig.run { rig async throws in
            let keys = rig.services.tokens.keys, old = await keys.keys().first?.ident
            let new = try KeyFile.rotate(path: rig.keyPath, now: rig.clock.now, lifetimeSeconds: 60)
            chmod(rig.keyPath, 0o644)
            #expect(await keys.keys().first?.ident == old)
            #expect(rig.log.text.contains("others can read it"))
            chmod(rig.keyPath, 0o600)
            #expect(await keys.keys().first?.ident == new)
        }
    }

    @Test func whoKeepsFailingIsMadeToWait() async throws {
        var settings = AppServicesRig.development
        settings.promptRefusalsPerMinuteMax = 2
        try await AppServicesRig.run(settings) { rig async throws in
            for _ in 0..<2 { _ = try await rig.handshakeOutcome(token: "junk") }
            let start = ContinuousClock.now
            _ = try await rig.handshakeOutcome(token: "junk")
            #expect(start.duration(to: .now) >= .milliseconds(250))
        }
    }

    @Test func attemptsOfAMinuteAreLimited() async throws {
        var settings = AppServicesRig.development
        settings.loginsPerMinuteMax = 3
        try await AppServicesRig.run(settings) { rig async throws in
            let path = Self.app + "/auth/providers/anon-user/login"
            for expected in [200, 200, 200, 429] { #expect(try await rig.post(path, [:]).status == expected) }
            rig.clock.advance(by: 60)
            #expect(try await rig.post(path, [:]).status == 200)
        }
    }

    @Test func aClientThatWaitsToBeAskedForItsBodyIsAsked() async throws {
        try await AppServicesRig.run { rig async throws in
            let client = try await WebSocketClient(port: rig.port)
            let asked = try await client.request(
                """
                POST \(Self.app)/auth/providers/anon-user/login HTTP/1.1\r
                Host: x\r
                Expect: 100-continue\r
                Content-Length: 2\r
                \r

                """)
            #expect(asked == "HTTP/1.1 100 Continue\r\n\r\n")
            let answer = try await client.request("{}")
            #expect(answer.hasPrefix("HTTP/1.1 200 OK\r\n"))
            #expect(try await client.body(of: answer).contains("user_id"))
            try await client.close()
        }
    }

    @Test(arguments: [(-1, 400), (0, 400), (1, 413)])
    func bodiesAreLimited(excess: Int, status: Int) async throws {
        try await AppServicesRig.run(change: { $0.bodyBytesMax = 5_000 }) { rig async throws in
            let body = String(repeating: "x", count: 5_000 + excess)
            let answer = try await rig.request("POST", Self.app + "/auth/providers/anon-user/login", body)
            #expect(answer.status == status)
        }
    }
}
