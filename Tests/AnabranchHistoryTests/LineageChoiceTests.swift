import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// The table of IDENT, row by row, and what each mutation gets (`Spec/BoundedHistory.md`, section 4).
@Suite struct LineageChoiceTests {
    private static func refusal(
        of request: IdentRequest, in file: SyncedFile, _ change: (inout IdentRequest) -> Void = { _ in }
    ) throws -> HistoryError.Code? {
        var request = request
        change(&request)
        return try code { _ = try file.identify(request) }
    }

    private static func at(_ version: ServerVersion, _ file: SyncedFile, _ ident: SaltedFileID) throws -> IdentRequest {
        let stored = try file.read { view throws(HistoryError) in try view.salt(of: version) }
        let salt = version == file.head.baseVersion ? file.head.baseSalt : stored ?? 0
        return IdentRequest(
            file: ident, download: DownloadCursor(serverVersion: version),
            latest: SaltedVersion(version: version, salt: salt))
    }

    /// In the middle of a generation, with the newest version that the first DOWNLOAD named.
    private static func inside(
        _ version: ServerVersion, _ file: SyncedFile, _ ident: SaltedFileID, clientVersion: ClientVersion = 0
    ) -> IdentRequest {
        IdentRequest(
            file: ident, download: DownloadCursor(serverVersion: version, clientVersion: clientVersion),
            latest: SaltedVersion(version: file.version, salt: file.head.versionSalt))
    }

    // MARK: Rows 1 and 2: nothing was sent

    @Test(arguments: StoreKind.allCases) func whoComesToAnEmptyFileStaysUndecided(kind: StoreKind) throws {
        let test = try TestStore(kind), file = try SyncedFile.open(in: test.store, keepsState: true)
        let first = try file.allocateIdent(), second = try file.allocateIdent()
        let request = IdentRequest(file: first, download: DownloadCursor(), latest: SaltedVersion())
        #expect(try Self.refusal(of: request, in: file) == nil)
        #expect(try file.downloads(for: first.ident).download(after: DownloadCursor(), byteBudget: 9).changesets == [])
        try file.writeProgress()
        #expect(try file.clientFile(first.ident)?.lineage == Lineage.none)
        // Its first upload decides, in the very same commit; also where a generation is made right after it.
        try file.integrate(Upload([ChangesetWriter.schema]), from: first.ident)
        #expect(try file.clientFile(first.ident)?.lineage == .log)
        try file.makeGeneration()
        #expect(try Self.refusal(of: Self.inside(1, file, first, clientVersion: 1), in: file) == nil)
        // The other one is decided when there is something to be sent.
        let download = try file.downloads(for: second.ident).download(after: DownloadCursor(), byteBudget: 9)
        #expect(download.changesets.count == 1)
        #expect(try file.clientFile(second.ident)?.lineage != Lineage.none)
    }

