import AnabranchProtocol
import ArgumentParser
import NIOCore

struct FanoutCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fanout",
        abstract: "One client writes, and many others have to have it.",
        discussion: """
            Each reader has a connection of its own. A round is over when the last one has the DOWNLOAD; then all of \
            them decode and acknowledge it, as clients do, and after a pause the next round begins. Latencies, from \
            the moment when the UPLOAD was sent: "last_reader", "reader" (each of them) and "acknowledged" (the \
            writer). An operation is a DOWNLOAD of a reader.

            EXAMPLE
              anabranch-lab load fanout --readers 1000 --rounds 100 \\
                  --serve .build/release/anabranch
            """)

    @Option(help: "How many clients read.")
    var readers = 100

    @Option(help: "How often the writer writes.")
    var rounds = 100

    @Option(help: "The size of what it writes; nothing compresses it.")
    var bytes = 100

    @Option(help: "How long the pause is, in milliseconds: the server reads the acknowledgements meanwhile.")
    var pause = 25

    @OptionGroup var options: LoadOptions

    func validate() throws {
        guard readers > 0, rounds > 0, bytes >= 0, pause >= 0 else {
            throw ValidationError("--readers and --rounds must be 1 or more, --bytes and --pause 0 or more.")
        }
    }

    func run() async throws {
        let numbers = ["readers": readers, "rounds": rounds, "bytes": bytes, "pause": pause].mapValues(Double.init)
        try await options.run("fanout", numbers) { [readers, rounds, bytes, pause] run in
            let file = "\(run.name)-fanout"
            let writer = try await run.connectedClient(of: file)
            let clients = try await run.connectedClients(readers) { _ in file }
            let arrivals = Arrivals(readers: readers)
            for client in clients {
                await client.observe(
                    onDownload: { message, _ in if message.changesetCount != 1 { arrivals.fail(Self.unexpected) } },
                    onFailure: { arrivals.fail($0) })
                try await client.holdDownloads { arrivals.record(1, at: $0) }
            }
            func round(_ number: Int) async throws -> (acknowledged: Duration, each: [Duration]) {
                let changeset =
                    number == 0
                    ? LoadChangesets.first(of: 1) : LoadChangesets.update(of: 1, number: UInt64(number), bytes: bytes)
                let (version, sent) = await writer.upload([changeset])
                let acknowledged = try await writer.wait { $0.isAcknowledged(version) }
                let times = try await arrivals.all()
                clients.releaseDownloads()
                try await Task.sleep(for: .milliseconds(pause))
                return (acknowledged - sent, times.map { $0 - sent })
            }
            _ = try await round(0)
            try await run.measure {
                var outcome = LoadOutcome(operations: readers * rounds, operation: "delivery")
                for number in 1...rounds {
                    let (acknowledged, each) = try await round(number)
                    outcome.latencies["acknowledged", default: []].append(acknowledged)
                    outcome.latencies["last_reader", default: []].append(each.max() ?? .zero)
                    outcome.latencies["reader", default: []] += each
                    if number % 100 == 0 { run.report("\(number) of \(rounds) rounds") }
                }
                for client in clients where await client.changesetCount != rounds + 1 { throw Self.unexpected }
                try arrivals.check()
                return outcome
            }
        }
    }

    private static let unexpected = LoadError("a reader got another DOWNLOAD than the one of the round")
}
