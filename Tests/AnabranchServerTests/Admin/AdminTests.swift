import AnabranchCore
import AnabranchHistory
import Foundation
import Testing

@testable import AnabranchServer

/// The admin interface over sockets (`Spec/Admin.md`).
@Suite struct AdminTests {
    /// A session that runs over a WebSocket of its own.
    private static func client(
        _ rig: AppServicesRig, _ login: AppServicesRig.Login, partition: String = "\"notes\"",
        offer: String = WebSocketClient.offer
    ) async throws -> WebSocketClient {
        let client = try await socket(rig, login, offer: offer)
        try await client.send("bind 1 \(partition.utf8.count) 0 1 0\n\(partition)")
        let ident = try await client.message().words
        try await client.send("ident 1 \(ident[2]) \(ident[3]) 0 0 0 0\n")
        #expect(try await client.message().kind == "download")
        return client
    }

    private static func socket(
        _ rig: AppServicesRig, _ login: AppServicesRig.Login, offer: String = WebSocketClient.offer
    ) async throws -> WebSocketClient {
        let path = "/api/client/v2.0/app/demo/realm-sync?baas_at=\(login.access)"
        return try await WebSocketClient.open(port: rig.port, path: path, offer: offer)
    }

    // MARK: How the server is

    @Test func aServerIsHealthyAndReady() async throws {
        try await AppServicesRig.run { rig async throws in
            for (path, status) in [("/health", "ok"), ("/ready", "ready")] {
                let answer = try await rig.admin("GET", path)
                #expect(answer.status == 200)
                #expect(answer.json?["status"] == .string(status))
            }
        }
    }

