import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchSQLite
import AnabranchTestClient
import AnabranchTesting
import ArgumentParser
import Foundation

struct FlexibleCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "flx",
        abstract: "Many clients of flexible sync, each with the objects of its owner.",
        discussion: """
            An app has --objects in one class, of as many owners as there are clients, and each client asks for those \
            of one owner; the same objects are in a file of partition-based sync, too. In each round a client writes \
            to one object that one other client sees, once here and once there. Latencies: "flexible_reader", \
            "flexible_acknowledged", "partition_reader" and "partition_acknowledged", from the moment when the UPLOAD \
            was sent; "bootstrap", from QUERY to the last of --bootstrap objects; and "query_change", the same when \
            one object more comes into view. "commit_ratio" divides the medians of the readers, "cpu_ratio" what the \
            server's processor needs for a round; "rss_kib_per_client" counts from the second client on. An operation \
            is a commit of flexible sync.

            EXAMPLE
              anabranch-lab load flx --clients 1000 --serve .build/release/anabranch
            """)

    @Option(help: "How many clients are there.")
    var clients = 1_000

    @Option(help: "How many objects the app has.")
    var objects = 100_000

    @Option(help: "How often somebody writes.")
    var rounds = 500

    @Option(help: "How many objects a bootstrap has.")
    var bootstrap = 10_000

    @OptionGroup var options: LoadOptions

    func validate() throws {
        guard options.serve != nil else { throw ValidationError("The app is made for a server of --serve.") }
        guard min(clients, rounds, bootstrap) > 0, objects > max(clients, bootstrap) else {
            throw ValidationError(
                "--clients, --rounds and --bootstrap must be 1 or more, and --objects more than all of them.")
        }
    }

    func run() async throws {
        let numbers = ["clients": clients, "objects": objects, "rounds": rounds, "bootstrap": bootstrap]
            .mapValues(Double.init)
        try await options.run("flx", numbers) { directory in
            try FlexibleApp(objects: objects, owners: clients, bootstrap: bootstrap).write(to: directory.path)
        } _: { run in
            try await run.measure { try await load(run) }
        }
    }

    private func load(_ run: LoadRun) async throws -> LoadOutcome {
        // The memory that the app itself needs is allocated with its first client.
        let first = try await connect(run, FlexibleApp.query(owner: 0)).client
        let before = try run.serverSnapshot()
        let all = try await concurrentMap(0..<clients, limit: 64) { number in
            try await connect(run, FlexibleApp.query(owner: number)).client
        }
        run.report("\(clients) clients are there")
        let after = try run.serverSnapshot()
        var outcome = LoadOutcome(operations: rounds, operation: "commit")
        if let before, let after {
            outcome.counts["rss_kib_per_client"] =
                Double(after.residentBytes - before.residentBytes) / 1024 / Double(clients)
        }
        try await commits(run, writer: first, reader: all[0], &outcome)
        try await queries(run, &outcome)
        return outcome
    }

    /// Connects a client, and waits for the objects that it requests.
    private func connect(
        _ run: LoadRun, _ query: String
    ) async throws -> (client: LoadClient, bootstrap: Duration) {
        let client = LoadClient(of: FlexibleApp.id, on: run.nextEventLoop, mode: .flexible)
        let connection = run.connection(on: client.eventLoop, to: run.target.flexible(app: FlexibleApp.id))
        try await connection.open()
        try await client.join(connection)
        return (client, try await subscribe(client, query))
    }

    private func subscribe(_ client: LoadClient, _ query: String) async throws -> Duration {
        let (version, sent) = try await client.subscribe([FlexibleApp.className: query])
        return try await client.wait { $0.bootstrapped == version } - sent
    }

    // MARK: Commits

    private func commits(
        _ run: LoadRun, writer: LoadClient, reader: LoadClient, _ outcome: inout LoadOutcome
    ) async throws {
        let others = (
            writer: try await run.connectedClient(of: FlexibleApp.id),
            reader: try await run.connectedClient(of: FlexibleApp.id)
        )
        var seconds = ["flexible": 0.0, "partition": 0.0], left = rounds, number = 0
        // In turns, so that both have the same conditions.
        while left > 0 {
            let count = min(left, 100)
            for (name, pair) in [("flexible", (writer: writer, reader: reader)), ("partition", others)] {
                let before = try run.serverSnapshot()
                for _ in 0..<count {
                    number += 1
                    let known = await pair.reader.changesetCount
                    let (version, sent) = await pair.writer.upload([FlexibleApp.update(number)])
                    let read = try await pair.reader.wait { $0.changesetCount > known }
                    let acknowledged = try await pair.writer.wait { $0.isAcknowledged(version) }
                    outcome.latencies["\(name)_reader", default: []].append(read - sent)
                    outcome.latencies["\(name)_acknowledged", default: []].append(acknowledged - sent)
                }
                if let before, let after = try run.serverSnapshot() {
                    seconds[name, default: 0] += after.cpuSeconds - before.cpuSeconds
                }
            }
            left -= count
            run.report("\(rounds - left) of \(rounds) rounds")
        }
        func ratio(_ value: (String) -> Double) -> Double { value("flexible") / max(value("partition"), 1e-9) }
        outcome.counts["commit_ratio"] = ratio { name in
            let sorted = (outcome.latencies["\(name)_reader"] ?? []).sorted()
            return sorted[sorted.count / 2] / .seconds(1)
        }
        outcome.counts["cpu_ratio"] = ratio { seconds[$0] ?? 0 }
        for (name, seconds) in seconds { outcome.counts["\(name)_cpu_ms"] = seconds * 1000 / Double(rounds) }
    }

    // MARK: Queries

    private func queries(_ run: LoadRun, _ outcome: inout LoadOutcome) async throws {
        for _ in 0..<10 {
            let (client, time) = try await connect(run, FlexibleApp.query(bootstrap))
            outcome.latencies["bootstrap", default: []].append(time)
            let change = try await subscribe(client, FlexibleApp.query(bootstrap, and: objects - 1))
            outcome.latencies["query_change", default: []].append(change)
            await client.leave()
        }
    }
}

