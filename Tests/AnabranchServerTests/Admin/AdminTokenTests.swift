import AnabranchCore
import AnabranchHistory
import Foundation
import Testing

@testable import AnabranchServer

/// Access with and without the token of the admin interface (`Spec/Admin.md`, section 1).
@Suite struct AdminTokenTests {
    private static let all = [
        "GET /health", "GET /ready", "GET /metrics", "GET /v1/files", "GET /v1/clients?path=x",
        "GET /v1/history?path=x",
        "GET /v1/sessions", "GET /v1/users", "POST /v1/sessions/disconnect", "POST /v1/clients/expire",
        "POST /v1/files/delete", "POST /v1/files/maintain", "POST /v1/store/maintain", "POST /v1/clock/trust",
        "GET /v1/file?path=x", "POST /v1/users/revoke", "POST /v1/users/disable", "POST /v1/users/enable",
        "POST /v1/users/add",
        "POST /v1/users/delete", "POST /v1/users/set-password", "POST /v1/users/set-data", "GET /v1/user?user=x",
        "GET /v1/explain?path=x&version=1", "GET /v1/ingested?path=x", "POST /v1/ingested/free", "GET /v1/doors",
        "POST /v1/doors/drop", "GET /nothing",
    ]

    @Test func nothingIsToldWithoutTheToken() async throws {
        try await AppServicesRig.run { rig async throws in
            let user = try await rig.newUser("ann@example.com")
            let right = AppServicesRig.adminToken
            let wrong = [nil, "", "x", String(right.dropLast()), right + "x", right.uppercased(), user.access]
            for request in Self.all {
                let words = request.split(separator: " ").map(String.init)
                for token in wrong {
                    let answer = try await rig.admin(words[0], words[1], token: token)
                    #expect(answer.status == 401, "\(request) with \(token ?? "no token")")
                    #expect(answer.json?["error_code"] == "Unauthorized")
                }
                #expect(try await rig.admin(words[0], words[1]).status != 401)
            }
            let twice =
                "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                + String(repeating: "Authorization: Bearer \(right)\r\n", count: 2) + "\r\n"
            #expect(
                try AppServicesRig.Response(try await rig.exchange(Array(twice.utf8), port: rig.adminPort)).status
                    == 401)
            #expect(!rig.log.text.contains(right))
        }
    }

    @Test("connections without the token do not keep the operator out")
    func strangers() async throws {
        try await AppServicesRig.run { rig async throws in
            var strangers: [WebSocketClient] = []
            for number in 0..<3 * AdminSettings().connectionsMax {
                let stranger = try await WebSocketClient(port: rig.adminPort)
                if number % 3 == 1 { try await stranger.write(Array("GET /ready HTTP/1.1\r\n".utf8)) }
                if number % 3 == 2 {
                    let request = "GET /ready HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wrong\r\n\r\n"
                    #expect(try await stranger.request(request).hasPrefix("HTTP/1.1 401 "))
                }
                strangers.append(stranger)
                #expect(try await rig.admin("GET", "/ready").status == 200)
            }
            #expect(await strangers[0].isAtEnd(), "it made room")
        }
    }

    /// The operator's own connections, which have shown the token, are not closed for others.
    @Test func whoHasShownTheTokenStays() async throws {
        // On a busy machine the first connections are idle for long.
        try await AppServicesRig.run(change: { $0.handshakeSecondsMax = 1_800 }) { rig async throws in
            let mine = try await WebSocketClient(port: rig.adminPort)
            let request =
                "GET /health HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(AppServicesRig.adminToken)\r\n\r\n"
            func isAnswered(_ client: WebSocketClient) async throws -> Bool {
                let response = try await client.request(request)
                return try await client.body(of: response) == #"{"status":"ok"}"#
            }
            #expect(try await isAnswered(mine))
            var strangers: [WebSocketClient] = []
            for _ in 0..<2 * AdminSettings().connectionsMax {
                strangers.append(try await WebSocketClient(port: rig.adminPort))
            }
            #expect(try await isAnswered(mine))
            var own = [mine]
            while own.count < AdminSettings().connectionsMax {
                own.append(try await WebSocketClient(port: rig.adminPort))
                #expect(try await isAnswered(own[own.count - 1]))
            }
            #expect(try await WebSocketClient(port: rig.adminPort).isAtEnd(), "all have shown it")
            for client in own { #expect(try await isAnswered(client)) }
        }
    }

    @Test func refusedTokensAreCountedForTheLog() async throws {
        try await AppServicesRig.run { rig async throws in
            for token in ["wrong", nil, "wrong"] {
                #expect(try await rig.admin("GET", "/ready", token: token).status == 401)
            }
            await rig.log.wait(for: "requests to the admin interface refused")
            #expect(!rig.log.text.contains("Bearer"))
        }
    }

    @Test func clientsDoNotFindIt() async throws {
        try await AppServicesRig.run { rig async throws in
            for path in ["/health", "/metrics", "/v1/users"] {
                #expect(try await rig.request("GET", path, token: AppServicesRig.adminToken).status == 404)
            }
        }
    }

    @Test func aTokenFileIsMadeForItsOwnerAlone() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("admin-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appendingPathComponent("admin-token").path
        let token = try AdminToken(path: path, logger: .quiet)
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        let text = try AdminToken.text(path: path)
        #expect(text.utf8.count == 64 && token.isMatched(by: text))
        #expect(try AdminToken(path: path, logger: .quiet).isMatched(by: text))
        chmod(path, 0o640)
        #expect(throws: FileError.self) { try AdminToken(path: path, logger: .quiet) }
        try PrivateFile.write("fifteen-letters\n", to: path)
        #expect(throws: FileError.self) { try AdminToken(path: path, logger: .quiet) }
    }

    @Test(arguments: [
        ("sixteen-letters!", true), ("fifteen-letters", false), ("a token with a blank", false), ("", false),
    ])
    func aTokenIsLongAndFitsAHeader(text: String, isToken: Bool) {
        #expect((AdminToken(text) != nil) == isToken)
    }
}
