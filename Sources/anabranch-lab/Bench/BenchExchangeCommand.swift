import AnabranchTesting
import ArgumentParser
import Foundation
import GRDB

struct BenchExchangeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "exchange",
        abstract: "Measure the memory and the rates of capture and bridge: rows go to a server, and come from it.",
        discussion: """
            Starts `anabranch serve --dev`, and `anabranch capture run` for two SQLite databases, then `anabranch \
            bridge run` for two of PostgreSQL, whose server it starts as well: --rows rows are inserted, updated and \
            deleted in one database, each time with one statement, are sent (`up`), and are written to the other \
            (`down`). Prints a JSON line for each run of a process, from its start to its end: `peak_mib` is the most \
            memory that it had resident (VmHWM). The first lines are of processes that have nothing to do. Linux.

            EXAMPLES
              anabranch-lab bench exchange
              anabranch-lab bench exchange --rows 10000 --only capture
            """)

    enum Kind: String, CaseIterable, ExpressibleByArgument { case capture, bridge }

    @OptionGroup var program: ServedProgram

    @Option(help: "How many rows are written.")
    var rows = 100_000

    @Option(help: "Measure one of them.")
    var only: Kind?

    func validate() throws { guard rows > 0 else { throw ValidationError("--rows must be 1 or more.") } }

    func run() async throws {
        BenchEnvironment.show()
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("anabranch-bench-\(UInt32.random(in: 0 ... .max))")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let binary = try program.path(), server = TortureServer(binary, in: folder)
        defer { server.kill() }
        let url = try await server.start()
        for kind in only.map({ [$0] }) ?? Kind.allCases {
            let postgres = kind == .bridge ? try TestPostgres() : nil
            defer { postgres?.end() }
            let databases = try ["a", "b"].map { name in
                try postgres.map { try ExchangedDatabase(name, binary, in: $0) }
                    ?? ExchangedDatabase(name, binary, at: folder.appendingPathComponent("\(name).sqlite").path)
            }
            /// Has a database exchanged with the server.
            func exchange(
                _ database: ExchangedDatabase, _ what: String, _ direction: String, _ rows: Int
            ) async throws {
                var arguments =
                    [kind.rawValue, "run"] + database.arguments + [
                        "--data", folder.appendingPathComponent("\(kind)-\(database.name)").path,
                        "--path", #"/"\#(kind)""#, "--url", url,
                    ]
                // Without it, a bridge that would delete more than half of the rows asks first.
                if kind == .bridge { arguments.append("--delete-rows") }
                let run = try await MeasuredProcess.run(binary, arguments)
                let milliseconds = run.duration.inMilliseconds
                print(
                    String(
                        format: #"{"name":"%@","what":"%@","direction":"%@","rows":%ld,"ms":%.0f,"#
                            + #""rows_per_second":%.0f,"peak_mib":%.1f}"#, kind.rawValue, what, direction, rows,
                        milliseconds, Double(rows) / milliseconds * 1000, Double(run.peakBytes) / 1_048_576))
            }
            try await exchange(databases[0], "nothing", "up", 0)
            try await exchange(databases[1], "nothing", "down", 0)
            for (what, sql) in databases[0].statements(rows) {
                try databases[0].execute(sql)
                try await exchange(databases[0], what, "up", rows)
                try await exchange(databases[1], what, "down", rows)
                try databases[1].checkHolds(rows, after: what)
            }
        }
    }
}

/// A database with the table `note`, which is captured or bridged.
private struct ExchangedDatabase {
    let name: String
    /// The arguments of the command that name it.
    let arguments: [String]
    let execute: (String) throws -> Void
    private let isPostgres: Bool

    /// A captured database of SQLite.
    init(_ name: String, _ binary: String, at path: String) throws {
        (self.name, isPostgres, arguments) = (name, false, ["--db", path])
        let queue = try DatabaseQueue(path: path)
        execute = { sql in try queue.write { db in try db.execute(sql: sql) } }
        try execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT UNIQUE, body TEXT, n INTEGER)")
        try MeasuredProcess.start(binary, ["capture", "install"] + arguments + ["--tables", "note"]).wait()
    }

    /// A bridged database of PostgreSQL.
    init(_ name: String, _ binary: String, in server: TestPostgres) throws {
        let database = try server.makeDatabase()
        (self.name, isPostgres, arguments) = (name, true, ["--db", server.url(database)])
        execute = { sql in try server.run(sql, in: database) }
        try execute("CREATE TABLE note (id uuid PRIMARY KEY, title text UNIQUE, body text, n bigint)")
        try MeasuredProcess.start(binary, ["bridge", "install"] + arguments + ["--tables", "note"]).wait()
    }

    /// The statements that change rows, each with its name.
    func statements(_ count: Int) -> [(name: String, sql: String)] {
        let words = "'the title of ' || i, 'a text of some words, which says little', i"
        let insert =
            isPostgres
            ? "INSERT INTO note SELECT gen_random_uuid(), \(words) FROM generate_series(1, \(count)) i"
            : """
            WITH RECURSIVE number (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM number WHERE i < \(count))
            INSERT INTO note (title, body, n) SELECT \(words) FROM number
            """
        return [
            ("insert", insert), ("update", "UPDATE note SET n = n + 1, title = title || '!'"),
            ("delete", "DELETE FROM note WHERE n > 0"),
        ]
    }

    /// Has the database fail unless its rows are those of another one after a statement was carried out there.
    func checkHolds(_ count: Int, after statement: String) throws {
        let number = statement == "delete" ? 0 : count
        let condition = statement == "update" ? "title LIKE '%!'" : "n > 0"
        let holds = "(SELECT count(*) FROM note WHERE \(condition)) = \(number)"
        try execute(
            isPostgres
                ? "DO $$ BEGIN IF NOT \(holds) THEN RAISE 'other rows'; END IF; END $$"
                : "CREATE TEMP TABLE proof (holds CHECK (holds)); INSERT INTO proof SELECT \(holds); DROP TABLE proof")
    }
}

/// A process whose memory is measured while it runs.
private struct MeasuredProcess {
    private let process: Process
    private let errors: Pipe
    private let start = ContinuousClock.now

    static func start(_ binary: String, _ arguments: [String]) throws -> MeasuredProcess {
        let process = Process(), errors = Pipe()
        process.executableURL = URL(fileURLWithPath: binary)
        process.arguments = arguments
        process.standardOutput = FileHandle.nullDevice
        process.standardError = errors
        try process.run()
        return MeasuredProcess(process: process, errors: errors)
    }

    /// Waits until it has ended.
    /// - Throws: `LoadError` with its words if it has failed.
    func wait() throws {
        let words = String(decoding: try errors.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw LoadError("\(process.arguments ?? []): \(words)") }
    }

    /// Runs a program until it ends.
    /// - Returns: the time that it took, and the most memory that it had resident.
    static func run(
        _ binary: String, _ arguments: [String]
    ) async throws -> (duration: Duration, peakBytes: Int) {
        let process = try start(binary, arguments)
        var peak = 0
        while process.process.isRunning {
            // The system keeps the peak, so that of the last moments alone is not seen.
            if let memory = try? ProcessSnapshot(of: process.process.processIdentifier) {
                peak = max(peak, memory.peakBytes)
            }
            try await Task.sleep(for: .milliseconds(5))
        }
        let duration = ContinuousClock.now - process.start
        try process.wait()
        return (duration, peak)
    }
}
