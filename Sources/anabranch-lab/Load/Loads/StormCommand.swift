import AnabranchTestClient
import ArgumentParser
import Synchronization

struct StormCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "storm",
        abstract: "All clients come back at once, each with a catch-up of its own.",
        discussion: """
            Each client writes something of its own and leaves, then a history of --megabytes is written, then all \
            come back: as each stands at another place of the log, no two get the same bytes. Latencies, from the \
            moment when all set out: "handshake" and "caught_up". With --seconds, new clients come in place of those \
            that have everything, for so long, while the writers write. An operation is a client that has everything.

            EXAMPLES
              anabranch-lab load storm --clients 400 --megabytes 4.4 \\
                  --serve .build/release/anabranch
              anabranch-lab load storm --clients 24 --megabytes 2 --seconds 80 \\
                  --writers 6 --serve .build/release/anabranch
            """)

    @Option(help: "How many clients come back.")
    var clients = 100

    @Option(help: "What each has to catch up with; nothing compresses it.")
    var megabytes = 4.4

    @Option(help: "How long new clients go on to come.")
    var seconds = 0.0

    @Option(help: "How many clients write 20 times a second meanwhile.")
    var writers = 0

    @OptionGroup var options: LoadOptions

    func validate() throws {
        guard clients > 0, megabytes > 0, seconds >= 0, writers >= 0 else {
            throw ValidationError("--clients and --megabytes must be more than 0, the others not negative.")
        }
    }

    func run() async throws {
        let numbers = [
            "clients": Double(clients), "megabytes": megabytes, "seconds": seconds, "writers": Double(writers),
        ]
        try await options.run("storm", numbers) { run in
            let file = "\(run.name)-storm"
            let departed = try await concurrentMap(0..<clients, limit: 16) { _ in
                try await run.departedClient(of: file)
            }
            try await run.writeHistory(of: file, megabytes: megabytes)
            let writers = try await run.connectedClients(writers) { _ in file }
            try await run.measure { try await load(run, file, departed, writers) }
        }
    }

    private func load(
        _ run: LoadRun, _ file: String, _ clients: [LoadClient], _ writers: [LoadClient]
    ) async throws -> LoadOutcome {
        let end = ContinuousClock.now + .seconds(seconds)
        let writing = Task {
            try await withThrowingTaskGroup { group in
                for writer in writers { group.addTask { try await write(writer) } }
                try await group.waitForAll()
            }
        }
        defer { writing.cancel() }
        let done = Atomic(0)
        let times = try await concurrentMap(clients, limit: clients.count) { client in
            let first = try await comeBack(client, run)
            var all = [first]
            while ContinuousClock.now < end {
                all.append(try await comeBack(LoadClient(of: file, on: client.eventLoop), run))
            }
            let count = done.wrappingAdd(1, ordering: .relaxed).newValue
            if count % 100 == 0 { run.report("\(count) clients have everything") }
            return all
        }.flatMap(\.self)
        var outcome = LoadOutcome(operations: times.count, operation: "client")
        outcome.latencies = ["handshake": times.map(\.handshake), "caught_up": times.map(\.caughtUp)]
        return outcome
    }

    private func comeBack(
        _ client: LoadClient, _ run: LoadRun
    ) async throws -> (handshake: Duration, caughtUp: Duration) {
        let connection = run.connection(on: client.eventLoop), start = ContinuousClock.now
        try await connection.open()
        let opened = ContinuousClock.now
        let caughtUp = try await client.join(connection)
        if seconds > 0 { await client.leave() }
        return (opened - start, caughtUp - start)
    }

    private func write(_ client: LoadClient) async throws {
        let ident = await client.identNumber
        var number: UInt64 = 0
        while !Task.isCancelled {
            let changeset =
                number == 0
                ? LoadChangesets.first(of: ident) : LoadChangesets.update(of: ident, number: number, bytes: 100)
            number += 1
            let version = await client.upload([changeset]).version
            _ = try await client.wait { $0.isAcknowledged(version) }
            try await Task.sleep(for: .milliseconds(50))
        }
    }
}
