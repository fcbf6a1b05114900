import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// Integration, step by step (`Spec/History.md`, section 6).
@Suite struct IntegrationTests {
    private static func file(clients: Int, _ kind: StoreKind = .memory) throws -> (SyncedFile, TestStore) {
        let test = try TestStore(kind)
        let file = try SyncedFile.open(in: test.store)
        _ = try file.allocateIdents(for: Array(repeating: nil, count: clients), at: 1000)
        return (file, test)
    }

    private static func changeset(_ build: (inout ChangesetWriter) -> Void) -> [UInt8] {
        var builder = ChangesetWriter()
        build(&builder)
        return builder.bytes
    }

    @Test func aChangesetWithoutConflictIsLoggedAsItCame() throws {
        let (file, _) = try Self.file(clients: 1)
        let bytes = ChangesetWriter.setting(1, to: 1)
        try file.integrate(Upload([bytes, bytes], from: 5, timestamp: 77), from: 2)
        let log = try file.log()
        #expect(log.map(\.changeset) == [bytes, bytes])
        #expect(log.map(\.clientVersion) == [5, 6])
        #expect(log.map(\.timestamp) == [77, 77])
        #expect(log.map(\.cumulativeSize) == [UInt64(bytes.count), UInt64(2 * bytes.count)])
        #expect(try file.clientFile(2)?.uploadCursor == UploadCursor(clientVersion: 6, serverVersion: 0))
    }

    @Test func aChangesetThatTransformsToNothingStillMakesAVersion() throws {
        let (file, _) = try Self.file(clients: 2)
        try file.integrate(Upload([ChangesetWriter.setting(1, to: 1)], timestamp: 9), from: 2)
        try file.integrate(Upload([ChangesetWriter.setting(1, to: 2)], timestamp: 8), from: 3)
        #expect(try file.log().map(\.changeset.isEmpty) == [false, true])
        let batch = try file.downloads(for: 2).download(after: DownloadCursor(), byteBudget: .max)
        #expect(batch.changesets.isEmpty)
        #expect(batch.progress.cursor == DownloadCursor(serverVersion: 2, clientVersion: 1))
        #expect(try file.reciprocals(of: 3).isEmpty)
    }

    @Test func aLogEntryThatLosesIsKeptAsAnEmptyReciprocalChangeset() throws {
        let (file, _) = try Self.file(clients: 2)
        try file.integrate(Upload([ChangesetWriter.setting(1, to: 1)], timestamp: 8), from: 2)
        try file.integrate(Upload([ChangesetWriter.setting(1, to: 2)], timestamp: 9), from: 3)
        #expect(try file.reciprocals(of: 3) == [ReciprocalChangeset(version: 1, changeset: [])])
        // The empty form takes part in the next merge: the new value, though older, meets nothing any more.
        try file.integrate(Upload([ChangesetWriter.setting(1, to: 3)], from: 2, timestamp: 7), from: 3)
        #expect(try file.log().map(\.changeset).last == ChangesetWriter.setting(1, to: 3))
        // It is not looked at where nothing of the log entry is met.
        try file.enqueue(Upload([ChangesetWriter.setting(2, to: 3)], from: 3), from: 3)
        #expect(try file.integrate(at: 1000).entriesVisited == 0)
    }

    @Test func progressAloneMovesTheCursorAndDropsReciprocalChangesets() throws {
        let (file, _) = try Self.file(clients: 2)
        try file.integrate(Upload([ChangesetWriter.setting(1, to: 1)], timestamp: 8), from: 2)
        try file.integrate(Upload([ChangesetWriter.setting(1, to: 2)], timestamp: 9), from: 3)
        try file.enqueue(
            Upload(progress: UploadCursor(clientVersion: 4, serverVersion: 1), lockedVersion: 1), from: 3)
        let report = try file.integrate(at: 2000)
        #expect(report.outcomes == [ClientOutcome(ident: 3, newVersions: 0, refusal: nil)])
        #expect(!report.madeVersions)
        #expect(file.version == 2)
        let row = try #require(try file.clientFile(3))
        #expect(row.uploadCursor == UploadCursor(clientVersion: 4, serverVersion: 1))
        #expect(row.lockedVersion == 1)
        #expect(row.lastSeen == 2000)
        #expect(try file.reciprocals(of: 3).isEmpty)
        // Not greater in its client version: its server version is ignored.
        try file.integrate(Upload(progress: UploadCursor(clientVersion: 4, serverVersion: 2)), from: 3)
        #expect(try file.clientFile(3)?.uploadCursor.serverVersion == 1)
    }

