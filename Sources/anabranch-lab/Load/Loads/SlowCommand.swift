import AnabranchProtocol
import AnabranchTestClient
import ArgumentParser

struct SlowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "slow",
        abstract: "Clients that take what they asked for not at all, or say something and never end.",
        discussion: """
            There is a history of --megabytes on the file. Each reader asks for it in each of its sessions, all of \
            which stand at other places of the log, and does not read, but sends PING every few seconds, as clients \
            do that live. With --trickle it reads so many bytes each second, of which the server hears in larger \
            pieces. With --unfinished it asks for nothing, but announces a message of so many MiB and sends all of it \
            but the last byte, as soon as it is connected or, with --identified, in a session. "rss_mib_per_reader" is \
            the most of what they have cost, "closed" how many of them the server has closed, "closed_first_seconds" \
            and "closed_last_seconds" how long that took; a reader that does not read notices it with its next PING. \
            An operation is a reader.

            EXAMPLES
              anabranch-lab load slow --readers 20 --seconds 90 \\
                  --serve .build/release/anabranch
              anabranch-lab load slow --readers 20 --trickle 4096 --seconds 90 \\
                  --serve .build/release/anabranch
              anabranch-lab load slow --readers 20 --unfinished 31 --seconds 90 \\
                  --serve .build/release/anabranch
            """)

    @Option(help: "How many clients are slow.")
    var readers = 20

    @Option(help: "How many sessions each has on its connection.")
    var sessions = 4

    @Option(help: "The size of the history, which nothing compresses.")
    var megabytes = 8.0

    @Option(help: "How long the readers do not read.")
    var seconds = 20.0

    @Option(help: "How often each says that it lives.")
    var pingSeconds = 10.0

    @Option(help: ArgumentHelp("Read so much each second in place of nothing.", valueName: "bytes"))
    var trickle: Int?

    @Option(help: ArgumentHelp("Begin a message of this size in place of not reading.", valueName: "mebibytes"))
    var unfinished: Double?

    @Flag(help: "With --unfinished: the clients have begun sessions before.")
    var identified = false

    @OptionGroup var options: LoadOptions

    func validate() throws {
        guard readers > 0, sessions > 0, megabytes > 0, seconds > 0, pingSeconds > 0, unfinished ?? 1 > 0.1 else {
            throw ValidationError("All numbers must be more than 0.")
        }
        guard trickle ?? 1 > 0 else { throw ValidationError("--trickle must be 1 or more.") }
        guard !identified || unfinished != nil else { throw ValidationError("--identified needs --unfinished.") }
        guard trickle == nil || unfinished == nil else {
            throw ValidationError("--trickle and --unfinished cannot go together.")
        }
    }

    func run() async throws {
        var numbers = ["megabytes": megabytes, "seconds": seconds, "ping_seconds": pingSeconds]
        numbers.merge(["readers": Double(readers), "sessions": Double(sessions)]) { $1 }
        numbers["trickle"] = trickle.map(Double.init)
        numbers["unfinished"] = unfinished
        if unfinished != nil { numbers["identified"] = identified ? 1 : 0 }
        try await options.run("slow", numbers) { run in
            var groups = [[LoadClient]](repeating: [], count: readers)
            if identified {
                groups = (0..<readers).map { _ in [LoadClient(of: "\(run.name)-slow", on: run.nextEventLoop)] }
            } else if unfinished == nil {
                let file = "\(run.name)-slow"
                groups = try await concurrentMap(0..<readers, limit: 16) { _ in
                    let first = try await run.departedClient(of: file)
                    var group = [first]
                    while group.count < sessions {
                        group.append(try await run.departedClient(of: file, on: first.eventLoop))
                    }
                    return group
                }
                try await run.writeHistory(of: file, megabytes: megabytes)
            }
            try await run.measure { [groups] in try await load(run, groups) }
        }
    }

    private func load(_ run: LoadRun, _ groups: [[LoadClient]]) async throws -> LoadOutcome {
        let before = try run.serverSnapshot()?.residentBytes ?? 0
        let frame = unfinished.map { TestConnection.unfinishedMessage(size: Int($0 * 1_048_576)) }
        let connections = try await concurrentMap(groups, limit: 64) { clients in
            let connection = run.connection(on: clients.first?.eventLoop)
            try await connection.open()
            if let frame {
                for client in clients { try await client.join(connection) }
                try await connection.sendRaw(frame)
            } else {
                try await connection.setReading(false)
                for client in clients { try await client.identify(on: connection) }
            }
            return connection
        }
        run.report(trickle.map { "\(readers) readers read \($0) bytes a second" } ?? "\(readers) readers do not read")
        let start = ContinuousClock.now
        let peak = try await hold(connections, run, since: start)
        var closed: [Duration] = []
        for connection in connections {
            if let end = await connection.end { closed.append(end.time - start) }
        }
        var outcome = LoadOutcome(operations: readers, operation: "reader")
        outcome.counts["closed"] = Double(closed.count)
        if let first = closed.min(), let last = closed.max() {
            outcome.counts["closed_first_seconds"] = first / .seconds(1)
            outcome.counts["closed_last_seconds"] = last / .seconds(1)
        }
        if before > 0 {
            outcome.counts["rss_mib_per_reader"] = Double(peak - before) / 1_048_576 / Double(readers)
        }
        return outcome
    }

    /// Has the connections show signs of life, and read the little that they read.
    ///
    /// - Returns: the most memory that the server has needed during that time.
    private func hold(
        _ connections: [TestConnection], _ run: LoadRun, since start: ContinuousClock.Instant
    ) async throws -> Int {
        var peak = 0, lastPing = start, lastRead = start
        while ContinuousClock.now - start < .seconds(seconds) {
            try await Task.sleep(for: .milliseconds(100))
            peak = max(peak, try run.serverSnapshot()?.residentBytes ?? 0)
            if let trickle, ContinuousClock.now - lastRead >= .seconds(1) {
                lastRead = .now
                for connection in connections { await connection.read(bytes: trickle) }
            }
            guard unfinished == nil, ContinuousClock.now - lastPing >= .seconds(pingSeconds) else { continue }
            lastPing = .now
            for connection in connections {
                await connection.send(.ping(timestamp: 1, roundTripMilliseconds: 0))
            }
        }
        return peak
    }
}
