import AnabranchTestClient
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

            EXAMPLES
              anabranch-lab load visits --files 100000 --clients 64 \\
                  --serve .build/release/anabranch
              anabranch-lab load visits --files 1 --entries 1000000 --visits 500 \\
                  --serve .build/release/anabranch
            """)

    @Option(help: "How many files there are.")
    var files = 10_000

    @Option(help: "How many clients visit files at a time, each on a connection of its own.")
    var clients = 64

    @Option(help: "How many entries the log of each file has.")
    var entries = 1

    @Option(help: "How often the client of each file comes back.")
    var visits = 1

    @OptionGroup var options: LoadOptions

    func validate() throws {
        guard min(files, clients, entries, visits) > 0 else {
            throw ValidationError("--files, --clients, --entries and --visits must be 1 or more.")
        }
    }

    func run() async throws {
        let numbers = [
            "files": Double(files), "clients": Double(clients), "entries": Double(entries), "visits": Double(visits),
        ]
        try await options.run("visits", numbers) { run in
            let connections = try await concurrentMap(0..<min(clients, files), limit: 64) { _ in
                let connection = run.connection()
                try await connection.open()
                return connection
            }
            let visitors = try await forEachFile(connections, run, "files are made") { number, connection in
                let client = LoadClient(of: "\(run.name)-visits-\(number)", on: connection.eventLoop)
                try await client.join(connection)
                try await write(client)
                try await client.unbind()
                return client
            }
            try await run.measure {
                let times = try await forEachFile(connections, run, "files are visited") { number, connection in
                    let client = visitors[number % connections.count][number / connections.count]
                    var times: [Duration] = []
                    for _ in 0..<visits {
                        let start = ContinuousClock.now
                        times.append(try await client.join(connection) - start)
                        try await client.unbind()
                    }
                    return times
                }.flatMap { $0.flatMap(\.self) }
                var outcome = LoadOutcome(operations: times.count, operation: "visit")
                outcome.latencies = ["caught_up": times]
                return outcome
            }
        }
    }

    /// Makes the entries of a client's file, at most 1,000 with each UPLOAD.
    private func write(_ client: LoadClient) async throws {
        let ident = await client.identNumber
        for start in stride(from: 0, to: entries, by: 1000) {
            let changesets = (start..<min(start + 1000, entries)).map { number in
                number == 0
                    ? LoadChangesets.first(of: ident)
                    : LoadChangesets.update(of: ident, number: UInt64(number), bytes: 40)
            }
            let version = await client.upload(changesets).version
            _ = try await client.wait { $0.isAcknowledged(version) }
        }
    }

    /// Goes through the files, each connection through some of them, one after the other.
    /// - Returns: the results of `body`, by connection.
    private func forEachFile<Value: Sendable>(
        _ connections: [TestConnection], _ run: LoadRun, _ report: String,
        _ body: @escaping @Sendable (Int, TestConnection) async throws -> Value
    ) async throws -> [[Value]] {
        let done = Atomic(0)
        return try await concurrentMap(connections.indices, limit: connections.count) { first in
            var values: [Value] = []
            for number in stride(from: first, to: files, by: connections.count) {
                values.append(try await body(number, connections[first]))
                let count = done.wrappingAdd(1, ordering: .relaxed).newValue
                if count % 1000 == 0 { run.report("\(count) \(report)") }
            }
            return values
        }
    }
}
