package import AnabranchProtocol
import Foundation

/// Where the server is, and as whom clients come.
package struct SyncTarget: Sendable {
    package var host: String
    package var port: Int
    /// With the query, which has the token.
    package var path: String
    /// What clients come with.
    package var mode = SyncMode.partition
    /// What to do if the server does not let clients in, for people, behind a colon; perhaps nothing.
    package var advice = ""

    /// - Parameter text: `ws://HOST:PORT`, with or without a path.
    package init(url text: String) throws {
        guard let url = URLComponents(string: text), let host = url.host, !host.isEmpty,
            url.query == nil, url.fragment == nil, url.user == nil
        else { throw TestClientError("'\(text)' has to be like ws://127.0.0.1:9090") }
        guard url.scheme == "ws" else {
            throw TestClientError("'\(text)' does not begin with ws:// (there is no TLS here)")
        }
        self.host = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
        port = url.port ?? 80
        path = url.path.count > 1 ? url.path : "/realm-sync"
    }

    /// For the header `Host`, and for people.
    package var authority: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    /// The same for clients of flexible sync, who come without a token.
    package func flexible(app: String) -> SyncTarget {
        var target = self
        target.path = "/api/client/v2.0/app/\(app)/realm-sync"
        target.mode = .flexible
        return target
    }

    /// The same for clients with a token, if they have one. Those of an app come by the path of the app.
    package func with(token: String?, app: String?) -> SyncTarget {
        var target = self
        if let app, path == "/realm-sync" { target.path = "/api/client/v2.0/app/\(app)/realm-sync" }
        if let token { target.path += "?baas_at=" + token }
        return target
    }
}
