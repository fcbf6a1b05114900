import AnabranchProtocol
import Foundation

/// Where the server is, and as whom clients come.
struct LoadTarget: Sendable {
    var host: String
    var port: Int
    /// With the query, which has the token.
    var path: String
    /// What clients come with.
    var mode = SyncMode.partition

    /// - Parameter text: `ws://HOST:PORT`, with or without a path.
    init(url text: String) throws {
        guard let url = URLComponents(string: text), let host = url.host, !host.isEmpty,
            url.query == nil, url.fragment == nil, url.user == nil
        else { throw LoadError("--url: '\(text)' has to be like ws://127.0.0.1:9090") }
        guard url.scheme == "ws" else {
            throw LoadError("--url: '\(text)' does not begin with ws:// (TLS is not measured here)")
        }
        self.host = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
        port = url.port ?? 80
        path = url.path.count > 1 ? url.path : "/realm-sync"
    }

    /// For the header `Host`, and for people.
    var authority: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    /// The same for clients of flexible sync, who come without a token.
    func flexible(app: String) -> LoadTarget {
        var target = self
        target.path = "/api/client/v2.0/app/\(app)/realm-sync"
        target.mode = .flexible
        return target
    }

    /// The same for clients with a token. Those of an app come by the path of the app.
    func with(token: String, app: String?) -> LoadTarget {
        var target = self
        if let app, path == "/realm-sync" { target.path = "/api/client/v2.0/app/\(app)/realm-sync" }
        target.path += "?baas_at=" + token
        return target
    }
}
