import AnabranchClient
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchCapture

/// Random writers of two databases, offline and online at random, and a server (`Spec/Capture.md`, section 3).
@Suite(.timeLimit(.minutes(30))) struct RandomExchangeTests {
    private static let environment = ProcessInfo.processInfo.environment

    /// The runs from which on each library has to have succeeded with each kind of write.
    private static let manyRuns: UInt64 = 400

    /// More of them: `ANABRANCH_FIRST=1 ANABRANCH_CAPTURES=2000 swift test --filter RandomExchangeTests`.
    @Test func rowsAreEqualAtRestAndKeepTheirIdentities() async throws {
        let only = Self.environment["ANABRANCH_SEED"].flatMap(UInt64.init)
        let first = Self.environment["ANABRANCH_FIRST"].flatMap(UInt64.init) ?? 1
        let count = Self.environment["ANABRANCH_CAPTURES"].flatMap(UInt64.init) ?? 8
        var done: [String: Int] = [:], compared = 0
        try await CaptureWorld.run { world in
            let processes = WriterProcesses()
            for seed in only.map({ $0...$0 }) ?? first...(first + count - 1) {
                do {
                    let run = try RandomExchange(seed, in: world, processes)
                    try await run.carryOut()
                    done.merge(run.done) { $0 + $1 }
                    compared += run.compared
                } catch {
                    Issue.record(
                        """
                        seed \(seed): \(error); repeat with
                        ANABRANCH_SEED=\(seed) swift test --filter RandomExchangeTests
                        """)
                }
            }
        }
        guard only == nil else { return }
        let kinds = RandomWriter.Kind.allCases.map(\.rawValue) + ["renew", "vacuum"]
        var totals: [String] = []
        for library in RandomWriter.Library.allCases.map(\.rawValue) {
            let found = kinds.map { done["\(library) \($0)"] ?? 0 }
            totals.append("\(found.reduce(0, +)) by \(library)")
            #expect(count < 8 || found.contains { $0 > 0 }, "nothing by \(library) has succeeded")
            for (kind, number) in zip(kinds, found) where count >= Self.manyRuns {
                #expect(number > 0, "no \(kind) by \(library) has succeeded")
            }
        }
        print(
            """
            RandomExchangeTests: \(count) exchanges from seed \(first), both sides compared \(compared) times; writes: \
            \(totals.joined(separator: ", "))
            """)
    }
}

/// Two databases that are written, paused, migrated, closed and synchronized in random order.
private final class RandomExchange {
    private let apps: [CapturingApp]
    /// The number of times that the rows of both were compared: not while some of them wait.
    private(set) var compared = 0
    private let writers: [RandomWriter]
    private let tables = ["folder", "item", "tag", "item_tag"]
    private var random: SeededRandom
    private var isOnline = [true, true]
    /// The object of each row, by what the row has got when it was made.
    private var objects: [String: String] = [:]

    /// The statements that have succeeded, by kind.
    var done: [String: Int] { writers.reduce(into: [:]) { $0.merge($1.done) { $0 + $1 } } }

    init(_ seed: UInt64, in world: CaptureWorld, _ processes: WriterProcesses) throws {
        random = SeededRandom(seed: seed)
        let action = random.pick(["SET NULL", "CASCADE", "NO ACTION", "SET NULL ON UPDATE CASCADE"])
        let schema = """
            PRAGMA journal_mode = \(Bool.random(using: &random) ? "WAL" : "DELETE");
            PRAGMA synchronous = OFF;
            CREATE TABLE folder (id INTEGER PRIMARY KEY, mark TEXT, name TEXT);
            CREATE TABLE item (id INTEGER PRIMARY KEY, mark TEXT, code TEXT UNIQUE, body, n INTEGER,
              folder INTEGER REFERENCES folder ON DELETE \(action));
            CREATE TABLE tag (name TEXT COLLATE NOCASE PRIMARY KEY, mark TEXT, n INTEGER);
            CREATE TABLE item_tag (item INTEGER NOT NULL REFERENCES item ON DELETE CASCADE ON UPDATE CASCADE,
              tag TEXT NOT NULL COLLATE NOCASE REFERENCES tag ON DELETE CASCADE ON UPDATE CASCADE, mark TEXT,
              PRIMARY KEY (item, tag)) WITHOUT ROWID;
            """
        apps = try ["a", "b"].map { try CapturingApp("\($0)-\(seed)", in: world, schema, partition: "rows-\(seed)") }
        // Neighbouring seeds have all libraries in turn, and 64 of them all pairs.
        let libraries = RandomWriter.Library.allCases, count = UInt64(libraries.count)
        let turns = [seed % count, (seed + seed / count % count) % count].map(Int.init)
        writers = try zip(apps, turns.indices).map { app, index in
            let random = SeededRandom(seed: seed &* 2 + UInt64(index))
            return try RandomWriter(app, ["a", "b"][index], libraries[turns[index]], random, processes)
        }
        for (app, writer) in zip(apps, writers) {
            // Rows that are there before, in one of them or in both.
            for _ in 0..<Int.random(in: 0...5, using: &random) { try writer.write() }
            try app.install(tables)
        }
    }

