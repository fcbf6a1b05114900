import NIOCore
import NIOHTTP1
import Synchronization
import Testing

@testable import AnabranchServer

/// The address of a client behind a proxy.
@Suite struct ProxyTests {
    // MARK: Whom a proxy names

    @Test(arguments: [
        ("127.0.0.1", "127.0.0.1", true), ("127.0.0.1", "127.0.0.2", false), ("10.0.0.0/8", "10.255.1.2", true),
        ("10.0.0.0/8", "11.0.0.0", false), ("10.128.0.0/9", "10.127.0.1", false), ("10.128.0.0/9", "10.200.0.1", true),
        ("0.0.0.0/0", "192.0.2.1", true), ("0.0.0.0/0", "2001:db8::1", false), ("fd00::/8", "fd12::1", true),
        ("fd00::/8", "fe80::1", false), ("127.0.0.1, ::1", "::1", true), ("10.0.0.0/8", "::ffff:10.1.1.1", true),
    ])
    func networksAreKnown(text: String, address: String, isTrusted: Bool) throws {
        let proxies = try #require(TrustedProxies(text))
        #expect(try proxies.contains(SocketAddress(ipAddress: address, port: 1)) == isTrusted)
        #expect(TrustedProxies(proxies.description) == proxies)
    }

    @Test(arguments: [
        "", "localhost", "10.0.0.0/33", "10.0.0.0/-1", "::1/129", "127.0.0.1,", "10.0.0.0/8 127.0.0.1", "10.0.0.0/08",
        "10.0.0.0/+8", "10.0.0.0/ 8", "1 0.0.0.1",
    ])
    func whatIsNoNetworkIsRefused(text: String) { #expect(TrustedProxies(text) == nil) }

    @Test(arguments: [
        ("192.0.2.1", "192.0.2.1"), ("192.0.2.1, 10.0.0.2", "192.0.2.1"), ("198.51.100.9, 192.0.2.1", "192.0.2.1"),
        ("10.0.0.1", nil), ("", nil), ("unknown", nil), ("192.0.2.1, unknown", nil), ("2001:db8::7", "2001:db8::7"),
        ("192.0.2.1:4711", "192.0.2.1"), ("[2001:db8::7]:4711", "2001:db8::7"), ("[2001:db8::7]", "2001:db8::7"),
    ])
    func theLastThatIsNoProxyCounts(header: String, expected: String?) throws {
        let proxies = try #require(TrustedProxies("10.0.0.0/8"))
        #expect(proxies.client(in: ["X-Forwarded-For": header])?.ipAddress == expected)
    }

    // MARK: The PROXY protocol

    private static let signature: [UInt8] = [13, 10, 13, 10, 0, 13, 10, 81, 85, 73, 84, 10]
    private static let headers: [(bytes: [UInt8], client: String?)] = [
        (Array("PROXY TCP4 192.0.2.7 10.0.0.1 4711 443\r\n".utf8), "192.0.2.7:4711"),
        (Array("PROXY TCP6 2001:db8::7 ::1 4711 443\r\n".utf8), "[2001:db8::7]:4711"),
        (Array("PROXY UNKNOWN\r\n".utf8), nil), (Array("PROXY UNKNOWN a b c d\r\n".utf8), nil),
        (signature + [0x21, 0x11, 0, 12, 192, 0, 2, 7, 10, 0, 0, 1, 0x12, 0x67, 1, 187], "192.0.2.7:4711"),
        (signature + [0x21, 0x11, 0, 15, 192, 0, 2, 7, 10, 0, 0, 1, 0x12, 0x67, 1, 187, 4, 0, 0], "192.0.2.7:4711"),
        (signature + [0x20, 0x00, 0, 0], nil), (signature + [0x21, 0x31, 0, 2, 1, 1], nil),
    ]

    @Test func aHeaderIsReadInWhateverPiecesItComes() throws {
        for (bytes, client) in Self.headers {
            for count in 0..<bytes.count {
                var buffer = ByteBuffer(bytes: bytes.prefix(count))
                #expect(try ProxyHeader.read(from: &buffer) == nil)
                #expect(buffer.readableBytes == count)
            }
            var buffer = ByteBuffer(bytes: bytes + Array("GET".utf8))
            let header = try #require(try ProxyHeader.read(from: &buffer))
            #expect(String(buffer: buffer) == "GET")
            let found: String? = if case .client(let address) = header { address.hostAndPort } else { nil }
            #expect(found == client)
        }
    }

    @Test(arguments: [
        Array("GET / HTTP/1.1\r\n".utf8), Array("PROXY TCP4 192.0.2.7 10.0.0.1 4711\r\n".utf8),
        Array("PROXY TCP4 192.0.2.7 10.0.0.1 99999 443\r\n".utf8), Array("PROXY TCP4 a b 1 2\r\n".utf8),
        Array("PROXY TCP4 192.0.2.7 10.0.0.1 4711 443\n".utf8), [UInt8](repeating: 80, count: 6),
        Array("PROXY ".utf8) + [UInt8](repeating: 65, count: 101), signature + [0x31, 0x11, 0, 12],
        signature + [0x21, 0x11, 0xff, 0xff], signature + [0x21, 0x11, 0, 4, 192, 0, 2, 7],
    ])
    func whatIsNoHeaderIsRefused(bytes: [UInt8]) {
        var buffer = ByteBuffer(bytes: bytes)
        #expect(throws: ProxyHeader.ReadError.self) { try ProxyHeader.read(from: &buffer) }
    }

    @Test(
        "both addresses are of the kind that the line names, and there are ports",
        arguments: [
            "TCP6 192.0.2.7 ::1 4711 443", "TCP6 ::7 10.0.0.1 4711 443", "TCP4 2001:db8::7 10.0.0.1 4711 443",
            "TCP4 10.0.0.7 ::1 4711 443", "TCP4 ::ffff:10.0.0.7 10.0.0.1 4711 443", "TCP4 10.0.0.7 10.0.0.1 4711 99999",
            "TCP4 10.0.0.7 b 1 2", "TCP5 10.0.0.7 10.0.0.1 1 2",
        ])
    func whatDoesNotFitTogetherIsRefused(line: String) {
        var buffer = ByteBuffer(string: "PROXY \(line)\r\n")
        #expect(throws: ProxyHeader.ReadError.self) { try ProxyHeader.read(from: &buffer) }
    }

    // MARK: A server

    private final class Addresses: Authenticator {
        let seen = Mutex<[String?]>([])

        func admit(_ credentials: Credentials) async -> Admission {
            seen.withLock { $0.append(credentials.address) }
            return .admitted(Principal(app: "a", user: "ann"))
        }
    }

    private static func settings(_ proxies: String, usesProxyProtocol: Bool = false) throws -> ServerSettings {
        var settings = ServerSettings.small
        settings.trustedProxies = try #require(TrustedProxies(proxies))
        settings.usesProxyProtocol = usesProxyProtocol
        settings.connectionsPerAddressMax = 1
        return settings
    }

    private static func open(_ server: RunningServer, for client: String) async throws -> WebSocketClient {
        try await WebSocketClient.open(port: server.port, headers: "X-Forwarded-For: \(client)\r\n")
    }

    @Test func connectionsCountForThoseWhomTheProxyNames() async throws {
        let addresses = Addresses()
        try await withServer(settings: try Self.settings("127.0.0.1"), authenticator: addresses) { server in
            let first = try await Self.open(server, for: "192.0.2.7")
            let other = try await Self.open(server, for: "198.51.100.1, 192.0.2.8")
            await #expect(throws: WebSocketClient.HandshakeRefused.self) {
                _ = try await Self.open(server, for: "192.0.2.7")
            }
            #expect(addresses.seen.withLock { $0 } == ["192.0.2.7", "192.0.2.8"])
            _ = (first, other)
        }
    }

