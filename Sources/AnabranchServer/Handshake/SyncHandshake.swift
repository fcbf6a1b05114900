import AnabranchProtocol
import NIOHTTP1

/// A request for a WebSocket of the sync protocol (`Spec/Protocol.md`, section 2).
struct SyncHandshake: Sendable {
    let credentials: Credentials
    /// As if the app could have either mode.
    let negotiation: Negotiation
    private let offer: String
    private let userAgent: String?

    /// Returns true if a request is for the sync protocol, well formed or not.
    static func isSyncRequest(_ head: HTTPRequestHead, in dialects: [WireDialect]) -> Bool {
        target(of: head.uri.prefix { $0 != "?" }, in: dialects) != nil
    }

    /// - Parameters:
    ///   - address: the client's IP address, if it is known.
    ///   - dialects: those that are served.
    /// - Throws: `unknownPath` or `malformed`.
    init(
        _ head: HTTPRequestHead, from address: String? = nil, in dialects: [WireDialect] = [.realm]
    ) throws(HandshakeError) {
        let parts = head.uri.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        guard let (dialect, app) = Self.target(of: parts[0], in: dialects) else { throw .unknownPath }
        try head.checkWebSocket()
        offer = head.headers["sec-websocket-protocol"].joined(separator: ",")
        userAgent = head.headers["user-agent"].first
        do {
            negotiation = try Negotiation(
                offer: offer, userAgent: userAgent, accepting: [.partition, .flexible], in: dialect)
        } catch {
            throw .malformed("no known subprotocol")
        }
        credentials = Credentials(
            dialect: dialect, app: app,
            token: parts.count > 1 ? Self.token(of: parts[1], in: dialect.tokenParameter + "=") : "", address: address,
            isOfWebPage: head.headers.contains(name: "origin"))
    }

    /// The protocol for a client of an app of this mode.
    func negotiation(for mode: SyncMode) -> Negotiation {
        // The same elements are there whatever is accepted.
        (try? Negotiation(offer: offer, userAgent: userAgent, accepting: [mode], in: credentials.dialect))
            ?? negotiation
    }

    /// The dialect of a path, and the app id in it, empty if there is none. Nil for any other path.
    private static func target(of path: Substring, in dialects: [WireDialect]) -> (dialect: WireDialect, app: String)? {
        if let dialect = dialects.first(where: { path == $0.path }) { return (dialect, "") }
        let prefix = "/api/client/v2.0/app/"
        guard path.hasPrefix(prefix),
            let dialect = dialects.first(where: { $0.hasPathsOfApps && path.hasSuffix($0.path) }),
            path.utf8.count > prefix.utf8.count + dialect.path.utf8.count
        else { return nil }
        let app = path.dropFirst(prefix.count).dropLast(dialect.path.count)
        // An accent after a slash makes both one `Character`.
        return app.utf8.contains(UInt8(ascii: "/")) ? nil : (dialect, String(app))
    }

    /// Clients put the token into the URL as it is, without percent-encoding.
    private static func token(of query: Substring, in name: String) -> String {
        query.split(separator: "&").first { $0.hasPrefix(name) }.map { String($0.dropFirst(name.count)) } ?? ""
    }
}

extension HTTPRequestHead {
    /// Checks that the request opens a WebSocket (RFC 6455, section 4.2.1).
    /// - Throws: `malformed`.
    func checkWebSocket() throws(HandshakeError) {
        guard method == .GET, version == .http1_1 else { throw .malformed("a WebSocket begins with GET") }
        guard headers[canonicalForm: "upgrade"].contains(where: { $0.lowercased() == "websocket" }),
            headers[canonicalForm: "connection"].contains(where: { $0.lowercased() == "upgrade" })
        else { throw .malformed("this endpoint speaks WebSocket only") }
        guard headers["sec-websocket-version"] == ["13"] else { throw .malformed("WebSocket version") }
        let keys = headers["sec-websocket-key"]
        guard keys.count == 1, Self.isKey(keys[0]) else { throw .malformed("WebSocket key") }
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