    @Test func laterRunsMeetWhatEarlierRunsLeft() throws {
        let (file, _) = try Self.file(clients: 3)
        let insert = { (value: Int64) in
            Self.changeset { $0.listInsert(1, at: 0, value: value, size: 0) }
        }
        try file.integrate(Upload([insert(1)], timestamp: 5), from: 2)
        try file.integrate(Upload([ChangesetWriter.setting(9, to: 9)], timestamp: 5), from: 4)
        // Two runs, one on base 0 and one on base 1, in one message.
        var upload = Upload([insert(2)], from: 1, timestamp: 6)
        let second = Self.changeset { $0.listErase(1, at: 1, size: 2) }
        upload.changesets += Upload([second], from: 2, base: 1, timestamp: 6).changesets
        upload.progress = UploadCursor(clientVersion: 2, serverVersion: 1)
        #expect(try file.integrate(upload, from: 3) == nil)
        let log = try file.log().map(\.changeset)
        #expect(log[2] == Self.changeset { $0.listInsert(1, at: 1, value: 2, size: 1) })
        #expect(log[3] == second)
        #expect(try file.reciprocals(of: 3).isEmpty)
    }

    @Test(arguments: StoreKind.allCases) func severalClientsShareATransactionInAscendingOrder(kind: StoreKind) throws {
        let (file, store) = try Self.file(clients: 4, kind)
        defer { _ = store }
        try file.enqueue(Upload([ChangesetWriter.setting(1, to: 4)], timestamp: 4), from: 5)
        try file.enqueue(Upload([ChangesetWriter.setting(1, to: 1)], timestamp: 1), from: 2)
        try file.enqueue(Upload([ChangesetWriter.setting(1, to: 3)], timestamp: 3), from: 4)
        try file.enqueue(Upload([[0xff, 0xff]], timestamp: 2), from: 3)
        try file.enqueue(Upload([ChangesetWriter.setting(2, to: 1)], from: 2, timestamp: 1), from: 2)
        let report = try file.integrate(at: 1000)
        #expect(report.outcomes.map(\.ident) == [2, 3, 4, 5])
        #expect(report.outcomes.map(\.newVersions) == [2, 0, 1, 1])
        #expect(report.outcomes.map(\.refusal?.code) == [nil, .badChangeset, nil, nil])
        #expect(try file.log().map(\.origin) == [2, 2, 4, 5])
        #expect(try file.clientFile(3)?.uploadCursor == UploadCursor())
        #expect(try file.reciprocals(of: 4).map(\.version) == [1])
        #expect(try file.reciprocals(of: 5).map(\.version) == [1, 3])
    }

    @Test func refusalsAreOfTheirClientAlone() throws {
        let (file, _) = try Self.file(clients: 2)
        var foreign = Upload([[0xff], []])
        foreign.changesets[1].origin = 3
        #expect(try file.integrate(foreign, from: 2)?.code == .badOriginFileIdent)
        let size = { (size: Int) in Self.changeset { $0.listInsert(1, at: 0, value: 1, size: size) } }
        try file.integrate(Upload([size(0)]), from: 3)
        #expect(try file.integrate(Upload([size(5)]), from: 2)?.code == .badChangeset)
        #expect(try file.integrate(Upload([[0xff]]), from: 2)?.code == .badChangeset)
        #expect(try file.integrate(Upload([[]]), from: 9)?.code == .badClientFileIdent)
        #expect(try file.integrate(Upload([[]]), from: 1)?.code == .badClientFileIdent)
        #expect(try file.integrate(Upload([[]], base: 9), from: 2)?.code == .badServerVersion)
        // A base may not go back before the progress either.
        try file.integrate(Upload(progress: UploadCursor(clientVersion: 2, serverVersion: 1)), from: 3)
        #expect(try file.integrate(Upload([[]], from: 3), from: 3)?.code == .badServerVersion)
        #expect(try file.log().count == 1)
        #expect(try file.clientFile(2)?.uploadCursor == UploadCursor())
    }

