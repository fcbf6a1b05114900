import AnabranchClient
import NIOCore
import Testing

/// Whoever is cancelled gets `CancellationError`, and nothing stays open: the server sees the end.
@Suite(.timeLimit(.minutes(30))) struct CancellationTests {
    /// Cancels a task when the server says so, and waits until the server sees the end.
    private static func cancel(
        _ talk: @escaping @Sendable (RawPeer, _ isReady: Signal) async throws -> Void,
        _ work: @escaping @Sendable (_ port: Int) async throws -> Void
    ) async throws {
        let isReady = Signal(), isClosed = Signal()
        try await withRawServer { peer in
            try await talk(peer, isReady)
            await peer.read()
            isClosed.give()
        } _: { port async throws in
            let task = Task { try await work(port) }
            await isReady.wait()
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
            await isClosed.wait()
        }
    }

    private static func connect(_ port: Int, scheme: String = "ws") async throws -> any TransportConnection {
        try await NIOTransport().connect(
            TransportTests.request("\(scheme)://127.0.0.1:\(port)/", protocols: ["one"]))
    }

    @Test func whileTheServerAnswers() async throws {
        try await Self.cancel { peer, isReady in
            _ = await peer.request()
            isReady.give()
        } _: { port async throws in
            _ = try await Self.connect(port)
        }
    }

    @Test func duringTheBodyOfARefusal() async throws {
        try await Self.cancel { peer, isReady in
            _ = await peer.request()
            try await peer.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 9\r\n\r\nno")
            isReady.give()
        } _: { port async throws in
            _ = try await Self.connect(port)
        }
    }

    @Test func whileTLSBegins() async throws {
        try await Self.cancel { peer, isReady in
            await peer.read { !$0.isEmpty }
            isReady.give()
        } _: { port async throws in
            _ = try await Self.connect(port, scheme: "wss")
        }
    }

    @Test func whileAMessageIsWaitedFor() async throws {
        try await Self.cancel { peer, isReady in
            try await peer.upgrade()
            isReady.give()
        } _: { port async throws in
            let connection = try await Self.connect(port)
            _ = try await connection.receive()
        }
    }

    /// More than sockets take while nobody reads.
    @Test func whileAMessageIsSent() async throws {
        try await Self.cancel { peer, isReady in
            try await peer.upgrade()
            await peer.read { !$0.isEmpty }
            isReady.give()
        } _: { port async throws in
            let connection = try await Self.connect(port)
            while true { try await connection.send([UInt8](repeating: 1, count: 1 << 20)) }
        }
    }

    @Test func beforeAnythingBegins() async throws {
        try await withRawServer({ _ in }) { port async throws in
            let task = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                _ = try await Self.connect(port)
            }
            await #expect(throws: CancellationError.self) { try await task.value }
        }
    }

    @Test func aConnectionThatNobodyHasIsClosed() async throws {
        let isClosed = Signal()
        try await withRawServer { peer in
            try await peer.upgrade()
            await peer.read()
            isClosed.give()
        } _: { port async throws in
            _ = try await Self.connect(port)
            await isClosed.wait()
        }
    }
}