    func carryOut() async throws {
        for step in 0..<Int.random(in: 10...30, using: &random) {
            do {
                try await self.step()
            } catch {
                throw Failure("step \(step): \(error)")
            }
        }
        try await rest()
        for app in apps {
            try await app.close()
            try app.database.uninstall()
            let left = try app.rows("SELECT name FROM sqlite_schema WHERE name LIKE 'sync%'")
            guard left.isEmpty else { throw Failure("left by uninstall: \(left)") }
        }
    }

    private func step() async throws {
        let index = Int.random(in: 0...1, using: &random)
        let app = apps[index], writer = writers[index]
        switch Int.random(in: 0..<20, using: &random) {
        case 0..<10: for _ in 0..<Int.random(in: 1...6, using: &random) { try writer.write() }
        case 10..<15: try await pass(index)
        case 15: isOnline[index].toggle()
        case 16: try await app.close()
        case 17: try await migrate(app, writer)
        case 18: try await rest()
        default:
            // Both at the same time.
            let count = Int.random(in: 1...6, using: &random)
            let writing = Task { for _ in 0..<count { try writer.write() } }
            try await synchronize(index)
            try await writing.value
        }
    }

    private func pass(_ index: Int) async throws {
        try await synchronize(index)
        try checkIdentities(apps[index])
    }

    private func synchronize(_ index: Int) async throws {
        let app = apps[index]
        try await app.open(online: isOnline[index])
        if isOnline[index] { try await app.synchronize() } else { try await app.capture?.pass() }
    }

    /// A table is made anew, as migrations do it; with a pause or without, with other values or not.
    private func migrate(_ app: CapturingApp, _ writer: RandomWriter) async throws {
        let pauses = Bool.random(using: &random)
        if pauses { try app.database.pause() }
        if Bool.random(using: &random) { try writer.renewTable() } else { try writer.vacuum() }
        // Without triggers, a key that is given again would be taken for the old one.
        guard pauses else { return try await pass(app === apps[0] ? 0 : 1) }
        for _ in 0..<Int.random(in: 0...3, using: &random) { try writer.write(keepsKeys: true) }
        try app.database.resume()
    }

    /// Rows keep their objects: those of both databases, at all times.
    private func checkIdentities(_ app: CapturingApp) throws {
        for (number, table) in tables.enumerated() {
            let key = ["id", "id", "quote(name)", "quote(item) || ',' || quote(tag)"][number]
            for row in try app.db.rows(
                """
                SELECT mark, hex(guid) FROM \(table) JOIN sync_row ON key = \(key)
                AND tbl = (SELECT id FROM sync_table WHERE name = '\(table)')
                """)
            {
                guard let mark = row[0].string, let guid = row[1].string else { continue }
                if let old = objects.updateValue(guid, forKey: mark), old != guid {
                    throw Failure("the row \(mark) of \(table) has become another object")
                }
            }
        }
    }

    private func rest() async throws {
        isOnline = [true, true]
        var rounds: [CaptureProgress] = []
        for _ in 0..<8 {
            for app in apps {
                try await app.open()
                rounds.append(try await app.synchronize())
            }
            // The first round may only upload.
            if rounds.count > 2, rounds.suffix(2).allSatisfy(\.isEmpty) { break }
        }
        for app in apps {
            let more = try await app.synchronize()
            guard more.isEmpty else { throw Failure("it does not come to rest: \(more) after \(rounds)") }
            guard try app.uncollected() == 0 else { throw Failure("entries are left") }
            try checkIdentities(app)
            try await compare(app)
        }
        // What waits has another row on the device that made it, or none.
        guard try apps.allSatisfy({ try $0.waitingCount() == 0 }) else { return }
        for query in Self.contents {
            let rows = try apps.map { try $0.rows(query) }
            guard rows[0] == rows[1] else { throw Failure("\(query): \(rows[0]) and \(rows[1])") }
        }
        compared += 1
    }

    /// Each row is equal to its object, unless that waits.
    private func compare(_ app: CapturingApp) async throws {
        guard let state = try await app.capture?.replica.snapshot().state else { return }
        let database = try app.database
        var differences: [CaptureDifference] = []
        _ = try database.compare(with: state) { differences.append($0) }
        differences.removeAll { $0.reason != nil }
        guard differences.isEmpty else { throw Failure("\(app.path): \(differences)") }
    }

    private static let contents = [
        "SELECT mark, name FROM folder ORDER BY mark",
        """
        SELECT item.mark, code, typeof(body), body, n, folder.mark FROM item LEFT JOIN folder ON folder.id = folder
        ORDER BY item.mark
        """,
        "SELECT mark, name, n FROM tag ORDER BY mark",
        "SELECT item_tag.mark, item.mark, lower(tag) FROM item_tag JOIN item ON item.id = item ORDER BY item_tag.mark",
    ]
}

private struct Failure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
