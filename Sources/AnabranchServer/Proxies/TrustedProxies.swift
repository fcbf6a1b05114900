import NIOCore
import NIOHTTP1

/// The proxies in front of a server that are trusted to name their clients (`Spec/Server.md`, section 6). Headers from
/// anybody else do not count.
public struct TrustedProxies: Sendable, Equatable, CustomStringConvertible {
    /// No proxy is trusted: the peer of each connection is the client.
    public static let none = TrustedProxies(networks: [])

    private struct Network: Equatable {
        /// The 16 bytes of the address; an IPv4 address as IPv6 maps it.
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

    /// Reads addresses and networks, with commas between them: `127.0.0.1, 10.0.0.0/8, fd00::/8`. Nil if one of them is
    /// malformed.
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

    /// The addresses and networks, in the form that `init` reads.
    public var description: String { networks.map(\.text).joined(separator: ", ") }

    func contains(_ address: SocketAddress?) -> Bool {
        guard let bytes = address?.mappedBytes else { return false }
        return networks.contains { $0.contains(bytes) }
    }

    /// The client that X-Forwarded-For names: each proxy appends the address that its request came from, so the last
    /// address that is not a trusted proxy's counts. Nil if there is none.
    func client(in headers: HTTPHeaders) -> SocketAddress? {
        for name in headers[canonicalForm: "x-forwarded-for"].reversed() {
            guard let address = Self.address(name) else { return nil }
            if !contains(address) { return address }
        }
        return nil
    }

    /// Reads an address; some proxies write the port after it.
    private static func address(_ text: Substring) -> SocketAddress? {
        if let address = try? SocketAddress(ipAddress: String(text), port: 0) { return address }
        guard let match = text.wholeMatch(of: /\[?([0-9a-fA-F.:]+?)\]?(:[0-9]+)?/) else { return nil }
        return try? SocketAddress(ipAddress: String(match.1), port: 0)
    }
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
