import AnabranchTestClient
import ArgumentParser

struct IdleCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "idle",
        abstract: "Many sessions that have nothing to do.",
        discussion: """
            Opens the connections, a session for each new client file, and holds them. Latencies: "handshake" (TCP \
            connection begun → WebSocket) and "session" (BIND sent → everything there). An operation is a session.

            EXAMPLES
              anabranch-lab load idle --sessions 10000 --connections 1000 \\
                  --serve .build/release/anabranch
              anabranch-lab load idle --sessions 4000 --connections 4 --files 1 \\
                  --name-bytes 1000 --only-bind --serve .build/release/anabranch
            """)

    @Option(help: "How many sessions.")
    var sessions = 1000

    @Option(help: "How many connections have them.")
    var connections = 100

    @Option(help: "How many files the sessions are of.")
    var files = 100

    @Option(help: "How long they are held.")
    var seconds = 5.0

    @Option(help: "Lengthen the names of the files to so many bytes.")
    var nameBytes = 0

    @Flag(help: "Sessions are bound and never identified, as no real client's are.")
    var onlyBind = false

    @OptionGroup var options: LoadOptions

    func validate() throws {
        guard sessions > 0, connections > 0, files > 0, seconds >= 0, nameBytes >= 0 else {
            throw ValidationError("--sessions, --connections and --files must be 1 or more, the others 0 or more.")
        }
    }

    func run() async throws {
        var numbers = ["sessions": sessions, "connections": connections, "files": files, "name_bytes": nameBytes]
            .mapValues(Double.init)
        numbers["seconds"] = seconds
        try await options.run("idle", numbers) { run in
            try await run.measure { try await load(run) }
        }
    }

    private func load(_ run: LoadRun) async throws -> LoadOutcome {
        let before = try run.serverSnapshot()
        let opened = try await concurrentMap(0..<connections, limit: 64) { _ in
            let connection = run.connection(), start = ContinuousClock.now
            try await connection.open()
            return (connection, handshake: ContinuousClock.now - start)
        }
        run.report("\(connections) connections are open")
        let joins = try await concurrentMap(0..<sessions, limit: 256) { number in
            let connection = opened[number % opened.count].0, start = ContinuousClock.now
            let name = "\(run.name)-idle-\(number % files)"
            let client = LoadClient(
                of: name + String(repeating: "x", count: max(0, nameBytes - name.count)), on: connection.eventLoop)
            guard !onlyBind else {
                try await client.bind(on: connection, needsFileIdent: false)
                return ContinuousClock.now - start
            }
            return try await client.join(connection) - start
        }
        run.report("\(sessions) sessions are there")
        let beginning = try run.serverSnapshot()
        try await Task.sleep(for: .seconds(seconds))
        let end = try run.serverSnapshot()

        var outcome = LoadOutcome(operations: sessions, operation: "session")
        outcome.latencies = ["handshake": opened.map(\.handshake), "session": joins]
        for (connection, _) in opened {
            if let end = await connection.end { throw LoadError("a connection did not last: \(end.reason)") }
        }
        guard let before, let beginning, let end else { return outcome }
        outcome.counts["rss_kib_per_session"] =
            Double(end.residentBytes - before.residentBytes) / 1024 / Double(sessions)
        if seconds > 0 {
            outcome.counts["idle_cpu_ms_per_second"] = (end.cpuSeconds - beginning.cpuSeconds) * 1000 / seconds
        }
        return outcome
    }
}
