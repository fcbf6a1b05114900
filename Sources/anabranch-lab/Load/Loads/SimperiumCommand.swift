import AnabranchCore
import AnabranchTestClient
import AnabranchTesting
import ArgumentParser
import Foundation
import NIOCore
import Synchronization

struct SimperiumCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simperium",
        abstract: "Clients of Simperium's wire, beside clients of Realm's that do the same.",
        discussion: """
            Many channels are open and idle. Then writers change entities of one bucket, each its own, and hear of \
            what the others change; then one writes, and all readers have to have it; then a bucket with many entities \
            is listed page by page while others write. The first two are done by clients of Realm's wire as well, in \
            turns, so that both have the same conditions. "cpu_us_per_change" and "cpu_us_per_delivery" are what \
            the server's processors need for one of each, for either wire, and "…_ratio" is one by the other. \
            Latencies: "change" and "realm_change" (sent → acknowledged), "last_reader" and "realm_last_reader", \
            "first_page", "page", and "far_page" (with an offset of nine tenths of the entities). An operation is a \
            change of an entity.

            EXAMPLE
              anabranch-lab load simperium --clients 1000 --bystanders 0 \\
                  --serve .build/release/anabranch
            """)

    @Option(help: "How many clients are idle, each with a connection of its own.")
    var clients = 1000

    @Option(help: "How many more channels each of them opens.")
    var channels = 9

    @Option(help: "How many clients write at the same time.")
    var writers = 64

    @Option(help: "For how many seconds, with either wire.")
    var seconds = 10.0

    @Option(help: "How many clients read what one writes.")
    var readers = 900

    @Option(help: "How often it writes at most, with either wire: fewer if that takes longer than a minute.")
    var rounds = 100

    @Option(help: "How many entities are listed.")
    var entities = 100_000

    @Option(help: "The size of the text of an entity.")
    var bytes = 100

    @OptionGroup var options: LoadOptions

    func validate() throws {
        guard options.serve != nil else { throw ValidationError("The app is made for a server of --serve.") }
        guard min(clients, channels, writers, readers, rounds, entities) > 0, seconds > 0 else {
            throw ValidationError("All numbers must be 1 or more.")
        }
        guard channels < 100, bytes > 16 else {
            throw ValidationError("--channels must be less than 100, --bytes more than 16.")
        }
    }

    func run() async throws {
        var numbers = [
            "clients": clients, "channels": channels, "writers": writers, "readers": readers, "rounds": rounds,
            "entities": entities, "bytes": bytes,
        ].mapValues(Double.init)
        numbers["seconds"] = seconds
        try await options.run("simperium", numbers, configuration: Self.serverConfiguration) { run in
            let user = try await Self.user("ann", run)
            try await fill(run, user)
            try await run.measure {
                var outcome = LoadOutcome(operations: 0, operation: "change")
                try await idle(run, &outcome)
                try await write(run, user, &outcome)
                try await fanOut(run, user, &outcome)
                try await list(run, user, &outcome)
                return outcome
            }
        }
    }

    private static let app = "load-notes"

    /// The configuration of the server, in development mode.
    private static let serverConfiguration = """
        dev: true
        apps:
          \(app): {providers: [local-userpass], simperium: {}}

        """

    private static func user(_ name: String, _ run: LoadRun) async throws -> SimperiumUser {
        try await SimperiumUser("\(name)@\(run.name).example", of: app, on: run.target, run.nextEventLoop)
    }

    private static func client(_ name: String, of user: SimperiumUser, _ run: LoadRun) async throws -> SimperiumClient {
        try await SimperiumClient(
            "\(run.name)-\(name)", of: user, to: run.target, on: run.nextEventLoop, traffic: run.traffic)
    }

    /// The bucket that is listed.
    private static let listed = "listed"
    /// The bucket in which all others write and read.
    private static let bucket = "note"

    /// Makes the entities of the bucket that is listed, as a Realm client, which is quickest.
    private func fill(_ run: LoadRun, _ user: SimperiumUser) async throws {
        let client = LoadClient(of: user.partition, on: run.nextEventLoop)
        let connection = run.connection(on: client.eventLoop, to: run.target.with(token: nil, app: Self.app))
        try await connection.open()
        try await client.join(connection)
        for first in stride(from: 0, to: entities, by: 1_000) {
            let numbers = first..<min(entities, first + 1_000)
            let version = await client.upload([Self.entities(numbers)]).version
            _ = try await client.wait { $0.isAcknowledged(version) }
        }
        await client.leave()
        run.report("\(entities) entities are there")
        let first = try await Self.client("first", of: user, run)
        try await first.open(Self.listed)
        await first.close()
        run.report("their bucket is open")
    }

    /// The class of the bucket that is listed, as Realm clients make it, and its entities.
    private static func entities(_ numbers: Range<Int>) -> [UInt8] {
        var instructions: [NamedInstruction] = [
            .addTable(listed, key: "id", .string),
            .addColumn(listed, "body", .null, nullable: true, .dictionary),
            .addColumn(listed, "nested", .string, .dictionary),
        ]
        for number in numbers {
            let name = ObjectName(className: listed, key: .string(Array("entity-\(number)".utf8)))
            instructions.append(.createObject(name))
            instructions.append(
                .update(
                    FieldPath(object: name, field: "body", path: ["title"]), .string(Array("the note \(number)".utf8))))
        }
        return ChangesetWriter(instructions).bytes
    }

    /// A client with an entity of its own.
    private func openWriter(_ name: String, _ user: SimperiumUser, _ run: LoadRun) async throws -> NoteWriter {
        let client = try await Self.client(name, of: user, run)
        try await client.open(Self.bucket)
        let writer = SimperiumWriter(client, key: client.name)
        try await writer.make(String(repeating: "x", count: bytes))
        return NoteWriter(writer, bytes: bytes)
    }

    // MARK: Idle channels

    private func idle(_ run: LoadRun, _ outcome: inout LoadOutcome) async throws {
        let user = try await Self.user("idle", run), before = try run.serverSnapshot()
        let opened = try await concurrentMap(0..<clients, limit: 64) { number in
            let client = try await Self.client("idle-\(number)", of: user, run)
            try await client.open("b0")
            return client
        }
        run.report("\(clients) clients are idle")
        let one = try run.serverSnapshot()
        _ = try await concurrentMap(opened, limit: 64) { client in
            for channel in 1...channels {
                try await client.open("b\(channel)", channel: channel)
            }
        }
        run.report("and have \(1 + channels) channels")
        let all = try run.serverSnapshot()
        for client in opened { await client.close() }
        guard let before, let one, let all else { return }
        func kibibytes(_ difference: Int, _ count: Int) -> Double { Double(difference) / 1024 / Double(count) }
        outcome.counts["rss_kib_per_client"] = kibibytes(one.anonymousBytes - before.anonymousBytes, clients)
        outcome.counts["rss_kib_per_channel"] = kibibytes(
            all.anonymousBytes - one.anonymousBytes, clients * channels)
    }

    // MARK: Writers

    private func write(_ run: LoadRun, _ user: SimperiumUser, _ outcome: inout LoadOutcome) async throws {
        let notes = try await concurrentMap(0..<writers, limit: 64) { number in
            try await openWriter("writer-\(number)", user, run)
        }
        let realm = try await concurrentMap(0..<writers, limit: 64) { number in
            let client = try await run.connectedClient(of: "\(run.name)-writers")
            let version = await client.upload([LoadChangesets.first(of: client.identNumber)]).version
            _ = try await client.wait { $0.isAcknowledged(version) }
            return client
        }
        var costs = Costs()
        let turns = 4
        for turn in 0..<turns {
            let note = try await costs.measure("simperium", run) {
                let end = ContinuousClock.now + .seconds(seconds / Double(turns))
                return try await concurrentMap(notes, limit: writers) { try await $0.write(until: end) }
                    .flatMap { $0 }
            }
            let other = try await costs.measure("realm", run) {
                let end = ContinuousClock.now + .seconds(seconds / Double(turns))
                return try await concurrentMap(realm, limit: writers) { client in
                    try await Self.write(client, turn: turn, until: end, bytes: bytes)
                }.flatMap { $0 }
            }
            outcome.latencies["change", default: []] += note
            outcome.latencies["realm_change", default: []] += other
            outcome.operations += note.count
        }
        costs.report("change", &outcome)
        run.report("the writers have written")
        for writer in notes { await writer.close() }
        for client in realm { await client.leave() }
    }

    private static func write(
        _ client: LoadClient, turn: Int, until end: ContinuousClock.Instant, bytes: Int
    ) async throws -> [Duration] {
        var times: [Duration] = [], number = UInt64(turn) << 32
        let ident = await client.identNumber
        while ContinuousClock.now < end {
            number += 1
            let (version, sent) = await client.upload([
                LoadChangesets.update(of: ident, number: number, bytes: bytes)
            ])
            times.append(try await client.wait { $0.isAcknowledged(version) } - sent)
        }
        return times
    }

    // MARK: Readers

    private func fanOut(_ run: LoadRun, _ user: SimperiumUser, _ outcome: inout LoadOutcome) async throws {
        let arrivals = Arrivals(readers: readers)
        let writer = try await openWriter("fanout", user, run)
        let notes = try await concurrentMap(0..<readers, limit: 64) { number in
            let client = try await Self.client("reader-\(number)", of: user, run)
            try await client.open(Self.bucket)
            client.observe({ _, time in arrivals.record(1, at: time) }, onClosed: { arrivals.fail($0) })
            return client
        }
        let file = "\(run.name)-fanout", realmArrivals = Arrivals(readers: readers)
        let realmWriter = try await run.connectedClient(of: file)
        let realm = try await run.connectedClients(readers) { _ in file }
        for client in realm {
            await client.observe(onDownload: { _, _ in }, onFailure: { realmArrivals.fail($0) })
            try await client.holdDownloads { realmArrivals.record(1, at: $0) }
        }
        run.report("\(readers) readers of either wire are there")
        func realmRound(_ number: Int) async throws -> Duration {
            let changeset =
                number == 0
                ? LoadChangesets.first(of: 1) : LoadChangesets.update(of: 1, number: UInt64(number), bytes: bytes)
            let (version, sent) = await realmWriter.upload([changeset])
            _ = try await realmWriter.wait { $0.isAcknowledged(version) }
            let last = try await realmArrivals.all().max() ?? sent
            realm.releaseDownloads()
            return last - sent
        }
        func round() async throws -> Duration {
            let sent = try await writer.write().sent
            return try await arrivals.all().max().map { $0 - sent } ?? .zero
        }
        _ = try await (round(), realmRound(0))
        var costs = Costs(), number = 0
        let end = ContinuousClock.now + .seconds(60)
        while number < rounds, number == 0 || .now < end {
            let count = min(10, rounds - number), first = number + 1
            let note = try await costs.measure("simperium", run, operations: count * readers) {
                var times: [Duration] = []
                for _ in 0..<count { times.append(try await round()) }
                return times
            }
            let other = try await costs.measure("realm", run, operations: count * readers) {
                var times: [Duration] = []
                for number in first..<first + count { times.append(try await realmRound(number)) }
                // The server reads the acknowledgements during the pause.
                try await Task.sleep(for: .milliseconds(50))
                return times
            }
            outcome.latencies["last_reader", default: []] += note
            outcome.latencies["realm_last_reader", default: []] += other
            number += count
        }
        outcome.operations += number
        costs.report("delivery", &outcome)
        run.report("the readers have read")
        for client in notes { await client.close() }
        await writer.close()
        for client in realm { await client.leave() }
    }

    // MARK: Listings

    private func list(_ run: LoadRun, _ user: SimperiumUser, _ outcome: inout LoadOutcome) async throws {
        let others = try await concurrentMap(0..<min(8, writers), limit: 8) { number in
            try await openWriter("other-\(number)", user, run)
        }
        let isOver = Atomic(false)
        let writing = Task {
            try await concurrentMap(others, limit: others.count) { writer in
                while !isOver.load(ordering: .relaxed) {
                    _ = try await writer.write()
                    try await Task.sleep(for: .milliseconds(20))
                }
            }
        }
        let reader = try await Self.client("lister", of: user, run)
        try await reader.open(Self.listed)
        func page(_ request: String, as name: String) async throws -> JSONValue {
            let sent = ContinuousClock.now
            let (text, time) = try await reader.ask("0:i:\(request)", .beginning("0:i:"))
            outcome.latencies[name, default: []].append(time - sent)
            guard let page = try? JSONValue(parsing: text.dropFirst(4).utf8) else {
                throw LoadError("no page: \(text.prefix(200))")
            }
            return page
        }
        for _ in 0..<20 {
            _ = try await page("1:::100", as: "first_page")
            _ = try await page("1::\(entities / 10 * 9):100", as: "far_page")
        }
        var listed = 0, mark = ""
        repeat {
            let next = try await page("1:\(mark)::1000", as: "page")
            listed += next["index"]?.array?.count ?? 0
            mark = next["mark"]?.string ?? ""
        } while !mark.isEmpty
        isOver.store(true, ordering: .relaxed)
        _ = try await writing.value
        for writer in others { await writer.close() }
        guard listed == entities else { throw LoadError("\(listed) entities were listed, of \(entities)") }
        run.report("\(listed) entities were listed")
        await reader.close()
    }
}

