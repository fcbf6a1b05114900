import AnabranchCore
import NIOCore

extension SocketAddress {
    /// The name by which limits count a client: its IPv4 address, or the first 64 bits of its IPv6 address, which all
    /// machines of a network share. Nil for an address of another kind.
    var client: String? {
        guard case .v6(let address) = self else { return ipAddress }
        // In `sockaddr_in6` the address comes after its family, port and flow information.
        let bytes = withUnsafeBytes(of: address.address) { Array($0[8..<24]) }
        let isIPv4 = bytes.prefix(10).allSatisfy { $0 == 0 }
        return isIPv4 ? ipAddress : Hex.encode(bytes.prefix(8)) + "/64"
    }

    /// The address as people write it, with its port if that is known; nil for an address of another kind.
    var hostAndPort: String? {
        guard let host = ipAddress, let port else { return nil }
        guard port > 0 else { return host }
        return host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
}
