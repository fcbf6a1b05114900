import AnabranchCore
import AnabranchTesting
import Synchronization
import Testing

@testable import AnabranchHistory

/// The part of a file that is in memory costs no reading of the store. That it is the same as in the store,
/// `invariantsHold` checks at every step (`TailComparison`).
@Suite struct TailTests {
    /// Counts how often it is read.
    private final class CountingStore: HistoryStore {
        private let base = InMemoryStore()
        private let count = Mutex(0)

        func takeCount() -> Int {
            count.withLock { count in
                defer { count = 0 }
                return count
            }
        }

        func open(_ path: VirtualPath) throws(HistoryError) -> OpenedFile { try base.open(path) }

        func contains(_ path: VirtualPath) throws(HistoryError) -> Bool { try base.contains(path) }

        func read<Result: Sendable>(
            _ file: SyncedFileID, _ body: (any FileView) throws(HistoryError) -> Result
        ) throws(HistoryError) -> Result {
            count.withLock { $0 += 1 }
            return try base.read(file, body)
        }

        func state(of file: SyncedFileID) throws(HistoryError) -> ObjectGraph { try base.state(of: file) }

        func commit(_ commits: [Commit]) throws(HistoryError) { try base.commit(commits) }
    }

    /// Clients 2, 3 … and a log of four entries of client 2.
    private static func file(
        in store: any HistoryStore, clients: Int = 3, tailBytesMax: Int = 4 << 20
    ) throws -> (SyncedFile, [SaltedFileID]) {
        let file = try SyncedFile.open(in: store, tailBytesMax: tailBytesMax)
        let idents = try file.allocateIdents(for: Array(repeating: nil, count: clients), at: 1)
        for number in 1...4 as ClosedRange<UInt64> {
            try file.integrate(
                Upload([ChangesetWriter.setting(Int64(number), to: 1)], from: ClientVersion(number)), from: 2)
        }
        return (file, idents)
    }

    private static func ident(_ file: SyncedFile, _ client: SaltedFileID) -> IdentRequest {
        IdentRequest(
            file: client, download: DownloadCursor(serverVersion: file.version),
            latest: SaltedVersion(version: file.version, salt: file.head.versionSalt))
    }

    @Test("who has come along with the log costs no reading: IDENT, DOWNLOAD, UPLOAD, progress")
    func runningClients() throws {
        let store = CountingStore()
        let (file, clients) = try Self.file(in: store)
        _ = try file.downloads(for: 3).download(after: DownloadCursor(), byteBudget: 1000)
        _ = try file.identify(Self.ident(file, clients[1]))
        _ = store.takeCount()

        _ = try file.identify(Self.ident(file, clients[1]))
        let cursor = DownloadCursor(serverVersion: 1)
        #expect(try file.downloads(for: 3).download(after: cursor, byteBudget: 1000).changesets.count == 3)
        let change = [ChangesetWriter.setting(9, to: 1)]
        #expect(try file.integrate(Upload(change, from: 1, base: 1), from: 3) == nil)
        #expect(try file.integrate(Upload(change, from: 5, base: 0), from: 2) == nil)
        let progress = Upload(progress: UploadCursor(clientVersion: 7, serverVersion: 6))
        #expect(try file.recordProgress(progress, from: 3, at: 1))
        #expect(store.takeCount() == 0)
    }

    @Test("who is behind the tail costs a reading, and so does everything without one")
    func missing() throws {
        let store = CountingStore()
        let (file, _) = try Self.file(in: store, tailBytesMax: 0)
        _ = try file.downloads(for: 3).download(after: DownloadCursor(), byteBudget: 1000)
        _ = store.takeCount()
        #expect(try file.downloads(for: 3).download(after: DownloadCursor(), byteBudget: 1000).changesets.count == 4)
        #expect(store.takeCount() == 1)
    }

    @Test("readers at one place share a scan, but not with those of whom the log holds something after it")
    func sharedScans() throws {
        let store = CountingStore()
        let (file, _) = try Self.file(in: store, clients: 100, tailBytesMax: 0)
        try file.integrate(Upload([ChangesetWriter.setting(5, to: 1)], from: 3), from: 3)
        _ = try file.recordProgress(
            Upload(progress: UploadCursor(clientVersion: 9, serverVersion: 1)), from: 5, at: 1)
        try file.writeProgress()
        for ident in 2...101 as ClosedRange<UInt64> {
            let ident = ClientFileID(ident)
            let download = try file.downloads(for: ident).download(after: DownloadCursor(), byteBudget: 1000)
            let others = try file.log().filter { $0.origin != ident }
            #expect(download.changesets.map(\.changeset) == others.map(\.changeset))
            let clientVersion = [2: 4, 3: 3][ident] as ClientVersion? ?? 0
            #expect(download.progress.cursor == DownloadCursor(serverVersion: 5, clientVersion: clientVersion))
            #expect(download.progress.upload == (try file.clientFile(ident))?.uploadCursor)
        }
    }

    @Test("after a commit that failed the store is asked, also for what it may have taken")
    func uncertainCommit() throws {
        let store = ForgetfulStore()
        let (file, _) = try Self.file(in: store)
        store.isForgetful.withLock { $0 = true }
        #expect(throws: HistoryError.self) {
            try file.integrate(Upload([ChangesetWriter.setting(9, to: 1)], from: 1, base: 4), from: 3)
        }
        store.isForgetful.withLock { $0 = false }
        #expect(try file.integrate(at: 1).outcomes.map(\.newVersions) == [0])
        #expect(file.version == 5)
        #expect(try file.downloads(for: 2).download(after: DownloadCursor(), byteBudget: 1000).changesets.count == 1)
        #expect(try file.allocateIdent().ident == 5)
    }

    @Test("a file that somebody else has taken over is read as it is stored")
    func lostLease() throws {
        let store = InMemoryStore()
        let (file, _) = try Self.file(in: store)
        let (other, _) = try Self.file(in: store)
        #expect(other.version == 4)
        #expect(throws: HistoryError(.leaseLost, "")) { try file.allocateIdent() }
        #expect(try file.clientFile(7) != nil)
        #expect(try file.clientFile(8) == nil)
        try other.integrate(Upload([ChangesetWriter.setting(1, to: 2)], from: 9, base: 4), from: 4)
        #expect(try file.clientFile(4)?.uploadCursor.clientVersion == 9)
    }
}
