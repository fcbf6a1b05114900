import Foundation
package import NIOCore
import NIOPosix
import NIOSSL

/// How connections to other servers are opened.
package enum OutgoingConnection {
    /// The time for something is up.
    package struct TimeoutError: Error, CustomStringConvertible {
        package let limit: TimeAmount

        package var description: String { "no answer within \(limit.nanoseconds / 1_000_000_000) s" }
    }

    /// The outcome of the first words on each channel.
    private typealias Words<Outcome> = [ObjectIdentifier: EventLoopFuture<Outcome>]

    /// Connects, and waits for the outcome of the first exchange with the server. The time limit is for all of it: name
    /// resolution, connecting, TLS and the exchange. When it is exceeded, when the task is cancelled or when anything
    /// else fails, nothing stays open.
    /// - Parameters:
    ///   - configure: sets up a channel before it connects; called more than once if the server has several addresses.
    /// - Throws: `TimeoutError`, `CancellationError`, or the error that made it fail.
    package static func open<Outcome: Sendable>(
        host: String, port: Int, within limit: TimeAmount,
        configure: @escaping @Sendable (any Channel) throws -> EventLoopFuture<Outcome>
    ) async throws -> Outcome {
        let eventLoop = MultiThreadedEventLoopGroup.singleton.next()
        let outcome = eventLoop.makePromise(of: Outcome.self)
        let timer = eventLoop.scheduleTask(in: limit) { outcome.fail(TimeoutError(limit: limit)) }
        defer { timer.cancel() }
        return try await withTaskCancellationHandler {
            let failed = outcome.futureResult
            // Futures alone: where the threads of Swift's tasks are all busy, connections do not wait for them.
            let words = NIOLoopBoundBox.makeBoxSendingValue([:] as Words<Outcome>, eventLoop: eventLoop)
            ClientBootstrap(group: eventLoop)
                .connectTimeout(limit + .seconds(10))  // so that it is the timer that ends it
                .channelOption(.tcpOption(.tcp_nodelay), value: 1)
                .channelOption(.socketOption(.so_keepalive), value: 1)
                .channelInitializer { channel in
                    failed.whenFailure { _ in channel.close(promise: nil) }
                    return channel.eventLoop.makeCompletedFuture {
                        words.value[ObjectIdentifier(channel)] = try configure(channel)
                    }
                }
                .connect(host: host, port: port)
                .flatMap { channel in
                    words.value[ObjectIdentifier(channel)] ?? eventLoop.makeFailedFuture(ChannelError.alreadyClosed)
                }
                .cascade(to: outcome)
            return try await outcome.futureResult.get()
        } onCancel: {
            outcome.fail(CancellationError())
        }
    }

    /// In words for people, and not those of the libraries.
    package static func reason(_ error: any Error) -> String {
        switch error {
        case let error as IOError: String(cString: strerror(error.errnoCode))
        case let error as NIOConnectionError:
            error.connectionErrors.first.map { reason($0.error) } ?? "there is no such host"
        case NIOSSLError.handshakeFailed: "its certificate is not trusted, or it does not speak TLS"
        case NIOSSLError.uncleanShutdown: "it closed the connection"
        case let error as NIOSSLExtraError where error == .failedToValidateHostname:
            "its certificate is for another name"
        default: "\(error)"
        }
    }
}
