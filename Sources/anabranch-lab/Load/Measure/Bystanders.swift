import AnabranchCore
import AnabranchTestClient
import NIOCore
import NIOPosix

/// What the neighbours of a load have to wait, in milliseconds.
struct BystanderFigures: Encodable {
    var files: Int
    /// UPLOAD sent → the other client of the file has the DOWNLOAD; of the file that fares worst.
    var deliveryMs: PhaseFigures
    /// TCP connection begun → the socket is a WebSocket.
    var handshakeMs: PhaseFigures
}

/// The neighbours of a load: pairs of clients on files of their own, of which one writes and the other one reads, and
/// somebody who opens connections. A server that ties files to threads makes several files necessary to meet them all.
struct Bystanders: Sendable {
    private let files: [File]
    private let handshakes: ClosedLoop
    private let task: Task<Void, Never>

    /// Connects all, and lets them begin; nobody if it is to be none.
    ///
    /// - Throws: `LoadError` if the server does not let them in.
    static func begin(_ count: Int, name: String, target: SyncTarget, on eventLoops: any EventLoopGroup) async throws
        -> Bystanders?
    {
        guard count > 0 else { return nil }
        var files: [File] = []
        for number in 0..<count {
            let file = File(name: "\(name)-bystander-\(number)", target: target, on: eventLoops.next())
            try await file.connect()
            files.append(file)
        }
        return Bystanders(files, target, eventLoops.next())
    }

    private init(_ files: [File], _ target: SyncTarget, _ eventLoop: any EventLoop) {
        let handshakes = ClosedLoop()
        self.files = files
        self.handshakes = handshakes
        task = Task {
            await withTaskGroup { group in
                for file in files { group.addTask { await file.loop.run { try await file.exchange() } } }
                group.addTask {
                    await handshakes.run {
                        let connection = try await TestConnection.opened(to: target, on: eventLoop)
                        await connection.close()
                    }
                }
            }
        }
    }

    /// Waits for what is under way, but not longer than `patience`: then the connections are cut.
    func end(patience: Duration) async {
        for file in files { file.loop.end() }
        handshakes.end()
        let cut = Task { [files] in
            try await Task.sleep(for: patience)
            for file in files { await file.disconnect() }
        }
        await task.value
        cut.cancel()
        for file in files { await file.disconnect() }
    }

    /// Whether each has done something since then, from the beginning to the end.
    func haveBegunAndEnded(since beginning: ContinuousClock.Instant) -> Bool {
        (files.map(\.loop) + [handshakes]).allSatisfy { !$0.samples(in: beginning..<ContinuousClock.now).isEmpty }
    }

    func figures(_ phases: LoadPhases) -> BystanderFigures {
        BystanderFigures(
            files: files.count, deliveryMs: PhaseFigures(files.map(\.loop), phases),
            handshakeMs: PhaseFigures([handshakes], phases))
    }

    /// One file, its writer and its reader.
    private actor File {
        private static let changesetBytes = 100

        nonisolated let loop = ClosedLoop()
        private let eventLoop: any EventLoop
        private let target: SyncTarget
        private let writer: LoadClient
        private let reader: LoadClient
        private var connections: [TestConnection] = []
        private var number: UInt64 = 0

        init(name: String, target: SyncTarget, on eventLoop: any EventLoop) {
            self.eventLoop = eventLoop
            self.target = target
            writer = LoadClient(of: name, on: eventLoop)
            reader = LoadClient(of: name, on: eventLoop)
        }

        func connect() async throws {
            for client in [writer, reader] {
                let connection = try await TestConnection.opened(to: target, on: eventLoop)
                connections.append(connection)
                try await client.join(connection)
            }
        }

        func disconnect() async {
            for connection in connections { await connection.close() }
            connections = []
        }

        /// One UPLOAD, until the reader has it. Whoever was cut off comes back with the next one.
        func exchange() async throws {
            do {
                if connections.isEmpty { try await connect() }
                let expected = await reader.changesetCount + 1
                let changeset =
                    number == 0
                    ? LoadChangesets.first(of: 1)
                    : LoadChangesets.update(of: 1, number: number, bytes: Self.changesetBytes)
                number += 1
                _ = await writer.upload([changeset])
                _ = try await reader.wait { $0.changesetCount >= expected }
            } catch {
                await disconnect()
                throw error
            }
        }
    }
}
