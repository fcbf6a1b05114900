import Foundation
package import NIOCore
package import NIOHTTP1
import NIOPosix
package import NIOSSL

/// One request to another server, on a connection of its own.
package struct HTTPExchange: Sendable {
    private let host: String
    private let port: Int
    private let tls: (@Sendable () throws -> NIOSSLClientHandler)?
    private let answerBytesMax: Int

    /// - Parameters:
    ///   - tls: makes what encrypts the connection; nil for none.
    ///   - answerBytesMax: a longer body of an answer is an error.
    package init(
        host: String, port: Int, tls: (@Sendable () throws -> NIOSSLClientHandler)?, answerBytesMax: Int
    ) {
        self.host = host
        self.port = port
        self.tls = tls
        self.answerBytesMax = answerBytesMax
    }

    /// The name by which the server's certificate has to know it: an address is no name, and the certificate is then
    /// compared with the address of the socket.
    package static func serverName(_ host: String) -> String? {
        (try? SocketAddress(ipAddress: host, port: 0)) == nil ? host : nil
    }

    /// - Returns: nil if the server closed the connection without an answer, also because time was up.
    package func answer(
        _ method: HTTPMethod, _ uri: String, _ headers: HTTPHeaders, body: ByteBuffer = ByteBuffer(),
        within timeout: TimeAmount
    ) async throws -> NIOHTTPClientResponseFull? {
        var headers = headers
        headers.add(name: "Host", value: host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)")
        headers.add(name: "Connection", value: "close")
        if method != .GET { headers.add(name: "Content-Length", value: "\(body.readableBytes)") }
        let head = HTTPRequestHead(version: .http1_1, method: method, uri: uri, headers: headers)
        let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .connectTimeout(timeout)
            .connect(host: host, port: port) { channel in
                channel.eventLoop.makeCompletedFuture { try configure(channel) }
            }
        let timer = channel.channel.eventLoop.scheduleTask(in: timeout) { channel.channel.close(promise: nil) }
        defer { timer.cancel() }
        return try await channel.executeThenClose { inbound, outbound in
            // A server that has refused to listen may have said why.
            let failure = await Self.failure { () async throws in
                try await outbound.write(contentsOf: [.head(head), .body(.byteBuffer(body)), .end(nil)])
            }
            for try await response in inbound { return response }
            if let failure { throw failure }
            return nil
        }
    }

    private static func failure(of work: () async throws -> Void) async -> (any Error)? {
        do { try await work() } catch { return error }
        return nil
    }

    private func configure(
        _ channel: any Channel
    ) throws -> NIOAsyncChannel<NIOHTTPClientResponseFull, HTTPClientRequestPart> {
        let pipeline = channel.pipeline.syncOperations
        if let tls { try pipeline.addHandler(try tls()) }
        try pipeline.addHTTPClientHandlers()
        try pipeline.addHandler(NIOHTTPClientResponseAggregator(maxContentLength: answerBytesMax))
        return try NIOAsyncChannel(wrappingChannelSynchronously: channel)
    }

    /// In words for people, and not those of the libraries.
    package static func reason(_ error: any Error) -> String {
        switch error {
        case let error as IOError: String(cString: strerror(error.errnoCode))
        case let error as NIOConnectionError:
            error.connectionErrors.first.map { reason($0.error) } ?? "there is no such host"
        case NIOSSLError.handshakeFailed: "its certificate is not trusted, or it does not speak TLS"
        case is NIOHTTPObjectAggregatorError: "its answer is too long"
        default: "\(error)"
        }
    }
}