    @Test func nobodyElseCanNameAnother() async throws {
        let addresses = Addresses()
        try await withServer(settings: try Self.settings("10.0.0.1"), authenticator: addresses) { server in
            _ = try await Self.open(server, for: "192.0.2.7")
            #expect(addresses.seen.withLock { $0 } == ["127.0.0.1"])
        }
    }

    @Test func theProxyProtocolNamesTheClient() async throws {
        let addresses = Addresses()
        let settings = try Self.settings("127.0.0.1", usesProxyProtocol: true)
        try await withServer(settings: settings, authenticator: addresses) { server in
            func open(_ header: [UInt8]) async throws -> WebSocketClient {
                try await WebSocketClient.open(
                    port: server.port, headers: "X-Forwarded-For: 1.2.3.4\r\n", after: header)
            }
            let first = try await open(Self.headers[0].bytes), second = try await open(Self.headers[1].bytes)
            #expect(addresses.seen.withLock { $0 } == ["192.0.2.7", "20010db800000000/64"])
            let third = try await WebSocketClient(port: server.port)
            try await third.write(Self.headers[4].bytes)
            #expect(await third.isAtEnd(), "a second connection of one address")
            let bare = try await WebSocketClient(port: server.port)
            try await bare.write(Array("GET / HTTP/1.1\r\nHost: a\r\n\r\n".utf8))
            #expect(await bare.isAtEnd(), "no header")
            _ = (first, second)
        }
    }
}
