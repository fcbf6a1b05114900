import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// The checks of IDENT and UPLOAD, in their order and with their codes (`Spec/History.md`, sections 4 and 5).
@Suite struct SessionTests {
    /// A file with clients 2 and 3; client 2 has uploaded client versions 2 and 4 as server versions 1 and 3, client 3
    /// its version 5 as server version 2, and client 2 has confirmed server version 2.
    private static func populated(_ kind: StoreKind) throws -> (SyncedFile, TestStore, SaltedFileID) {
        let test = try TestStore(kind)
        let file = try SyncedFile.open(in: test.store)
        let first = try file.allocateIdents(for: ["ann"], at: 1000)[0]
        let second = try file.allocateIdents(for: ["bob"], at: 1000)[0]
        try file.integrate(Upload([ChangesetWriter.setting(1, to: 1)], from: 2), from: first.ident)
        try file.integrate(Upload([ChangesetWriter.setting(2, to: 2)], from: 5), from: second.ident)
        try file.integrate(Upload([ChangesetWriter.setting(3, to: 3)], from: 4, base: 2), from: first.ident)
        return (file, test, first)
    }

    /// An IDENT, and whom its connection was authenticated as.
    private struct Attempt {
        var request: IdentRequest
        var user: String? = "ann"

        func code(_ file: SyncedFile) throws -> HistoryError.Code? {
            try AnabranchHistoryTests.code { _ = try file.identify(request, user: user) }
        }
    }

    private static func request(_ file: SyncedFile, _ ident: SaltedFileID) -> IdentRequest {
        IdentRequest(
            file: ident, download: DownloadCursor(serverVersion: 3, clientVersion: 4),
            latest: SaltedVersion(version: 3, salt: file.head.versionSalt))
    }

    @Test(arguments: StoreKind.allCases) func anAcceptableIdentStartsASessionWhereTheClientIs(kind: StoreKind) throws {
        let (file, _, ident) = try Self.populated(kind)
        let progress = try file.identify(Self.request(file, ident), user: "ann")
        #expect(progress.download == DownloadCursor(serverVersion: 3, clientVersion: 4))
        #expect(progress.threshold == UploadCursor(clientVersion: 4, serverVersion: 2))
        #expect(progress.uploaded == UploadCursor())
        #expect(progress.lockedVersion == 0)
    }

    @Test(arguments: StoreKind.allCases) func howFarAFileIsIntegratedIsSaidToItsUserAlone(kind: StoreKind) throws {
        let test = try TestStore(kind), file = try SyncedFile.open(in: test.store)
        let ident = try file.allocateIdents(for: ["ren\u{E9}"], at: 1000)[0]
        try file.integrate(Upload([ChangesetWriter.setting(1, to: 1)], from: 2), from: ident.ident)
        #expect(try file.integratedVersion(of: ident, user: "ren\u{E9}") == 2)
        #expect(try file.integratedVersion(of: ident, user: nil) == 2)
        // The same text for people, but another user.
        #expect(try file.integratedVersion(of: ident, user: "rene\u{301}") == 0)
    }

    @Test(arguments: StoreKind.allCases) func eachMutationOfAnIdentIsRefusedWithItsCode(kind: StoreKind) throws {
        let (file, _, ident) = try Self.populated(kind)
        let refusals: [(HistoryError.Code, (inout Attempt) -> Void)] = [
            (.badServerVersion, { $0.request.latest.version = 4 }),
            (.badClientFileIdent, { $0.request.file.ident = 0 }),
            (.badClientFileIdent, { $0.request.file.ident = 4 }),
            (.badClientFileIdent, { $0.request.file.ident = .largest }),
            (.divergingHistories, { $0.request.file.ident = 1 }),
            (.divergingHistories, { $0.request.file = SaltedFileID(ident: 1, salt: 0) }),
            (.divergingHistories, { $0.request.file.ident = 3 }),
            (.divergingHistories, { $0.request.file.salt.rawValue ^= 1 }),
            (.badServerVersion, { $0.request.download.serverVersion = 1 }),
            (.badServerVersion, { $0.request.download.serverVersion = 4 }),
            (.badClientVersion, { $0.request.download.clientVersion = 5 }),
            (.badServerVersion, { $0.request.latest.version = 2 }),
            (.divergingHistories, { $0.request.latest.salt.rawValue ^= 1 }),
            (.divergingHistories, { $0.request.download.clientVersion = 2 }),
            (.divergingHistories, { $0.request.download = DownloadCursor(serverVersion: 2, clientVersion: 4) }),
            (.userMismatch, { $0.user = "bob" }),
        ]
        for (number, (expected, mutate)) in refusals.enumerated() {
            var attempt = Attempt(request: Self.request(file, ident))
            mutate(&attempt)
            #expect(try attempt.code(file) == expected, "mutation \(number)")
        }
        var older = Attempt(request: Self.request(file, ident), user: nil)
        older.request.download = DownloadCursor(serverVersion: 2, clientVersion: 2)
        #expect(try older.code(file) == nil)
    }

