@testable import AnabranchServer

/// A wire that leaves its sockets to the test.
struct HeldWire: TextWire {
    var settings = TextWireSettings()
    private let onSocket: AsyncStream<TextSocket>.Continuation
    private let onEnd: AsyncStream<Void>.Continuation

    /// - Returns: the wire, its sockets as they open, and an element for each whose task has been cancelled.
    static func make() -> (wire: HeldWire, sockets: AsyncStream<TextSocket>, ends: AsyncStream<Void>) {
        let (sockets, onSocket) = AsyncStream.makeStream(of: TextSocket.self)
        let (ends, onEnd) = AsyncStream.makeStream(of: Void.self)
        return (HeldWire(onSocket: onSocket, onEnd: onEnd), sockets, ends)
    }

    private init(onSocket: AsyncStream<TextSocket>.Continuation, onEnd: AsyncStream<Void>.Continuation) {
        self.onSocket = onSocket
        self.onEnd = onEnd
    }

    func admits(_ request: SocketRequest) -> Bool { true }

    func serve(_ socket: TextSocket) async {
        onSocket.yield(socket)
        // Ends when the task is cancelled.
        for await _ in AsyncStream<Void>.makeStream().stream {}
        onEnd.yield()
    }
}
