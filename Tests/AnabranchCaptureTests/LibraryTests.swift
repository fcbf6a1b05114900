import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchCapture

/// Databases that are written by programs and libraries of others, in processes of their own.
@Suite struct LibraryTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
    private static let authors = "SELECT name FROM author ORDER BY name"
    private static let books = """
        SELECT title, name FROM book LEFT JOIN author ON author.id = author_id ORDER BY title, name
        """

    private static func run(_ program: URL, _ arguments: [String]) async throws {
        let (status, complaint) = try await onOwnThread {
            let process = Process(), output = Pipe()
            process.executableURL = program
            process.arguments = arguments
            process.standardError = output
            try process.run()
            let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
            process.waitUntilExit()
            return (process.terminationStatus, text)
        }
        try #require(status == 0, "\(arguments): \(complaint)")
    }

    private static func python(_ library: String, _ path: String, _ phase: String) async throws {
        let script = root.appending(path: "Tests/Fixtures/capture/writers.py").path()
        try await run(root.appending(path: ".build/python/bin/python3"), ["-B", script, library, path, phase])
    }

    @Test(arguments: ["Python", "SQLAlchemy", "Peewee", "SQLiteUtils", "Django"])
    func whatALibraryWritesReachesTheOther(_ library: String) async throws {
        try await CaptureWorld.run { world in
            let apps = try ["a", "b"].map { try CapturingApp($0, in: world, "") }
            for app in apps {
                try await Self.python(library, app.path, "make")
                try app.install(["author", "book"])
            }
            let (a, b) = (apps[0], apps[1])
            try await Self.python(library, a.path, "write")
            try await Self.expectEqual(a, b, atLeast: 9)

            // The table is made anew: its triggers are gone, and nobody has said so.
            try await Self.python(library, a.path, "migrate")
            #expect(try await a.synchronize().renewedTables.count == 1)
            #expect(try a.rows(Self.books).contains { $0.hasPrefix("after|") })
            try await Self.expectEqual(a, b, atLeast: 10)
            #expect(try await a.synchronize().renewedTables == [])

            // Both have a library that goes on.
            try b.db.execute("UPDATE book SET title = title || '!'")
            for app in [b, a] { try await app.synchronize() }
            try await Self.expectEqual(a, b, atLeast: 10)

            // The keys of rows are given again.
            try await Self.python(library, a.path, "clear")
            try await Self.expectEqual(a, b, atLeast: 1)
            #expect(try b.rows(Self.books) == ["last|∅"])
            #expect(try b.rows(Self.authors) == [])
            for app in apps { try await app.close() }
        }
    }

    private static func expectEqual(_ a: CapturingApp, _ b: CapturingApp, atLeast count: Int) async throws {
        for app in [a, b, a] { try await app.synchronize() }
        for query in [authors, books] { #expect(try a.rows(query) == b.rows(query)) }
        #expect(try a.rows(books).count >= count)
        #expect(try b.rows("SELECT reason FROM sync_pending") == [])
        for app in [a, b] { #expect(try await app.synchronize().isEmpty) }
    }

    /// A backup takes the place of a database while capture goes on: as another file, or within the same one.
    @Test(arguments: [false, true]) func aBackupIsNoticedByTheNextPass(_ isAnotherFile: Bool) async throws {
        try await CaptureWorld.pair("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)", ["note"]) { a, b in
            try a.db.execute("INSERT INTO note VALUES (1, 'one')")
            for app in [a, b, a] { try await app.synchronize() }
            let shell = URL(filePath: "/usr/bin/sqlite3"), backup = URL(filePath: a.path + ".backup")
            try await Self.run(shell, ["-bail", a.path, ".backup \(backup.path)"])
            try a.db.execute("INSERT INTO note VALUES (2, 'two'); UPDATE note SET title = 'ONE' WHERE id = 1")
            for app in [a, b] { try await app.synchronize() }
            if isAnotherFile {
                #expect(rename(backup.path, a.path) == 0)
            } else {
                try await Self.run(shell, ["-bail", a.path, ".restore \(backup.path)"])
            }
            let restored = try SQLConnection(path: a.path)
            try restored.execute("INSERT INTO note VALUES (3, 'three')")
            for app in [a, b] { try await app.synchronize() }
            let titles = "SELECT group_concat(title) FROM (SELECT title FROM note ORDER BY title)"
            #expect(try restored.value(titles)?.string == "ONE,three,two")
            #expect(try b.rows(titles) == ["ONE,three,two"])
        }
    }

    @Test func whatTheShellWritesReachesTheOther() async throws {
        let schema = "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT UNIQUE, body)"
        try await CaptureWorld.pair(schema, ["note"]) { a, b in
            let shell = URL(filePath: "/usr/bin/sqlite3")
            let csv = a.path + ".csv"
            try "id,title,body\n7,imported,1\n8,also,2\n".write(toFile: csv, atomically: true, encoding: .utf8)
            try await Self.run(
                shell,
                [
                    "-bail", a.path, "INSERT INTO note (title, body) VALUES ('one', x'00'), ('two', 2.5)",
                    ".import --csv --skip 1 \(csv) note",
                    "INSERT INTO note (title) VALUES ('one') ON CONFLICT (title) DO UPDATE SET body = 'x'",
                    "UPDATE note SET body = 'y' WHERE title = 'one'",
                    "INSERT OR REPLACE INTO note (title) VALUES ('two')", "DELETE FROM note WHERE title = 'also'",
                    "VACUUM",
                ])
            for app in [a, b] { try await app.synchronize() }
            let rows = "SELECT title, body FROM note ORDER BY title"
            #expect(try a.rows(rows) == b.rows(rows))
            #expect(try b.rows(rows) == ["imported|1", "one|y", "two|∅"])

            try await Self.run(
                shell,
                [
                    "-bail", a.path, "ALTER TABLE note ADD COLUMN more", "DELETE FROM note",
                    "INSERT INTO note (id, title, more) VALUES (7, 'new', 1)", "VACUUM",
                ])
            for app in [a, b] { try await app.synchronize() }
            #expect(try b.rows("SELECT title, body FROM note") == ["new|∅"])
            #expect(try b.rows("SELECT reason FROM sync_pending") == [])
        }
    }
}
