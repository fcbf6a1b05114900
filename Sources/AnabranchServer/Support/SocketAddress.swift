import AnabranchCore
import NIOCore

extension SocketAddress {
    /// Whom limits take for one client: an IPv4 address, or the 64 bits of an IPv6 address that a network shares; nil
    /// if the address is of another kind.
    var client: String? {
        guard case .v6(let address) = self else { return ipAddress }
        let bytes = withUnsafeBytes(of: address.address.sin6_addr) { Array($0) }
        let isIPv4 = bytes.prefix(10).allSatisfy { $0 == 0 }
        return isIPv4 ? ipAddress : Hex.encode(bytes.prefix(8)) + "/64"
    }

    /// For people; nil if the address is of another kind.
    var hostAndPort: String? {
        guard let host = ipAddress, let port else { return nil }
        return host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
}