    @Test(arguments: StoreKind.allCases) func whoBeginsGetsWhatIsShorter(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind, writes: 3), file = fixture.file
        let idents = try file.allocateIdents(for: [nil, nil, nil, nil], at: 1000)
        func lineage(_ index: Int) throws -> Lineage? {
            let request = IdentRequest(file: idents[index], download: DownloadCursor(), latest: SaltedVersion())
            #expect(try Self.refusal(of: request, in: file) == nil)
            try file.writeProgress()
            return try file.clientFile(idents[index].ident)?.lineage
        }
        #expect(try lineage(0) == .log)
        // The state is about as long as the log still.
        try file.makeGeneration(endingAt: .max)
        #expect(try lineage(1) == .log)
        try fixture.write(60)
        let generation = try file.makeGeneration(endingAt: .max)
        #expect(try lineage(2) == .generation(generation.version))
        // What was chosen stays.
        #expect(try lineage(0) == .log)
        // Without its beginning nobody gets the log.
        for ident in idents[...1] { try file.expire(ident.ident) }
        try file.trim(upTo: file.floor(upTo: generation.version))
        #expect(file.head.baseVersion > 0)
        #expect(try lineage(3) == .generation(generation.version))
    }

    @Test(arguments: StoreKind.allCases) func whoWasSentNothingHasNothing(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind), file = fixture.file
        let ident = try file.allocateIdent()
        let begun = IdentRequest(file: ident, download: DownloadCursor(), latest: SaltedVersion())
        let latest = SaltedVersion(version: file.version, salt: file.head.versionSalt)
        #expect(try Self.refusal(of: begun, in: file) { $0.download.clientVersion = 1 } == .badClientVersion)
        #expect(try Self.refusal(of: begun, in: file) { $0.latest.salt = 1 } == .divergingHistories)
        #expect(try Self.refusal(of: begun, in: file) == nil)
        let second = try file.allocateIdent()
        let told = IdentRequest(file: second, download: DownloadCursor(), latest: latest)
        #expect(try Self.refusal(of: told, in: file) { $0.latest.salt.rawValue ^= 1 } == .divergingHistories)
        #expect(try Self.refusal(of: told, in: file) == nil)
    }

    // MARK: Rows 3 to 5, 8: a generation

    @Test(arguments: StoreKind.allCases) func inAGenerationOnlyItsVersionsAreNamed(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind), file = fixture.file
        let generation = try fixture.trimmed(), ident = try file.allocateIdent()
        #expect(file.head.baseVersion > 0)
        try fixture.write(3)
        let begun = IdentRequest(file: ident, download: DownloadCursor(), latest: SaltedVersion())
        #expect(try Self.refusal(of: begun, in: file) == nil)
        try file.writeProgress()
        let count = ServerVersion(generation.entryCount)
        for version in (0...generation.version.rawValue).map(ServerVersion.init) {
            let isOne = version < count || version == generation.version
            let expected: HistoryError.Code? = isOne ? nil : .badServerVersion
            #expect(try Self.refusal(of: Self.inside(version, file, ident), in: file) == expected, "\(version)")
            guard isOne else { continue }
            // It has integrated nothing of its own up to there.
            let ahead = Self.inside(version, file, ident, clientVersion: 1)
            #expect(try Self.refusal(of: ahead, in: file) == .badClientVersion)
            try file.change(ident.ident) { $0.uploadCursor.clientVersion = 5 }
            #expect(try Self.refusal(of: ahead, in: file) == .divergingHistories)
            try file.change(ident.ident) { $0.uploadCursor.clientVersion = 0 }
        }
        // After it comes the log.
        for version in [generation.version + 1, file.version] {
            #expect(try Self.refusal(of: Self.at(version, file, ident), in: file) == nil)
            #expect(
                try Self.refusal(of: Self.at(version, file, ident), in: file) { $0.latest.salt.rawValue ^= 1 }
                    == .divergingHistories)
        }
        #expect(
            try Self.refusal(of: Self.inside(1, file, ident), in: file) {
                $0.latest = SaltedVersion(version: 1, salt: file.head.versionSalt)
            } == .divergingHistories)
    }

    /// A newer one may hold what the client has uploaded.
    @Test(arguments: StoreKind.allCases) func whoHasUploadedKeepsItsGeneration(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind), file = fixture.file, first = try fixture.trimmed()
        var client = MemoryClient(try file.allocateIdent())
        try client.commit(ChangesetWriter.schema, at: 1)
        try client.write(at: 1) { try $0.create("T", key: 77) }
        _ = try file.identify(client.identRequest)
        try client.upload(to: file)
        #expect(try file.clientFile(client.ident)?.lineage == .generation(first.version))
        try fixture.write(5)
        let second = try file.makeGeneration()
        #expect(second.version > first.version)
        client.startSession()
        _ = try file.identify(client.identRequest)
        try client.download(from: file)
        #expect(try file.clientFile(client.ident)?.lineage == .generation(first.version))
        #expect(try StateDigest(of: client.state) == fixture.state())
    }

    @Test(arguments: StoreKind.allCases) func whoseGenerationIsGoneHasToReset(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind), file = fixture.file, ident = try file.allocateIdent()
        try file.change(ident.ident) { $0.lineage = .generation(3) }
        for version in 0..<3 as Range<UInt64> {
            let request = Self.inside(ServerVersion(version), file, ident)
            #expect(try Self.refusal(of: request, in: file) == .clientFileExpired)
            let source = file.downloads(for: ident.ident)
            #expect(try code { _ = try source.download(after: request.download, byteBudget: 9) } == .clientFileExpired)
        }
        let upload = Upload([ChangesetWriter.setting(1, to: 1)], base: 1)
        #expect(try file.integrate(upload, from: ident.ident)?.code == .clientFileExpired)
    }

    // MARK: Rows 6, 7, 10: the log, and nothing

    @Test(arguments: StoreKind.allCases) func whoHasTheLogGoesOnAboveItsBase(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind), file = fixture.file
        _ = try fixture.trimmed()
        let base = file.head.baseVersion, ident = try file.allocateIdent()
        try file.change(ident.ident) {
            ($0.lineage, $0.uploadCursor.serverVersion, $0.lockedVersion) = (.log, 0, file.version)
        }
        for version in 0...file.version.rawValue {
            let request = Self.inside(ServerVersion(version), file, ident)
            #expect(
                try Self.refusal(of: request, in: file) == (version < base.rawValue ? .clientFileExpired : nil))
        }
        let request = try Self.at(base, file, ident)
        #expect(try Self.refusal(of: request, in: file) == nil)
        #expect(try Self.refusal(of: request, in: file) { $0.latest.salt.rawValue ^= 1 } == .divergingHistories)
        try file.expire(ident.ident)
        #expect(try Self.refusal(of: request, in: file) == .clientFileExpired)
    }

    // MARK: What is durable before

    /// A crash right after the first DOWNLOAD, or before it.
    @Test(arguments: [StoreKind.sqlite, .shards]) func theChoiceIsDurableBeforeAnythingIsSent(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind), first = try fixture.trimmed()
        var client = MemoryClient(try fixture.file.allocateIdent())
        _ = try fixture.file.identify(client.identRequest)
        #expect(try fixture.file.clientFile(client.ident)?.lineage == Lineage.none)
        try fixture.restart()
        _ = try fixture.file.identify(client.identRequest)
        let source = fixture.file.downloads(for: client.ident)
        try client.integrate(try source.download(after: client.download, byteBudget: 0))
        try fixture.restart()
        #expect(try fixture.file.clientFile(client.ident)?.lineage == .generation(first.version))
        _ = try fixture.file.identify(client.identRequest)
        try client.download(from: fixture.file)
        #expect(try StateDigest(of: client.state) == fixture.state())
    }
}
