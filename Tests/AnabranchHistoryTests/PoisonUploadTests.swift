import AnabranchCore
import AnabranchRows
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// An upload that ends the process is not taken again and again (`Spec/Durability.md`, section 5).
@Suite struct PoisonUploadTests {
    /// A store that ends the process when an integration reads an object, or when it commits.
    private struct TrappingStore: HistoryStore {
        let base: SQLiteStore
        var endsInCommit = false

        private struct Rows: ObjectRows {
            let base: StateRows

            func row(at address: RowAddress) throws -> [UInt8]? {
                if address.classID.rawValue > 0 { fatalError("an object is read") }
                return try base.row(at: address)
            }

            func objects(of classID: ClassID, after key: [UInt8]?, limit: Int) throws -> [(key: [UInt8], row: [UInt8])]
            {
                try base.objects(of: classID, after: key, limit: limit)
            }
        }

        var suspects: (any UploadSuspects)? { base.suspects }

        func open(_ path: VirtualPath) throws(HistoryError) -> OpenedFile { try base.open(path) }

        func contains(_ path: VirtualPath) throws(HistoryError) -> Bool { try base.contains(path) }

        func read<Result: Sendable>(
            _ file: SyncedFileID, _ body: (any FileView) throws(HistoryError) -> Result
        ) throws(HistoryError) -> Result {
            try base.read(file, body)
        }

        func state(of file: SyncedFileID) throws(HistoryError) -> ObjectGraph {
            guard !endsInCommit else { return try base.state(of: file) }
            let rows = Rows(base: StateRows(StateTable(file: file.number), in: base.shards[0].pool))
            do { return try ObjectGraph(rows: rows) } catch {
                throw HistoryError(.storeFailed, error.reason)
            }
        }

        func commit(_ commits: [Commit]) throws(HistoryError) {
            if endsInCommit { fatalError("it is committed") }
            try base.commit(commits)
        }
    }

    private static func makeStore(in directory: String) throws {
        let store = try SQLiteStore(oneShardIn: directory)
        let file = try SyncedFile.open(in: store, keepsState: true)
        _ = try file.allocateIdents(for: [nil, nil], at: 1000)
        try file.write(at: 1) { tx in
            try tx.addClass("T", key: "_id", .int)
            try tx.addColumn("n", .int, to: "T")
            for key in 1...20 as ClosedRange<Int64> { try tx.create("T", key: .int(key)) }
        }
        try store.close()
    }

    private static func enqueueUpload(
        _ version: ClientVersion, to file: SyncedFile, from client: ClientFileID
    ) throws {
        let object = Int64(version.rawValue) + (client == 2 ? 0 : 10)
        try file.enqueue(Upload([ChangesetWriter.setting(object, to: 7)], from: version, base: 1), from: client)
    }

