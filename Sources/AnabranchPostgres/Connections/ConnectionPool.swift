#if canImport(CLibPQ)
import AnabranchHistory
import AnabranchPostgresWire
import Foundation
import Synchronization

/// Some connections to one database, each made when it is needed and used by one thread at a time.
final class ConnectionPool: Sendable {
    /// The connections that nobody uses, the one used last at the end.
    private let idle = Mutex<[LentConnection]>([])
    private let places: DispatchSemaphore
    let target: PostgresTarget
    /// The pipelines whose results somebody has waited for.
    let roundTrips = Atomic(0)

    private let idleSeconds: Double

    /// - Parameters:
    ///   - count: the most connections.
    ///   - idleSeconds: the time that may pass between two statements of a transaction: then the server ends it.
    init(_ target: PostgresTarget, count: Int, idleSeconds: Double) {
        self.target = target
        self.idleSeconds = idleSeconds
        places = DispatchSemaphore(value: count)
    }

    /// Takes a connection for the calling thread: one that is still alive, since after a restart of PostgreSQL all idle
    /// ones are not, and leads to the server of today; or a new one. Give it back afterwards.
    func take() throws(PostgresError) -> LentConnection {
        guard places.wait(timeout: .now() + target.seconds) == .success else {
            throw PostgresError(.timedOut, "no connection was free within \(target.seconds) s")
        }
        do throws(PostgresError) {
            while let lent = idle.withLock({ $0.popLast() }) {
                if lent.term == target.server.known.term, lent.connection.isAlive() { return lent }
            }
            return try target.connect(idleSeconds: idleSeconds)
        } catch {
            places.signal()
            throw error
        }
    }

    /// Gives a connection back. One that has broken is not used again, nor are the idle ones then: if the server cannot
    /// be reached any more, each of them would cost somebody a deadline.
    func giveBack(_ lent: LentConnection) {
        idle.withLock { idle in
            if lent.connection.isOpen { idle.append(lent) } else { idle.removeAll() }
        }
        places.signal()
    }

    /// Closes the connections that nobody uses.
    func close() { idle.withLock { $0.removeAll() } }
}

/// A connection on its way from one thread to the next.
struct LentConnection: @unchecked Sendable {
    // It is used by one thread at a time.
    let connection: PostgresConnection
    /// The server's term when it was made.
    let term: Int
}

/// The place of a store, and how its connections behave.
struct PostgresTarget: Sendable {
    /// The schema that has the tables of a store: `anabranch` is that of bridges.
    static let schema = "anabranch_store"

    /// A connection string.
    let url: String
    /// The time that connecting and each round trip may take.
    let seconds: Double
    /// The server that is reached.
    let server: ServerWatch

    /// The time for which a statement waits for a lock. Then whoever holds it may have to be ended.
    var lockSeconds: Double { min(2, seconds / 4) }

    /// Makes a connection. The server gives up by itself what times out here, so that it holds no locks for a client
    /// that is gone.
    func connect(idleSeconds: Double = 600) throws(PostgresError) -> LentConnection {
        let connection = try PostgresConnection(url, seconds: seconds)
        let milliseconds = Int(seconds * 1_000)
        try connection.execute(
            """
            SET search_path = \(Self.schema); SET statement_timeout = \(milliseconds);
            SET idle_in_transaction_session_timeout = \(Int(idleSeconds * 1_000));
            SET tcp_user_timeout = \(milliseconds); SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5;
            SET client_encoding = 'UTF8'; SET lock_timeout = \(Int(lockSeconds * 1_000));
            SET client_min_messages = warning; SET default_transaction_isolation = 'read committed'
            """)
        return LentConnection(connection: connection, term: try server.examine(connection))
    }

    /// Ends the connections of our own nodes that hold locks and say nothing: their processes were stopped, or their
    /// machines are gone. In the middle of a pipeline no time limit of PostgreSQL does so.
    func endStoppedHolders() {
        _ = try? connect().connection.query(
            """
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity AS other
            WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()
            AND wait_event = 'ClientRead' AND state <> 'idle' AND state_change < now() - make_interval(secs => $1)
            AND EXISTS (
                SELECT FROM pg_locks WHERE pg_locks.pid = other.pid AND mode IN ('RowShareLock', 'RowExclusiveLock')
                AND relation IN (SELECT oid FROM pg_class WHERE relnamespace = '\(Self.schema)'::regnamespace)
            )
            """, [.text("\(lockSeconds)")])
    }
}

extension HistoryError {
    /// An error of PostgreSQL in the form that the contract asks for; without details, which can have values of rows.
    init(_ error: PostgresError) {
        let state = error.state.map { " (SQLSTATE \($0))" } ?? ""
        let reason = "PostgreSQL: \(error.message)\(state)"
        switch error.state {
        // XX001 is a damaged page, XX002 a damaged index.
        case "XX001", "XX002": self.init(.storeDamaged, reason)
        default: self.init(.storeFailed, reason)
        }
    }
}
#endif
