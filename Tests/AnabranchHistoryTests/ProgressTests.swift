import AnabranchCore
import AnabranchTesting
import Synchronization
import Testing

@testable import AnabranchHistory

/// UPLOADs without changesets are kept in memory until something is committed anyway.
@Suite struct ProgressTests {
    /// Clients 2, 3 … and a log of one entry of client 2.
    private static func file(in store: any HistoryStore, clients: Int = 2) throws -> SyncedFile {
        let file = try SyncedFile.open(in: store)
        _ = try file.allocateIdents(for: Array(repeating: nil, count: clients), at: 1)
        try file.integrate(Upload([ChangesetWriter.setting(1, to: 1)], from: 2), from: 2)
        // All have been sent the entry.
        for ident in 3..<UInt64(2 + clients) { _ = try reported(to: ClientFileID(ident), by: file) }
        return file
    }

    private static func record(_ clientVersion: UInt64, of ident: ClientFileID, in file: SyncedFile) throws -> Bool {
        let progress = UploadCursor(clientVersion: ClientVersion(clientVersion), serverVersion: file.version)
        return try file.recordProgress(Upload(progress: progress, lockedVersion: 1), from: ident, at: 77)
    }

    private static func reported(to ident: ClientFileID, by file: SyncedFile) throws -> ClientVersion {
        let download = try file.downloads(for: ident).download(after: DownloadCursor(), byteBudget: 1000)
        return download.progress.upload.clientVersion
    }

    @Test("a DOWNLOAD reports progress when it is stored, and a restart before loses it", arguments: StoreKind.allCases)
    func reports(kind: StoreKind) throws {
        let test = try TestStore(kind)
        var file = try Self.file(in: test.store)
        #expect(try Self.record(5, of: 3, in: file))
        #expect(try Self.reported(to: 3, by: file) == 0)
        try test.restart()
        file = try SyncedFile.open(in: test.store)
        #expect(try Self.reported(to: 3, by: file) == 0)

        #expect(try Self.record(6, of: 3, in: file))
        try file.writeProgress()
        #expect(!file.hasUnwrittenProgress)
        #expect(try Self.reported(to: 3, by: file) == 6)
        #expect(try file.clientFile(3)?.lastSeen == 77)
        try test.restart()
        #expect(try Self.reported(to: 3, by: SyncedFile.open(in: test.store)) == 6)
    }

    @Test("every commit takes the progress of a few clients along, and that of many when it is due")
    func carried() throws {
        let file = try Self.file(in: InMemoryStore(), clients: 100)
        #expect(try Self.record(5, of: 3, in: file))
        try file.integrate(Upload([ChangesetWriter.setting(1, to: 2)], from: 3, base: 1), from: 2)
        #expect(try Self.reported(to: 3, by: file) == 5)
        for ident in 3...101 as ClosedRange<UInt64> { #expect(try Self.record(7, of: ClientFileID(ident), in: file)) }
        try file.integrate(Upload([ChangesetWriter.setting(1, to: 3)], from: 8, base: 2), from: 3)
        #expect(try Self.reported(to: 3, by: file) == 8)
        #expect(try Self.reported(to: 4, by: file) == 0)
        file.writeProgressWithNextCommit()
        #expect(try file.integrate(at: 1).outcomes.isEmpty)
        #expect(try Self.reported(to: 101, by: file) == 7)
        #expect(!file.hasUnwrittenProgress)
    }

    @Test("progress that is not stored counts for the next session and the next upload")
    func counts() throws {
        let file = try Self.file(in: InMemoryStore())
        #expect(try Self.record(5, of: 3, in: file))
        let client = try #require(try file.clientFile(3))
        let session = try file.identify(
            IdentRequest(
                file: SaltedFileID(ident: 3, salt: client.salt), download: DownloadCursor(serverVersion: 1),
                latest: SaltedVersion(version: 1, salt: file.head.versionSalt)))
        #expect(session.threshold == UploadCursor(clientVersion: 5, serverVersion: 1))
        #expect(session.lockedVersion == 1)
        try file.integrate(Upload([ChangesetWriter.setting(4, to: 1)], from: 5, base: 1), from: 3)
        #expect(file.version == 1)
        try file.integrate(Upload([ChangesetWriter.setting(4, to: 1)], from: 6, base: 1), from: 3)
        #expect(file.version == 2)
    }

    @Test("progress after something that waits, and what is to be refused, is queued with the rest")
    func order() throws {
        let file = try Self.file(in: InMemoryStore())
        try file.enqueue(Upload([ChangesetWriter.setting(1, to: 2)], from: 1, base: 1), from: 3)
        #expect(try !Self.record(5, of: 3, in: file))
        _ = try file.integrate(at: 1)
        #expect(try Self.record(5, of: 3, in: file))
        #expect(try !Self.record(5, of: 9, in: file))
        try file.expire(3)
        #expect(try !Self.record(6, of: 3, in: file))
        #expect(!file.hasUnwrittenProgress)
        #expect(try file.clientFile(3)?.isExpired == true)
    }

    @Test("progress is forgotten with a commit that fails: what is stored may be further")
    func failedCommit() throws {
        let store = ForgetfulStore()
        let file = try Self.file(in: store)
        #expect(try Self.record(5, of: 3, in: file))
        store.isForgetful.withLock { $0 = true }
        #expect(throws: HistoryError.self) { try file.writeProgress() }
        store.isForgetful.withLock { $0 = false }
        #expect(!file.hasUnwrittenProgress)
        #expect(try Self.reported(to: 3, by: file) == 5)
    }
}
