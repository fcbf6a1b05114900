import AnabranchCore
@testable import AnabranchHistory
@testable import AnabranchPostgres
import AnabranchPostgresWire
import AnabranchTesting
import Foundation
import Synchronization
import Testing

/// Connections are ended and PostgreSQL crashes, again and again, while two nodes write files: they take them from each
/// other (`Spec/Postgres.md`, section 1), or share them (`Spec/Nodes.md`).
@Suite(.timeLimit(.minutes(30))) struct PostgresKillTests {
    private static let environment = ProcessInfo.processInfo.environment
    private static let fileCount = 3

    /// More of them: `ANABRANCH_POSTGRES_KILLS=200 swift test --filter PostgresKillTests`.
    @Test(arguments: [false, true]) func nothingIsLostOrDoubledWhateverIsKilled(isShared: Bool) async throws {
        let kills = Self.environment["ANABRANCH_POSTGRES_KILLS"].flatMap(Int.init) ?? 4
        let seed = Self.environment["ANABRANCH_SEED"].flatMap(UInt64.init) ?? 1
        do { try await Self.run(kills, seed, isShared: isShared) } catch {
            let again = "ANABRANCH_SEED=\(seed) ANABRANCH_POSTGRES_KILLS=\(kills) swift test --filter PostgresKillTests"
            Issue.record("seed \(seed): \(error); repeat with \(again)")
        }
    }

    private struct Wrong: Error, CustomStringConvertible {
        let description: String
    }

    /// The state that the writers share with the killer.
    private final class Progress: Sendable {
        /// One for each upload that was acknowledged.
        let acknowledged = DispatchSemaphore(value: 0)
        let isOver = Atomic(false)
        /// Held while the server is down.
        let restart = Mutex(())

        func end() {
            isOver.store(true, ordering: .relaxed)
            acknowledged.signal()
        }
    }

    /// Writers and whoever kills have threads of their own: all of them wait.
    private static func run(_ kills: Int, _ seed: UInt64, isShared: Bool) async throws {
        let server = try TestPostgres()
        defer { server.end() }
        let url = server.url(try server.makeDatabase()), progress = Progress()
        var options = PostgresStore.Options()
        options.requiresDurability = false
        options.isShared = isShared
        let stores = [try PostgresStore(url, options: options), try PostgresStore(url, options: options)]
        // Each file that is shared has two writers.
        let writers = isShared ? 2 * fileCount : fileCount
        let written = try await withThrowingTaskGroup(of: (Int, Uploaded)?.self) { group in
            for number in 0..<writers {
                group.addTask {
                    try await onOwnThread {
                        defer { progress.end() }
                        let random = SeededRandom(scrambling: seed &* 100 &+ UInt64(number))
                        let path = "/\(number % fileCount)"
                        return (number % fileCount, try write(path, in: stores, random, progress))
                    }
                }
            }
            group.addTask {
                try await onOwnThread {
                    defer { progress.end() }
                    try kill(kills, seed, server, url, progress)
                    return nil
                }
            }
            return try await group.reduce(into: [Int: [Uploaded]]()) { written, part in
                if let (number, client) = part { written[number, default: []].append(client) }
            }
        }
        for store in stores { store.close() }
        let store = try PostgresStore(url, options: options)
        for number in 0..<fileCount { try check("/\(number)", in: store, written[number] ?? []) }
    }

    private static func kill(
        _ count: Int, _ seed: UInt64, _ server: TestPostgres, _ url: String, _ progress: Progress
    ) throws {
        var random = SeededRandom(scrambling: seed)
        for number in 1...count {
            for _ in 0..<random.below(200) where !progress.isOver.load(ordering: .relaxed) {
                progress.acknowledged.wait()
            }
            if number % 4 == 0 {
                try progress.restart.withLock { _ in try server.crash() }
            } else {
                endConnections(of: url, random.below(4))
            }
        }
    }

    /// Ends one connection in so many; all if there is none to be left.
    private static func endConnections(of url: String, _ left: Int) {
        guard let connection = try? PostgresConnection(url) else { return }
        _ = try? connection.query(
            """
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid() AND pid % $1 = 0
            """, [.text("\(left + 1)")])
    }

    // MARK: A client

    private static let object = ChangesetWriter([
        .addTable("T"), .addColumn("T", "n"), .createObject(ObjectName(className: "T", key: .int(1))),
    ]).bytes

    /// A client file, and the last of its versions that was acknowledged.
    private struct Uploaded {
        var ident: ClientFileID?
        var version: UInt64 = 0
    }

    /// Uploads changesets with the versions 1, 2, 3 …, each again until it is acknowledged.
    private static func write(
        _ path: String, in stores: [PostgresStore], _ random: SeededRandom, _ progress: Progress
    ) throws -> Uploaded {
        var random = random, known: SaltedFileID?, written = Uploaded()
        while !progress.isOver.load(ordering: .relaxed) {
            do {
                let file = try SyncedFile.open(path, in: random.pick(stores), keepsState: true)
                let client: SaltedFileID
                if let known { client = known } else { client = try file.allocateIdent() }
                (known, written.ident) = (client, client.ident)
                _ = try file.identify(
                    IdentRequest(file: client, download: DownloadCursor(), latest: SaltedVersion(), subscriptions: nil))
                for _ in 0..<random.below(60) where !progress.isOver.load(ordering: .relaxed) {
                    let next = written.version + 1
                    let changeset = next == 1 ? object : ChangesetWriter.setting(1, to: Int64(next))
                    let refusal = try file.integrate(Upload([changeset], from: ClientVersion(next)), from: client.ident)
                    if let refusal { throw refusal }
                    written.version = next
                    progress.acknowledged.signal()
                }
            } catch let error as HistoryError {
                guard [.storeFailed, .leaseLost, .conflict, .superseded].contains(error.code) else { throw error }
                progress.restart.withLock { _ in }
            }
        }
        return written
    }

    /// Every acknowledged changeset is in the log once, in order, and the state is what the log makes.
    private static func check(_ path: String, in store: PostgresStore, _ written: [Uploaded]) throws {
        let file = try SyncedFile.open(path, in: store, keepsState: true)
        let idents = written.compactMap(\.ident)
        let (receipts, made) = try file.read { view throws(HistoryError) in
            let all = VersionRange(after: 0, through: .largest)
            let receipts = try idents.map { ident throws(HistoryError) in try view.receipts(from: ident, in: all) }
            return (receipts, try view.state(at: view.head().version))
        }
        for (client, receipts) in zip(written.filter { $0.ident != nil }, receipts) {
            let versions = receipts.map(\.clientVersion.rawValue)
            guard versions == Array(1..<UInt64(versions.count) + 1),
                client.version...client.version + 1 ~= UInt64(versions.count)
            else {
                throw Wrong(description: "\(path): \(versions.count) entries for \(client.version) acknowledgements")
            }
        }
        let stored = try store.state(of: file.id).canonicalJSON(), replayed = try made.canonicalJSON()
        guard stored == replayed else { throw Wrong(description: "\(path): another state than that of the log") }
    }
}
