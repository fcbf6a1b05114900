import AnabranchCore
import AnabranchHistory
import Testing

@testable import AnabranchServer

/// How an operator manages users (`Spec/Admin.md`, sections 2 and 2.1), over sockets.
@Suite struct AdminUsersTests {
    private static let logins = "/api/client/v2.0/app/demo/auth/providers/local-userpass/login"
    private static let ident = "5f0c1e2d3b4a59687766aabb"

    private static func logIn(_ rig: AppServicesRig, password: String) async throws -> AppServicesRig.Response {
        try await rig.post(logins, ["username": "ann@example.com", "password": .string(password)])
    }

    @Test func anAddedUserLogsInUnderTheGivenIdent() async throws {
        try await AppServicesRig.run { rig async throws in
            let added = try await rig.admin(
                "/v1/users/add",
                [
                    "app": "demo", "user": .string(Self.ident), "email": "ann@example.com", "password": "correct horse",
                    "data": ["role": "editor"], "identities": [["provider": "custom-token", "name": "auth0-1"]],
                ])
            #expect(added.status == 201)
            #expect(added.json?["user"] == .string(Self.ident))
            #expect(added.json?["created_at"] == .integer(Int64(rig.clock.now)))
            #expect(!added.body.contains("scrypt"))
            let login = try AppServicesRig.Login(try await Self.logIn(rig, password: "correct horse"))
            #expect(login.user == Self.ident)
            let user = try await rig.admin("GET", "/v1/user?user=\(Self.ident)")
            #expect(user.json?["data"] == ["role": "editor"])
            #expect(user.json?["identities"]?.array?.map { $0["provider"] } == ["local-userpass", "custom-token"])
            #expect(try await rig.admin("GET", "/v1/user?app=demo&email=ann%40example.com").json == user.json)
        }
    }

    @Test func anAddedUserCanBeWithoutAPassword() async throws {
        try await AppServicesRig.run { rig async throws in
            let body: JSONValue = ["app": "demo", "user": .string(Self.ident), "email": "ann@example.com"]
            #expect(try await rig.admin("/v1/users/add", body).status == 201)
            for password in ["", "correct horse"] {
                #expect(try await Self.logIn(rig, password: password).status == 401)
            }
            let set = try await rig.admin(
                "/v1/users/set-password", ["user": .string(Self.ident), "password": "correct horse"])
            #expect(set.status == 200)
            #expect(try await Self.logIn(rig, password: "correct horse").status == 200)
        }
    }

    /// Apps have such keys in their code.
    @Test func anAPIKeyThatAnOperatorBringsLogsIn() async throws {
        try await AppServicesRig.run { rig async throws in
            func body(_ ident: String, _ keys: [JSONValue]) -> JSONValue {
                ["app": "demo", "user": .string(ident), "api_keys": .array(keys)]
            }
            let key: JSONValue = ["name": "kiosk", "key": "a key that is in an app"]
            let added = try await rig.admin("/v1/users/add", body(Self.ident, [key]))
            #expect(added.status == 201 && !added.body.contains("in an app"))
            let path = "/api/client/v2.0/app/demo/auth/providers/api-key/login"
            let login = try AppServicesRig.Login(try await rig.post(path, ["key": "a key that is in an app"]))
            #expect(login.user == Self.ident)
            #expect(rig.log.text.contains(#""remote": "#))
            let other = "5f0c1e2d3b4a59687766aabc"
            let taken: JSONValue = ["name": "other", "key": "a key that is in an app"]
            #expect(try await rig.admin("/v1/users/add", body(other, [taken])).status == 409)
            #expect(try await rig.admin("GET", "/v1/user?user=\(other)").status == 404)
            for keys in [[key, key], [["name": "a", "key": ""]], [["name": "a"]], ["a"]] as [[JSONValue]] {
                #expect(try await rig.admin("/v1/users/add", body(other, keys)).status == 400, "\(keys)")
            }
        }
    }

    @Test func whatIsTakenIsAConflict() async throws {
        try await AppServicesRig.run { rig async throws in
            let ann = try await rig.newUser("ann@example.com")
            for body: JSONValue in [
                ["app": "demo", "email": "ann@example.com"],
                ["app": "demo", "email": "bob@example.com", "user": .string(ann.user)],
            ] {
                let refused = try await rig.admin("/v1/users/add", body)
                #expect(refused.status == 409 && refused.json?["error_code"] == "AccountNameInUse")
            }
            #expect(try await rig.admin("/v1/users/add", ["app": "other", "email": "ann@example.com"]).status == 201)
        }
    }

