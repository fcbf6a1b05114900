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
            processor time in milliseconds, and the ratio; for a table with a UNIQUE column and for one without; a \
            prepared statement for each row, as applications have it, and one for all
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

    func validate() throws {
        guard rows > 0, installed > 0 else { throw ValidationError("There must be a row.") }
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

    private func measureWriting(_ folder: URL, _ title: String, isEach: Bool) throws {
        let hasUnique = title.hasSuffix("UNIQUE"), statements = statements(isEach: isEach)
        var times: [[Double]] = []
        for isCaptured in [false, true] {
            let name = "write-\(hasUnique)-\(isEach)-\(isCaptured)"
            let queue = try database(folder, name, title: title)
            if isCaptured {
                try CapturedDatabase(path: folder.appendingPathComponent(name).path).install(["note"])
            }
            times.append(
                try statements.map { _, sql, values in
                    let start = ProcessorTime.milliseconds
                    try queue.write { db in
                        let statement = try db.makeStatement(sql: sql)
                        for row in 1...(isEach ? rows : 1) { try statement.execute(arguments: values(row)) }
                    }
                    return ProcessorTime.milliseconds - start
                })
        }
        for (index, statement) in statements.enumerated() {
            let plain = times[0][index], captured = times[1][index]
            let what = #""what":"\#(statement.name)","unique":\#(hasUnique),"each":\#(isEach),"rows":\#(rows)"#
            print(
                String(
                    format: #"{"name":"write",%@,"ms":%.0f,"captured_ms":%.0f,"ratio":%.2f}"#, what, plain, captured,
                    captured / max(plain, 0.001)))
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
