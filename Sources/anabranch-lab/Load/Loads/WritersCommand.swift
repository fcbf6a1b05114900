import AnabranchCore
import AnabranchProtocol
import AnabranchTestClient
import ArgumentParser
import Synchronization

struct WritersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "writers",
        abstract: "Many clients write at the same time, and read what the others of their file write.",
        discussion: """
            Each client has a connection and an object of its own, writes, waits until that is acknowledged, and \
            writes again. Where there are more files than clients, each client has a session for some of them and \
            goes from one to the next. Latencies, from the moment when the UPLOAD was sent: "acknowledged", and, where \
            files are shared, "reader" (each other client of the file) and "last_reader". An operation is an UPLOAD.

            With several servers (--also) there is "acknowledged_server_1" and so on: the counts are their shares, and \
            the longest is what a client of one of them had to wait, while another was stopped or killed, say. Clients \
            that lose their connections then end, and "lost_writers" counts them.

            EXAMPLES
              anabranch-lab load writers --clients 64 --files 8 --seconds 10 \\
                  --serve .build/release/anabranch
              anabranch-lab load writers --clients 64 --files 2000 --seconds 10 \\
                  --serve .build/release/anabranch
            """)

    @Option(help: "How many clients write.")
    var clients = 64

    @Option(help: "How many files they share.")
    var files = 8

    @Option(help: "For how long.")
    var seconds = 10.0

    @Option(help: "The size of what a client writes; nothing compresses it.")
    var bytes = 100

    @Option(help: "How long each of them pauses after it, in milliseconds.")
    var pause = 0

    @OptionGroup var options: LoadOptions

    func validate() throws {
        guard clients > 0, files > 0, seconds > 0, bytes >= 0, pause >= 0 else {
            throw ValidationError(
                "--clients and --files must be 1 or more, --seconds more than 0, --bytes and --pause 0 or more.")
        }
        guard files / clients < Self.sessionsMax else {
            throw ValidationError("A client has fewer than \(Self.sessionsMax) files: pass more --clients.")
        }
    }

    func run() async throws {
        var numbers = ["clients": clients, "files": files, "bytes": bytes, "pause": pause].mapValues(Double.init)
        numbers["seconds"] = seconds
        try await options.run("writers", numbers) { [files, clients, seconds, bytes, pause] run in
            let writers = try await concurrentMap(0..<clients, limit: 64) { number in
                let numbers = files > clients ? Array(stride(from: number, to: files, by: clients)) : [number % files]
                let server = (files < clients ? number / files : number) % run.servers.count
                let connection = run.connection(to: run.servers[server])
                try await connection.open()
                return try await Writer(of: numbers.map { "\(run.name)-writers-\($0)" }, on: connection, at: server)
            }
            try await run.measure {
                let end = ContinuousClock.now + .seconds(seconds)
                let lostCount = try await withThrowingTaskGroup(of: Int.self) { group in
                    for writer in writers {
                        group.addTask {
                            do {
                                try await writer.write(until: end, bytes: bytes, pause: .milliseconds(pause))
                                return 0
                            } catch {
                                guard run.servers.count > 1 else { throw error }
                                return 1
                            }
                        }
                    }
                    return try await group.reduce(0, +)
                }
                run.report("all writers are done")
                var outcome = Self.outcome(writers, files: files)
                guard run.servers.count > 1 else { return outcome }
                outcome.counts["lost_writers"] = Double(lostCount)
                for server in run.servers.indices {
                    let uploads = writers.filter { $0.server == server }.flatMap(\.uploads)
                    outcome.latencies["acknowledged_server_\(server + 1)"] = uploads.map { $0.acknowledged - $0.sent }
                }
                return outcome
            }
        }
    }

    /// The number of sessions that a connection can have.
    private static let sessionsMax = 1_000

    /// Matches the times when changesets were sent and when they came, file by file.
    private static func outcome(_ writers: [Writer], files: Int) -> LoadOutcome {
        let uploads = writers.map(\.uploads)
        var outcome = LoadOutcome(operations: uploads.reduce(0) { $0 + $1.count }, operation: "upload")
        var readers: [Duration] = [], lastReaders: [Duration] = []
        for file in 0..<files {
            let members = Array(stride(from: file, to: writers.count, by: files))
            var sent: [Tag: ContinuousClock.Instant] = [:]
            for member in members { for upload in uploads[member] { sent[upload.tag] = upload.sent } }
            var arrivals: [Tag: [Duration]] = [:]
            for member in members {
                for (tag, time) in writers[member].arrivals {
                    if let sent = sent[tag] { arrivals[tag, default: []].append(time - sent) }
                }
            }
            for times in arrivals.values {
                readers += times
                if times.count == members.count - 1, let last = times.max() { lastReaders.append(last) }
            }
        }
        outcome.latencies["acknowledged"] = uploads.joined().map { $0.acknowledged - $0.sent }
        guard files < writers.count else { return outcome }
        outcome.latencies["reader"] = readers
        outcome.latencies["last_reader"] = lastReaders
        return outcome
    }
}

/// The identity of a changeset in a file.
private struct Tag: Hashable {
    var ident: ClientFileID
    var timestamp: ChangesetTime

    init(_ tag: OriginTag) { (ident, timestamp) = (tag.ident, tag.timestamp) }
}

/// A writing client, with its sent changes and those received from others.
private final class Writer: Sendable {
    struct Sent: Sendable {
        var tag: Tag
        var sent: ContinuousClock.Instant
        var acknowledged: ContinuousClock.Instant
    }

    private struct State {
        var uploads: [Sent] = []
        var arrivals: [(Tag, ContinuousClock.Instant)] = []
    }

    /// The number of its server, from 0 on.
    let server: Int
    /// The clients, one for each of its files.
    private let clients: [LoadClient]
    private let state = Mutex(State())

    /// Writes the client's object in each of the files.
    init(of files: [String], on connection: TestConnection, at server: Int) async throws {
        self.server = server
        clients = files.map { LoadClient(of: $0, on: connection.eventLoop) }
        for client in clients {
            try await client.join(connection)
            let version = await client.upload([LoadChangesets.first(of: client.identNumber)]).version
            _ = try await client.wait { $0.isAcknowledged(version) }
            await client.observe(onDownload: { [weak self] message, time in self?.record(message, at: time) })
        }
    }

    var uploads: [Sent] { state.withLock { $0.uploads } }
    var arrivals: [(Tag, ContinuousClock.Instant)] { state.withLock { $0.arrivals } }

    private func record(_ message: DownloadMessage, at time: ContinuousClock.Instant) {
        let tags = message.download.changesets.map { Tag($0.tag) }
        state.withLock { state in state.arrivals += tags.map { ($0, time) } }
    }

    func write(until end: ContinuousClock.Instant, bytes: Int, pause: Duration) async throws {
        var number = 0
        while ContinuousClock.now < end {
            let client = clients[number % clients.count], ident = await client.identNumber
            number += 1
            let changeset = LoadChangesets.update(of: ident, number: UInt64(number), bytes: bytes)
            let (version, sent) = await client.upload([changeset])
            let tag = Tag(await client.newestTag)
            let acknowledged = try await client.wait { $0.isAcknowledged(version) }
            state.withLock { $0.uploads.append(Sent(tag: tag, sent: sent, acknowledged: acknowledged)) }
            if pause > .zero { try await Task.sleep(for: pause) }
        }
    }
}
