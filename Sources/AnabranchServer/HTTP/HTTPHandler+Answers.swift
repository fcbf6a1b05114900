import Logging
import NIOCore
import NIOHTTP1

/// The answers of endpoints on their way to the socket.
extension HTTPHandler {
    func respond(
        to head: HTTPRequestHead, of route: HTTPRoute, _ body: EndpointBody, room: Collected.Room,
        _ context: ChannelHandlerContext
    ) {
        if case .whole = body { timer?.cancel() }
        let uri = head.uri.utf8, mark = uri.firstIndex(of: UInt8(ascii: "?"))
        var request = EndpointRequest(
            method: head.method, path: String(head.uri[..<(mark ?? uri.endIndex)]),
            query: mark.map { String(head.uri[uri.index(after: $0)...]) } ?? "", headers: head.headers, body: body,
            address: origin.address(of: head)?.client, isSecure: isSecure)
        let answer = Answer(head, room: room, on: context.eventLoop)
        let handler = NIOLoopBound(self, eventLoop: context.eventLoop), eventLoop = context.eventLoop
        let context = NIOLoopBound(context, eventLoop: eventLoop)
        let bound = NIOLoopBound(answer, eventLoop: eventLoop)
        request.onHold = { [users, end = answer.end.futureResult] principal in
            if let users, let name = principal.qualifiedName, !users.admit(name, until: end) { return false }
            eventLoop.execute { handler.value.hold(bound.value) }
            return true
        }
        self.answer = answer
        answer.task = Task { [request] in
            let response = await route.endpoints.respond(to: request)
            let body = try? await eventLoop.submit {
                handler.value.begin(response, of: bound.value, to: head, context.value)
            }.get()
            guard case .stream(let parts, let byteCount) = body else { return }
            do {
                var bytesLeft = byteCount
                for try await part in parts where part.readableBytes > 0 {
                    bytesLeft? -= part.readableBytes
                    guard bytesLeft ?? 0 >= 0 else { break }
                    try await eventLoop.flatSubmit { handler.value.write(part, context.value) }.get()
                }
                guard bytesLeft ?? 0 == 0 else { throw EndpointStreamError.incomplete }
                try await eventLoop.submit { handler.value.finishAnswer(context.value) }.get()
            } catch {
                eventLoop.execute { handler.value.breakOff(because: error, context.value) }
            }
        }
    }

    /// Sends an answer, or begins to.
    /// - Returns: the body if it is sent part by part.
    private func begin(
        _ response: EndpointResponse, of answer: Answer, to head: HTTPRequestHead, _ context: ChannelHandlerContext
    ) -> EndpointBody? {
        // It may have been refused or abandoned since.
        guard answer === self.answer, context.channel.isActive else { return nil }
        var isLast = answer.isLast
        // The rest of the request is not wanted.
        if case .streaming = request { isLast = true }
        guard case .stream = response.body, response.status.mayHaveResponseBody, !answer.isHead else {
            send(response, isLast: isLast, isHead: answer.isHead, context)
            return nil
        }
        // There are no chunks in HTTP/1.0: the end of the connection is that of the body.
        let version: HTTPVersion = head.version == .http1_0 ? .http1_0 : .http1_1
        isLast = isLast || version == .http1_0
        answer.isLong = true
        if isLast { request = .over }
        answer.isLast = isLast
        let begun = responseHead(response, isLast: isLast, version)
        context.writeAndFlush(wrapOutboundOut(.head(begun)), promise: nil)
        return response.body
    }

    /// Sends a part of an answer.
    /// - Returns: succeeds when the socket has taken it.
    private func write(_ part: ByteBuffer, _ context: ChannelHandlerContext) -> EventLoopFuture<Void> {
        context.writeAndFlush(wrapOutboundOut(.body(.byteBuffer(part))))
    }

    /// Sends an answer with a complete body. Its end, which admits the next request and resumes reading, waits until
    /// the socket has accepted the rest.
    /// - Parameter isHead: whether only the head was requested.
    func send(
        _ response: EndpointResponse, isLast: Bool, isHead: Bool = false, _ context: ChannelHandlerContext
    ) {
        timer?.cancel()
        if isLast { request = .over }
        let head = responseHead(response, isLast: isLast, .http1_1)
        let taken = context.eventLoop.makePromise(of: Void.self)
        taken.futureResult.assumeIsolated().whenSuccess { self.finishAnswer(isLast: isLast, context) }
        if case .whole(let bytes) = response.body, !bytes.isEmpty, response.status.mayHaveResponseBody, !isHead {
            context.write(wrapOutboundOut(.head(head)), promise: nil)
            context.writeAndFlush(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: bytes)))), promise: taken)
        } else {
            context.writeAndFlush(wrapOutboundOut(.head(head)), promise: taken)
        }
    }

    private func responseHead(_ response: EndpointResponse, isLast: Bool, _ version: HTTPVersion) -> HTTPResponseHead {
        metrics.answered(response.status)
        var headers = response.headers
        headers.remove(name: "Transfer-Encoding")
        headers.remove(name: "Content-Length")
        headers.replaceOrAdd(name: "Connection", value: isLast ? "close" : "keep-alive")
        if response.status.mayHaveResponseBody {
            let byteCount: Int? =
                switch response.body {
                case .whole(let bytes): bytes.count
                case .stream(_, let byteCount): byteCount
                }
            if let byteCount { headers.add(name: "Content-Length", value: "\(byteCount)") }
        }
        return HTTPResponseHead(version: version, status: response.status, headers: headers)
    }

    /// - Parameter isLast: whether the connection ends. What the client still sends is read and dropped until it ends
    ///   its side, or for a while: a socket that is closed with something unread loses the answer on its way.
    private func finishAnswer(isLast: Bool, _ context: ChannelHandlerContext) {
        endAnswer()
        close(context, in: isLast ? lingerTimeout : requestTimeout)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        if isLast {
            resumeReading(context)
            context.close(mode: .output, promise: nil)
        }
    }

    /// The end of a body that was sent part by part.
    private func finishAnswer(_ context: ChannelHandlerContext) {
        if let answer { finishAnswer(isLast: answer.isLast, context) }
    }

    /// The client sees that something is missing, and nothing else can follow.
    private func breakOff(because error: any Error, _ context: ChannelHandlerContext) {
        guard endAnswer() != nil else { return }
        if !(error is CancellationError) {
            logger.notice("an answer has broken off", metadata: ["reason": "\(error)"])
        }
        context.close(promise: nil)
    }

    /// - Returns: what was making it; nil if there was none.
    @discardableResult
    func endAnswer() -> Task<Void, Never>? {
        guard let answer else { return nil }
        self.answer = nil
        answer.end.succeed()
        return answer.task
    }

    /// The server shuts down. It waits for answers, but not for those that may be long in coming.
    func endLongAnswers() {
        isShuttingDown = true
        if let answer, answer.isLong { answer.task?.cancel() }
    }

    private func hold(_ answer: Answer) {
        answer.isLong = true
        if isShuttingDown { answer.task?.cancel() }
    }
}
