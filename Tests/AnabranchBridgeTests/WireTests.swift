import AnabranchPostgresWire
import AnabranchTesting
import Foundation
import Testing

/// The connection layer, with a server (`Spec/Bridge.md`, section 8).
@Suite(.timeLimit(.minutes(30))) struct WireTests {
    private static func url() async throws -> String {
        try await onOwnThread {
            let server = try TestPostgres.shared.get()
            return server.url(try server.makeDatabase())
        }
    }

    private static func connect() async throws -> PostgresConnection {
        try PostgresConnection(try await url(), seconds: 60)
    }

    private static func failure(_ body: () throws -> Void) throws -> PostgresError {
        do { try body() } catch let error as PostgresError { return error }
        return try #require(nil, "nothing was thrown")
    }

    @Test func parametersAndValuesAreTextOrBinary() async throws {
        let db = try await Self.connect()
        let rows = try db.query(
            "SELECT $1::int + 1, $2::text, $3::text[], $4::bytea, $5::text, ''",
            [7, "a'b\\", .array(["x\"y", "\\", "", "NULL"]), .binary([0, 1, 255]), nil])
        #expect(rows.count == 1 && rows.columnCount == 6)
        #expect((0..<6).map { rows[0, $0] } == ["8", "a'b\\", #"{"x\"y","\\","","NULL"}"#, "\\x0001ff", nil, ""])
        #expect(rows[1, 0] == nil && rows[0, 6] == nil)
        let binary = try db.query("SELECT 258::int4, $1::bytea", [.binary([])], isBinary: true)
        #expect(binary.bytes(0, 0) == [0, 0, 1, 2] && binary.bytes(0, 1) == [])
        #expect(try db.query("CREATE TEMP TABLE t AS SELECT generate_series(1, 7) AS n").affected == 7)
        #expect(try db.query("DELETE FROM t WHERE n > 4").affected == 3)
    }

    @Test func anErrorHasItsStateAndTheConnectionGoesOn() async throws {
        let db = try await Self.connect()
        try db.execute("CREATE TEMP TABLE t (n int CONSTRAINT positive CHECK (n > 0)); CREATE INDEX ON t (n)")
        let check = try Self.failure { try db.query("INSERT INTO t VALUES (0)") }
        #expect(check.code == .refused && check.state == "23514" && check.constraint == "positive" && check.isOfData)
        #expect(try Self.failure { try db.query("SELEC") }.state == "42601")
        #expect(try Self.failure { try db.query("COPY t FROM STDIN") }.code == .refused)
        #expect(try db.query("SELECT count(*) FROM t")[0, 0] == "0")
    }

    @Test func aStatementThatTakesTooLongIsCancelled() async throws {
        let url = try await Self.url()
        let db = try PostgresConnection(url, seconds: 60), other = try PostgresConnection(url, seconds: 60)
        // One has the lock, and the other one would wait for ever.
        let lock = "SELECT pg_advisory_lock(1)"
        try other.query(lock)
        db.seconds = 0.05
        #expect(try Self.failure { try db.query(lock) }.code == .timedOut)
        db.seconds = 60
        #expect(try db.query("SELECT 1")[0, 0] == "1")

        let cancellation = try #require(db.cancellation)
        Thread.detachNewThread {
            let waits = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'"
            let watching = try? PostgresConnection(url)
            while let watching, let rows = try? watching.query(waits), rows.count == 0 {}
            cancellation.cancel()
        }
        #expect(try Self.failure { try db.query(lock) }.state == "57014")
        #expect(db.isOpen)
    }

    @Test func aServerThatDoesNotAnswerIsGivenUp() async throws {
        // It takes connections and says nothing.
        let silent = try SilentListener()
        let error = try Self.failure {
            _ = try PostgresConnection("postgres://127.0.0.1:\(silent.port)/x?sslmode=disable", seconds: 0.05)
        }
        #expect(error.code == .timedOut)
        #expect(try Self.failure { _ = try PostgresConnection("postgres://127.0.0.1:1/x") }.code == .unreachable)
        #expect(try Self.failure { _ = try PostgresConnection("no such words") }.code == .unreachable)
    }

    /// The server has been stopped since it has let the client in.
    @Test func aStatementEndsThoughNobodyTakesItsCancellation() throws {
        let silent = try SilentListener(), isOver = DispatchSemaphore(value: 0)
        let url = "postgres://x@127.0.0.1:\(silent.port)/x?sslmode=disable&gssencmode=disable"
        Thread.detachNewThread { silent.letOneIn() }
        Thread.detachNewThread {
            do throws(PostgresError) {
                let db = try PostgresConnection(url, seconds: 60)
                db.seconds = 0.05
                try db.query("SELECT 1")
            } catch {
                if error.code == .timedOut { isOver.signal() }
            }
        }
        #expect(isOver.wait(timeout: .now() + 300) == .success)
    }

    @Test func aServerThatDoesNotAnswerDoesNotHideTheNextOne() async throws {
        let silent = try SilentListener(), url = try await Self.url()
        let both = url.replacing("host=", with: "host=127.0.0.1,") + "&port=\(silent.port),5432&sslmode=disable"
        let db = try PostgresConnection(both + "&application_name=it%27s%5Cme", seconds: 4)
        #expect(try db.query("SELECT current_setting('application_name')")[0, 0] == "it's\\me")
        #expect(throws: PostgresError.self) {
            _ = try PostgresConnection(both.replacing(",5432", with: ",1"), seconds: 0.1)
        }
    }

    @Test func aBrokenConnectionIsToldFromARefusal() async throws {
        let db = try await Self.connect()
        let error = try Self.failure { try db.query("SELECT pg_terminate_backend(pg_backend_pid())") }
        #expect(error.code == .unreachable && !db.isOpen)
        #expect(try Self.failure { try db.query("SELECT 1") }.code == .unreachable)
    }

    @Test func rowsAreCopiedInAndOut() async throws {
        let db = try await Self.connect()
        try db.execute("CREATE TEMP TABLE t (n int, text text)")
        var number = 0
        let copied = try db.copyIn("COPY t FROM STDIN") {
            number += 1
            return number > 50_000 ? nil : Array("\(number)\ttext of \(number)\n".utf8)
        }
        #expect(copied == 50_000)
        var sum = 0
        try db.copyOut("COPY (SELECT n FROM t) TO STDOUT") { row in
            sum += Int(String(decoding: row, as: UTF8.self).dropLast()) ?? 0
        }
        #expect(sum == 50_000 * 50_001 / 2)
        var streamed = 0
        try db.forEachRow("SELECT n FROM t") { streamed += Int($0[0, 0] ?? "") ?? 0 }
        #expect(streamed == sum)

        struct Stop: Error {}
        #expect(throws: Stop.self) { try db.copyIn("COPY t FROM STDIN") { throw Stop() } }
        #expect(throws: Stop.self) { try db.forEachRow("SELECT n FROM t") { _ in throw Stop() } }
        var isFirst = true
        let bad = try Self.failure {
            try db.copyIn("COPY t FROM STDIN") {
                defer { isFirst = false }
                return isFirst ? Array("x\ty\n".utf8) : nil
            }
        }
        #expect(bad.state == "22P02")
        #expect(try Self.failure { try db.copyIn("SELECT 1") { nil } }.code == .refused)
        #expect(try db.query("SELECT count(*) FROM t")[0, 0] == "50000")
    }
}

/// A socket on which nobody answers.
private final class SilentListener: Sendable {
    private let descriptor: Int32
    let port: UInt16

    init() throws {
        #if canImport(Darwin)
        let kind = SOCK_STREAM
        #else
        let kind = Int32(SOCK_STREAM.rawValue)
        #endif
        descriptor = socket(AF_INET, kind, 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let (descriptor, size) = (descriptor, length)
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, size) == 0 && listen(descriptor, 8) == 0
                    && getsockname(descriptor, $0, &length) == 0
            }
        }
        port = UInt16(bigEndian: address.sin_port)
        try #require(isBound)
    }

    deinit { close(descriptor) }

    /// Lets one client in, and says nothing more to it.
    func letOneIn() {
        let client = accept(descriptor, nil, nil)
        // AuthenticationOk, BackendKeyData, ReadyForQuery; the socket stays open.
        let greeting: [UInt8] =
            [0x52, 0, 0, 0, 8, 0, 0, 0, 0] + [0x4B, 0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 1] + [0x5A, 0, 0, 0, 5, 0x49]
        _ = write(client, greeting, greeting.count)
    }
}