/// Objects of many owners, in an app of flexible sync and in a partition.
private struct FlexibleApp {
    static let id = "load-flx"
    static let className = "Task"

    let objects: Int
    let owners: Int
    /// The number of the requested batch, and of the objects in it.
    let bootstrap: Int

    static func query(owner: Int) -> String { "owner_id == \"u\(owner)\"" }

    /// A query for `count` objects: the batch of this number.
    static func query(_ count: Int) -> String { "batch == \(count)" }

    /// A query for `count` objects, and one more.
    static func query(_ count: Int, and id: Int) -> String { query(count) + " OR _id == \(id)" }

    /// An update of an object of the first owner.
    static func update(_ number: Int) -> [UInt8] {
        let object = ObjectName(className: className, key: .int(0))
        return ChangesetWriter([.update(FieldPath(object: object, field: "count"), .int(Int64(number)))]).bytes
    }

    func write(to directory: String) throws {
        let store = try SQLiteStore(directory: directory)
        for path in [Self.id, "/\"\(Self.id)\""] { try write(to: SyncedFile(path: VirtualPath(path), store: store)) }
        try store.close()
    }

    private func write(to file: SyncedFile) throws {
        let start = ContinuousClock.now
        try file.write(at: 1) { transaction in
            try transaction.addClass(Self.className, key: "_id", .int)
            try transaction.addColumn("owner_id", .string, to: Self.className)
            try transaction.addColumn("batch", .int, to: Self.className)
            try transaction.addColumn("title", .string, to: Self.className)
            try transaction.addColumn("count", .int, to: Self.className)
        }
        for first in stride(from: 0, to: objects, by: 1_000) {
            let count = min(1_000, objects - first)
            try file.write(at: 2) { transaction in
                for id in first..<first + count {
                    try transaction.create(
                        Self.className, key: .int(Int64(id)),
                        [
                            "owner_id": .string(Array("u\(id % owners)".utf8)),
                            "batch": .int(id < bootstrap ? Int64(bootstrap) : 0),
                            "title": .string(Array("task number \(id)".utf8)),
                        ])
                }
            }
            RunProgress.report(
                "\(first + count) objects", share: Double(first + count) / Double(objects), after: .now - start)
        }
        RunProgress.end()
    }
}
