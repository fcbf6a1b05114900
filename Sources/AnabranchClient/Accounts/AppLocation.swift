import AnabranchCore
import AnabranchHTTP

/// The addresses of an app's server (`Spec/Protocol.md`, sections 1 and 1.7).
struct AppLocation: Equatable, Sendable {
    /// Scheme, host, port and path before the base route of HTTP requests, without a slash at the end.
    let host: String
    /// The URL of WebSockets, without a token.
    let syncRoute: String

    static let basePath = "/api/client/v2.0"
    static let httpPorts = ["http": 80, "https": 443]
    private static let webSocketPorts = ["ws": 80, "wss": 443]

    /// - Throws: `AppError` if the answer is not a location, or leads from `https` to a URL without TLS: passwords and
    ///   tokens would travel unencrypted.
    init(_ answer: JSONValue, of app: String, at baseURL: String) throws(AppError) {
        guard let host = answer["hostname"]?.string, let webSocketHost = answer["ws_hostname"]?.string else {
            throw AppError(.badAnswer, "the location has no hostname or no ws_hostname")
        }
        self.host = Self.withoutSlashes(host)
        let standardRoute = Self.withoutSlashes(webSocketHost) + "\(Self.basePath)/app/\(app)/realm-sync"
        syncRoute = answer["sync_route"]?.string ?? standardRoute
        let isSecure = baseURL.hasPrefix("https:")
        for (url, ports, secure) in [
            (self.host, Self.httpPorts, "https"), (syncRoute, Self.webSocketPorts, "wss"),
        ] {
            guard let parts = WebURL(url, ports: ports) else {
                throw AppError(.badAnswer, "the location names no URL that can be used: '\(url)'")
            }
            guard !isSecure || parts.scheme == secure else {
                throw AppError(
                    .badAnswer, "the location leads from https to '\(url)': the server has to be told its public URL")
            }
        }
    }

    static func withoutSlashes(_ url: String) -> String {
        var url = Substring(url)
        while url.hasSuffix("/") { url = url.dropLast() }
        return String(url)
    }

    /// The URL of a WebSocket. The token stands in it as it is, since none of its characters needs an escape.
    static func url(route: String, token: String) -> String {
        route + (route.contains("?") ? "&" : "?") + "baas_at=" + token
    }
}

/// The URLs of servers without an app layer (`Spec/Protocol.md`, section 1.7).
public enum SyncRoute {
    /// The URL of a WebSocket, for a client that the server lets in without a log-in.
    /// - Parameter baseURL: scheme, host and port, as `ws://localhost:9090`, and the path if the server is below one;
    ///   `http` and `https` are possible as well.
    /// - Throws: `AppError` if it is no such URL.
    public static func withoutApp(baseURL: String) throws -> String {
        let ports = ["ws": 80, "wss": 443, "http": 80, "https": 443]
        guard let parts = WebURL(AppLocation.withoutSlashes(baseURL), ports: ports), !parts.target.contains("?") else {
            throw AppError(.invalidURL, "no URL as ws://localhost:9090")
        }
        let scheme = parts.scheme.replacing("http", with: "ws")
        return AppLocation.url(route: "\(scheme)://\(parts.authority)\(parts.basePath)/realm-sync", token: "")
    }
}
