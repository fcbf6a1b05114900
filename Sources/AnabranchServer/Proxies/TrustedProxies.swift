import NIOCore
import NIOHTTP1

/// The proxies in front of a server, which say whose connections they pass on (`Spec/Server.md`, section 6). What
/// others say of themselves does not count.
public struct TrustedProxies: Sendable, Equatable, CustomStringConvertible {
    /// Nobody is trusted: whoever connects is the client.
    public static let none = TrustedProxies(networks: [])

    private struct Network: Equatable {
        /// 16 bytes; an IPv4 address as IPv6 maps it.
        let bytes: [UInt8]
        let bitCount: Int
        let text: String

        init?(_ text: String) {
            let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
            guard let address = parts.first, let found = try? SocketAddress(ipAddress: String(address), port: 0),
                let bytes = found.mappedBytes
            else { return nil }
            let bitsMax = found.protocol == .inet ? 32 : 128
            guard let bitCount = parts.count > 1 ? Int(asPrinted: parts[1]) : bitsMax, 0...bitsMax ~= bitCount
            else { return nil }
            self.bytes = bytes
            self.bitCount = bitCount + 128 - bitsMax
            self.text = text
        }

        func contains(_ other: [UInt8]) -> Bool {
            zip(bytes, other).enumerated().allSatisfy { index, pair in
                let bits = min(8, max(0, bitCount - 8 * index))
                return (pair.0 ^ pair.1) >> (8 - UInt8(bits)) == 0
            }
        }
    }

    private let networks: [Network]

    private init(networks: [Network]) { self.networks = networks }

    /// Reads addresses and networks, with commas between them: `127.0.0.1, 10.0.0.0/8, fd00::/8`. Nil if one is none.
    public init?(_ text: String) {
        var networks: [Network] = []
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            var word = part.drop { $0 == " " }
            while word.last == " " { word.removeLast() }
            guard let network = Network(String(word)) else { return nil }
            networks.append(network)
        }
        self.init(networks: networks)
    }

    /// As `init` reads it.
    public var description: String { networks.map(\.text).joined(separator: ", ") }

    func contains(_ address: SocketAddress?) -> Bool {
        guard let bytes = address?.mappedBytes else { return false }
        return networks.contains { $0.contains(bytes) }
    }

    /// Whom X-Forwarded-For names: each proxy appends from whom it has a request, so the last address counts that is
    /// not that of a trusted proxy. Nil if there is none.
    func client(in headers: HTTPHeaders) -> SocketAddress? {
        for name in headers[canonicalForm: "x-forwarded-for"].reversed() {
            guard let address = Self.address(name) else { return nil }
            if !contains(address) { return address }
        }
        return nil
    }

    /// Some proxies write the port behind the address.
    private static func address(_ text: Substring) -> SocketAddress? {
        if let address = try? SocketAddress(ipAddress: String(text), port: 0) { return address }
        guard let match = text.wholeMatch(of: /\[?([0-9a-fA-F.:]+?)\]?(:[0-9]+)?/) else { return nil }
        return try? SocketAddress(ipAddress: String(match.1), port: 0)
    }
}

/// Whose socket it is, as far as the limits and the log are concerned. Belongs to the socket's event loop.
final class ClientOrigin {
    private let proxies: TrustedProxies
    /// Whether a trusted proxy is at the other end.
    let isProxy: Bool
    private let usesForwardedFor: Bool
    /// The other end of the socket, or whom the PROXY header has named.
    var address: SocketAddress?

    init(of channel: any Channel, _ settings: ServerSettings) {
        address = channel.remoteAddress
        proxies = settings.trustedProxies
        isProxy = proxies.contains(channel.remoteAddress)
        usesForwardedFor = isProxy && !settings.usesProxyProtocol
    }

    /// Whom a proxy has named in a request; nil if no proxy has.
    func forwarded(_ head: HTTPRequestHead) -> SocketAddress? {
        usesForwardedFor ? proxies.client(in: head.headers) : nil
    }

    /// Who makes a request.
    func address(of head: HTTPRequestHead) -> SocketAddress? { forwarded(head) ?? address }
}

extension SocketAddress {
    /// The 16 bytes of the IPv6 address, or of the one to which an IPv4 address is mapped; nil for another kind.
    fileprivate var mappedBytes: [UInt8]? {
        switch self {
        case .v4(let address):
            var bytes = [UInt8](repeating: 0, count: 10) + [0xff, 0xff]
            // In `sockaddr_in` the address comes after its family and port.
            bytes += withUnsafeBytes(of: address.address) { Array($0[4..<8]) }
            return bytes
        case .v6(let address):
            return withUnsafeBytes(of: address.address) { Array($0[8..<24]) }
        case .unixDomainSocket:
            return nil
        }
    }
}
