package import NIOCore
package import NIOHTTP1
package import NIOSSL

/// One request to another server, on a connection of its own.
package struct HTTPExchange: Sendable {
    private let host: String
    private let port: Int
    private let authority: String
    private let tls: (@Sendable () throws -> NIOSSLClientHandler)?
    private let answerBytesMax: Int
    private let makeBody: @Sendable () -> [UInt8]

    /// - Parameters:
    ///   - authority: what stands in the header `Host`; nil for host and port.
    ///   - tls: makes what encrypts the connection; nil for none.
    ///   - answerBytesMax: a longer body of an answer is an error.
    ///   - makeBody: makes the empty array into which the body of an answer goes.
    package init(
        host: String, port: Int, authority: String? = nil, tls: (@Sendable () throws -> NIOSSLClientHandler)?,
        answerBytesMax: Int, makeBody: @escaping @Sendable () -> [UInt8] = { [] }
    ) {
        self.host = host
        self.port = port
        self.authority = authority ?? (host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)")
        self.tls = tls
        self.answerBytesMax = answerBytesMax
        self.makeBody = makeBody
    }

    /// The answer of the server.
    package struct Answer: Sendable {
        package let head: HTTPResponseHead
        package fileprivate(set) var body: [UInt8] = []
    }

    /// - Returns: nil if the server closed the connection without an answer.
    /// - Throws: `OutgoingConnection.TimeoutError`, `CancellationError`, or why it failed.
    package func answer(
        _ method: HTTPMethod, _ uri: String, _ headers: HTTPHeaders, body: [UInt8] = [],
        within limit: TimeAmount
    ) async throws -> Answer? {
        var headers = headers
        headers.add(name: "Host", value: authority)
        headers.add(name: "Connection", value: "close")
        if method != .GET { headers.add(name: "Content-Length", value: "\(body.count)") }
        let head = HTTPRequestHead(version: .http1_1, method: method, uri: uri, headers: headers)
        return try await OutgoingConnection.open(host: host, port: port, within: limit) { channel in
            let answer = channel.eventLoop.makePromise(of: Answer?.self)
            let pipeline = channel.pipeline.syncOperations
            do {
                if let tls { try pipeline.addHandler(try tls()) }
                try pipeline.addHTTPClientHandlers()
                try pipeline.addHandler(ExchangeHandler(head, body, answer, bytesMax: answerBytesMax, makeBody))
            } catch {
                answer.fail(error)
            }
            return answer.futureResult
        }
    }

    /// In words for people, and not those of the libraries.
    package static func reason(_ error: any Error) -> String {
        error is LongAnswerError ? "its answer is too long" : OutgoingConnection.reason(error)
    }
}

private struct LongAnswerError: Error {}

/// Sends the request when there is a connection, and waits for the answer to it.
private final class ExchangeHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    /// How much of the request's body is handed to the socket at once, in bytes.
    private static let partBytes = 64 << 10

    private let head: HTTPRequestHead
    private let body: [UInt8]
    private let answer: EventLoopPromise<HTTPExchange.Answer?>
    private let bytesMax: Int
    private let makeBody: () -> [UInt8]
    /// The part of the answer that has come.
    private var received: HTTPExchange.Answer?
    /// The reason why the request could not be sent. A server that has refused to listen may have said why.
    private var failure: (any Error)?

    init(
        _ head: HTTPRequestHead, _ body: [UInt8], _ answer: EventLoopPromise<HTTPExchange.Answer?>, bytesMax: Int,
        _ makeBody: @escaping () -> [UInt8]
    ) {
        self.head = head
        self.body = body
        self.answer = answer
        self.bytesMax = bytesMax
        self.makeBody = makeBody
    }

    func channelActive(context: ChannelHandlerContext) {
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        // A copy of all of it would be memory that comes from the system, page by page.
        for first in stride(from: 0, to: body.count, by: Self.partBytes) {
            let part = body[first..<min(first + Self.partBytes, body.count)]
            send(.body(.byteBuffer(ByteBuffer(bytes: part))), context)
        }
        send(.end(nil), context)
    }

    private func send(_ part: HTTPClientRequestPart, _ context: ChannelHandlerContext) {
        let sent = context.eventLoop.makePromise(of: Void.self)
        sent.futureResult.assumeIsolated().whenFailure { self.failure = self.failure ?? $0 }
        context.writeAndFlush(wrapOutboundOut(part), promise: sent)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            let byteCount = max(0, head.headers.first(name: "Content-Length").flatMap { Int($0) } ?? 0)
            guard byteCount <= bytesMax else { return errorCaught(context: context, error: LongAnswerError()) }
            received = HTTPExchange.Answer(head: head, body: makeBody())
            // A long body would be copied each time that it outgrows its place.
            received?.body.reserveCapacity(byteCount)
        case .body(let part):
            guard let count = received?.body.count, count + part.readableBytes <= bytesMax else {
                return errorCaught(context: context, error: LongAnswerError())
            }
            part.withUnsafeReadableBytes { received?.body += $0 }
        case .end:
            answer.succeed(received.take())
            context.close(promise: nil)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        answer.fail(error)
        context.close(promise: nil)
    }

    /// Also when there was no connection at all.
    func handlerRemoved(context: ChannelHandlerContext) {
        if let failure { answer.fail(failure) } else { answer.succeed(nil) }
    }
}
