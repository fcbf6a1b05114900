import AnabranchHTTP
import NIOCore
import NIOWebSocket

/// An open WebSocket of SwiftNIO. It closes when it is released.
final class WebSocketConnection: TransportConnection {
    let chosenProtocol: String
    private let channel: any Channel
    private let receiver: NIOLoopBound<WebSocketReceiver>

    /// Has to be called on the event loop of the channel.
    init(_ channel: any Channel, _ receiver: WebSocketReceiver, chosenProtocol: String) {
        self.chosenProtocol = chosenProtocol
        self.channel = channel
        self.receiver = NIOLoopBound(receiver, eventLoop: channel.eventLoop)
    }

    deinit { channel.close(promise: nil) }

    func send(_ message: [UInt8]) async throws {
        let sent = channel.eventLoop.makePromise(of: Void.self)
        do {
            try await closingIfCancelled(sent) {
                let frame = WebSocketReceiver.frame(.binary, ByteBuffer(bytes: message))
                channel.writeAndFlush(frame, promise: sent)
            }
        } catch is CancellationError {
            throw CancellationError()
        } catch {
            let end = try await channel.eventLoop.submit { [receiver] in receiver.value.end }.get()
            throw end
                ?? TransportError(.disconnected, "the message was not sent: \(OutgoingConnection.reason(error))")
        }
    }

    func receive() async throws -> [UInt8] {
        let message = channel.eventLoop.makePromise(of: ByteBuffer.self)
        let buffer = try await closingIfCancelled(message) {
            channel.eventLoop.execute { [channel, receiver] in receiver.value.receive(message, from: channel) }
        }
        return Array(buffer: buffer)
    }

    func close() async {
        let closed = channel.eventLoop.submit { [channel, receiver] in
            let isOpen = receiver.value.end == nil
            receiver.value.finish(TransportError(.disconnected, "the WebSocket was closed here"))
            if isOpen { channel.writeAndFlush(WebSocketReceiver.closeFrame(.normalClosure), promise: nil) }
            channel.close(promise: nil)
        }
        try? await closed.get()
        try? await channel.closeFuture.get()
    }

    /// Begins an operation and waits until it is done; closes the channel if the task is cancelled.
    private func closingIfCancelled<Result: Sendable>(
        _ promise: EventLoopPromise<Result>, begin: () -> Void
    ) async throws -> Result {
        try await withTaskCancellationHandler {
            begin()
            return try await promise.futureResult.get()
        } onCancel: {
            promise.fail(CancellationError())
            channel.close(promise: nil)
        }
    }
}