    /// A server without logins has made the client file; now it has logins.
    @Test(arguments: StoreKind.allCases) func aClientFileOfNobodyBelongsToTheFirstUserIfItMayBeAdopted(
        kind: StoreKind
    ) throws {
        let test = try TestStore(kind)
        let ident = try SyncedFile.open(in: test.store).allocateIdent()
        func code(_ user: String?, adopts: Bool) throws -> HistoryError.Code? {
            let file = try SyncedFile(path: VirtualPath("/a"), store: test.store, adoptsUnownedClientFiles: adopts)
            return try AnabranchHistoryTests.code { _ = try file.identify(IdentRequest(file: ident), user: user) }
        }
        #expect(try code("ann", adopts: false) == .userMismatch)
        #expect(try code(nil, adopts: true) == nil)
        #expect(try code("ann", adopts: true) == nil)
        #expect(try code("bob", adopts: true) == .userMismatch)
        // It is hers for good.
        try test.restart()
        #expect(try code("ann", adopts: false) == nil)
        #expect(try code("bob", adopts: false) == .userMismatch)
    }

    @Test(arguments: StoreKind.allCases) func theFirstFailingCheckDecides(kind: StoreKind) throws {
        let (file, _, ident) = try Self.populated(kind)
        // From the last check to the first: each breaks one more, and the new one must win.
        let breaks: [(HistoryError.Code, (inout Attempt) -> Void)] = [
            (.userMismatch, { $0.user = "eve" }),
            (.divergingHistories, { $0.request.download.clientVersion = 2 }),
            (.divergingHistories, { $0.request.latest.salt = 1 }),
            (.badServerVersion, { $0.request.latest.version = 2 }),
            (.badClientVersion, { $0.request.download.clientVersion = 9 }),
            (.badServerVersion, { $0.request.download.serverVersion = 1 }),
            (.divergingHistories, { $0.request.file.salt = 5 }),
            (.badClientFileIdent, { $0.request.file.ident = 77 }),
            (.badServerVersion, { $0.request.latest.version = 99 }),
        ]
        var attempt = Attempt(request: Self.request(file, ident))
        for (number, (expected, mutate)) in breaks.enumerated() {
            mutate(&attempt)
            #expect(try attempt.code(file) == expected, "step \(number)")
        }
    }

    @Test(arguments: StoreKind.allCases) func anExpiredFileIsRefusedForEver(kind: StoreKind) throws {
        let (file, test, ident) = try Self.populated(kind)
        let upload = Upload([ChangesetWriter.setting(2, to: 4)], from: 9, base: 2)
        let request = Self.request(file, ident)
        try file.expire(ident.ident)
        try file.expire(ident.ident)
        #expect(try code { try file.expire(1) } == .badClientFileIdent)
        #expect(try code { try file.expire(9) } == .badClientFileIdent)
        #expect(try code { _ = try file.identify(request) } == .clientFileExpired)
        #expect(try file.integrate(upload, from: ident.ident)?.code == .clientFileExpired)
        let download = { (file: SyncedFile) in
            try code { _ = try file.downloads(for: ident.ident).download(after: request.download, byteBudget: 1) }
        }
        #expect(try download(file) == .clientFileExpired)
        try test.restart()
        let reopened = try SyncedFile.open(in: test.store)
        #expect(try code { _ = try reopened.identify(request) } == .clientFileExpired)
        #expect(try download(reopened) == .clientFileExpired)
        #expect(reopened.version == 3)
    }

