import AnabranchCapture
import AnabranchTesting
import ArgumentParser
import Foundation
import GRDB

struct BenchCaptureCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "capture",
        abstract: "Measure what capture costs an application, and how fast rows become objects and objects rows.",
        discussion: """
            Prints a JSON line each:
              write      inserts, updates and deletions of --rows rows in one transaction, with capture and without: \
            processor time in milliseconds, the least of --repeats in turn, and the ratio; for a table with a UNIQUE \
            column and for one without; a prepared statement for each row, as applications have it, and one for all. \
            `floor_ratio` is that of triggers that write nothing, and read one row of another table
              install    capture is installed in a database with --installed rows
              collect    --rows rows become objects of a replica, on this machine's disk
              apply      the objects become rows of another database

            EXAMPLES
              anabranch-lab bench capture
              anabranch-lab bench capture --rows 10000 --installed 10000
            """)

    @Option(help: "How many rows are written, collected and applied.")
    var rows = 100_000

    @Option(help: "How many rows the database has in which capture is installed.")
    var installed = 1_000_000

    @Option(help: "How many times the rows are written.")
    var repeats = 5

    func validate() throws {
        guard rows > 0, installed > 0 else { throw ValidationError("There must be a row.") }
        guard repeats > 0 else { throw ValidationError("--repeats must be 1 or more.") }
    }

    func run() async throws {
        BenchEnvironment.show()
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("anabranch-bench-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        for title in ["TEXT", "TEXT UNIQUE"] {
            for isEach in [true, false] { try measureWriting(folder, title, isEach: isEach) }
        }
        try measureInstalling(folder)
        try await measurePasses(folder)
    }

    // MARK: The application

    private func database(_ folder: URL, _ name: String, title: String = "TEXT UNIQUE") throws -> DatabaseQueue {
        let queue = try DatabaseQueue(path: folder.appendingPathComponent(name).path)
        try queue.writeWithoutTransaction { db in
            try db.execute(
                sql: """
                    PRAGMA synchronous = OFF;
                    CREATE TABLE note (id INTEGER PRIMARY KEY, title \(title), body TEXT, n INTEGER)
                    """)
        }
        return queue
    }

    private static func insert(_ count: Int) -> String {
        """
        WITH RECURSIVE number (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM number WHERE i < \(count))
        INSERT INTO note (title, body, n) SELECT 'the title of ' || i, 'a text of some words, which says little', i
        FROM number
        """
    }

    /// The statements, each with its values for a row; none where it is for all rows.
    private func statements(isEach: Bool) -> [(name: String, sql: String, values: (Int) -> StatementArguments)] {
        guard isEach else {
            return [
                ("insert", Self.insert(rows), { _ in [] }),
                ("update", "UPDATE note SET n = n + 1, title = title || '!'", { _ in [] }),
                ("delete", "DELETE FROM note WHERE id > 0", { _ in [] }),
            ]
        }
        return [
            (
                "insert", "INSERT INTO note (title, body, n) VALUES (?, ?, ?)",
                { ["the title of \($0)", "a text of some words, which says little", $0] }
            ),
            ("update", "UPDATE note SET n = ?, title = ? WHERE id = ?", { [$0 + 1, "the title of \($0)!", $0] }),
            ("delete", "DELETE FROM note WHERE id = ?", { [$0] }),
        ]
    }

    /// The triggers that a table has.
    private enum Triggers: CaseIterable { case none, reading, capturing }

    /// A trigger for each action that writes nothing. One that notes something has to open a table as well.
    private static let readingTriggers =
        "CREATE TABLE other (id INTEGER PRIMARY KEY);"
        + ["INSERT", "UPDATE", "DELETE"].map { action in
            "CREATE TRIGGER reading_\(action) AFTER \(action) ON note BEGIN SELECT id FROM other LIMIT 1; END;"
        }.joined()

    private func measureWriting(_ folder: URL, _ title: String, isEach: Bool) throws {
        let hasUnique = title.hasSuffix("UNIQUE")
        var least: [Triggers: [Double]] = [:]
        for _ in 0..<repeats {
            for triggers in Triggers.allCases {
                let times = try writingTimes(folder, title, triggers, isEach: isEach)
                least[triggers] = least[triggers].map { zip($0, times).map(min) } ?? times
            }
        }
        guard let plain = least[.none], let floor = least[.reading], let captured = least[.capturing] else { return }
        for (index, statement) in statements(isEach: isEach).enumerated() {
            let what = #""what":"\#(statement.name)","unique":\#(hasUnique),"each":\#(isEach),"rows":\#(rows)"#
            let divisor = max(plain[index], 0.001)
            print(
                String(
                    format: #"{"name":"write",%@,"ms":%.0f,"captured_ms":%.0f,"ratio":%.2f,"floor_ratio":%.2f}"#, what,
                    plain[index], captured[index], captured[index] / divisor, floor[index] / divisor))
        }
    }

    /// The processor time of each statement in a new database.
    private func writingTimes(_ folder: URL, _ title: String, _ triggers: Triggers, isEach: Bool) throws -> [Double] {
        let writing = folder.appendingPathComponent("write-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: writing, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: writing) }
        let queue = try database(writing, "app", title: title)
        switch triggers {
        case .none: break
        case .reading: try queue.write { db in try db.execute(sql: Self.readingTriggers) }
        case .capturing:
            try CapturedDatabase(path: writing.appendingPathComponent("app").path).install(["note"])
        }
        return try statements(isEach: isEach).map { _, sql, values in
            let start = ProcessorTime.milliseconds
            try queue.write { db in
                let statement = try db.makeStatement(sql: sql)
                for row in 1...(isEach ? rows : 1) { try statement.execute(arguments: values(row)) }
            }
            return ProcessorTime.milliseconds - start
        }
    }

    // MARK: Capture

    private func measureInstalling(_ folder: URL) throws {
        try database(folder, "install").write { db in try db.execute(sql: Self.insert(installed)) }
        let clock = ContinuousClock()
        let start = clock.now
        try CapturedDatabase(path: folder.appendingPathComponent("install").path).install(["note"])
        print("install", installed, clock.now - start)
    }

    private func measurePasses(_ folder: URL) async throws {
        let replica = folder.appendingPathComponent("replica").path
        for name in ["collect", "apply"] {
            let path = folder.appendingPathComponent(name).path
            let queue = try database(folder, name)
            try CapturedDatabase(path: path).install(["note"])
            if name == "collect" { try await queue.write { [rows] db in try db.execute(sql: Self.insert(rows)) } }
            let capture = try RowCapture(database: path, replica: replica)
            let clock = ContinuousClock()
            let start = clock.now
            let done = try await capture.pass()
            let duration = clock.now - start
            guard done.collected + done.applied == rows else { throw LoadError("\(name): not all rows: \(done)") }
            print(name, rows, duration)
            try await capture.close()
        }
    }

    private func print(_ name: String, _ count: Int, _ duration: Duration) {
        let milliseconds = duration.inMilliseconds
        Swift.print(
            String(
                format: #"{"name":"%@","rows":%ld,"ms":%.0f,"rows_per_second":%.0f}"#, name, count, milliseconds,
                Double(count) / max(milliseconds, 0.001) * 1000))
    }

    private func print(_ line: String) { Swift.print(line) }
}
