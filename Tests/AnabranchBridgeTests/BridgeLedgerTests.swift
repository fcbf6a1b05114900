import AnabranchClient
import AnabranchPostgresWire
import AnabranchTesting
import Foundation
import Testing

/// Writers like those of pgbench, each transaction over four tables, and devices that write the same rows, while the
/// bridge and PostgreSQL are killed again and again (`Spec/Bridge.md`, section 6).
@Suite(.timeLimit(.minutes(30))) struct BridgeLedgerTests {
    private static let environment = ProcessInfo.processInfo.environment
    private static let tables = ["branch", "teller", "account", "entry"]
    private static let schema = """
        CREATE TABLE branch (id bigint PRIMARY KEY, balance bigint NOT NULL DEFAULT 0);
        CREATE TABLE teller (id bigint PRIMARY KEY, branch bigint NOT NULL REFERENCES branch,
          balance bigint NOT NULL DEFAULT 0);
        CREATE TABLE account (id bigint PRIMARY KEY, branch bigint NOT NULL REFERENCES branch,
          balance bigint NOT NULL DEFAULT 0, note text);
        CREATE TABLE entry (id text PRIMARY KEY, account bigint NOT NULL REFERENCES account,
          teller bigint NOT NULL REFERENCES teller, delta bigint NOT NULL, said text[] NOT NULL DEFAULT '{}');
        INSERT INTO branch SELECT i FROM generate_series(1, 2) i;
        INSERT INTO teller SELECT i, 1 + i % 2 FROM generate_series(1, 4) i;
        INSERT INTO account SELECT i, 1 + i % 2 FROM generate_series(1, 20) i
        """

    /// More of them: `ANABRANCH_BRIDGE_KILLS=500 swift test --filter BridgeLedgerTests`.
    @Test func theBooksBalanceWhateverIsKilled() async throws {
        let kills = Self.environment["ANABRANCH_BRIDGE_KILLS"].flatMap(Int.init) ?? 3
        let seed = Self.environment["ANABRANCH_SEED"].flatMap(UInt64.init) ?? 1
        let postgres = try await onOwnThread { try TestPostgres() }
        do {
            try await BridgeWorld.run(Self.schema, Self.tables, on: postgres) { world in
                try await Self.run(world, postgres, kills, seed)
            }
        } catch {
            let again = "ANABRANCH_SEED=\(seed) ANABRANCH_BRIDGE_KILLS=\(kills) swift test --filter BridgeLedgerTests"
            Issue.record("seed \(seed): \(error); repeat with \(again)")
        }
        try await onOwnThread { postgres.end() }
    }

    private static func run(_ world: BridgeWorld, _ postgres: TestPostgres, _ kills: Int, _ seed: UInt64) async throws {
        var random = SeededRandom(scrambling: seed)
        let process = try BridgeProcess(world), url = world.url
        let devices = [try await world.device("one"), try await world.device("two")]
        try process.start()
        var tellers = (0..<3).map { Teller(number: $0) }
        var notes: [Int64: String] = [:], said: Set<String> = [], crashes = 0, ends = 0
        for round in 0..<kills {
            let seeds = tellers.map { _ in random.next() }, busy = tellers
            async let written = withThrowingTaskGroup(of: Teller.self) { group in
                for (teller, seed) in zip(busy, seeds) {
                    group.addTask { try await onOwnThread { try teller.writing(url, SeededRandom(seed: seed), 20) } }
                }
                return try await group.reduce(into: [Teller]()) { $0.append($1) }
            }
            for (number, device) in devices.enumerated() {
                for step in 0..<random.below(6) {
                    // An account of its own, so that each knows what stays.
                    let account = Int64(1 + 2 * random.below(10) + number), text = "\(number) \(round) \(step)"
                    let pick = random.next()
                    let entry = try await device.write { transaction -> String? in
                        guard transaction.classNames.contains("entry"),
                            let object = try transaction.object("account", key: .int(account))
                        else { return nil }
                        try object.set("note", to: .string(Array(text.utf8)))
                        let entries = try transaction.objects("entry")
                        guard !entries.isEmpty else { return "" }
                        let entry = entries[Int(pick % UInt64(entries.count))]
                        try entry.list("said").append(.string(Array(text.utf8)))
                        return text
                    }
                    if let entry {
                        notes[account] = text
                        if !entry.isEmpty { said.insert(entry) }
                    }
                }
            }
            if random.below(4) < 2 {
                crashes += 1
                try await onOwnThread { try postgres.crash() }
            }
            if random.below(4) > 0 {
                ends += 1
                try process.kill()
                try process.start()
            }
            tellers = try await written
        }
        try process.kill()
        for device in devices { try await device.waitForUpload() }
        // One that goes until nothing is under way any more.
        let (status, text) = try await process.runOnce()
        try #require(status == 0, "\(text)")

        let app = try Application(url), made = tellers.flatMap(\.entries)
        #expect(
            try app.rows("SELECT count(*), sum(delta) FROM entry") == ["\(made.count)|\(made.reduce(0) { $0 + $1 })"])
        for table in ["branch", "teller", "account"] {
            #expect(try app.rows("SELECT sum(balance) FROM \(table)") == ["\(made.reduce(0) { $0 + $1 })"])
        }
        #expect(
            try app.rows(
                """
                SELECT a.id FROM account a
                WHERE balance <> (SELECT coalesce(sum(delta), 0) FROM entry WHERE account = a.id)
                """) == [])
        for (account, note) in notes {
            #expect(try app.rows("SELECT note FROM account WHERE id = \(account)") == [note])
        }
        #expect(Set(try app.rows("SELECT unnest(said) FROM entry")) == said)
        #expect(try app.rows("SELECT count(*) FROM (SELECT unnest(said) FROM entry) s") == ["\(said.count)"])
        for table in ["history", "pending"] { #expect(try app.rows("SELECT * FROM anabranch.\(table)") == []) }
        for device in devices {
            try await device.waitForDownload()
            #expect(try await world.differences(device) == [])
        }
        print(
            """
            BridgeLedgerTests: from seed \(seed) \(ends) kills of the bridge and \(crashes) of PostgreSQL, \
            \(made.count) transactions, \(said.count) entries of devices
            """)
    }
}

