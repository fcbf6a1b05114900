import AnabranchProtocol
import AnabranchTestClient
import ArgumentParser
import NIOHTTP1
import Synchronization

struct FloodCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "flood",
        abstract: "Much of something small.",
        discussion: """
            cycles: connect, BIND, and drop the connection, --cycles times. pings, marks, progress: as many PINGs, \
            MARKs or UPLOADs without changesets as the server reads. passwords: wrong passwords, each of which costs \
            the server a hash; "handshake_ms" of the bystanders says what others notice. An operation is a cycle, a \
            message or an answer.

            EXAMPLES
              anabranch-lab load flood cycles --cycles 10000 \\
                  --serve .build/release/anabranch
              anabranch-lab load flood marks --clients 8 --seconds 5 \\
                  --serve .build/release/anabranch
              anabranch-lab load flood passwords --clients 80 --seconds 20 \\
                  --serve .build/release/anabranch
            """)

    enum Kind: String, CaseIterable, ExpressibleByArgument {
        case cycles, pings, marks, progress, passwords
    }

    @Argument(help: "Of what.")
    var kind: Kind

    @Option(help: "How many clients do it at a time.")
    var clients = 8

    @Option(help: "For how long; not for cycles.")
    var seconds = 5.0

    @Option(help: "How many cycles.")
    var cycles = 1000

    @OptionGroup var options: LoadOptions

    func validate() throws {
        guard clients > 0, seconds > 0, cycles > 0 else { throw ValidationError("All numbers must be more than 0.") }
    }

    func run() async throws {
        var numbers = ["clients": Double(clients)]
        if kind == .cycles { numbers["cycles"] = Double(cycles) } else { numbers["seconds"] = seconds }
        try await options.run("flood \(kind.rawValue)", numbers) { run in
            let file = "\(run.name)-flood"
            switch kind {
            case .cycles: try await run.measure { try await cycle(run, file) }
            case .passwords: try await run.measure { try await tryPasswords(run) }
            case .pings, .marks, .progress: try await flood(run, file)
            }
        }
    }

    private func cycle(_ run: LoadRun, _ file: String) async throws -> LoadOutcome {
        let done = Atomic(0)
        let times = try await concurrentMap(0..<cycles, limit: clients) { _ in
            let connection = run.connection(), start = ContinuousClock.now
            try await connection.open()
            let opened = ContinuousClock.now
            try await LoadClient(of: file, on: connection.eventLoop).bind(on: connection, needsFileIdent: false)
            await connection.close()
            let count = done.wrappingAdd(1, ordering: .relaxed).newValue
            if count % 1000 == 0 { run.report("\(count) of \(cycles) cycles") }
            return opened - start
        }
        var outcome = LoadOutcome(operations: cycles, operation: "cycle")
        outcome.latencies["handshake"] = times
        return outcome
    }

    private static let messagesPerBatch = 256

    private func flood(_ run: LoadRun, _ file: String) async throws {
        let members = try await concurrentMap(0..<clients, limit: 64) { _ in
            let connection = run.connection()
            try await connection.open()
            let client = LoadClient(of: file, on: connection.eventLoop)
            try await client.join(connection)
            return (connection, client)
        }
        try await run.measure {
            let start = ContinuousClock.now, end = start + .seconds(seconds)
            let counts = try await concurrentMap(members, limit: members.count) { connection, client in
                var count = 0
                while ContinuousClock.now < end {
                    try await connection.send(await batch(of: client))
                    count += Self.messagesPerBatch
                }
                try await connection.ping()
                return count
            }
            let messages = counts.reduce(0, +)
            let rate = Double(messages) / ((ContinuousClock.now - start) / .seconds(1))
            return LoadOutcome(operations: messages, operation: "message", counts: ["per_second": rate])
        }
    }

    private func batch(of client: LoadClient) async -> [ClientMessage] {
        switch kind {
        case .marks: await client.marks(Self.messagesPerBatch)
        case .progress: Array(repeating: await client.progressMessage, count: Self.messagesPerBatch)
        default:
            Array(repeating: .ping(timestamp: 1, roundTripMilliseconds: 0), count: Self.messagesPerBatch)
        }
    }

    private func tryPasswords(_ run: LoadRun) async throws -> LoadOutcome {
        let requests = run.requests(app: options.app ?? "load"), end = ContinuousClock.now + .seconds(seconds)
        let answers = try await concurrentMap(0..<clients, limit: clients) { number in
            var answers: [(status: HTTPResponseStatus, duration: Duration)] = []
            let credentials = HTTPRequests.Credentials.password(
                email: "nobody-\(number)@example.com", password: "not the password")
            while ContinuousClock.now < end {
                let start = ContinuousClock.now
                let status = try await requests.tryPassword(credentials)
                answers.append((status, .now - start))
            }
            return answers
        }.flatMap(\.self)
        var outcome = LoadOutcome(operations: answers.count, operation: "answer")
        outcome.latencies["answer"] = answers.map(\.duration)
        for (status, _) in answers { outcome.counts["status_\(status.code)", default: 0] += 1 }
        return outcome
    }
}