/// The processor time that the server needs with either wire.
private struct Costs {
    private var totals: [String: (seconds: Double, operations: Int)] = [:]

    /// Measures what is done with one of the wires.
    /// - Parameter operations: nil for as many as there are results.
    mutating func measure(
        _ wire: String, _ run: LoadRun, operations: Int? = nil, _ body: () async throws -> [Duration]
    ) async throws -> [Duration] {
        let before = try run.serverSnapshot(), times = try await body(), after = try run.serverSnapshot()
        if let before, let after {
            totals[wire, default: (0, 0)].seconds += after.cpuSeconds - before.cpuSeconds
            totals[wire, default: (0, 0)].operations += operations ?? times.count
        }
        return times
    }

    func report(_ operation: String, _ outcome: inout LoadOutcome) {
        let each = totals.mapValues { $0.seconds * 1e6 / Double(max(1, $0.operations)) }
        for (wire, cost) in each { outcome.counts["\(wire)_cpu_us_per_\(operation)"] = cost }
        if let own = each["simperium"], let other = each["realm"], other > 0 {
            outcome.counts["\(operation)_ratio"] = own / other
        }
        outcome.counts["\(operation)s"] = Double(totals["simperium"]?.operations ?? 0)
        outcome.counts["realm_\(operation)s"] = Double(totals["realm"]?.operations ?? 0)
    }
}

/// A client that edits the text of an entity of its own: each time it replaces a few characters somewhere.
private actor NoteWriter {
    private let writer: SimperiumWriter
    private let bytes: Int
    private var random = SeededRandom(seed: 1)

    init(_ writer: SimperiumWriter, bytes: Int) {
        self.writer = writer
        self.bytes = bytes
    }

    func write(until end: ContinuousClock.Instant) async throws -> [Duration] {
        var times: [Duration] = []
        while ContinuousClock.now < end {
            let outcome = try await write()
            times.append(outcome.acknowledged - outcome.sent)
        }
        return times
    }

    func write() async throws -> SimperiumWriter.Outcome {
        let letters = String(UInt32.random(in: 0 ... .max, using: &random), radix: 16)
        let place = random.upTo(bytes - letters.count), rest = bytes - place - letters.count
        let steps = [(place, "=\(place)"), (1, "-\(letters.count)"), (1, "+\(letters)"), (rest, "=\(rest)")]
        let outcome = try await writer.edit(steps.filter { $0.0 > 0 }.map(\.1).joined(separator: "\\t"))
        guard outcome.isAccepted else { throw LoadError("a change is refused") }
        return outcome
    }

    func close() async { await writer.client.close() }
}
