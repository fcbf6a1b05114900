import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import AnabranchTestClient
import AnabranchTesting
import ArgumentParser
import Foundation
import Synchronization

struct FirstSyncCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "first-sync",
        abstract: "New clients download a file with a long log, all at once.",
        discussion: """
            Before the server starts, a client sets fields of the --objects again and again, and the file gets the \
            maintenance that it would get in time; that client stays at the beginning of the log, so nothing of the \
            log goes. Latencies, from the moment when all set out: "first_byte", the first DOWNLOAD with changesets, \
            and "caught_up". "log_bytes" are those of all changesets of the log, "received_bytes" what a client got, \
            deflated as on the wire. An operation is a client that has everything.

            EXAMPLE
              anabranch-lab load first-sync --transactions 1000000 --clients 100 \\
                  --serve .build/release/anabranch
            """)

    @Option(help: "How many transactions the log has.")
    var transactions = 100_000

    @Option(help: "Of how many objects.")
    var objects = 10_000

    @Option(help: "How many clients come.")
    var clients = 10

    @OptionGroup var options: LoadOptions

    func validate() throws {
        guard options.serve != nil else { throw ValidationError("The log is made for a server of --serve.") }
        guard min(transactions, objects, clients) > 0 else {
            throw ValidationError("--transactions, --objects and --clients must be 1 or more.")
        }
    }

    func run() async throws {
        let numbers = ["transactions": transactions, "objects": objects, "clients": clients].mapValues(Double.init)
        let logBytes = Atomic(0)
        try await options.run("first-sync", numbers) { directory in
            let log = LongLog(transactions: transactions, objects: objects)
            logBytes.store(try log.write(to: directory.path), ordering: .relaxed)
        } _: { [clients] run in
            try await run.measure {
                let before = run.traffic.bytes
                let times = try await concurrentMap(0..<clients, limit: clients) { _ in try await firstSync(run) }
                var outcome = LoadOutcome(operations: clients, operation: "client")
                outcome.latencies = ["first_byte": times.map(\.first), "caught_up": times.map(\.last)]
                let received = Double((run.traffic.bytes - before).received) / Double(clients)
                let all = Double(logBytes.load(ordering: .relaxed))
                outcome.counts = [
                    "log_bytes": all, "received_bytes": received, "log_bytes_per_received_byte": all / received,
                ]
                return outcome
            }
        }
    }

    private func firstSync(_ run: LoadRun) async throws -> (first: Duration, last: Duration) {
        let client = LoadClient(of: LongLog.file, on: run.nextEventLoop),
            connection = run.connection(on: client.eventLoop)
        let first = Mutex<ContinuousClock.Instant?>(nil)
        await client.observe(onDownload: { _, time in first.withLock { $0 = $0 ?? time } })
        let start = ContinuousClock.now
        try await connection.open()
        let last = try await client.join(connection)
        guard let first = first.withLock({ $0 }) else { throw LoadError("a client got nothing") }
        return (first - start, last - start)
    }
}

/// A file with a long log of short transactions.
private struct LongLog {
    /// The partition value, without the quotes around it.
    static let file = "load-first-sync"
    private static let className = "Measurement"
    /// The number of transactions in an UPLOAD.
    private static let uploadCount = 1_000

    let transactions: Int
    let objects: Int

    /// - Returns: the size of the changesets in the log, in bytes.
    func write(to directory: String) throws -> Int {
        let store = try SQLiteStore(directory: directory)
        let file = try SyncedFile(path: VirtualPath("/\"\(Self.file)\""), store: store)
        let ident = try file.allocateIdents(for: [nil], at: Self.now)[0].ident
        var random = SeededRandom(seed: 1), version: ClientVersion = 1
        let start = ContinuousClock.now
        func upload(_ changesets: [[UInt8]]) throws {
            let uploads = changesets.map { changeset in
                version += 1
                let cursor = UploadCursor(clientVersion: version, serverVersion: 0)
                return UploadedChangeset(
                    cursor: cursor, timestamp: ChangesetTime(version.rawValue), changeset: changeset)
            }
            let progress = UploadCursor(clientVersion: version, serverVersion: 0)
            try file.enqueue(Upload(progress: progress, changesets: uploads), from: ident)
            if let refusal = try file.integrate(at: Self.now).outcomes.first?.refusal { throw refusal }
        }
        try upload([schema] + (1...objects).map(create))
        for first in stride(from: 0, to: transactions, by: Self.uploadCount) {
            let count = min(Self.uploadCount, transactions - first)
            try upload((0..<count).map { _ in update(using: &random) })
            RunProgress.report(
                "\(first + count) transactions", share: Double(first + count) / Double(transactions),
                after: .now - start)
        }
        try file.maintain(at: Self.now, HistoryPolicy())
        RunProgress.end()
        let bytes = Int(file.head.cumulativeSize)
        try store.close()
        return bytes
    }

    private static var now: UInt64 { UInt64(Date().timeIntervalSince1970) }

    private var schema: [UInt8] {
        ChangesetWriter([
            .addTable(Self.className), .addColumn(Self.className, "temperature", .int),
            .addColumn(Self.className, "station", .string),
        ]).bytes
    }

    private func name(_ key: Int) -> ObjectName { ObjectName(className: Self.className, key: .int(Int64(key))) }

    private func create(_ key: Int) -> [UInt8] {
        let station = FieldPath(object: name(key), field: "station")
        return ChangesetWriter([.createObject(name(key)), .update(station, .string(Array("station \(key)".utf8)))])
            .bytes
    }

    private func update(using random: inout SeededRandom) -> [UInt8] {
        let path = FieldPath(object: name(1 + random.below(objects)), field: "temperature")
        return ChangesetWriter([.update(path, .int(Int64(random.below(1_000_000))))]).bytes
    }
}
