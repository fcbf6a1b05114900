import AnabranchCore
import AnabranchProtocol
import AnabranchTestClient
import NIOCore
import NIOPosix
import Synchronization

/// The waiting times of the neighbours of a load, in milliseconds.
struct BystanderFigures: Encodable {
    var files: Int
    /// UPLOAD sent → the other client of the file has the DOWNLOAD; of the file that fares worst.
    var deliveryMs: PhaseFigures
    /// TCP connection begun → the socket is a WebSocket.
    var handshakeMs: PhaseFigures
}

/// The neighbours of a load: pairs of clients on files of their own, one of which writes and the other one reads, and a
/// client that opens connections. A server that ties files to threads makes several files necessary to meet them all.
struct Bystanders: Sendable {
    private let files: [File]
    private let handshakes: ClosedLoop
    private let task: Task<Void, Never>

    /// A file for bystanders, and the targets with which they connect to it.
    struct Place: Sendable {
        /// The partition; in flexible sync a name for people.
        var name: String
        var writer: SyncTarget
        var reader: SyncTarget
    }

    /// Connects `count` pairs, and lets them begin; returns nil for none.
    ///
    /// - Throws: `LoadError` if the server does not let them in.
    static func begin(_ count: Int, name: String, target: SyncTarget, on eventLoops: any EventLoopGroup) async throws
        -> Bystanders?
    {
        guard count > 0 else { return nil }
        let places = (0..<count).map { Place(name: "\(name)-bystander-\($0)", writer: target, reader: target) }
        return try await begin(at: places, handshakesTo: target, on: eventLoops)
    }

    /// Connects a pair at each of these places, and lets them begin.
    static func begin(
        at places: [Place], handshakesTo target: SyncTarget, on eventLoops: any EventLoopGroup
    ) async throws -> Bystanders {
        var files: [File] = []
        for place in places {
            let file = File(place, on: eventLoops.next())
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

    /// Waits for operations under way, but not longer than `patience`: then the connections are cut.
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

    /// True if each has begun and ended an operation since then.
    func haveBegunAndEnded(since beginning: ContinuousClock.Instant) -> Bool {
        (files.map(\.loop) + [handshakes]).allSatisfy { !$0.samples(in: beginning..<ContinuousClock.now).isEmpty }
    }

    func figures(_ phases: LoadPhases) -> BystanderFigures {
        BystanderFigures(
            files: files.count, deliveryMs: PhaseFigures(files.map(\.loop), phases),
            handshakeMs: PhaseFigures([handshakes], phases))
    }

    /// The names of the places.
    var names: Set<String> { Set(files.map(\.name)) }

    /// The loops at places of these names.
    func loops(_ names: Set<String>) -> [ClosedLoop] { files.filter { names.contains($0.name) }.map(\.loop) }

    /// The number of writes that they began within this time.
    func writeCount(in time: Range<ContinuousClock.Instant>) -> Int {
        files.reduce(0) { $0 + $1.loop.samples(in: time).count }
    }

    /// The number of resets of their clients.
    var resetCount: Int { files.reduce(0) { $0 + $1.resets.load(ordering: .relaxed) } }

    /// One file, its writer and its reader.
    private actor File {
        private static let changesetBytes = 100

        nonisolated let name: String
        nonisolated let loop = ClosedLoop()
        nonisolated let resets = Atomic(0)
        private let place: Place
        private let eventLoop: any EventLoop
        private var writer: LoadClient
        private var reader: LoadClient
        private var connections: [TestConnection] = []
        private var number: UInt64 = 0
        /// True once both ask for the objects, as they have to in flexible sync.
        private var haveSubscribed = false

        init(_ place: Place, on eventLoop: any EventLoop) {
            self.place = place
            self.eventLoop = eventLoop
            name = place.name
            writer = LoadClient(of: place.name, on: eventLoop, mode: place.writer.mode)
            reader = LoadClient(of: place.name, on: eventLoop, mode: place.reader.mode)
        }

        func connect() async throws {
            for (client, target) in [(writer, place.writer), (reader, place.reader)] {
                let connection = try await TestConnection.opened(to: target, on: eventLoop)
                connections.append(connection)
                try await client.join(connection)
            }
            // A reader that waits for something that is no longer uploaded would wait for ever.
            await writer.observe(onDownload: { _, _ in }, onFailure: { [reader] _ in Task { await reader.leave() } })
            guard place.writer.mode == .flexible, !haveSubscribed else { return }
            let schema = await writer.upload([LoadChangesets.schema]).version
            _ = try await writer.wait { $0.isAcknowledged(schema) }
            for client in [writer, reader] {
                let version = try await client.subscribe([LoadChangesets.className: "TRUEPREDICATE"]).version
                _ = try await client.wait { $0.isAnswered(version) }
            }
            haveSubscribed = true
        }

        func disconnect() async {
            for connection in connections { await connection.close() }
            connections = []
        }

        /// Sends one UPLOAD, and waits until the reader has it. A client that was cut off comes back with the next one.
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
                let isReset = await [writer.error, reader.error].contains { $0?.demandsReset == true }
                await disconnect()
                if isReset { beginAnew() }
                throw error
            }
        }

        /// Replaces clients that had to reset by new ones.
        private func beginAnew() {
            resets.add(1, ordering: .relaxed)
            writer = LoadClient(of: name, on: eventLoop, mode: place.writer.mode)
            reader = LoadClient(of: name, on: eventLoop, mode: place.reader.mode)
            haveSubscribed = false
        }
    }
}

extension TestClientError {
    /// True if the error tells the client to reset its file.
    var demandsReset: Bool { [.clientReset, .clientResetNoRecovery].contains(told?.action) }
}
