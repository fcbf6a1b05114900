import AnabranchCore
import AnabranchQuery
import AnabranchReplica
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchClient

/// A file in which a bit is another one, or of which the end is missing: an error that says so, or nothing that anybody
/// reads is different. What is missing without a trace is found by `verify`.
@Suite(.timeLimit(.minutes(30))) struct DamageTests {
    /// The readable part of a replica.
    private struct Content: Equatable {
        var record: ReplicaRecord
        var log: [LocalVersion]
        var changesets: [[UInt8]] = []
        var reciprocals: [[UInt8]?] = []
        var parts: [DownloadedChangeset]
        var state: StateDigest
        var indexed: [PrimaryKey] = []

        init(_ path: String) throws {
            let store = try SQLiteReplicaStore(path: path)
            defer { try? store.close() }
            let stored = try store.load()
            (record, log, parts) = (stored.record, stored.log, try store.bootstrapParts())
            for version in log {
                changesets.append(try store.changeset(of: version.number))
                reciprocals.append(try store.reciprocal(of: version.number))
            }
            state = try StateDigest(of: stored.state)
            guard let task = stored.state.classes.first(where: { $0.name == Array("Task".utf8) }),
                let property = task.properties.first(where: { $0.name == Array("number".utf8) })
            else { return }
            let range = ValueRange(least: .int(0), greatest: .int(100))
            try store.storedIndex.forEachKey(of: property, in: range) { key, _ in
                indexed.append(key)
                return true
            }
        }
    }

    /// A replica of which every table has rows: entries of the log, some of them merged; parts of a bootstrap; objects
    /// with lists and long values; an index.
    private static func write(_ path: String) throws {
        var replica = try Replica(SQLiteReplicaStore(path: path)), other = try Replica(MemoryReplicaStore())
        try replica.useFlexibleSync()
        try replica.identify(as: SaltedFileID(ident: 2, salt: 7))
        try other.identify(as: SaltedFileID(ident: 3, salt: 7))
        func tasks(_ tx: WriteTransaction, _ text: String) throws {
            try Device.declare(tx)
            try tx.addColumn("tags", .string, collection: .list, to: "Task")
            try tx.addLink("next", to: "Task", of: "Task")
            for key in 0..<8 {
                let task = try tx.create("Task", key: .int(Int64(key)), ["text": .string(Array("\(text) \(key)".utf8))])
                try task.set("number", to: .int(Int64(key % 3)))
                try task.list("tags").insert(.string(Array(text.utf8)), at: 0)
                if key > 0, let last = try tx.object("Task", key: .int(Int64(key - 1))) {
                    try task.set("next", to: last.link)
                }
            }
        }
        for round in 1...3 { try replica.write(at: 1) { try tasks($0, "mine \(round)") } }
        try replica.write(at: 1) { tx in
            try tx.object("Task", key: 1)?.set("text", to: .string([UInt8](repeating: 0x61, count: 9_000)))
        }
        let merged = try other.write(at: 2) { try tasks($0, "theirs") }.changeset
        var progress = replica.progress
        progress.cursor.serverVersion = 2
        progress.latest = SaltedVersion(version: 2, salt: 9)
        func changeset(_ bytes: [UInt8]) -> DownloadedChangeset {
            DownloadedChangeset(cursor: progress.cursor, tag: OriginTag(timestamp: 2, ident: 3), changeset: bytes)
        }
        try replica.integrate(Download(progress: progress, changesets: [changeset(merged)]))
        let set = try replica.subscribe([Subscription("Task", "number > 1", name: "some")])
        for _ in 0..<2 {
            let part = Download(progress: progress, changesets: [changeset(merged)])
            try replica.integrate(part, as: .bootstrap(set, isLast: false))
        }
        guard let task = replica.state.classes.first(where: { $0.name == Array("Task".utf8) }),
            let property = task.properties.first(where: { $0.name == Array("number".utf8) })
        else { throw ReplicaRunError(description: "no class Task") }
        try replica.store.declareIndex(of: [property.owner: [property]])
        try replica.store.close()
    }

    private enum Outcome: Hashable {
        case harmless, foundWhenRead, foundByVerification
    }

    /// - Throws: `ReplicaRunError` if the damage shows, and nobody says so.
    private static func outcome(_ path: String, _ expected: Content) throws -> Outcome {
        do {
            if try Content(path) == expected { return .harmless }
        } catch let error as ReplicaError {
            guard error.code == .damaged || error.code == .unknownFormat || error.code == .storeFailed,
                error.reason.contains(path)
            else { throw ReplicaRunError(description: "\(error.code): \(error)") }
            return .foundWhenRead
        } catch let error as ApplyError where error.isDamage {
            return .foundWhenRead
        }
        do {
            try ReplicaReader(path: path).snapshot().verify()
        } catch {
            guard error.code == .damaged else { throw ReplicaRunError(description: "\(error.code): \(error)") }
            return .foundByVerification
        }
        throw ReplicaRunError(description: "something else is read, and nothing is said")
    }

    /// More of them: `ANABRANCH_FLIPS=20000 swift test --filter everyFlippedBitIsFoundOrHarmless`.
    @Test func everyFlippedBitIsFoundOrHarmless() async throws {
        let environment = ProcessInfo.processInfo.environment
        let seeds = environment["ANABRANCH_SEED"].flatMap(UInt64.init).map { $0...$0 }
        let count = environment["ANABRANCH_FLIPS"].flatMap(UInt64.init) ?? 500
        try await withFolder { path async throws in
            try Self.write(path("whole"))
            let expected = try Content(path("whole")), whole = try Data(contentsOf: URL(filePath: path("whole")))
            #expect(expected.reciprocals.contains { $0 != nil } && expected.parts.count == 2)
            #expect(expected.indexed.count == 8)
            try ReplicaReader(path: path("whole")).snapshot().verify()
            var tally: [Outcome: Int] = [:]
            for seed in seeds ?? 1...count {
                var random = SeededRandom(scrambling: seed), bytes = whole
                bytes[random.below(bytes.count)] ^= 1 << UInt8(random.below(8))
                let copy = path("damaged-\(seed)")
                try bytes.write(to: URL(filePath: copy))
                do {
                    tally[try Self.outcome(copy, expected), default: 0] += 1
                } catch {
                    Issue.record(
                        """
                        seed \(seed): \(error); repeat with
                        ANABRANCH_SEED=\(seed) swift test --filter everyFlippedBitIsFoundOrHarmless
                        """)
                }
                for name in ["", "-wal", "-shm", ".lock"] { try? FileManager.default.removeItem(atPath: copy + name) }
            }
            if count > 500 { print(tally) }
            if seeds == nil { #expect(tally[.foundWhenRead] ?? 0 > 50 && tally[.harmless] ?? 0 > 50, "\(tally)") }
        }
    }

    /// Of nothing at all a new replica is made.
    @Test func aFileWithoutItsEndIsFound() async throws {
        try await withFolder { path async throws in
            try Self.write(path("whole"))
            let expected = try Content(path("whole")), whole = try Data(contentsOf: URL(filePath: path("whole")))
            for count in stride(from: 1, to: whole.count, by: 509) {
                try whole.prefix(count).write(to: URL(filePath: path("short")))
                let outcome = try Self.outcome(path("short"), expected)
                #expect(outcome == .foundWhenRead, "\(count) of \(whole.count): \(outcome)")
                for name in ["-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path("short") + name) }
            }
        }
    }

    /// In the header of SQLite: whose file it is, and its format.
    @Test(arguments: [(68, "another program"), (63, "format 2"), (60, "format")])
    func aForeignFileIsRefusedAsItIs(offset: Int, reason: String) async throws {
        try await withFolder { path async throws in
            try Self.write(path("one"))
            var bytes = try Data(contentsOf: URL(filePath: path("one")))
            bytes[offset] ^= 1
            try bytes.write(to: URL(filePath: path("one")))
            let unread = await thrown(ReplicaError.self) { _ = try ReplicaReader(path: path("one")) }
            let unwritten = await thrown(ReplicaError.self) { _ = try SyncedReplica(path: path("one")) }
            for error in [unread, unwritten] {
                #expect(error?.code == .unknownFormat, "\(String(describing: error))")
                #expect(error?.reason.contains(reason) == true, "\(String(describing: error))")
            }
            #expect(try Data(contentsOf: URL(filePath: path("one"))) == bytes)
        }
    }
}
