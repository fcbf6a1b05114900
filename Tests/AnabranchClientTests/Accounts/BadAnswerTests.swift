import AnabranchClient
import AnabranchCore
import Foundation
import Testing

/// Servers of App Services that answer as they must not, or not at all.
@Suite(.timeLimit(.minutes(30))) struct BadAnswerTests {
    private static func http(_ status: String, _ body: String) -> String {
        "HTTP/1.1 \(status)\r\nContent-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
    }

    private static func location(_ port: Int) -> String {
        #"{"hostname":"http://127.0.0.1:\#(port)/","ws_hostname":"ws://127.0.0.1:\#(port)"}"#
    }

    /// A token without a signature that means anything.
    private static func token(_ claims: JSONValue = ["exp": 2_000_000_000, "iat": 1]) -> String {
        "e30.\(TestApp.base64URL(claims.encoded.utf8)).eA"
    }

    /// A client of a server that answers so to one request after the other, by the last part of their paths.
    private static func withServer<Result>(
        _ answer: @escaping @Sendable (_ path: String) -> String, sender: NIOHTTPSender = NIOHTTPSender(),
        _ body: (AppClient) async throws -> Result
    ) async throws -> Result {
        let ownPort = Box()
        return try await withRawServer { peer in
            let path = (await peer.request()).split(separator: " ").dropFirst().first ?? ""
            let isLocation = path.hasSuffix("/location")
            let own = answer(String(path.split(separator: "/").last ?? ""))
            try await peer.send(isLocation && own.isEmpty ? http("200 OK", location(await ownPort.port)) : own)
        } _: { port async throws in
            await ownPort.set(port)
            return try await body(
                try AppClient(
                    appID: "a", baseURL: "http://127.0.0.1:\(port)/", store: InMemoryUserStore(), http: sender,
                    unixSeconds: { 1_000 }))
        }
    }

    private actor Box {
        private(set) var port = 0
        func set(_ port: Int) { self.port = port }
    }

    private static func failure(ofLogInAnsweredBy answer: String) async throws -> AppError? {
        try await withServer {
            $0 == "location" ? "" : answer
        } _: { client async throws in
            await thrown(AppError.self) { try await client.logIn(.anonymous) }
        }
    }

    @Test(arguments: [
        "[]", "{}", #"{"hostname":"http://a"}"#, #"{"hostname":"a","ws_hostname":"ws://a"}"#,
        #"{"hostname":"http://a","ws_hostname":"http://a"}"#, "no JSON",
        #"{"hostname":"http://a","ws_hostname":"ws://a","sync_route":"/x"}"#,
    ])
    func aLocationThatIsNoneIsRefused(answer: String) async throws {
        try await Self.withServer { _ in
            Self.http("200 OK", answer)
        } _: { client async throws in
            await appFails(.badAnswer) { _ = try await client.refreshLocation() }
        }
    }

    /// Another sender, as an app can bring one.
    private struct FixedSender: HTTPSender {
        let answer: String

        func send(_ request: HTTPCall) async throws -> HTTPAnswer {
            #expect(request.headers.isEmpty, "the request for the location has no headers")
            return HTTPAnswer(status: 200, body: Array(answer.utf8))
        }
    }

    /// The requests to it.
    private actor URLs {
        private(set) var all: [String] = []

        func add(_ url: String) { all.append(url) }
    }

    private struct RecordingSender: HTTPSender {
        let answer: String
        let urls = URLs()

        func send(_ request: HTTPCall) async throws -> HTTPAnswer {
            await urls.add(request.url)
            return HTTPAnswer(status: 200, body: Array(answer.utf8))
        }
    }

    @Test(
        "a server below a path is asked there, and where its location says",
        arguments: [
            "https://a.example/sync", "https://a.example/sync/",
        ])
    func pathOfTheServer(baseURL: String) async throws {
        let sender = RecordingSender(
            answer: #"{"hostname":"https://b.example/realm/","ws_hostname":"wss://b.example/realm"}"#)
        let client = try AppClient(appID: "a", baseURL: baseURL, store: InMemoryUserStore(), http: sender)
        try await client.register(email: "ann@example.com", password: "correct horse")
        #expect(
            await sender.urls.all == [
                "https://a.example/sync/api/client/v2.0/app/a/location",
                "https://b.example/realm/api/client/v2.0/app/a/auth/providers/local-userpass/register",
            ])
    }

    @Test func noLocationLeadsOutOfTLS() async throws {
        for answer in [
            #"{"hostname":"http://a.example","ws_hostname":"wss://a.example"}"#,
            #"{"hostname":"https://a.example","ws_hostname":"ws://a.example"}"#,
        ] {
            let client = try AppClient(
                appID: "a", baseURL: "https://a.example", store: InMemoryUserStore(), http: FixedSender(answer: answer))
            await appFails(.badAnswer) { _ = try await client.refreshLocation() }
        }
    }

    @Test(arguments: [
        ("200 OK", #"{"error":"no","error_code":"UserNotFound"}"#, AppError.Code.userNotFound),
        ("404 Not Found", #"{"error":"no","error_code":"SomethingNew"}"#, AppError.Code(rawValue: "SomethingNew")),
        ("500 Oh", #"{"error":"no"}"#, .httpStatus), ("502 Bad Gateway", "<html>", .httpStatus),
        ("301 Moved", "", .httpStatus), ("200 OK", "<html>", .badAnswer), ("200 OK", "{}", .badAnswer),
        ("200 OK", #"{"access_token":"a.b","refresh_token":"a.b","user_id":"u","device_id":"d"}"#, .badAnswer),
    ])
    func aFailureHasTheCodeOfTheServer(status: String, body: String, code: AppError.Code) async throws {
        let error = try await Self.failure(ofLogInAnsweredBy: Self.http(status, body))
        #expect(error?.code == code, "\(String(describing: error))")
        if code != .badAnswer { #expect(error?.status == Int(status.prefix(3))) }
    }

    @Test(arguments: [
        JSONValue.object(["exp": 1.5, "iat": 1].mapValues { .real($0) }), ["exp": 5], ["iat": 5], [:], "x",
    ])
    func aTokenHasTimes(claims: JSONValue) async throws {
        let token = JSONValue.string(Self.token(claims))
        let body: JSONValue = ["access_token": token, "refresh_token": token, "user_id": "u", "device_id": "d"]
        #expect(try await Self.failure(ofLogInAnsweredBy: Self.http("200 OK", body.encoded))?.code == .badAnswer)
    }

    /// The first of all times is long over.
    @Test func aTokenCanEndAtAnyTime() async throws {
        let token = JSONValue.string(Self.token(["exp": .integer(.min), "iat": 1]))
        let body: JSONValue = ["access_token": token, "refresh_token": token, "user_id": "u", "device_id": "d"]
        try await Self.withServer { path in
            switch path {
            case "location": ""
            case "profile": Self.http("200 OK", #"{"data":{},"identities":[]}"#)
            default: Self.http("200 OK", body.encoded)
            }
        } _: { client async throws in
            let user = try await client.logIn(.anonymous)
            #expect(try await client.accessToken(of: user.id).hasPrefix("e30."))
        }
    }

    @Test(arguments: ["{}", #"{"data":{},"identities":[{"id":1}]}"#, #"{"data":3,"identities":[]}"#])
    func aLogInWithoutAProfileFails(profile: String) async throws {
        let token = JSONValue.string(Self.token())
        let body: JSONValue = ["access_token": token, "refresh_token": token, "user_id": "u", "device_id": "d"]
        try await Self.withServer { path in
            path == "location" ? "" : Self.http("200 OK", path == "profile" ? profile : body.encoded)
        } _: { client async throws in
            await appFails(.badAnswer) { _ = try await client.logIn(.anonymous) }
            #expect(await client.users.isEmpty)
        }
    }

    @Test func noAnswerAndTooLongAnswersAreErrors() async throws {
        let none = try await Self.failure(ofLogInAnsweredBy: "HTTP")
        #expect(none?.code == .noAnswer, "\(String(describing: none))")
        var sender = NIOHTTPSender()
        sender.answerBytesMax = 1_000
        let long = Self.http("200 OK", "\"" + String(repeating: "x", count: 1_000) + "\"")
        try await Self.withServer({ _ in long }, sender: sender) { client async throws in
            let error = await thrown(AppError.self) { try await client.refreshLocation() }
            #expect(error?.code == .noAnswer && error?.reason.contains("its answer is too long") == true)
        }
    }

    /// It never answers, so that the time is up however long the test waits for a processor, maybe before there is
    /// a connection. The server lets the second client in when it is rid of the first one.
    @Test func aServerThatSaysNothingIsGivenUp() async throws {
        try await withRawServer { peer in
            guard await peer.request().hasPrefix("DELETE ") else {
                await peer.read()
                return
            }
            try await peer.send(Self.http("200 OK", ""))
        } _: { port async throws in
            let url = "http://127.0.0.1:\(port)"
            var sender = NIOHTTPSender()
            sender.requestMillisecondsMax = 20
            let client = try AppClient(appID: "a", baseURL: url, store: InMemoryUserStore(), http: sender)
            await appFails(.noAnswer) { _ = try await client.refreshLocation() }
            #expect(try await NIOHTTPSender().send(HTTPCall(method: "DELETE", url: url)).status == 200)
        }
    }

    @Test func whoIsCancelledWaitsNoLonger() async throws {
        let hasAsked = Signal(), mayAnswer = Signal()
        try await withRawServer { peer in
            _ = await peer.request()
            hasAsked.give()
            await mayAnswer.wait()
            try await peer.send(Self.http("404 No", #"{"error":"no app","error_code":"AppNotFound"}"#))
        } _: { port async throws in
            let client = try AppClient(
                appID: "a", baseURL: "http://127.0.0.1:\(port)", store: InMemoryUserStore())
            let task = Task { try await client.refreshLocation() }
            await hasAsked.wait()
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
            let other = Task { try await client.logIn(.anonymous) }
            mayAnswer.give()
            await appFails(.appNotFound) { _ = try await other.value }
        }
    }

    @Test func aRequestThatIsCancelledLeavesNothingOpen() async throws {
        let hasAsked = Signal(), isClosed = Signal()
        try await withRawServer { peer in
            _ = await peer.request()
            hasAsked.give()
            await peer.read()
            isClosed.give()
        } _: { port async throws in
            let task = Task { try await NIOHTTPSender().send(HTTPCall(method: "GET", url: "http://127.0.0.1:\(port)")) }
            await hasAsked.wait()
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
            await isClosed.wait()
        }
    }
}
