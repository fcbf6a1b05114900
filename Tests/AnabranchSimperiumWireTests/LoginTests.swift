import AnabranchCore
import AnabranchServer
import NIOHTTP1
import Testing

@testable import AnabranchSimperiumWire

/// How clients get their tokens (`Spec/Simperium.md`, section 11).
@Suite(.timeLimit(.minutes(30))) struct LoginTests {
    private static func ask(
        _ rig: WireRig, _ path: String, _ body: String, method: HTTPMethod = .POST, headers: HTTPHeaders = [:]
    ) async -> (status: HTTPResponseStatus, body: String) {
        let response = await SimperiumLogins(rig.services, rig.wire.limits).respond(
            to: EndpointRequest(method: method, path: path, headers: headers, body: .whole(Array(body.utf8))))
        guard case .whole(let bytes) = response.body else { return (response.status, "a stream") }
        return (response.status, String(decoding: bytes, as: UTF8.self))
    }

    @Test func tokensOpenChannels() async throws {
        try await WireRig.run { rig in
            let json = #"{"username":"ann+1@example.com","password":"p&ss wörd","provider":""}"#
            let form = "client_id=key&username=ann%2B1%40example.com&password=p%26ss+w%C3%B6rd"
            let created = await Self.ask(rig, "/1/my-app/create/", json)
            #expect(created.status == .ok)
            let user = try JSONValue(parsing: created.body.utf8)["userid"]
            for (path, body) in [("/1/My-App/authorize/", json), ("/1/my-app/authorize", form)] {
                let answer = await Self.ask(rig, path, body)
                let login = try JSONValue(parsing: answer.body.utf8)
                #expect(answer.status == .ok && login["userid"] == user && login["username"] == "ann+1@example.com")
                let token = try #require(login["access_token"]?.string)
                #expect(token.wholeMatch(of: /[0-9a-f]{64}/) != nil)
                let client = try await rig.connect(path: "/sock/websocket")
                try await client.send(Frame.opening(token))
                #expect(try await client.receive() == "0:auth:ann+1@example.com")
                // With one digit changed, it is nobody's.
                let other = String(token.dropLast()) + (token.hasSuffix("0") ? "1" : "0")
                try await client.send(Frame.opening(other))
                #expect(try await client.receive() == #"0:auth:{"msg":"Token invalid","code":401}"#)
            }
        }
    }

    @Test func aLoginNeedsAKeyOfTheApp() async throws {
        var keys = SecretList()
        #expect(keys.add(#"["known", "other"]"#.utf8, length: 1) == nil)
        try await WireRig.run { [keys] in
            $0.apps[WireRig.app]?.apiKeys = keys
        } _: { rig in
            _ = try await rig.logIn()
            let json = #"{"username":"ann@example.com","password":"secret-word"}"#
            let form = "username=ann%40example.com&password=secret-word&client_id="
            for (key, body, status) in [
                (nil, json, .unauthorized), ("unknown", json, .unauthorized), ("known", json, .ok),
                (nil, form, .unauthorized), (nil, form + "other", .ok), ("unknown", form + "other", .unauthorized),
            ] as [(String?, String, HTTPResponseStatus)] {
                let headers = HTTPHeaders(key.map { [("X-Simperium-API-Key", $0)] } ?? [])
                let answer = await Self.ask(rig, "/1/my-app/authorize/", body, headers: headers)
                #expect(answer.status == status, "\(key ?? "") \(body)")
            }
        }
    }

    @Test(arguments: ["", "{}", "[]", "[1]", #"["short"]"#]) func secretsAreALongEnoughList(json: String) {
        var secrets = SecretList()
        #expect(secrets.add(json.utf8, length: 6) == "a JSON list of texts with at least 6 bytes each is needed")
    }

    @Test func refusalsHaveNoToken() async throws {
        try await WireRig.run { rig in
            _ = try await rig.logIn()
            for (path, body, status) in [
                ("/1/my-app/authorize/", #"{"username":"ann@example.com","password":"wrong-word"}"#, .unauthorized),
                ("/1/my-app/authorize/", #"{"username":"bob@example.com","password":"secret-word"}"#, .unauthorized),
                ("/1/my-app/create/", #"{"username":"ann@example.com","password":"secret-word"}"#, .conflict),
                ("/1/my-app/create/", #"{"username":"bob@example.com","password":"short"}"#, .badRequest),
                ("/1/my-app/authorize/", "", .badRequest), ("/1/my-app/authorize/", "{}", .badRequest),
                ("/1/my-app/authorize/", "{", .badRequest), ("/1/my-app/authorize/", "username=%zz", .badRequest),
                ("/1/other/authorize/", "{}", .notFound), ("/1/my-app/note/index", "{}", .notFound),
            ] as [(String, String, HTTPResponseStatus)] {
                let answer = await Self.ask(rig, path, body)
                #expect(answer.status == status && !answer.body.contains("token"), "\(path) \(body)")
            }
            #expect(await Self.ask(rig, "/1/my-app/authorize/", "", method: .GET).status == .methodNotAllowed)
        }
    }
}
