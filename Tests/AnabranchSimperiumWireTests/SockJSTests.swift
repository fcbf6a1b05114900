import AnabranchCore
import AnabranchServer
import NIOHTTP1
import Testing

@testable import AnabranchSimperiumWire

/// The paths and frames of SockJS (`Spec/Simperium.md`, section 13).
@Suite(.timeLimit(.minutes(30))) struct SockJSTests {
    @Test func pathsAreRead() {
        for (path, app, framing) in [
            ("/sock/websocket", "", .plain), ("/sock/1/my-app/websocket", "my-app", .plain),
            ("/sock/1/my-app/908/l5n4fjpv/websocket", "my-app", .sockJS),
        ] as [(String, String, SocketPath.Framing)] {
            #expect(SocketPath(path)?.app == app && SocketPath(path)?.framing == framing, "\(path)")
        }
        for path in [
            "", "/", "/sock", "/sock/1/websocket", "/sock/1//websocket", "/sock/2/a/websocket", "/sock/1/a/b/websocket",
            "/sock/1/a/b/c/xhr", "/sock/1/a//c/websocket", "/sock/1/a/b//websocket", "/sock/1//b/c/websocket",
            "/sock/1/a/b.c/d/websocket", "/sock/1/a/b/c.d/websocket", "/sock/1/a/b/c/d/websocket",
        ] { #expect(SocketPath(path) == nil, "\(path)") }
    }

    @Test func framesAreRead() {
        for (text, messages) in [
            ("", []), ("[]", []), (#"["a","b\n"]"#, ["a", "b\n"]), (#""h:1""#, ["h:1"]), ("[7]", nil), ("{}", nil),
            ("7", nil), ("[", nil), ("0:i:", nil), (#"[["a"]]"#, nil), (#"["a",null]"#, nil),
            (#"["\ud83d"]"#, ["\u{FFFD}"]),
        ] as [(String, [String]?)] { #expect(SockJSFrame.messages(in: text) == messages, "\(text)") }
    }

    @Test func messagesLieInFrames() async throws {
        try await WireRig.run { rig in
            let login = try await rig.logIn(), client = try await rig.connect(path: "/sock/1/my-app/0/s/websocket")
            #expect(try await client.receive() == "o")
            let opening = JSONValue.string(Frame.opening(login.token)).encoded
            try await client.send("[\(opening),\"h:1\"]")
            #expect(try await client.receive() == #"a["0:auth:ann@example.com"]"#)
            #expect(try await client.receive() == #"a["h:2"]"#)
            try await client.send("h:1")
            #expect(try await client.receive() == #"c[3000,"not a frame of SockJS"]"#)
            await #expect(throws: TextClient.Closed(code: 1008)) { try await client.receive() }
        }
    }

    @Test func otherTransportsAreRefused() async throws {
        try await WireRig.run { rig in
            let endpoints = SockJSEndpoints(rig.wire)
            func ask(_ method: HTTPMethod, _ path: String, _ headers: HTTPHeaders = [:]) async -> EndpointResponse {
                await endpoints.respond(to: EndpointRequest(method: method, path: path, headers: headers))
            }
            for (method, path, status) in [
                (.GET, "/sock/1/my-app", .ok), (.GET, "/sock/1/My-App/", .ok), (.GET, "/sock/1/my-app/info", .ok),
                (.OPTIONS, "/sock/1/my-app/info", .noContent), (.POST, "/sock/1/my-app/info", .methodNotAllowed),
                (.GET, "/sock/1/other/info", .notFound), (.GET, "/sock/2/my-app/info", .notFound),
                (.POST, "/sock/1/my-app/0/s/xhr", .notFound), (.GET, "/sock/1/my-app/0/s/eventsource", .notFound),
                (.POST, "/sock/1/my-app/0/s/xhr_streaming", .notFound), (.GET, "/sock", .notFound),
            ] as [(HTTPMethod, String, HTTPResponseStatus)] {
                #expect(await ask(method, path).status == status, "\(method) \(path)")
            }
            let info = await ask(.GET, "/sock/1/my-app/info", ["Origin": "https://example.com"])
            #expect(info.headers["Access-Control-Allow-Origin"] == ["https://example.com"])
            #expect(info.headers["Access-Control-Allow-Credentials"] == ["true"])
            #expect(await ask(.GET, "/sock/1/my-app/info").headers["Access-Control-Allow-Origin"] == ["*"])
        }
    }
}
