import AnabranchCore
package import AnabranchProtocol
import Foundation

/// The address of a server, and the way in which clients connect to it.
package struct SyncTarget: Sendable {
    package var host: String
    package var port: Int
    /// The path with the query, which has the token.
    package var path: String
    /// The mode of sync that clients ask for.
    package var mode = SyncMode.partition
    /// The release that clients say they are.
    package var release = ToldRelease()
    /// Advice for people if the server does not let clients in, beginning with a colon; may be empty.
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

    /// Host and port, for the header `Host` and for people.
    package var authority: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    /// The target for clients of flexible sync, which have no token.
    package func flexible(app: String) -> SyncTarget {
        var target = self
        target.path = "/api/client/v2.0/app/\(app)/realm-sync"
        target.mode = .flexible
        return target
    }

    /// The target for clients with a token, if they have one. Those of an app use the path of the app.
    package func with(token: String?, app: String?) -> SyncTarget {
        var target = self
        if let app, path == "/realm-sync" { target.path = "/api/client/v2.0/app/\(app)/realm-sync" }
        if let token { target.path += "?baas_at=" + token }
        return target
    }
}

/// The words of a client about its release when it connects (`Spec/Protocol.md`, section 2.1).
package struct ToldRelease: Sendable {
    /// The highest version of the protocol that it offers.
    package var version = ProtocolVersion(ProtocolVersion.supported.upperBound)
    /// The header `User-Agent`.
    package var userAgent = "anabranch-test-client"

    package init() {}

    /// That of a released client.
    /// - Parameter core: its realm-core, such as `13.27.0`.
    package init(core: String, version: ProtocolVersion) {
        self.version = version
        userAgent = "RealmSync/\(core) (Linux Linux 6.1.0 x86_64) test"
    }

    /// The header `Sec-WebSocket-Protocol`: versions in descending order; releases that know none after 7 write a
    /// slash.
    func offer(of mode: SyncMode) -> String {
        let all = ClientHandshake(mode).offer.split(separator: ",")
        let offer = all.dropFirst(ProtocolVersion.supported.upperBound - version.number).joined(separator: ",")
        return version.number < 8 ? String(offer.map { $0 == "#" ? "/" : $0 }) : offer
    }

    /// The capabilities that such a client has.
    var capabilities: ClientCapabilities { ClientRelease(offering: version, userAgent: userAgent).capabilities }
}
