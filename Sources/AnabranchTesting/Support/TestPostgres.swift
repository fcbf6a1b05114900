import Foundation
import Synchronization

/// A PostgreSQL server that a test has started, with a folder and a socket of its own, as a user without rights. It
/// ends with the process of the tests, even if that is killed.
package final class TestPostgres: Sendable {
    /// The server that most tests share, each with a database of its own.
    package static let shared = Result { try TestPostgres() }

    private let folder: URL
    /// The settings with which it starts.
    private let settings: [String]
    private let watch: Mutex<Process?>
    private let databases = Mutex(0)

    private struct Failure: Error { let reason: String }

    /// - Parameter settings: each as `name=value`. By default it is not durable, which is quick.
    package init(settings: [String] = ["fsync=off"]) throws {
        self.settings = settings
        folder = URL(filePath: TestFolder.parent).appending(path: "pg-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        watch = Mutex(nil)
        try Self.bash(
            """
            [ "$(id -u)" != 0 ] || chown postgres "$1"
            \(Self.asUser) "$2/initdb" -D "$1/data" -U postgres -A trust -E UTF8 --locale=C --no-sync >"$1/log" 2>&1 ||
                { cat "$1/log" >&2; exit 1; }
            """, folder.path(), Self.programs)
        try start()
    }

    /// The folder of the newest version's programs.
    private static let programs: String = {
        let root = "/usr/lib/postgresql"
        let versions = ((try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []).compactMap(Int.init)
        return versions.max().map { "\(root)/\($0)/bin" } ?? "/usr/bin"
    }()

    /// PostgreSQL refuses to run as root.
    private static let asUser = #"$([ "$(id -u)" != 0 ] || echo runuser -u postgres --)"#

    private static func bash(_ script: String, _ arguments: String...) throws {
        let process = Process(), complaint = Pipe()
        process.executableURL = URL(filePath: "/bin/bash")
        process.arguments = ["-c", script, "bash"] + arguments
        process.standardError = complaint
        process.standardOutput = FileHandle.nullDevice
        process.standardInput = FileHandle.nullDevice
        try process.run()
        let text = String(decoding: try complaint.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Failure(reason: text) }
    }

    /// Starts the server, and returns when it answers. A separate shell stops it when our end of a pipe is closed.
    package func start() throws {
        let process = Process(), life = Pipe(), answer = Pipe()
        process.executableURL = URL(filePath: "/bin/bash")
        process.arguments = [
            "-c",
            """
            options="-c listen_addresses= -c unix_socket_directories=$1 -c max_connections=400 $2"
            control() { \(Self.asUser) "$0/pg_ctl" -D "$1/data" -w -t 60 "${@:2}" >/dev/null 2>&1 </dev/null; }
            control "$1" -l "$1/data/log" -o "$options" start || { cat "$1/data/log"; exit 1; }
            echo ready
            exec >/dev/null
            cat >/dev/null
            control "$1" -m immediate stop
            [ -e "$1/again" ] || rm -rf "$1"
            """, Self.programs, folder.path(), settings.map { "-c \($0)" }.joined(separator: " "),
        ]
        process.standardInput = life
        process.standardOutput = answer
        try process.run()
        let text = String(decoding: try answer.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        guard text.hasPrefix("ready") else { throw Failure(reason: "no server: \(text)") }
        watch.withLock { $0 = process }
    }

    /// Has the server crash, and starts it again.
    package func crash() throws { try crash(":") }

    /// - Parameter meanwhile: a command; the folder is `$1`.
    private func crash(_ meanwhile: String) throws {
        let mark = folder.appending(path: "again").path()
        _ = FileManager.default.createFile(atPath: mark, contents: nil)
        end()
        try Self.bash("set -e; \(meanwhile)", folder.path())
        try FileManager.default.removeItem(atPath: mark)
        try start()
    }

    /// Keeps a copy of all data, for `becomeStandby`. The server crashes meanwhile.
    package func keepCopy() throws { try crash(#"cp -a "$1/data" "$1/copy""#) }

    /// Has the server crash, and go on as a standby; with the copy, if there is one, as if the rest had never arrived.
    package func becomeStandby() throws {
        try crash(
            """
            if [ -e "$1/copy" ]; then rm -rf "$1/data"; mv "$1/copy" "$1/data"; fi
            \(Self.asUser) touch "$1/data/standby.signal"
            """)
    }

    /// Makes a standby the primary server.
    package func promote() throws {
        try Self.bash(
            #"\#(Self.asUser) "$2/pg_ctl" -D "$1/data" -w -t 60 promote >/dev/null"#, folder.path(), Self.programs)
    }

    /// Stops the server for good.
    package func end() {
        guard let process = watch.withLock({ $0 }), let life = process.standardInput as? Pipe else { return }
        try? life.fileHandleForWriting.close()
        process.waitUntilExit()
    }

    package func url(_ database: String, user: String = "postgres") -> String {
        "postgres://\(user)@/\(database)?host=\(folder.path())"
    }

    /// Carries out statements as the owner of everything.
    package func run(_ sql: String, in database: String = "postgres") throws {
        try Self.bash(
            #""$1/psql" -X -q -v ON_ERROR_STOP=1 -h "$2" -U postgres -d "$3" -c "$4""#, Self.programs, folder.path(),
            database, sql)
    }

    /// A new database.
    package func makeDatabase() throws -> String {
        let name = databases.withLock { count in
            count += 1
            return "d\(count)"
        }
        try run("CREATE DATABASE \(name) TEMPLATE template0")
        return name
    }
}