    @Test(
        arguments: [
            (["email": "a@b"], "app must be a text"), (["app": "demo"], "nobody could log in"),
            (["app": "demo", "email": "a b"], "invalid e-mail"),
            (["app": "demo", "email": "a@b", "user": "5F0C1E2D3B4A59687766AABB"], "24 hexadecimal digits"),
            (["app": "demo", "email": "a@b", "user": "12"], "24 hexadecimal digits"),
            (["app": "demo", "email": "a@b", "password": "short"], "between 6 and 128"),
            (
                ["app": "demo", "identities": [["provider": "custom-token", "name": "x"]], "password": "long enough"],
                "email"
            ),
            (["app": "demo", "identities": [["provider": "magic", "name": "x"]]], "custom-token or anon-user"),
            (["app": "demo", "identities": [["provider": "api-key", "name": "x"]]], "custom-token or anon-user"),
            (["app": "demo", "identities": [["provider": "custom-token"]]], "name must be a text"),
            (["app": "demo", "email": "a@b", "identities": "x"], "identities has to be an array"),
            (["app": "demo", "email": "a@b", "data": "x"], "data has to be a JSON object"),
            (
                ["app": "demo", "email": "a@b", "data": ["a": [1, ["b": .largeInteger("9223372036854775808")]]]],
                "data.a[1].b: 9223372036854775808 is not an integer of 64 bits"
            ),
            (
                ["app": "demo", "email": "a@b", "data": ["d": ["$date": "2024-02-30T00:00:00Z"]]],
                #"data.d: {"$date":"2024-02-30T00:00:00Z"} looks like extended JSON and is none"#
            ),
            (["app": "demo", "email": "a@b", "data": ["n": ["$numberLong": "9223372036854775808"]]], "data.n: "),
            (["app": "demo", "email": "a@b", "data": ["n": ["$numberDecimal": "x"]]], "data.n: "),
            (["app": "demo", "email": "a@b", "data": ["o": ["$oid": "zz"]]], "data.o: "),
            (["app": "demo", "email": "a@b", "disabled": 1], "true or false"),
            (["app": "demo", "email": "a@b", "created_at": -1], "above 0"),
            (
                ["app": "demo", "email": "a@b", "mail": "x"],
                "there is no member 'mail'; allowed: api_keys, app, created_at,"
            ),
        ] as [(JSONValue, String)])
    func aMistakeIsNamedAndNothingAdded(body: JSONValue, reason: String) async throws {
        try await AppServicesRig.run { rig async throws in
            let refused = try await rig.admin("/v1/users/add", body)
            #expect(refused.status == 400)
            #expect(refused.json?["error"]?.string?.contains(reason) == true, "\(refused.body)")
            #expect(try rig.accounts.users(after: "", countMax: 9).isEmpty)
        }
    }

