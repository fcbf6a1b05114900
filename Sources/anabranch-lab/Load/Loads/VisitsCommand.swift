import ArgumentParser
import Synchronization

struct VisitsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "visits",
        abstract: "Clients come back to many files, one after the other.",
        discussion: """
            Each file gets a client that writes something and leaves. Then all of them come back, --clients at a time, \
            and leave when they have everything: what the server's memory shows then is kept of files that nobody \
            uses. Latency: "caught_up", from BIND to the answer to MARK. An operation is a visit.

            EXAMPLE
              anabranch-lab load visits --files 100000 --clients 64 --serve .build/release/anabranch
            """)

    @Option(help: "How many files there are.")
    var files = 10_000

    @Option(help: "How many clients visit files at a time, each on a connection of its own.")
    var clients = 64

    @OptionGroup var options: LoadOptions

    func validate() throws {
        guard files > 0, clients > 0 else { throw ValidationError("--files and --clients must be 1 or more.") }
    }

    func run() async throws {
        let numbers = ["files": Double(files), "clients": Double(clients)]
        try await options.run("visits", numbers) { run in
            let connections = try await concurrentMap(0..<clients, limit: 64) { _ in
                let connection = run.connection()
                try await connection.open()
                return connection
            }
            let visitors = try await forEach(0..<files, run, "files are made") { number in
                let connection = connections[number % connections.count]
                let client = LoadClient(of: "\(run.name)-visits-\(number)", on: connection.eventLoop)
                try await client.join(connection)
                let version = await client.upload([LoadChangesets.first(of: client.identNumber)]).version
                _ = try await client.wait { $0.isAcknowledged(version) }
                try await client.unbind()
                return (client, connection)
            }
            try await run.measure {
                let times = try await forEach(visitors, run, "files are visited") { client, connection in
                    let start = ContinuousClock.now, caughtUp = try await client.join(connection) - start
                    try await client.unbind()
                    return caughtUp
                }
                var outcome = LoadOutcome(operations: times.count, operation: "visit")
                outcome.latencies = ["caught_up": times]
                return outcome
            }
        }
    }

    private func forEach<Element: Sendable, Value: Sendable>(
        _ elements: some Collection<Element>, _ run: LoadRun, _ report: String,
        _ body: @escaping @Sendable (Element) async throws -> Value
    ) async throws -> [Value] {
        let done = Atomic(0)
        return try await concurrentMap(elements, limit: clients) { element in
            let value = try await body(element)
            let count = done.wrappingAdd(1, ordering: .relaxed).newValue
            if count % 1000 == 0 { run.report("\(count) \(report)") }
            return value
        }
    }
}