    @Test func whatHappensIsCounted() async throws {
        try await AppServicesRig.run { rig async throws in
            let login = try await rig.newUser("ann@example.com")
            let client = try await Self.client(rig, login)
            _ = try await rig.handshakeOutcome(token: "junk")
            let answer = try await rig.admin("GET", "/metrics")
            #expect(answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8")
            let lines = answer.body.split(separator: "\n").map(String.init)
            for line in [
                "# TYPE anabranch_sessions gauge", "anabranch_sessions 1", "anabranch_sessions_opened_total 1",
                "anabranch_logins_total{outcome=\"ok\"} 2", "anabranch_handshakes_total{outcome=\"admitted\"} 1",
                "anabranch_handshakes_total{outcome=\"token_refused\"} 1", "anabranch_downloads_made_total 1",
                "# TYPE anabranch_scan_duration_seconds histogram", "anabranch_scan_duration_seconds_count 1",
                "anabranch_scan_duration_seconds_bucket{le=\"+Inf\"} 1",
                "anabranch_http_answers_total{status=\"201\"} 1", "anabranch_store_failures_total 0",
                "anabranch_handshakes_total{outcome=\"user_refused\"} 0",
                "anabranch_memory_waits_total{budget=\"uploads\"} 0",
                "anabranch_client_files_expired_total{reason=\"pinned_bytes\"} 0",
            ] { #expect(lines.contains(line), "\(line) is missing") }
            try await client.close()
        }
    }

    // MARK: Listings

    @Test func filesClientsAndHistoryAreListed() async throws {
        try await AppServicesRig.run { rig async throws in
            let login = try await rig.newUser("ann@example.com")
            let client = try await Self.client(rig, login, partition: "\"my notes\"")
            let changeset = try #require(try Changesets.ofClient(2).first)
            let entry = Array("2 0 1000 0 \(changeset.count) ".utf8) + changeset
            try await client.send(Array("upload 1 0 \(entry.count) 0 2 0 0\n".utf8) + entry)
            #expect(try await client.message().kind == "download")

            let path: JSONValue = #"demo/"my%20notes""#
            let files = try await rig.admin("GET", "/v1/files")
            #expect(
                files.json == [
                    "files": [
                        [
                            "path": path, "version": 1, "base_version": 0, "state_version": 1,
                            "log_bytes": .integer(Int64(changeset.count)), "archived_bytes": 0, "clients": 1,
                            "may_be_due": false,
                        ]
                    ]
                ])
            let query = "?path=demo%2F%22my%2520notes%22"
            let clients = try await rig.admin("GET", "/v1/clients" + query)
            let row = try #require(clients.json?["clients"]?.array?.first)
            #expect(row["client"] == 2 && row["user"] == .string(login.user) && row["expired"] == false)
            #expect(row["client_version"] == 2 && row["last_seen"] == .integer(Int64(rig.clock.now)))
            let history = try await rig.admin("GET", "/v1/history" + query)
            #expect(
                history.json == [
                    "history": [
                        [
                            "version": 1, "client": 2, "client_version": 2, "timestamp": 1000,
                            "bytes": .integer(Int64(changeset.count)),
                        ]
                    ]
                ])
            #expect(try await rig.admin("GET", "/v1/history?path=demo%2Fx").status == 404)
            #expect(try await rig.admin("GET", "/v1/files").json == files.json, "looking makes no file")
            try await client.close()
        }
    }

    @Test func sessionsAndUsersAreListed() async throws {
        try await AppServicesRig.run { rig async throws in
            let login = try await rig.newUser("ann@example.com")
            let client = try await Self.client(rig, login)
            let sessions = try await rig.admin("GET", "/v1/sessions")
            let session = try #require(sessions.json?["sessions"]?.array?.first)
            #expect(session["path"] == #"demo/"notes""# && session["session"] == 1 && session["client"] == 2)
            #expect(session["user"] == .string(login.user) && session["app"] == "demo")
            #expect(session["protocol"] == "com.mongodb.realm-sync#14")
            #expect(session["remote"]?.string?.hasPrefix("127.0.0.1:") == true)
            let users = try await rig.admin("GET", "/v1/users")
            #expect(
                users.json?["users"] == [
                    [
                        "user": .string(login.user), "app": "demo", "disabled": false,
                        "created_at": .integer(Int64(rig.clock.now)),
                        "identities": [
                            ["provider": "local-userpass", "name": "ann@example.com", "confirmed": true]
                        ],
                    ]
                ])
            #expect(!users.body.contains("scrypt"))
            try await client.close()
        }
    }

    @Test func listingsComeInPieces() async throws {
        try await AppServicesRig.run { rig async throws in
            let login = try await rig.newUser("ann@example.com")
            for name in ["bob", "cid", "dan", "eve"] { _ = try await rig.newUser("\(name)@example.com") }
            var clients: [WebSocketClient] = []
            for index in 0..<5 { clients.append(try await Self.client(rig, login, partition: "\"\(index % 3)\"")) }
            let ofFile = "&path=demo%2F%221%22"
            for (path, name, member, count) in [
                ("/v1/files?limit=2", "files", "path", 3), ("/v1/users?limit=2", "users", "user", 5),
                ("/v1/sessions?limit=2", "sessions", "connection", 5),
                ("/v1/clients?limit=1" + ofFile, "clients", "client", 2),
            ] {
                var found: [JSONValue] = [], after = ""
                repeat {
                    let piece = try await rig.admin("GET", path + after)
                    let elements = try #require(piece.json?[name]?.array, "\(path)\(after): \(piece.body)")
                    #expect(elements.count <= 2)
                    found += elements.compactMap { $0[member] }
                    after = piece.json?["next"]?.string.map { "&after=" + Self.encoded($0) } ?? ""
                } while !after.isEmpty
                #expect(found.count == count && Set(found.map(\.encoded)).count == count, "\(path)")
            }
            for client in clients { try await client.close() }
        }
    }

    private static func encoded(_ text: String) -> String {
        text.utf8.map { "%" + ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    @Test(arguments: [
        ("limit=0", 400), ("limit=1", 200), ("limit=999", 200), ("limit=1000", 200), ("limit=1001", 400),
        ("limit=-1", 400), ("limit=", 400), ("limit=99999999999999999999", 400), ("limit=1&limit=1", 400),
        ("limit", 400), ("color=red", 400), ("after=%2", 400), ("after=%ff", 400), ("path=x", 200),
    ])
    func aListingHasBounds(query: String, status: Int) async throws {
        try await AppServicesRig.run { rig async throws in
            #expect(try await rig.admin("GET", "/v1/files?" + query).status == status)
        }
    }

    @Test(arguments: [
        ("/v1/clients", 400), ("/v1/history", 400), ("/v1/clients?path=%25zz", 400), ("/v1/clients?path=x", 404),
        ("/v1/clients?path=x&after=y", 400), ("/v1/sessions?after=1", 400), ("/v1/sessions?after=1.x", 400),
        ("/v1/sessions?after=1.1", 200), ("/v1/sessions?after=18446744073709551615.1", 200), ("/v1", 404),
        ("/v1/files/", 404), ("/healthy", 404),
    ])
    func anImpossibleQuestionIsTheAskersFault(path: String, status: Int) async throws {
        try await AppServicesRig.run { rig async throws in
            #expect(try await rig.admin("GET", path).status == status)
        }
    }

    // MARK: Interventions

    @Test func aSessionIsDisconnectedAndMayComeBack() async throws {
        try await AppServicesRig.run { rig async throws in
            let login = try await rig.newUser("ann@example.com")
            let client = try await Self.client(rig, login)
            let body: JSONValue = ["connection": 1, "session": 1]
            #expect(try await rig.admin("/v1/sessions/disconnect", body).status == 200)
            let error = try await client.message()
            #expect(error.words.prefix(2) == ["json_error", "200"])
            #expect(String(decoding: error.body, as: UTF8.self).contains(#""action":"Transient""#))
            #expect(try await rig.admin("/v1/sessions/disconnect", body).status == 404)
            try await client.send("unbind 1\n")
            try await client.send("bind 1 1 0 1 0\nx")
            #expect(try await client.message().kind == "ident")
            try await client.close()
        }
    }

    @Test(arguments: [(WebSocketClient.offer, 1001), ("com.mongodb.realm-sync/7, com.mongodb.realm-sync/6", 1000)])
    func aConnectionIsDisconnected(offer: String, code: Int) async throws {
        try await AppServicesRig.run { rig async throws in
            let login = try await rig.newUser("ann@example.com")
            let client = try await Self.client(rig, login, offer: offer)
            #expect(try await rig.admin("/v1/sessions/disconnect", ["connection": 1]).status == 200)
            #expect(try await client.receive().closeCode == code)
            #expect(await client.isAtEnd())
            #expect(try await rig.admin("/v1/sessions/disconnect", ["connection": 2]).status == 404)
        }
    }

    @Test func anExpiredClientFileIsRefusedForEver() async throws {
        try await AppServicesRig.run { rig async throws in
            let login = try await rig.newUser("ann@example.com")
            let client = try await Self.socket(rig, login)
            try await client.send("bind 1 1 0 1 0\nx")
            let ident = try await client.message().words
            let identify = "\(ident[2]) \(ident[3]) 0 0 0 0\n"
            try await client.send("ident 1 \(identify)")
            #expect(try await client.message().kind == "download")
            let body: JSONValue = ["path": "demo/x", "client": 2]
            for _ in 0..<2 { #expect(try await rig.admin("/v1/clients/expire", body).status == 200) }
            let error = try await client.message()
            #expect(error.words.prefix(2) == ["json_error", "222"])
            #expect(String(decoding: error.body, as: UTF8.self).contains(#""action":"ClientReset""#))
            try await client.send("bind 2 1 0 0 0\nx")
            try await client.send("ident 2 \(identify)")
            #expect(try await client.message().words.prefix(2) == ["json_error", "222"])
            let clients = try await rig.admin("GET", "/v1/clients?path=demo%2Fx")
            #expect(clients.json?["clients"]?.array?.first?["expired"] == true)
            for (path, client): (JSONValue, JSONValue) in [("demo/x", 3), ("demo/x", 1), ("demo/y", 2)] {
                #expect(try await rig.admin("/v1/clients/expire", ["path": path, "client": client]).status == 404)
            }
            #expect(try await rig.admin("GET", "/v1/files").json?["files"]?.array?.count == 1)
            try await client.close()
        }
    }

    @Test func aDeletedFileIsEmptyForWhoComesThen() async throws {
        try await AppServicesRig.run { rig async throws in
            let login = try await rig.newUser("ann@example.com")
            let client = try await Self.socket(rig, login)
            try await client.send("bind 1 1 0 1 0\nx")
            let ident = try await client.message().words
            try await client.send("ident 1 \(ident[2]) \(ident[3]) 0 0 0 0\n")
            #expect(try await client.message().kind == "download")
            let files = try await rig.admin("GET", "/v1/files?user=\(login.user)")
            #expect(files.json?["files"] == [["path": "demo/x", "clients_of_user": 1, "other_clients": 0]])
            let refused = try await rig.admin("/v1/files/delete", ["path": "demo/x", "only_of": "somebody else"])
            #expect(refused.status == 409)
            let deleted = try await rig.admin(
                "/v1/files/delete", ["path": "demo/x", "only_of": .string(login.user)])
            #expect(deleted.status == 200 && deleted.json == ["freed": true])
            let error = try await client.message()
            #expect(error.words.prefix(2) == ["json_error", "208"])
            #expect(String(decoding: error.body, as: UTF8.self).contains(#""action":"ClientReset""#))
            #expect(try await rig.admin("GET", "/v1/files").json?["files"] == [])
            #expect(try await rig.admin("/v1/files/delete", ["path": "demo/x"]).status == 404)
            try await client.send("bind 2 1 0 0 0\nx")
            try await client.send("ident 2 \(ident[2]) \(ident[3]) 0 0 0 0\n")
            #expect(try await client.message().words.prefix(2) == ["json_error", "208"])
            try await client.send("bind 3 1 0 1 0\nx")
            let again = try await client.message().words
            #expect(again[2] == ident[2] && again[3] != ident[3])
            try await client.send("bind 4 1 0 0 0\nx")
            try await client.send("ident 4 \(ident[2]) \(ident[3]) 0 0 0 0\n")
            #expect(try await client.message().words.prefix(2) == ["json_error", "211"])
            try await client.close()
        }
    }

    @Test func aRevokedUserHasToLogInAgain() async throws {
        try await AppServicesRig.run { rig async throws in
            let ann = try await rig.newUser("ann@example.com"), bob = try await rig.newUser("bob@example.com")
            let clients = [
                try await Self.client(rig, ann), try await Self.client(rig, ann, offer: "com.mongodb.realm-sync/7"),
            ]
            let other = try await Self.client(rig, bob)
            let revoked = try await rig.admin("/v1/users/revoke", ["user": .string(ann.user)])
            #expect(revoked.json?["connections"] == 2)
            #expect(try await clients[0].receive().closeCode == 4001)
            #expect(try await clients[1].receive().closeCode == 1000)
            let session = "/api/client/v2.0/auth/session"
            #expect(try await rig.request("POST", session, token: ann.refresh).status == 401)
            #expect(try await rig.handshakeOutcome(token: ann.access) == (101, 4001))
            #expect(try await rig.newUser("ann@example.com").user == ann.user)
            #expect(try await rig.request("POST", session, token: bob.refresh).status == 201)
            try await other.send("ping 1 0\n")
            #expect(try await other.message().kind == "pong")
            try await other.close()
        }
    }

    @Test func aDisabledUserStaysOutUntilEnabled() async throws {
        try await AppServicesRig.run { rig async throws in
            let ann = try await rig.newUser("ann@example.com")
            let user: JSONValue = ["user": .string(ann.user)]
            let login = "/api/client/v2.0/app/demo/auth/providers/local-userpass/login"
            let credentials: JSONValue = ["username": "ann@example.com", "password": "correct horse"]
            #expect(try await rig.admin("/v1/users/disable", user).status == 200)
            #expect(try await rig.post(login, credentials).json?["error_code"] == "UserDisabled")
            #expect(try await rig.admin("/v1/users/enable", user).status == 200)
            #expect(try await rig.post(login, credentials).status == 200)
            #expect(try await rig.request("POST", "/api/client/v2.0/auth/session", token: ann.refresh).status == 401)
            for verb in ["revoke", "disable", "enable"] {
                #expect(try await rig.admin("/v1/users/\(verb)", ["user": "nobody"]).status == 404)
                #expect(try await rig.admin("/v1/users/\(verb)", [:]).status == 400)
            }
        }
    }
}