/// A writer like those of pgbench: an account, its teller and branch, and an entry that says so.
private struct Teller: Sendable {
    let number: Int
    /// The amounts that the database has confirmed.
    private(set) var entries: [Int] = []

    init(number: Int) { self.number = number }

    /// Writes some transactions, and goes on when the database is there again. One whose outcome is unknown is looked
    /// up by its entry.
    func writing(_ url: String, _ random: SeededRandom, _ count: Int) throws -> Teller {
        var written = self, random = random
        var db: PostgresConnection?
        let deadline = ContinuousClock.now + .seconds(300)
        for _ in 0..<count {
            let id = "\(number)-\(written.entries.count)", delta = random.below(1000) - 500
            let account = 1 + random.below(20), teller = 1 + random.below(4)
            while true {
                do {
                    let open = try db ?? PostgresConnection(url, seconds: 60)
                    db = open
                    if try open.query("SELECT FROM entry WHERE id = '\(id)'").count > 0 { break }
                    try open.execute(
                        """
                        BEGIN;
                        UPDATE account SET balance = balance + \(delta) WHERE id = \(account);
                        UPDATE teller SET balance = balance + \(delta) WHERE id = \(teller);
                        UPDATE branch SET balance = balance + \(delta)
                          WHERE id = (SELECT branch FROM account WHERE id = \(account));
                        INSERT INTO entry (id, account, teller, delta)
                          VALUES ('\(id)', \(account), \(teller), \(delta));
                        COMMIT
                        """)
                    break
                } catch let error as PostgresError {
                    guard error.code != .refused || error.isTransient, .now < deadline else { throw error }
                    db = nil
                }
            }
            written.entries.append(delta)
        }
        return written
    }
}
