import NIOCore

/// The parts of a URL by which a connection is opened. It has no user, password or fragment.
package struct WebURL: Equatable, Sendable {
    /// The part before the colon, in lower case.
    package let scheme: String
    /// A name or an address, the latter without brackets.
    package let host: String
    package let port: Int
    /// Path and query as they stand, "/" at least.
    package let target: String

    /// - Parameter ports: the schemes that are possible, with the port that each has by itself.
    /// - Returns: nil if the text is no such URL.
    package init?(_ text: String, ports: [String: Int]) {
        let match = text.wholeMatch(
            of: /([A-Za-z]+):\/\/(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::([0-9]{1,5}))?([\/?][!-"$-~]*)?/)
        guard let match, let standard = ports[match.output.1.lowercased()],
            let port = match.output.4.map({ UInt16($0) }) ?? UInt16(exactly: standard), port > 0
        else { return nil }
        scheme = match.output.1.lowercased()
        host = String(match.output.2 ?? match.output.3 ?? "")
        self.port = Int(port)
        let target = match.output.5.map(String.init) ?? ""
        self.target = target.hasPrefix("/") ? target : "/" + target
        hasStandardPort = Int(port) == standard
    }

    private let hasStandardPort: Bool

    /// The path before those of a server, without a slash at the end; empty if there is none.
    package var basePath: String {
        var path = target.prefix { $0 != "?" }
        while path.hasSuffix("/") { path = path.dropLast() }
        return String(path)
    }

    /// The value of the header `Host`.
    package var authority: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return hasStandardPort ? name : "\(name):\(port)"
    }

    /// The name by which the server's certificate has to know it: an address is not a name, and the certificate is then
    /// compared with the address of the socket.
    package var serverName: String? { Self.serverName(host) }

    package static func serverName(_ host: String) -> String? {
        (try? SocketAddress(ipAddress: host, port: 0)) == nil ? host : nil
    }
}
