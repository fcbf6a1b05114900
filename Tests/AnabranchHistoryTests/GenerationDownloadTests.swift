import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// Downloads out of a generation, and uploads from within it (`Spec/BoundedHistory.md`, sections 2 and 5).
@Suite struct GenerationDownloadTests {
    /// One entry in each DOWNLOAD, and a new session for each.
    @Test(arguments: StoreKind.allCases) func aFreshClientIsResumedAtEachEntry(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind), file = fixture.file, generation = try fixture.trimmed()
        try fixture.write(4)
        var client = MemoryClient(try file.allocateIdent()), versions: [ServerVersion] = []
        var left = generation.bytes + file.head.cumulativeSize - generation.cumulativeSize
        while client.download.serverVersion < file.version {
            let session = try file.identify(client.identRequest)
            client.startSession()
            let download = try file.downloads(for: client.ident).download(after: session.download, byteBudget: 0)
            let entry = try #require(download.changesets.first), progress = download.progress
            #expect(download.changesets.count == 1 && entry.cursor == progress.cursor)
            #expect(progress.cursor.clientVersion == 0)
            let isInside = progress.cursor.serverVersion < generation.version, salt = file.head.versionSalt
            let told = isInside ? salt.within(generation.version) : salt
            #expect(progress.latest == SaltedVersion(version: file.version, salt: told))
            left -= UInt64(entry.changeset.count)
            #expect(progress.downloadableBytes == left)
            if entry.cursor.serverVersion <= generation.version {
                #expect(entry.tag == OriginTag(timestamp: 0, ident: 1))
            }
            versions.append(entry.cursor.serverVersion)
            try client.integrate(download)
        }
        let expected = (1..<generation.entryCount).map(ServerVersion.init) + [generation.version]
        #expect(versions.prefix(expected.count) == expected[...] && versions.count == expected.count + 4 && left == 0)
        #expect(try StateDigest(of: client.state) == fixture.state())
        try fixture.test.verify()
    }

    /// The end of the generation and the log after it fit into one DOWNLOAD.
    @Test(arguments: StoreKind.allCases) func oneDownloadCanHoldAllOfIt(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind), file = fixture.file, generation = try fixture.trimmed()
        try fixture.write(4)
        var client = MemoryClient(try file.allocateIdent())
        var source = file.downloads(for: client.ident)
        // However far apart the versions of its last two entries are.
        source.versionsMax = 1
        let download = try source.download(after: client.download, byteBudget: .max)
        #expect(download.changesets.count == Int(generation.entryCount) + 1)
        #expect(download.progress.cursor.serverVersion == generation.version + 1)
        try client.integrate(download)
        try client.download(from: file)
        #expect(try StateDigest(of: client.state) == fixture.state())
    }

    /// Equal cursors, three sequences.
    @Test(arguments: StoreKind.allCases) func generationsAreNotMixed(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind), file = fixture.file
        let first = try file.makeGeneration(endingAt: 30)
        var clients = try (0..<3).map { _ in MemoryClient(try file.allocateIdent()) }
        try file.change(clients[0].ident) { $0.lineage = .log }
        try file.change(clients[1].ident) { $0.lineage = .generation(first.version) }
        try fixture.write(5)
        let second = try file.makeGeneration(endingAt: 60)
        try file.change(clients[2].ident) { $0.lineage = .generation(second.version) }
        #expect(try file.generations() == [first, second])
        while clients.contains(where: { $0.download.serverVersion < file.version }) {
            for index in clients.indices {
                _ = try file.identify(clients[index].identRequest)
                let source = file.downloads(for: clients[index].ident)
                let download = try source.download(after: clients[index].download, byteBudget: 0)
                let alone = try SyncedFile.alone(file, clients[index])
                #expect(download == alone)
                try clients[index].integrate(download)
            }
        }
        for client in clients { #expect(try StateDigest(of: client.state) == fixture.state()) }
    }

    /// On each of its entries, before it, and after it; merged with exactly what follows there.
    @Test(arguments: StoreKind.allCases) func changesAreUploadedFromWithin(kind: StoreKind) throws {
        for position in 0...12 {
            let fixture = try GenerationFixture(kind), file = fixture.file, generation = try fixture.trimmed()
            try fixture.write(2)
            var client = MemoryClient(try file.allocateIdent())
            _ = try file.identify(client.identRequest)
            try client.commit(ChangesetWriter.schema, at: 500)
            try client.write(at: 500) { tx in
                try tx.create("T", key: 2, ["n": -2])
                try tx.create("T", key: 88, ["n": -88])
            }
            for step in 0..<12 {
                if step == position {
                    if try client.state.read({ try $0.object("T", key: 3) }) != nil {
                        try client.commit(ChangesetWriter.setting(3, to: -3), at: 501)
                    }
                    try client.upload(to: file)
                }
                let source = file.downloads(for: client.ident)
                try client.integrate(try source.download(after: client.download, byteBudget: 0))
            }
            while !client.isAcknowledged || client.download.serverVersion < file.version {
                try client.upload(to: file)
                try client.download(from: file)
                let source = file.downloads(for: client.ident)
                try client.integrate(try source.download(after: client.download, byteBudget: .max))
            }
            #expect(try StateDigest(of: client.state) == fixture.state(), "at \(position)")
            try fixture.write(1)
            #expect(try StateDigest(of: fixture.writer.state) == fixture.state(), "at \(position)")
            #expect(generation.entryCount > 5)
            try fixture.test.verify()
        }
    }

    @Test(arguments: StoreKind.allCases) func aBaseThatTheGenerationLacksIsRefused(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind), file = fixture.file, generation = try fixture.trimmed()
        let ident = try file.allocateIdent().ident, count = generation.entryCount
        let between = ServerVersion(count)
        #expect(between < generation.version)
        let changeset = ChangesetWriter.setting(1, to: 1)
        #expect(try file.integrate(Upload([changeset], base: between), from: ident)?.code == .badServerVersion)
        #expect(try file.integrate(Upload([changeset], base: between - 1), from: ident) == nil)
    }

    /// The reciprocal changesets of synthetic entries go with their generation.
    @Test(arguments: StoreKind.allCases) func theFormsOfItsEntriesAreKeptForTheClient(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind), file = fixture.file, generation = try fixture.trimmed()
        var client = MemoryClient(try file.allocateIdent())
        _ = try file.identify(client.identRequest)
        try client.commit(ChangesetWriter.schema, at: 500)
        try client.write(at: 500) { try $0.create("T", key: 2, ["n": -2]) }
        try client.upload(to: file)
        let forms = try file.reciprocals(of: client.ident).map(\.version)
        #expect(!forms.isEmpty && forms.allSatisfy(generation.has))
        try client.download(from: file)
        try client.commit(ChangesetWriter.setting(2, to: 5), at: 501)
        try client.upload(to: file)
        #expect(try file.reciprocals(of: client.ident).isEmpty)
        #expect(try file.clientFile(client.ident)?.lineage == .log)
        #expect(try StateDigest(of: client.state) == fixture.state())
        try fixture.test.verify()
    }
}

extension SyncedFile {
    /// The downloads of the client where nobody else has asked.
    fileprivate static func alone(_ file: SyncedFile, _ client: MemoryClient) throws -> Download {
        file.releaseScans()
        return try file.downloads(for: client.ident).download(after: client.download, byteBudget: 0)
    }
}
