import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import CryptoExtras
import Testing

@testable import AnabranchServer

/// A server with an app `shop` for clients of forks alone, and the issuer of their tokens.
struct ForkRig {
    let server: AppServicesRig
    let issuer: TokenIssuer

    /// - Parameters:
    ///   - others: apps beside it.
    ///   - change: what is to be different about the app.
    ///   - prepare: is called with the issuer before the server starts.
    static func run(
        store: any HistoryStore = InMemoryStore(), flexible: Bool = false, others: [String: AppSettings] = [:],
        change: (inout AppSettings) -> Void = { _ in }, prepare: (TokenIssuer) throws -> Void = { _ in },
        _ body: (ForkRig) async throws -> Void
    ) async throws {
        let issuer = try TokenIssuer()
        try prepare(issuer)
        var app = AppSettings(providers: [], issuer: CustomTokenIssuer(jwks: issuer.path))
        app.isFlexible = flexible
        app.forks = [.barq: ForkSettings(), .tessera: ForkSettings()]
        change(&app)
        var settings = AppServicesRig.development
        settings.apps = others.merging(["shop": app]) { $1 }
        try await AppServicesRig.run(settings, store: store) { settings in
            settings.forks = WireDialect.forks
            settings.flexibleApps = flexible ? ["shop"] : []
        } _: { server async throws in
            try await body(ForkRig(server: server, issuer: issuer))
        }
    }

    var now: Int64 { Int64(server.clock.now) }

    /// The claims of a good token; null takes one away.
    private func claims(_ changes: [String: JSONValue]) -> [String: JSONValue] {
        let claims: [String: JSONValue] = [
            "sub": "u1", "app_id": "shop", "access": ["download", "upload"], "iat": .integer(now),
            "exp": .integer(now + 3_600),
        ]
        return claims.merging(changes) { $1 }
    }

    func token(_ changes: [String: JSONValue] = [:], key: String = "r", alg: String = "RS256") throws -> String {
        let none: [String: JSONValue] = ["aud": .null, "iss": .null]
        return try issuer.token(key, alg: alg, claims(none.merging(changes) { $1 }), now: server.clock.now)
    }

    /// As Realm Object Server had them.
    func oldToken(_ changes: [String: JSONValue] = [:]) throws -> String {
        let payload = Array(JSONValue.object(claims(changes)).encoded.utf8)
        let signature = try issuer.rsa.signature(for: payload, padding: .insecurePKCS1v1_5).rawRepresentation
        return Base64.encode(payload) + ":" + Base64.encode(Array(signature))
    }

    /// A good one, but for the signature.
    static func tokenOfAnotherIssuer(_ rig: ForkRig) throws -> String {
        try ForkRig(server: rig.server, issuer: TokenIssuer()).token()
    }

    static func offer(_ prefix: String) -> String {
        (2...14).reversed().map { "\(prefix)#\($0)" }.joined(separator: ", ")
    }

    /// A WebSocket as Barq's clients open it.
    func open(_ token: String, prefix: String = "io.barq.sync") async throws -> WebSocketClient {
        try await WebSocketClient.open(
            port: server.port, path: "/barq-sync?barq_at=\(token)", offer: Self.offer(prefix),
            headers: "User-Agent: BarqSync/14.14.0 (Linux)\r\n")
    }

    /// As Tessera's do.
    func openTessera(_ token: String) async throws -> WebSocketClient {
        try await WebSocketClient.open(
            port: server.port, path: "/tessera-sync?baas_at=\(token)", offer: Self.offer("io.tessera.sync"))
    }

    /// A client file of Barq whose token is this.
    func client(_ partition: String, _ token: String) -> SyncClient {
        let client = SyncClient(partition: partition) { server.port }
        (client.path, client.offer) = ("/barq-sync?barq_at=\(token)", Self.offer("io.barq.sync"))
        return client
    }

    /// The result of a token: the close code if it is refused, or else the answer to BIND, in short.
    func outcome(_ token: String, binding partition: String = "list") async throws -> String {
        let socket = try await open(token)
        return try await Self.outcome(socket, binding: partition)
    }

    static func outcome(_ socket: WebSocketClient, binding partition: String) async throws -> String {
        // A client whose connection is being closed may not get rid of it any more.
        try? await socket.send("bind 1 \(partition.utf8.count) 0 1 0\n\(partition)")
        let frame = try await socket.receive()
        if let code = frame.closeCode { return "closed with \(code)" }
        let message = SyncMessage(frame.payload)
        guard message.kind == "json_error" else { return message.kind }
        let error = try JSONValue(parsing: message.body)
        return "\(message.words[1]) to \(message.words[3]): \(error["action"]?.string ?? ""), "
            + "try again: \(error["tryAgain"] == true)"
    }
}
