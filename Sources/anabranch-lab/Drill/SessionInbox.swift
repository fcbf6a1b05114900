import AnabranchProtocol
import NIOCore

/// Who gets what comes for a session. It lives on the event loop of its connection.
protocol SessionPeer: Actor {
    /// Gets a message of the session.
    func take(_ message: ServerMessage, at time: ContinuousClock.Instant)
    /// Gets the reason why no more comes.
    func fail(_ error: LoadError)
}

extension SessionPeer {
    /// The same for who is on the event loop.
    nonisolated func takeNow(_ message: ServerMessage, at time: ContinuousClock.Instant) {
        assumeIsolated { $0.take(message, at: time) }
    }

    nonisolated func failNow(_ error: LoadError) { assumeIsolated { $0.fail(error) } }
}

/// What has come for a session and was not read yet, for one reader.
actor SessionInbox: SessionPeer {
    nonisolated let eventLoop: any EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { eventLoop.executor.asUnownedSerialExecutor() }

    private var messages: [ServerMessage] = []
    private var error: LoadError?
    private var reader: CheckedContinuation<Void, Never>?

    init(on eventLoop: any EventLoop) { self.eventLoop = eventLoop }

    /// - Throws: `LoadError` if the session has ended, and everything that came before was read.
    func next() async throws -> ServerMessage {
        while messages.isEmpty {
            if let error { throw error }
            await withCheckedContinuation { reader = $0 }
        }
        return messages.removeFirst()
    }

    func take(_ message: ServerMessage, at time: ContinuousClock.Instant) {
        messages.append(message)
        wake()
    }

    func fail(_ error: LoadError) {
        self.error = self.error ?? error
        wake()
    }

    private func wake() {
        reader?.resume()
        reader = nil
    }
}
