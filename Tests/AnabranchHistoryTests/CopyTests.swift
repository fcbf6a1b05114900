import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// New client files whose clients come with a copy of another client's file (`Spec/BoundedHistory.md`, section 4, rows
/// 9 to 13).
@Suite struct CopyTests {
    /// A copy of a client's file, or of one that was made elsewhere.
    private static func copy(of client: MemoryClient, in file: SyncedFile) throws -> MemoryClient {
        var copy = try client.copy(as: file.allocateIdent())
        copy.startSession()
        return copy
    }

    /// Sends the copy what it lacks, in DOWNLOADs of one entry and sessions of one DOWNLOAD.
    private static func synchronize(_ client: inout MemoryClient, with file: SyncedFile) throws {
        repeat {
            client.startSession()
            let session = try file.identify(client.identRequest)
            #expect(session.download == client.download)
            try client.upload(to: file)
            let source = file.downloads(for: client.ident)
            try client.integrate(source.download(after: client.download, byteBudget: 0))
        } while client.download.serverVersion < file.version || !client.isAcknowledged
    }

    /// At each version of the log, from its base to its end; and copies of copies.
    @Test(arguments: StoreKind.allCases) func aCopyGoesOnInTheLog(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind, writes: 6), file = fixture.file
        var original = MemoryClient(try file.allocateIdent()), copies: [MemoryClient] = []
        while original.download.serverVersion < file.version {
            let source = file.downloads(for: original.ident)
            try original.integrate(source.download(after: original.download, byteBudget: 0))
            copies.append(try Self.copy(of: original, in: file))
        }
        try fixture.write(3)
        for index in copies.indices {
            let cursor = copies[index].download
            try Self.synchronize(&copies[index], with: file)
            #expect(try file.clientFile(copies[index].ident)?.lineage == .copy(cursor.serverVersion))
            #expect(try StateDigest(of: copies[index].state) == fixture.state(), "from \(cursor.serverVersion)")
            var second = try Self.copy(of: copies[index], in: file)
            try Self.synchronize(&second, with: file)
            #expect(try StateDigest(of: second.state) == fixture.state())
        }
        try fixture.test.verify()
    }

    /// Two copies, and their original, write before the copies connect for the first time.
    @Test(arguments: StoreKind.allCases) func whatIsWrittenBeforeIsUploadedOnce(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind, writes: 6), file = fixture.file
        var original = MemoryClient(try file.allocateIdent())
        try original.download(from: file)
        var copies = try (0..<2).map { _ in try Self.copy(of: original, in: file) }
        for index in copies.indices {
            try copies[index].write(at: 900) { try $0.create("T", key: .int(Int64(100 + index)), ["n": 1]) }
            try copies[index].commit(ChangesetWriter.setting(1, to: 70 + Int64(index)), at: 901)
        }
        try original.commit(ChangesetWriter.setting(1, to: 69), at: 902)
        try original.upload(to: file)
        try fixture.write(2)
        for index in copies.indices { try Self.synchronize(&copies[index], with: file) }
        for index in copies.indices { try Self.synchronize(&copies[index], with: file) }
        for copy in copies { #expect(try StateDigest(of: copy.state) == fixture.state()) }
        let own = try file.log().map(\.origin)
        for copy in copies { #expect(own.count { $0 == copy.ident } == 2) }
    }

    /// What is not uploaded yet would be uploaded twice.
    @Test func aFileWithLocalChangesIsNotCopied() throws {
        let fixture = try GenerationFixture(.memory), file = fixture.file
        var client = MemoryClient(try file.allocateIdent())
        try client.download(from: file)
        try client.commit(ChangesetWriter.setting(1, to: 1), at: 900)
        #expect(throws: (any Error).self) { try client.copy(as: file.allocateIdent()) }
    }

    /// On each entry of two living generations at the same time, where the log has the same versions.
    @Test(arguments: StoreKind.allCases) func aCopyGoesOnInItsGeneration(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind), file = fixture.file
        let first = try file.makeGeneration(endingAt: 30)
        // Somebody needs it.
        try file.change(file.allocateIdent().ident) { $0.lineage = .generation(first.version) }
        try fixture.write(5)
        let second = try file.makeGeneration(endingAt: 60)
        try fixture.write(5)
        for lineage in [Lineage.log, .generation(first.version), .generation(second.version)] {
            var original = MemoryClient(try file.allocateIdent())
            try file.change(original.ident) { $0.lineage = lineage }
            while original.download.serverVersion < file.version {
                let source = file.downloads(for: original.ident)
                try original.integrate(source.download(after: original.download, byteBudget: 0))
                var copy = try Self.copy(of: original, in: file)
                let cursor = copy.download.serverVersion
                _ = try file.identify(copy.identRequest)
                let isInside = if case .generation(let version) = lineage { cursor < version } else { false }
                #expect(try file.clientFile(copy.ident)?.lineage == (isInside ? lineage : .copy(cursor)))
                try Self.synchronize(&copy, with: file)
                #expect(try StateDigest(of: copy.state) == fixture.state(), "\(lineage) from \(cursor)")
            }
        }
        try fixture.test.verify()
    }

    /// The log begins after the cursor; the generation is gone; the salt is that of no version.
    @Test(arguments: StoreKind.allCases) func whatIsNotKnownAnyMoreIsReset(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind), file = fixture.file
        var old = MemoryClient(try file.allocateIdent()), inside = MemoryClient(try file.allocateIdent())
        try file.change(old.ident) { $0.lineage = .log }
        try old.integrate(file.downloads(for: old.ident).download(after: old.download, byteBudget: 0))
        let gone = try file.makeGeneration(endingAt: 1)
        try file.change(inside.ident) { $0.lineage = .generation(gone.version) }
        try inside.integrate(file.downloads(for: inside.ident).download(after: inside.download, byteBudget: 0))
        for client in [old, inside] { try file.expire(client.ident) }
        try fixture.write(9)
        _ = try fixture.trimmed()
        _ = try file.run(MaintenanceRound(HistoryPolicy(), at: 1000, expires: false, connected: []))
        #expect(try !file.generations().contains(gone))
        let current = try file.downloads(for: file.allocateIdent().ident).download(
            after: DownloadCursor(), byteBudget: .max)
        #expect(try code { _ = try file.identify(Self.copy(of: old, in: file).identRequest) } == .divergingHistories)
        #expect(try code { _ = try file.identify(Self.copy(of: inside, in: file).identRequest) } == .divergingHistories)
        var request = IdentRequest(
            file: try file.allocateIdent(), download: DownloadCursor(serverVersion: 1), latest: current.progress.latest)
        #expect(try code { _ = try file.identify(request) } == .clientFileExpired)
        request.download.serverVersion = file.version
        request.latest.salt.rawValue ^= 1
        #expect(try code { _ = try file.identify(request) } == .divergingHistories)
        request.latest.salt.rawValue ^= 1
        #expect(try code { _ = try file.identify(request) } == nil)
    }

    /// It keeps what follows its cursor, and nothing before it; when it has uploaded something it is like all others.
    @Test(arguments: StoreKind.allCases) func aCopyKeepsTheLogBehindItsCursor(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind), file = fixture.file
        var original = MemoryClient(try file.allocateIdent())
        try original.download(from: file)
        var copy = try Self.copy(of: original, in: file), cursor = copy.download.serverVersion
        try file.expire(original.ident)
        _ = try file.identify(copy.identRequest)
        try fixture.write(5)
        let generation = try fixture.trimmed()
        #expect(generation.version > cursor && file.head.baseVersion == cursor)
        try Self.synchronize(&copy, with: file)
        try copy.commit(ChangesetWriter.setting(2, to: 8), at: 900)
        try Self.synchronize(&copy, with: file)
        #expect(try file.clientFile(copy.ident)?.lineage == .log)
        cursor = copy.download.serverVersion
        try fixture.write(1)
        try Self.synchronize(&copy, with: file)
        #expect(try StateDigest(of: copy.state) == fixture.state())
        try fixture.test.verify()
    }

    /// Whoever has identified itself need not say again where it was: a crash right after the IDENT.
    @Test(arguments: [StoreKind.sqlite, .shards]) func thePlaceIsDurableWhenTheSessionBegins(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind)
        var original = MemoryClient(try fixture.file.allocateIdent())
        try original.download(from: fixture.file)
        let copy = try Self.copy(of: original, in: fixture.file)
        _ = try fixture.file.identify(copy.identRequest)
        try fixture.restart()
        #expect(try fixture.file.clientFile(copy.ident)?.lineage == .copy(copy.download.serverVersion))
        try fixture.test.verify()
    }
}