    @Test("custom data has at most 16 KiB as JSON", arguments: [(-1, 201), (0, 201), (1, 400)])
    func customData(more: Int, status: Int) async throws {
        let text = String(repeating: "x", count: NewUser.dataBytesMax - #"{"x":""}"#.utf8.count + more)
        try await AppServicesRig.run { rig async throws in
            let body: JSONValue = ["app": "demo", "email": "ann@example.com", "data": ["x": .string(text)]]
            #expect(try await rig.admin("/v1/users/add", body).status == status)
        }
    }

    @Test func anAppThatIsNotThereIsRefusedAndThePageAfterItsLastUserIsEmpty() async throws {
        try await AppServicesRig.run(apps: ["demo"]) { rig async throws in
            #expect(try await rig.admin("GET", "/v1/users?app=former").status == 400)
            let page = try await rig.admin("GET", "/v1/users?app=former&after=\(String(repeating: "0", count: 24))")
            #expect(page.status == 200 && page.json?["users"]?.array == [])
        }
    }

    @Test func usersAreListedByAppAndByAddress() async throws {
        try await AppServicesRig.run { rig async throws in
            for (number, app) in ["demo", "other", "demo", "demo"].enumerated() {
                let ident = String(repeating: "\(number)", count: 24)
                let body: JSONValue = ["app": .string(app), "user": .string(ident), "email": .string("\(number)@x")]
                #expect(try await rig.admin("/v1/users/add", body).status == 201)
            }
            func idents(_ query: String) async throws -> [String] {
                let list = try await rig.admin("GET", "/v1/users?" + query).json?["users"]?.array ?? []
                return list.compactMap { $0["user"]?.string?.prefix(1).description }
            }
            #expect(try await idents("") == ["0", "1", "2", "3"])
            #expect(try await idents("app=demo") == ["0", "2", "3"])
            let page = try await rig.admin("GET", "/v1/users?app=demo&limit=2").json
            let next = try #require(page?["next"]?.string)
            #expect(try await idents("app=demo&after=\(next)") == ["3"])
            #expect(try await idents("app=demo&email=2%40x") == ["2"])
            #expect(try await idents("app=demo&email=1%40x").isEmpty)
            for query in ["users?email=2%40x", "user?email=2%40x", "user", "user?app=demo", "users?colour=red"] {
                #expect(try await rig.admin("GET", "/v1/" + query).status == 400, "\(query)")
            }
            #expect(try await rig.admin("GET", "/v1/user?user=x").status == 404)
            #expect(try await rig.admin("GET", "/v1/user?app=demo&email=1%40x").status == 404)
        }
    }

    @Test func aNewPasswordEndsEveryLogin() async throws {
        try await AppServicesRig.run { rig async throws in
            let ann = try await rig.newUser("ann@example.com")
            let path = "/api/client/v2.0/app/demo/realm-sync?baas_at=\(ann.access)"
            let client = try await WebSocketClient.open(port: rig.port, path: path)
            let change: JSONValue = ["user": .string(ann.user), "password": "another horse"]
            #expect(try await rig.admin("/v1/users/set-password", change).json?["connections"] == 1)
            #expect(try await client.receive().closeCode == 4001)
            #expect(try await rig.request("POST", "/api/client/v2.0/auth/session", token: ann.refresh).status == 401)
            #expect(try await Self.logIn(rig, password: "correct horse").status == 401)
            #expect(try await Self.logIn(rig, password: "another horse").status == 200)
            #expect(!rig.log.text.contains("another horse"))
            let short: JSONValue = ["user": .string(ann.user), "password": "short"]
            #expect(try await rig.admin("/v1/users/set-password", short).status == 400)
            let nobody: JSONValue = ["user": "nobody", "password": "another horse"]
            #expect(try await rig.admin("/v1/users/set-password", nobody).status == 404)
        }
    }

    /// The token that a client fetches upon 4001 has the new data.
    @Test(arguments: [(WebSocketClient.offer, 4001), ("com.mongodb.realm-sync/7, com.mongodb.realm-sync/6", 1000)])
    func newDataAreThereAtTheNextConnection(offer: String, code: Int) async throws {
        try await AppServicesRig.run { rig async throws in
            let ann = try await rig.newUser("ann@example.com")
            let path = "/api/client/v2.0/app/demo/realm-sync?baas_at=\(ann.access)"
            let client = try await WebSocketClient.open(port: rig.port, path: path, offer: offer)
            let change: JSONValue = ["user": .string(ann.user), "data": ["role": "editor"]]
            #expect(try await rig.admin("/v1/users/set-data", change).json?["connections"] == 1)
            #expect(try await client.receive().closeCode == code)
            #expect(try rig.accounts.user(ann.user)?.customData == #"{"role":"editor"}"#)
            let answer = try await rig.request("POST", "/api/client/v2.0/auth/session", token: ann.refresh)
            let access = try #require(answer.json?["access_token"]?.string)
            let payload = try #require(Base64URL.decode(access.split(separator: ".")[1].utf8))
            #expect(try JSONValue(parsing: payload)["user_data"]?["role"] == "editor")
            #expect(try await rig.handshakeOutcome(token: access) == (101, 1000))
            for body: JSONValue in [["user": .string(ann.user)], ["user": .string(ann.user), "data": []]] {
                #expect(try await rig.admin("/v1/users/set-data", body).status == 400)
            }
            #expect(try await rig.admin("/v1/users/set-data", ["user": "nobody", "data": [:]]).status == 404)
        }
    }

    @Test func whoCameWithoutATokenIsNotAskedForAnother() async throws {
        var settings = AppServicesRig.development
        settings.userWithoutToken = "developer"
        try await AppServicesRig.run(settings) { rig async throws in
            let developer = User(
                ident: "developer", app: "demo",
                identities: [Identity(ident: "i", provider: "anon-user", name: "developer")], createdAt: 1)
            try rig.accounts.add(developer)
            let client = try await WebSocketClient.open(port: rig.port)
            let change: JSONValue = ["user": "developer", "data": ["role": "editor"]]
            #expect(try await rig.admin("/v1/users/set-data", change).json?["connections"] == 1)
            #expect(try await client.receive().closeCode == 1001)
        }
    }

    @Test func aDeletedUserIsGoneWithLoginsAndConnections() async throws {
        try await AppServicesRig.run { rig async throws in
            let ann = try await rig.newUser("ann@example.com"), bob = try await rig.newUser("bob@example.com")
            let path = "/api/client/v2.0/app/demo/realm-sync?baas_at=\(ann.access)"
            let client = try await WebSocketClient.open(port: rig.port, path: path)
            let deleted = try await rig.admin("/v1/users/delete", ["user": .string(ann.user)])
            #expect(deleted.json?["connections"] == 1)
            #expect(try await client.receive().closeCode == 4001)
            #expect(try await rig.handshakeOutcome(token: ann.access) == (101, 4001))
            #expect(try await Self.logIn(rig, password: "correct horse").status == 401)
            #expect(try await rig.admin("/v1/users/delete", ["user": .string(ann.user)]).status == 404)
            let users = try await rig.admin("GET", "/v1/users").json?["users"]?.array
            #expect(users?.map { $0["user"] } == [.string(bob.user)])
            #expect(try await rig.newUser("ann@example.com").user != ann.user)
        }
    }
}
