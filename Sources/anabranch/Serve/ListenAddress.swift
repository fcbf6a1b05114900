import AnabranchServer
import NIOCore
import NIOPosix

/// `host:port`; an IPv6 address stands in brackets.
struct ListenAddress: CustomStringConvertible, Sendable {
    let host: String
    let port: Int

    init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    init?(argument: String) {
        guard let colon = argument.lastIndex(of: ":"),
            let port = UInt16(asPrinted: argument[argument.index(after: colon)...])
        else { return nil }
        var host = argument[..<colon]
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
        } else if host.contains(":") {
            return nil
        }
        guard !host.isEmpty else { return nil }
        self.init(host: String(host), port: Int(port))
    }

    var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    /// The address at which this machine reaches it: nobody can connect to one that stands for all addresses of the
    /// machine.
    var ofThisMachine: ListenAddress {
        switch host {
        case "0.0.0.0": ListenAddress(host: "127.0.0.1", port: port)
        case "::": ListenAddress(host: "::1", port: port)
        default: self
        }
    }

    /// Listens there for a moment.
    /// - Throws: `ListenError` if that is not possible, for instance because another process listens there.
    func check() async throws {
        do {
            let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .serverChannelOption(.socketOption(.so_reuseaddr), value: 1).bind(host: host, port: port).get()
            try await channel.close()
        } catch {
            throw ListenError(host: host, port: port, error)
        }
    }

    /// True if only this machine can reach the address. Names other than `localhost` may mean anything.
    var isLoopback: Bool {
        if host == "localhost" || host == "::1" { return true }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false).map { UInt8(asPrinted: $0) }
        return parts.count == 4 && parts[0] == 127 && !parts.contains(nil)
    }
}