    @Test(arguments: StoreKind.allCases) func aRestoredOlderCopyIsNoticed(kind: StoreKind) throws {
        let (file, test, ident) = try Self.populated(kind)
        defer { withExtendedLifetime(test) {} }
        let request = Self.request(file, ident)
        let restored = try SyncedFile.open("/older", in: file.store, seed: 1)
        let again = try restored.allocateIdents(for: ["ann", "bob"], at: 1000)
        #expect(try code { _ = try restored.identify(request) } == .badServerVersion)
        let salts = SeededRandom(seed: 2)
        let later = try SyncedFile(path: VirtualPath("/older"), store: file.store, keepsState: false, randomness: salts)
        for version in [2, 3, 4] as [ClientVersion] {
            try later.integrate(Upload([ChangesetWriter.setting(1, to: 1)], from: version), from: again[0].ident)
        }
        var sameFile = request
        sameFile.file = again[0]
        #expect(try code { _ = try later.identify(sameFile) } == .divergingHistories)
    }

    @Test func identsAreHandedOutInOrderWithOtherSalts() throws {
        let test = try TestStore(.sqlite)
        var idents: [SaltedFileID] = []
        for seed in 1...3 as ClosedRange<UInt64> {
            let file = try SyncedFile.open(in: test.store, seed: seed)
            idents += try file.allocateIdents(for: [nil, "ann"], at: 0)
            #expect(try file.clientFile(ClientFileID(idents.count + 1))?.user == "ann")
            try test.restart()
        }
        #expect(idents.map(\.ident.rawValue) == Array(2...7))
        #expect(Set(idents.map(\.salt)).count == 6)
        #expect(idents.allSatisfy { $0.salt.isProof })
        let file = try SyncedFile.open(in: test.store, seed: 9)
        for ident in idents {
            let progress = try file.identify(IdentRequest(file: ident))
            #expect(
                progress == SessionProgress(download: DownloadCursor(), threshold: UploadCursor(), lockedVersion: 0))
        }
    }

    // MARK: UPLOAD

    private static func upload(
        _ progress: (ClientVersion, ServerVersion), locked: ServerVersion = 3,
        _ cursors: (ClientVersion, ServerVersion)...
    ) -> Upload {
        Upload(
            progress: UploadCursor(clientVersion: progress.0, serverVersion: progress.1), lockedVersion: locked,
            changesets: cursors.map {
                UploadedChangeset(
                    cursor: UploadCursor(clientVersion: $0.0, serverVersion: $0.1), timestamp: 1, changeset: [])
            })
    }

    /// D = 8, T = (10, 4), Q = (12, 5), K = 3.
    private static func running() throws -> SessionProgress {
        var progress = SessionProgress(
            download: DownloadCursor(serverVersion: 8, clientVersion: 0),
            threshold: UploadCursor(clientVersion: 10, serverVersion: 4), lockedVersion: 3)
        _ = try progress.accept(upload((12, 5)))
        return progress
    }

    @Test func eachBadUploadIsRefusedWithItsCodeAndChangesNothing() throws {
        let refusals: [(HistoryError.Code, Upload)] = [
            (.badClientVersion, Self.upload((11, 5))),
            (.badServerVersion, Self.upload((13, 9))),
            (.badServerVersion, Self.upload((12, 6))),
            (.badServerVersion, Self.upload((13, 4))),
            (.badServerVersion, Self.upload((13, 5), locked: 2)),
            (.badServerVersion, Self.upload((13, 5), locked: 9)),
            (.badClientVersion, Self.upload((14, 5), (12, 5))),
            (.badClientVersion, Self.upload((14, 5), (13, 5), (13, 5))),
            (.badServerVersion, Self.upload((14, 5), (13, 4))),
            (.badServerVersion, Self.upload((14, 7), (13, 6), (14, 5))),
            (.badClientVersion, Self.upload((13, 5), (14, 5))),
            (.badServerVersion, Self.upload((14, 5), (13, 6))),
            (.badServerVersion, Self.upload((14, 6), (14, 5))),
        ]
        for (number, (expected, upload)) in refusals.enumerated() {
            var progress = try Self.running()
            let before = progress
            #expect(try code { _ = try progress.accept(upload) } == expected, "upload \(number)")
            #expect(progress == before)
        }
        var fresh = SessionProgress(
            download: DownloadCursor(serverVersion: 8, clientVersion: 0), threshold: UploadCursor(), lockedVersion: 0)
        #expect(try code { _ = try fresh.accept(Self.upload((0, 1))) } == .badServerVersion)
        var reconnected = SessionProgress(
            download: DownloadCursor(serverVersion: 8, clientVersion: 0),
            threshold: UploadCursor(clientVersion: 10, serverVersion: 4), lockedVersion: 0)
        #expect(try code { _ = try reconnected.accept(Self.upload((9, 5))) } == .badServerVersion)
        #expect(try code { _ = try reconnected.accept(Self.upload((10, 3))) } == .badServerVersion)
        #expect(try code { _ = try reconnected.accept(Self.upload((11, 4), (9, 5), (11, 4))) } == .badServerVersion)
    }

    @Test func changesetsOfEarlierSessionsAreDroppedSilently() throws {
        var progress = SessionProgress(
            download: DownloadCursor(serverVersion: 8, clientVersion: 0),
            threshold: UploadCursor(clientVersion: 10, serverVersion: 4), lockedVersion: 3)
        #expect(try progress.accept(Self.upload((9, 4), (8, 2), (9, 4))) == nil)
        #expect(progress.uploaded == UploadCursor(clientVersion: 9, serverVersion: 4))
        let locking = try progress.accept(Self.upload((9, 4), locked: 5))
        #expect(locking == Self.upload((10, 4), locked: 5))
        let rest = try progress.accept(Self.upload((13, 6), locked: 5, (10, 4), (11, 4), (12, 5)))
        #expect(rest == Self.upload((13, 6), locked: 5, (11, 4), (12, 5)))
        #expect(progress.lockedVersion == 5)
    }

    @Test func aFullBacklogIsATransientErrorOfTheConnection() throws {
        let file = try SyncedFile(
            path: VirtualPath("/a"), store: InMemoryStore(), keepsState: false, backlogBytesMax: 400)
        let ident = try file.allocateIdent().ident
        let changeset = ChangesetWriter.setting(1, to: 1)
        try file.enqueue(Upload([changeset], from: 1), from: ident)
        let backlog = file.backlogBytes
        let large = Upload([changeset + [UInt8](repeating: 0, count: 400)], from: 2)
        #expect(throws: HistoryError(.backlogFull, "")) { try file.enqueue(large, from: ident) }
        #expect(file.backlogBytes == backlog)
        #expect(HistoryError(.backlogFull, "").isTransient && !HistoryError(.backlogFull, "").isStoreFailure)
        #expect(try file.integrate(at: 1).outcomes == [ClientOutcome(ident: ident, newVersions: 1, refusal: nil)])
        #expect(!file.hasQueuedUploads)
        // Alone it is taken whatever its size: it was received already, and it could never be sent otherwise.
        try file.enqueue(large, from: ident)
    }

    @Test func aNewSessionStartsBehindWhatIsStillQueued() throws {
        let file = try SyncedFile.open(in: InMemoryStore())
        let ident = try file.allocateIdent()
        var upload = Upload([ChangesetWriter.setting(1, to: 1)], from: 3)
        try file.enqueue(upload, from: ident.ident)
        var progress = try file.identify(IdentRequest(file: ident))
        #expect(progress.threshold == UploadCursor(clientVersion: 3, serverVersion: 0))
        #expect(try progress.accept(upload) == nil)
        upload.changesets = Upload([ChangesetWriter.setting(1, to: 2)], from: 4).changesets
        upload.progress.clientVersion = 4
        try file.enqueue(try #require(try progress.accept(upload)), from: ident.ident)
        #expect(try file.integrate(at: 1).outcomes.map(\.newVersions) == [2])
        #expect(try file.log().map(\.clientVersion) == [3, 4])
    }
}