    /// Integrates an upload of client file 2 in a process of its own, which ends.
    private static func endInIntegration(
        of version: ClientVersion, in directory: String, at time: UInt64, endsInCommit: Bool = false
    ) async {
        await #expect(processExitsWith: .failure) {
            [
                directory = directory as String, time = time as UInt64, version = version.rawValue as UInt64,
                endsInCommit = endsInCommit as Bool
            ] in
            let store = TrappingStore(base: try SQLiteStore(oneShardIn: directory), endsInCommit: endsInCommit)
            let file = try SyncedFile.open(in: store, keepsState: true)
            try PoisonUploadTests.enqueueUpload(ClientVersion(rawValue: version), to: file, from: 2)
            _ = try file.integrate(at: time)
        }
    }

    /// Both clients upload, in a process that survives.
    private static func refusals(
        of version: ClientVersion, in directory: String, at time: UInt64
    ) throws -> [HistoryError?] {
        let store = try SQLiteStore(oneShardIn: directory)
        let file = try SyncedFile.open(in: store, keepsState: true)
        for client in [2, 3] as [ClientFileID] { try enqueueUpload(version, to: file, from: client) }
        let outcomes = try file.integrate(at: time).outcomes
        try store.close()
        return outcomes.map(\.refusal)
    }

    @Test func anUploadInWhichTheServerHasEndedTwiceWaits() async throws {
        let directory = try TemporaryDirectory()
        try Self.makeStore(in: directory.path)
        await Self.endInIntegration(of: 5, in: directory.path, at: 10_000)
        await Self.endInIntegration(of: 5, in: directory.path, at: 10_010)
        let refusals = try Self.refusals(of: 5, in: directory.path, at: 10_020)
        #expect(refusals.map { $0?.code } == [.uploadPutOff, nil])
        #expect(refusals[0]?.reason.contains("ended 2 times") == true)
        #expect(refusals[0]?.reason.contains("client file 2 has uploaded from client version 5 on") == true)
        #expect(try Self.refusals(of: 5, in: directory.path, at: 10_309)[0]?.code == .uploadPutOff)
        // It is tried again five minutes later, and after another end ten minutes later.
        await Self.endInIntegration(of: 5, in: directory.path, at: 10_310)
        #expect(try Self.refusals(of: 5, in: directory.path, at: 10_909)[0]?.code == .uploadPutOff)
        #expect(try Self.refusals(of: 5, in: directory.path, at: 10_910)[0] == nil)
        // Nothing is held against it any more.
        await Self.endInIntegration(of: 6, in: directory.path, at: 10_920)
        #expect(try Self.refusals(of: 6, in: directory.path, at: 10_930)[0] == nil)
    }

    @Test func anEndInTheCommitCounts() async throws {
        let directory = try TemporaryDirectory()
        try Self.makeStore(in: directory.path)
        for time in [10_000, 10_010] as [UInt64] {
            await Self.endInIntegration(of: 5, in: directory.path, at: time, endsInCommit: true)
        }
        #expect(try Self.refusals(of: 5, in: directory.path, at: 10_020).map { $0?.code } == [.uploadPutOff, nil])
    }

    /// When the clock is set right, nobody knows when it was.
    @Test func anUploadThatWasTriedInTheFutureIsTriedAgain() async throws {
        let directory = try TemporaryDirectory()
        try Self.makeStore(in: directory.path)
        for time in [1 << 40, 1 << 41] as [UInt64] {
            await Self.endInIntegration(of: 5, in: directory.path, at: time)
        }
        #expect(try Self.refusals(of: 5, in: directory.path, at: 10_020)[0] == nil)
    }

    @Test("it is tried again after five minutes, ten, twenty … and at last once a day")
    func waits() throws {
        let directory = try TemporaryDirectory(), cursor = UploadCursor(clientVersion: 1, serverVersion: 0)
        let changesets: ArraySlice = [UploadedChangeset(cursor: cursor, timestamp: 1, changeset: [])]
        var time: UInt64 = 10_000
        for wait in [0, 0, 300, 600, 1_200, 2_400, 4_800, 9_600, 19_200, 38_400, 76_800, 86_400, 86_400] as [UInt64] {
            let suspects = try #require(SuspectFile(path: directory.path + "/suspects"))
            let watch = UploadWatch(suspects: suspects, path: VirtualPath("/a"))
            time += wait
            if wait > 0 {
                #expect(try code { _ = try watch.check(changesets, from: 2, at: time - 1) } == .uploadPutOff)
            }
            let name = try watch.check(changesets, from: 2, at: time)
            // The process ends before it says how that went.
            watch.begin(name, at: time)
        }
    }

    @Test("of so many uploads at a time it is known afterwards that they were under way")
    func slots() throws {
        let directory = try TemporaryDirectory()
        let names = (0...UInt64(SuspectFile.slotCountMax)).map { Checksum(low: $0, high: 1) }
        let before = try #require(SuspectFile(path: directory.path + "/suspects"))
        for name in names { before.begin(name, at: 10_000) }
        let after = try #require(SuspectFile(path: directory.path + "/suspects"))
        let known = Array(repeating: true, count: SuspectFile.slotCountMax) + [false]
        #expect(names.map { after.find($0) != nil } == known)
    }

    @Test func oneEndIsAnAccident() async throws {
        let directory = try TemporaryDirectory()
        try Self.makeStore(in: directory.path)
        for (version, time) in [(5, 10_000), (6, 10_100)] as [(ClientVersion, UInt64)] {
            await Self.endInIntegration(of: version, in: directory.path, at: time)
            #expect(try Self.refusals(of: version, in: directory.path, at: time + 1)[0] == nil)
        }
    }
}
