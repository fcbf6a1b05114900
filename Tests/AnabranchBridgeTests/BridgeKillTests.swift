import AnabranchClient
import AnabranchPostgresWire
import AnabranchTesting
import Foundation
import Testing

/// The bridge, as a process of its own, and PostgreSQL are killed again and again while SQL and a device write the same
/// rows (`Spec/Bridge.md`, section 6).
@Suite(.timeLimit(.minutes(30))) struct BridgeKillTests {
    private static let environment = ProcessInfo.processInfo.environment

    /// More of them: `ANABRANCH_BRIDGE_KILLS=500 swift test --filter BridgeKillTests`.
    @Test func nothingIsLostOrDoubledWhateverIsKilled() async throws {
        let kills = Self.environment["ANABRANCH_BRIDGE_KILLS"].flatMap(Int.init) ?? 6
        let seed = Self.environment["ANABRANCH_SEED"].flatMap(UInt64.init) ?? 1
        let postgres = try await onOwnThread { try TestPostgres() }
        do {
            try await BridgeWorld.run(
                "CREATE TABLE item (id bigint PRIMARY KEY, s int, d int, x text)", ["item"], on: postgres
            ) { world in try await Self.run(world, postgres, kills, seed) }
        } catch {
            let again = "ANABRANCH_SEED=\(seed) ANABRANCH_BRIDGE_KILLS=\(kills) swift test --filter BridgeKillTests"
            Issue.record("seed \(seed): \(error); repeat with \(again)")
        }
        try await onOwnThread { postgres.end() }
    }

    private static func run(_ world: BridgeWorld, _ postgres: TestPostgres, _ kills: Int, _ seed: UInt64) async throws {
        var random = SeededRandom(scrambling: seed)
        let process = try BridgeProcess(world), device = try await world.device()
        let url = world.url
        var ledger = Ledger(), deviceLedger: [Int64: Int64] = [:], step: Int64 = 0, crashes = 0, ends = 0
        try process.start()
        for _ in 0..<kills {
            let writing = (ledger, random.next(), 10 + random.below(60))
            async let written = onOwnThread {
                try Ledger.write(url, writing.0, SeededRandom(seed: writing.1), writing.2)
            }
            for _ in 0..<random.below(8) {
                step += 1
                let (pick, now) = (random.next(), step)
                let changed = try await device.write { transaction -> Int64? in
                    let objects = transaction.classNames.contains("item") ? try transaction.objects("item") : []
                    if pick.isMultiple(of: 4) || objects.isEmpty {
                        guard transaction.classNames.contains("item") else { return nil }
                        try transaction.create("item", key: .int(1_000_000 + now), ["d": .int(now)])
                        return 1_000_000 + now
                    }
                    let object = objects[Int(pick % UInt64(objects.count))]
                    try object.set("d", to: .int(now))
                    try object.set("x", to: .string(Array("device \(now)".utf8)))
                    guard case .int(let key)? = object.key else { return nil }
                    return key
                }
                if let changed { deviceLedger[changed] = now }
            }
            let what = random.below(4)
            if what > 0 {
                ends += 1
                try process.kill()
            }
            if what < 2 {
                crashes += 1
                try await onOwnThread { try postgres.crash() }
            }
            if what > 0 { try process.start() }
            ledger = try await written
        }
        try process.kill()
        try await device.waitForUpload()
        // One that goes until nothing is under way any more.
        let (status, text) = try await process.runOnce()
        try #require(status == 0, "\(text)")
        try await device.waitForDownload()

        let app = try Application(url)
        let rows = try app.rows("SELECT id, s, d, x FROM item ORDER BY id")
        let objects = try await device.read { transaction in
            try transaction.objects("item").map { object in
                func text(_ name: String) throws -> String {
                    switch try object.value(name) {
                    case .int(let value): "\(value)"
                    case .string(let bytes): String(decoding: bytes, as: UTF8.self)
                    default: "∅"
                    }
                }
                guard case .int(let key)? = object.key else { return "" }
                return try "\(key)|\(text("s"))|\(text("d"))|\(text("x"))"
            }
        }
        #expect(rows == objects)
        #expect(try app.rows("SELECT * FROM anabranch.history") == [])
        #expect(try app.rows("SELECT * FROM anabranch.pending") == [])
        var found: [Int64: (s: String, d: String)] = [:]
        for row in rows {
            let parts = row.split(separator: "|").map(String.init)
            if let id = Int64(parts[0]) { found[id] = (parts[1], parts[2]) }
        }
        for (id, value) in ledger.values { #expect(found[id]?.s == "\(value)", "row \(id)") }
        for id in ledger.deleted { #expect(found[id] == nil, "row \(id)") }
        for (id, value) in deviceLedger where !ledger.deleted.contains(id) {
            #expect(found[id]?.d == "\(value)", "object \(id)")
        }
        #expect(rows.count == ledger.values.count + deviceLedger.keys.filter { $0 > 1_000_000 }.count)
        print(
            """
            BridgeKillTests: from seed \(seed) \(ends) kills of the bridge and \(crashes) of PostgreSQL, \
            \(rows.count) rows
            """)
    }
}

/// The changes that the database has confirmed to a writer.
private struct Ledger: Sendable {
    /// The values of the column that only SQL writes.
    var values: [Int64: Int] = [:]
    var deleted: Set<Int64> = []
    private var last = 0

    /// Writes rows, and goes on when the database is there again. A statement whose outcome is unknown is looked up.
    static func write(_ url: String, _ ledger: Ledger, _ random: SeededRandom, _ count: Int) throws -> Ledger {
        var ledger = ledger, random = random
        var db: PostgresConnection?
        let deadline = ContinuousClock.now + .seconds(300)
        for _ in 0..<count {
            ledger.last += 1
            let number = ledger.last, known = ledger.values.keys.sorted()
            let id = known.isEmpty || random.isOne(in: 3) ? Int64(number) : known[random.below(known.count)]
            let isDeletion = ledger.values[id] != nil && random.isOne(in: 10)
            let sql =
                isDeletion
                ? "DELETE FROM item WHERE id = \(id)"
                : """
                INSERT INTO item (id, s, x) VALUES (\(id), \(number), 'sql \(number)')
                ON CONFLICT (id) DO UPDATE SET s = excluded.s, x = excluded.x
                """
            while true {
                do {
                    let open = try db ?? PostgresConnection(url, seconds: 60)
                    db = open
                    try open.query(sql)
                    break
                } catch let error as PostgresError {
                    guard error.code != .refused || error.isTransient, .now < deadline else { throw error }
                    // All of them can be made twice.
                    db = nil
                }
            }
            if isDeletion {
                ledger.values[id] = nil
                ledger.deleted.insert(id)
            } else {
                ledger.values[id] = number
                ledger.deleted.remove(id)
            }
        }
        return ledger
    }
}

/// `anabranch bridge run` as a process of its own.
final class BridgeProcess {
    private let command: URL
    private let arguments: [String]
    private var running: Process?

    init(_ world: BridgeWorld) throws {
        command = try #require(BuiltProducts.command("anabranch"))
        arguments = [
            "bridge", "run", "--db", world.url, "--data", world.folder.appending(path: "run").path(), "--path",
            #"parts/"rows""#, "--url", "ws://127.0.0.1:\(world.port)", "--take-over", "0",
        ]
    }

    deinit { running.map { _ = Foundation.kill($0.processIdentifier, SIGKILL) } }

    func start() throws {
        let process = Process()
        process.executableURL = command
        process.arguments = arguments + ["--every", "0.01"]
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        running = process
    }

    func kill() throws {
        guard let process = running else { return }
        _ = Foundation.kill(process.processIdentifier, SIGKILL)
        // The next one needs the lock of the replica.
        process.waitUntilExit()
        running = nil
    }

    func runOnce() async throws -> (Int32, String) {
        try await onOwnThread { [command, arguments] in
            let process = Process(), output = Pipe()
            process.executableURL = command
            process.arguments = arguments
            process.standardOutput = output
            process.standardError = output
            try process.run()
            let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
            process.waitUntilExit()
            return (process.terminationStatus, text)
        }
    }
}