    /// Rule R8: the erasure of a class spreads to link columns, and to values in them that never name the class.
    @Test func theErasureOfAClassMeetsEveryEntry() throws {
        let (file, _) = try Self.file(clients: 2)
        try file.integrate(
            Upload([
                Self.changeset { $0.addColumn("link", linkTo: "U") }, ChangesetWriter.setting(1, to: 1),
                Self.changeset { $0.setNull(1, field: "link") },
            ]), from: 2)
        let erasure = Self.changeset { $0.eraseTable("U") }
        #expect(try file.integrate(Upload([erasure]), from: 3) == nil)
        let expected = Self.changeset {
            $0.eraseColumn("link")
            $0.eraseTable("U")
        }
        let kinds = try [file.log()[3].changeset, expected].map { bytes in
            var arena = ChangesetArena()
            let index = try arena.decode(bytes, version: 1, tag: OriginTag(timestamp: 0, ident: 1))
            return arena.instructions(of: index).map(\.kind)
        }
        #expect(kinds[0] == kinds[1])
        #expect(
            try file.reciprocals(of: 3) == [
                ReciprocalChangeset(version: 1, changeset: []), ReciprocalChangeset(version: 3, changeset: []),
            ])
    }

    /// An upload that meets everything, a few bytes perhaps, cannot make the server decode a log of any size.
    @Test(arguments: StoreKind.allCases) func whatAnUploadIsMergedWithIsBounded(kind: StoreKind) throws {
        let (file, store) = try Self.file(clients: 2, kind)
        defer { _ = store }
        let ours = (1...10).map { ChangesetWriter.setting($0, to: 1) }
        try file.integrate(Upload(ours), from: 2)
        let erasure = Upload([Self.changeset { $0.eraseTable("U") }])
        file.mergeOptions.localBytesMax = 500
        #expect(try file.integrate(erasure, from: 3)?.code == .badChangeset)
        #expect(file.version == 10)
        #expect(try file.integrate(Upload([ChangesetWriter.setting(1, to: 2)]), from: 3) == nil)
        file.mergeOptions.localBytesMax = 1 << 20
        #expect(try file.integrate(Upload(erasure.changesets.map(\.changeset), from: 2), from: 3) == nil)
    }

    /// The cost of an upload follows what it can meet, not the length of the log.
    @Test(arguments: StoreKind.allCases) func onlyEntriesThatCanMeetTheUploadAreVisited(kind: StoreKind) throws {
        let (file, store) = try Self.file(clients: 2, kind)
        defer { _ = store }
        let others = (1...1000).map { ChangesetWriter.setting(Int64($0 % 100), to: 1) }
        try file.integrate(Upload(others), from: 2)
        func visited(_ changesets: [[UInt8]], from first: ClientVersion, base: ServerVersion) throws -> Int {
            try file.enqueue(Upload(changesets, from: first, base: base, timestamp: 1), from: 3)
            return try file.integrate(at: 1000).entriesVisited
        }
        #expect(try visited([ChangesetWriter.setting(500, to: 1)], from: 1, base: 0) == 0)
        #expect(try visited([ChangesetWriter.setting(7, to: 1)], from: 2, base: 0) == 10)
        #expect(
            try visited([ChangesetWriter.setting(8, to: 1), ChangesetWriter.setting(8, to: 2)], from: 3, base: 500)
                == 5)
        #expect(try visited([ChangesetWriter.setting(8, to: 1)], from: 5, base: 1000) == 0)
        let table = Self.changeset { $0.addTable("Fresh") }
        #expect(try visited([table], from: 6, base: 1000) == 0)
    }

    /// Invariant I-16.
    @Test(arguments: 1...50 as ClosedRange<UInt64>) func anySplitAndAnyReconnectGivesTheSameLog(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let (whole, _) = try Self.file(clients: 2), (split, _) = try Self.file(clients: 2)
        let theirs = Self.changeset { $0.listInsert(1, at: 0, value: 0, size: 0) }
        for file in [whole, split] { try file.integrate(Upload([theirs], timestamp: 50), from: 2) }
        var stream = Upload(progress: UploadCursor())
        var base: ServerVersion = 0
        for version in 1...30 as ClosedRange<UInt64> {
            if base == 0, Int.random(in: 0..<20, using: &random) == 0 { base = 1 }
            let size = Int(version - 1 + base.rawValue)
            let changeset = Self.changeset {
                $0.listInsert(1, at: Int.random(in: 0...size, using: &random), value: Int64(version), size: size)
            }
            let time = ChangesetTime(40 + version)
            stream.changesets +=
                Upload([changeset], from: ClientVersion(version), base: base, timestamp: time).changesets
        }
        stream.progress = UploadCursor(clientVersion: 30, serverVersion: base)
        #expect(try whole.integrate(stream, from: 3) == nil)

        _ = try split.downloads(for: 3).download(after: DownloadCursor(), byteBudget: .max)
        let row = try #require(try split.clientFile(3))
        let request = IdentRequest(
            file: SaltedFileID(ident: 3, salt: row.salt), download: DownloadCursor(serverVersion: 1),
            latest: SaltedVersion(version: 1, salt: split.head.versionSalt))
        var session = try split.identify(request)
        var sent = 0
        while try split.clientFile(3)?.uploadCursor.clientVersion != 30 {
            let end = min(30, sent + Int.random(in: 1...7, using: &random))
            var upload = stream
            upload.changesets = Array(stream.changesets[sent..<end])
            upload.progress = upload.changesets.last?.cursor ?? UploadCursor()
            if let rest = try session.accept(upload) { try split.enqueue(rest, from: 3) }
            sent = end
            if Bool.random(using: &random) || sent == 30 { _ = try split.integrate(at: 1000) }
            if Int.random(in: 0..<4, using: &random) == 0 {
                session = try split.identify(request)
                sent = Int.random(in: 0...sent, using: &random)
            }
        }
        let log = { (file: SyncedFile) in
            try file.log().map { entry in
                var entry = entry
                entry.salt = 0
                return entry
            }
        }
        #expect(try log(split) == log(whole))
        let forms = { (file: SyncedFile) in try file.reciprocals(of: 3).filter { $0.version > base } }
        #expect(try forms(split) == forms(whole))
    }

    /// Invariant I-34: a file that took over the ident of a fresh download.
    @Test(arguments: StoreKind.allCases) func aResetClientGoesOnWithTheIdentOfItsFreshFile(kind: StoreKind) throws {
        let (file, store) = try Self.file(clients: 1, kind)
        defer { _ = store }
        try file.integrate(Upload([ChangesetWriter.setting(1, to: 1)]), from: 2)
        let fresh = try file.allocateIdent()
        let batch = try file.downloads(for: fresh.ident).download(after: DownloadCursor(), byteBudget: .max)
        var session = try file.identify(
            IdentRequest(
                file: fresh, download: DownloadCursor(serverVersion: batch.progress.cursor.serverVersion),
                latest: batch.progress.latest))
        let recovered = Upload([ChangesetWriter.setting(2, to: 2)], from: 4711, base: 1)
        try file.enqueue(try #require(try session.accept(recovered)), from: fresh.ident)
        #expect(try file.integrate(at: 1).outcomes == [ClientOutcome(ident: 3, newVersions: 1, refusal: nil)])
    }

    @Test func uploadsOfSeveralFilesShareOneTransaction() throws {
        let store = InMemoryStore()
        let files = try (1...3).map { number in
            let file = try SyncedFile.open("/\(number)", in: store)
            _ = try file.allocateIdent()
            try file.enqueue(Upload([ChangesetWriter.setting(1, to: Int64(number))]), from: 2)
            return file
        }
        let reports = try SyncedFile.integrate(files, at: 1)
        #expect(reports.map(\.madeVersions) == [true, true, true])
        #expect(files.map(\.version) == [1, 1, 1])
        #expect(try SyncedFile.integrate(files, at: 1).map(\.madeVersions) == [false, false, false])
        #expect(try SyncedFile.integrate([], at: 1).isEmpty)
    }
}
