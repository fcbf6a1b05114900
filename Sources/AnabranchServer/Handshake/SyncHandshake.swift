import AnabranchProtocol
import NIOHTTP1

/// A request for a WebSocket that speaks the sync protocol (`Spec/Protocol.md`, section 2).
struct SyncHandshake: Sendable {
    let credentials: Credentials
    let negotiation: Negotiation

    /// Whether a request is for the sync protocol, well formed or not.
    static func isSyncRequest(_ head: HTTPRequestHead) -> Bool { app(of: head.uri.prefix { $0 != "?" }) != nil }

    /// - Parameters:
    ///   - address: the client's IP address, if it is known.
    ///   - mode: the kind of sync of an app whose client came with a kind.
    /// - Throws: `unknownPath` or `malformed`.
    init(
        _ head: HTTPRequestHead, from address: String? = nil,
        mode: (_ app: String, _ offered: SyncMode) -> SyncMode = { _, _ in .partition }
    ) throws(HandshakeError) {
        let parts = head.uri.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        guard let app = Self.app(of: parts[0]) else { throw .unknownPath }
        guard head.method == .GET, head.version == .http1_1 else { throw .malformed("a WebSocket begins with GET") }
        guard head.headers[canonicalForm: "upgrade"].contains(where: { $0.lowercased() == "websocket" }),
            head.headers[canonicalForm: "connection"].contains(where: { $0.lowercased() == "upgrade" })
        else { throw .malformed("this endpoint speaks WebSocket only") }
        guard head.headers["sec-websocket-version"] == ["13"] else { throw .malformed("WebSocket version") }
        let keys = head.headers["sec-websocket-key"]
        guard keys.count == 1, Self.isKey(keys[0]) else { throw .malformed("WebSocket key") }
        do {
            func negotiate(_ modes: Set<SyncMode>) throws(NegotiationError) -> Negotiation {
                try Negotiation(
                    offer: head.headers["sec-websocket-protocol"].joined(separator: ","),
                    userAgent: head.headers["user-agent"].first, accepting: modes)
            }
            negotiation = try negotiate([mode(app, try negotiate([.partition, .flexible]).mode)])
        } catch {
            throw .malformed("no known subprotocol")
        }
        credentials = Credentials(
            app: app, token: parts.count > 1 ? Self.token(of: parts[1]) : "", address: address,
            isOfWebPage: head.headers.contains(name: "origin"))
    }

    /// The app id of `/api/client/v2.0/app/<id>/realm-sync`; empty for `/realm-sync`; nil for any other path.
    private static func app(of path: Substring) -> String? {
        if path == "/realm-sync" { return "" }
        let prefix = "/api/client/v2.0/app/", suffix = "/realm-sync"
        guard path.hasPrefix(prefix), path.hasSuffix(suffix), path.utf8.count > prefix.utf8.count + suffix.utf8.count
        else { return nil }
        let app = path.dropFirst(prefix.count).dropLast(suffix.count)
        return app.contains("/") ? nil : String(app)
    }

    /// Clients put the token into the URL as it is, without percent-encoding.
    private static func token(of query: Substring) -> String {
        let name = "baas_at="
        return query.split(separator: "&").first { $0.hasPrefix(name) }.map { String($0.dropFirst(name.count)) } ?? ""
    }

    /// 16 bytes in Base64.
    private static func isKey(_ text: String) -> Bool {
        let digits = text.utf8.dropLast(2)
        return text.utf8.count == 24 && text.hasSuffix("==")
            && digits.allSatisfy {
                (0x30...0x39).contains($0) || (0x41...0x5a).contains($0) || (0x61...0x7a).contains($0)
                    || $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "/")
            }
    }
}
