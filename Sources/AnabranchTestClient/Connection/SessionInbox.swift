package import AnabranchProtocol
package import NIOCore

/// The receiver of a session's messages. It lives on the event loop of its connection.
package protocol SessionPeer: Actor {
    /// Takes a message of the session.
    func take(_ message: ServerMessage, at time: ContinuousClock.Instant)
    /// Takes the reason why no more messages follow.
    func fail(_ error: TestClientError)
}

extension SessionPeer {
    /// Takes a message at once, for callers on the event loop.
    package nonisolated func takeNow(_ message: ServerMessage, at time: ContinuousClock.Instant) {
        assumeIsolated { $0.take(message, at: time) }
    }

    package nonisolated func failNow(_ error: TestClientError) { assumeIsolated { $0.fail(error) } }
}

/// The messages that have arrived for a session and were not read yet, for one reader.
package actor SessionInbox: SessionPeer {
    package nonisolated let eventLoop: any EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { eventLoop.executor.asUnownedSerialExecutor() }

    private var messages: [ServerMessage] = []
    private var error: TestClientError?
    private var reader: CheckedContinuation<Void, Never>?

    package init(on eventLoop: any EventLoop) { self.eventLoop = eventLoop }

    /// - Throws: `TestClientError` if the session has ended, and everything that came before was read; also if the task
    ///   is cancelled, and then another task can go on reading.
    package func next() async throws -> ServerMessage {
        while messages.isEmpty {
            if let error { throw error }
            guard reader == nil else { throw TestClientError("another call of this client has not ended") }
            guard !Task.isCancelled else {
                throw TestClientError("the task that waits for the server was cancelled")
            }
            await withTaskCancellationHandler {
                await withCheckedContinuation { reader = $0 }
            } onCancel: {
                Task { await wake() }
            }
        }
        return messages.removeFirst()
    }

    package func take(_ message: ServerMessage, at time: ContinuousClock.Instant) {
        messages.append(message)
        wake()
    }

    package func fail(_ error: TestClientError) {
        self.error = self.error ?? error
        wake()
    }

    /// Makes the reader look again.
    private func wake() {
        reader?.resume()
        reader = nil
    }
}
