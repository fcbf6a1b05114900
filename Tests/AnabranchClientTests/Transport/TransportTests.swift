import AnabranchClient
import AnabranchServer
import Foundation
import NIOCore
import Testing

/// WebSockets to the real server.
@Suite(.timeLimit(.minutes(30))) struct TransportTests {
    static let offers = (2...14).reversed().map { "com.mongodb.realm-sync#\($0)" }

    static func request(_ url: String, protocols: [String] = offers) -> WebSocketRequest {
        WebSocketRequest(
            url: url, protocols: protocols, userAgent: "RealmSync/14.14.0 (test)", headers: [("X-Of-App", "yes")])
    }

    /// The server's answer to a PING.
    private static func pong(of connection: any TransportConnection) async throws -> String {
        try await connection.send(Array("ping 7 0\n".utf8))
        return String(decoding: try await connection.receive(), as: UTF8.self)
    }

    static func error(_ body: @Sendable () async throws -> Void) async -> TransportError? {
        await thrown(TransportError.self, by: body)
    }

    @Test func messagesGoBothWays() async throws {
        try await withServer { _, port async throws in
            let connection = try await NIOTransport().connect(
                Self.request("ws://127.0.0.1:\(port)/realm-sync?baas_at="))
            #expect(connection.chosenProtocol == "com.mongodb.realm-sync#14")
            #expect(try await Self.pong(of: connection) == "pong 7\n")
            await connection.close()
            let error = await Self.error { _ = try await connection.receive() }
            #expect(error?.code == .disconnected)
            await transportFails(.disconnected) { _ = try await connection.send([1]) }
            await connection.close()
        }
    }

    // MARK: TLS

    private static let certificate = TestApp.fixtures.appending(path: "smtp/certificate.pem")

    private static func withTLS(_ body: (_ port: Int) async throws -> Void) async throws {
        let key = TestApp.fixtures.appending(path: "smtp/key.pem").path
        let files = try await TLSFiles(certificatePath: certificate.path, keyPath: key, logger: .quiet)
        try await withServer(tls: files) { _, port in try await body(port) }
    }

    private static func options(_ change: (inout TLSOptions) -> Void = { _ in }) throws -> TLSOptions {
        var options = TLSOptions()
        options.roots = .only(pem: try String(contentsOf: certificate, encoding: .utf8))
        change(&options)
        return options
    }

    @Test(arguments: ["127.0.0.1", "localhost"]) func aServerWithATrustedCertificateIsSpokenTo(host: String)
        async throws
    {
        try await Self.withTLS { port async throws in
            let pem = try String(contentsOf: Self.certificate, encoding: .utf8)
            let possible = [
                try Self.options(), try Self.options { $0.roots = .systemAnd(pem: pem) },
                try Self.options { options in
                    options.roots = .system
                    options.verifiesCertificate = false
                },
                try Self.options { $0.serverName = "localhost" },
            ]
            for options in possible {
                let connection = try await NIOTransport(tls: options)
                    .connect(Self.request("wss://\(host):\(port)/realm-sync"))
                #expect(try await Self.pong(of: connection) == "pong 7\n")
                await connection.close()
            }
        }
    }

    @Test func nobodyElseIsTrusted() async throws {
        try await Self.withTLS { port async throws in
            await transportFails(.notTrusted) {
                _ = try await NIOTransport().connect(Self.request("wss://localhost:\(port)/realm-sync"))
            }
        }
    }

    @Test func certificatesHaveToBePEM() async throws {
        var options = TLSOptions()
        options.roots = .only(pem: "none")
        let error = await Self.error { [options] in
            _ = try await NIOTransport(tls: options).connect(Self.request("wss://localhost:1/realm-sync"))
        }
        #expect(error?.code == .invalidRequest)
    }

    // MARK: Refusals

    private struct Refusing: Authenticator {
        let admission: Admission

        func admit(_ credentials: AnabranchServer.Credentials) async -> Admission { admission }
    }

    @Test func theStatusOfARefusalIsPassedOn() async throws {
        try await withServer(authenticator: Refusing(admission: .unavailable)) { _, port async throws in
            let busy = await Self.error {
                _ = try await NIOTransport().connect(Self.request("ws://127.0.0.1:\(port)/realm-sync"))
            }
            #expect(busy?.code == .refused(status: 503))
            #expect(busy?.reason.contains("try again later") == true, "\(busy?.reason ?? "")")
            let elsewhere = await Self.error {
                _ = try await NIOTransport().connect(Self.request("ws://127.0.0.1:\(port)/nothing"))
            }
            #expect(elsewhere?.code == .refused(status: 404))
        }
    }

    @Test(arguments: [true, false]) func theCloseCodeOfTheServerIsPassedOn(wantsToken: Bool) async throws {
        let admission: Admission = wantsToken ? .tokenRefused(reason: "old") : .userRefused(reason: "gone")
        try await withServer(authenticator: Refusing(admission: admission)) { _, port async throws in
            let connection = try await NIOTransport().connect(Self.request("ws://127.0.0.1:\(port)/realm-sync"))
            let error = await Self.error { _ = try await connection.receive() }
            #expect(error?.code == .closed(code: wantsToken ? 4001 : 4002))
            let again = await Self.error { _ = try await connection.receive() }
            #expect(again == error, "it stays the reason")
            let sending = await Self.error { try await connection.send([1]) }
            #expect(sending == error)
        }
    }

    @Test func aServerThatIsAwayIsUnreachable() async throws {
        let port = try await withRawServer({ _ in }) { $0 }
        let error = await Self.error {
            _ = try await NIOTransport().connect(Self.request("ws://127.0.0.1:\(port)/realm-sync"))
        }
        #expect(error?.code == .unreachable)
        #expect(error?.reason == "127.0.0.1:\(port): Connection refused")
    }

    @Test(arguments: [
        "http://localhost/realm-sync", "ws:/localhost", "ws://", "ws://user@localhost/", "ws://localhost:70000/",
        "ws://localhost/a b", "ws://localhost/#a", "ws://localhost:0/", "",
    ])
    func whatIsNoURLIsNotAskedFor(url: String) async {
        await transportFails(.invalidRequest) { _ = try await NIOTransport().connect(Self.request(url)) }
    }

    @Test(arguments: [("Host", "a"), ("X-A", "a\r\nX-B: b"), ("X A", "a"), ("", "a"), ("Sec-WebSocket-Key", "a")])
    func whatIsNoHeaderIsNotSent(name: String, value: String) async {
        var request = Self.request("ws://localhost:1/")
        request.headers = [(name, value)]
        let error = await Self.error { [request] in _ = try await NIOTransport().connect(request) }
        #expect(error?.code == .invalidRequest)
    }

    @Test(arguments: [[], ["a b"], ["a,b"], [""]]) func whatIsNoProtocolIsNotOffered(protocols: [String]) async {
        let request = Self.request("ws://localhost:1/", protocols: protocols)
        await transportFails(.invalidRequest) { _ = try await NIOTransport().connect(request) }
    }
}
