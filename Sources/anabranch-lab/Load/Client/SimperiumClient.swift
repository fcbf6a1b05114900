import AnabranchCore
import AnabranchTestClient
import Foundation
import NIOCore
import Synchronization

/// A client of Simperium's wire with a connection of its own: it sends the messages that it is given, and waits for
/// answers.
final class SimperiumClient: Sendable {
    /// The answer to something that was sent: a message that begins like that, or has such a part.
    enum Answer: Sendable {
        case beginning(String)
        case containing(String)

        fileprivate func fits(_ message: ByteBuffer) -> Bool {
            let bytes = message.readableBytesView
            switch self {
            case .beginning(let text): return bytes.starts(with: text.utf8)
            case .containing(let text):
                let part = Array(text.utf8)
                return bytes.withUnsafeBytes { whole in
                    (0..<max(0, whole.count - part.count + 1)).contains { start in
                        whole[start] == part[0] && whole[start...].starts(with: part)
                    }
                }
            }
        }
    }

    private struct State {
        var waiter: (answer: Answer, continuation: CheckedContinuation<Message, any Error>)?
        /// Is given each message for which nobody waits.
        var onMessage: (@Sendable (ByteBuffer, ContinuousClock.Instant) -> Void)?
        var onClosed: (@Sendable (LoadError) -> Void)?
        var isClosed = false
        var closingCode: UInt16?
    }

    typealias Message = (text: String, time: ContinuousClock.Instant)

    let name: String
    private let user: SimperiumUser
    private let state: Mutex<State>
    private let connection: TextConnection

    /// - Parameters:
    ///   - name: its `clientid`.
    ///   - user: the user whose buckets it syncs.
    init(
        _ name: String, of user: SimperiumUser, to target: SyncTarget, on eventLoop: any EventLoop, traffic: Traffic
    ) async throws {
        self.name = name
        self.user = user
        let relay = Relay()
        connection = try await TextConnection(
            to: target, path: "/sock/1/\(user.app)/websocket", on: eventLoop, traffic: traffic
        ) { relay.take($0) }
        state = Mutex(State())
        relay.client.withLock { $0 = self }
        eventLoop.scheduleRepeatedTask(initialDelay: Self.beat, delay: Self.beat) { [weak self] task in
            guard let self, !isClosed else { return task.cancel() }
            send("h:1")
        }
    }

    /// The pause between heartbeats, as iOS has it. The server ends connections that are silent for long.
    private static let beat = TimeAmount.seconds(30)

    /// The client of a connection, which is made before it.
    private final class Relay: Sendable {
        let client = Mutex<SimperiumClient?>(nil)

        func take(_ event: TextConnection.Event) {
            let client = client.withLock { client in
                defer { if case .closed = event { client = nil } }
                return client
            }
            client?.take(event)
        }
    }

    private func take(_ event: TextConnection.Event) {
        switch event {
        case .message(let message): take(message)
        case .closed(let code):
            let (waiter, onClosed) = state.withLock { state in
                (state.isClosed, state.closingCode) = (true, code)
                return (state.waiter.take(), state.onClosed)
            }
            waiter?.continuation.resume(throwing: Self.closed)
            onClosed?(Self.closed)
        }
    }

    private func take(_ message: ByteBuffer) {
        let now = ContinuousClock.now
        let (continuation, observer) = state.withLock { state in
            let isAnswer = state.waiter?.answer.fits(message) == true
            let isBeat = message.readableBytesView.starts(with: "h:".utf8)
            return (isAnswer ? state.waiter.take()?.continuation : nil, isAnswer || isBeat ? nil : state.onMessage)
        }
        continuation?.resume(returning: (String(buffer: message), now))
        observer?(message, now)
    }

    var isClosed: Bool { state.withLock { $0.isClosed } }

    /// The code by which the server has closed the connection; nil if it has not.
    var closingCode: Int? { state.withLock { $0.closingCode }.map(Int.init) }

    private static let closed = LoadError("the server has closed the connection of a client")

    /// - Parameters:
    ///   - onMessage: is given each message that answers nothing, on the event loop; nil for none.
    ///   - onClosed: is called when the connection is closed.
    func observe(
        _ onMessage: (@Sendable (ByteBuffer, ContinuousClock.Instant) -> Void)?,
        onClosed: (@Sendable (LoadError) -> Void)? = nil
    ) {
        let isClosed = state.withLock { state in
            (state.onMessage, state.onClosed) = (onMessage, onClosed)
            return state.isClosed
        }
        if isClosed { onClosed?(Self.closed) }
    }

    func send(_ text: String) { connection.send(text) }

    /// Sends a message, and waits for its answer. One at a time.
    @discardableResult
    func ask(_ text: String, _ answer: Answer) async throws -> Message {
        try await withCheckedThrowingContinuation { continuation in
            let isClosed = state.withLock { state in
                if !state.isClosed { state.waiter = (answer, continuation) }
                return state.isClosed
            }
            if isClosed { return continuation.resume(throwing: Self.closed) }
            connection.send(text)
        }
    }

    /// Asks for a channel.
    /// - Returns: the code of the refusal; nil if the server has opened it.
    func tryOpen(_ bucket: String, channel: Int) async throws -> Int? {
        let members: [String: JSONValue] = [
            "name": .string(bucket), "clientid": .string(name), "api": "1.1", "token": .string(user.token),
            "app_id": .string(user.app), "library": "load", "version": "1",
        ]
        let answer = try await ask(
            "\(channel):init:\(JSONValue.object(members).encoded)", .beginning("\(channel):auth:"))
        return answer.text.firstMatch(of: /"code":(\d+)/).flatMap { Int($0.output.1) }
    }

    /// Opens a channel, and listens from now on.
    func open(_ bucket: String, channel: Int = 0) async throws {
        if let code = try await tryOpen(bucket, channel: channel) {
            throw LoadError("a channel is refused with code \(code)")
        }
        try await listen(channel: channel)
    }

    /// Lists a few entities, and listens from now on.
    private func listen(channel: Int) async throws {
        let page = try await ask("\(channel):i::::1", .beginning("\(channel):i:")).text
        guard let current = page.firstMatch(of: /"current":"(\w+)"/)?.output.1 else {
            throw LoadError("no listing: \(page.prefix(200))")
        }
        try await ask("\(channel):cv:\(current)", .beginning("\(channel):c:"))
    }

    func close() async { await connection.close() }
}
