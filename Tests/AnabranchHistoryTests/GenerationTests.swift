import AnabranchCore
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchHistory

/// Bootstrap generations in stores: how one is made, seen and dropped (`Spec/BoundedHistory.md`, section 2).
@Suite struct GenerationTests {
    /// Random states with links that lead nowhere, cut anywhere.
    @Test(arguments: [StoreKind.memory, .sqlite]) func aGenerationMakesTheStateAgain(kind: StoreKind) throws {
        for seed in 1...12 as ClosedRange<UInt64> {
            var random = SeededRandom(seed: seed)
            let test = try TestStore(kind), world = RandomWorld(&random)
            let file = try SyncedFile.open(in: test.store, keepsState: true)
            try file.write(at: 1) { try RandomWorld.begin($0) }
            for bytes in [1, 30, 300, 3_000, .max] {
                for _ in 0..<8 {
                    let edit = random.next()
                    // Not every edit makes sense.
                    _ = try? file.write(at: 2) { try world.edit($0, seed: edit) }
                }
                let expected = try file.withState { try StateDigest(of: $0) }
                let generation = try file.makeGeneration(endingAt: bytes)
                #expect(try file.state(madeBy: generation) == expected, "seed \(seed), \(bytes) bytes")
                #expect(try file.withState { try StateDigest(of: $0) } == expected)
                try expectForm(of: generation, in: file)
            }
            try test.verify()
        }
    }

    private func expectForm(of generation: Generation, in file: SyncedFile) throws {
        let entries = try file.entries(of: generation), count = UInt64(entries.count)
        #expect(generation.entryCount == count && count <= generation.version.rawValue)
        let versions = (1..<count).map(ServerVersion.init) + [generation.version]
        #expect(entries.map(\.version) == versions)
        #expect(entries.reduce(0) { $0 + UInt64($1.changeset.count) } == generation.bytes)
        for entry in entries {
            #expect(entry.originOnWire == 1 && entry.timestamp == 0 && entry.clientVersion == 0)
        }
        #expect(entries.last?.cumulativeSize == generation.cumulativeSize)
    }

    /// No client sees the versions that are missing.
    @Test(arguments: StoreKind.allCases) func aShortLogGetsEmptyEntries(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind, writes: 0), before = fixture.file.version
        #expect(before == 2)
        let generation = try fixture.file.makeGeneration(endingAt: 1)
        #expect(generation.entryCount > before.rawValue && generation.version > before)
        #expect(try fixture.file.log(after: before).allSatisfy { $0.changeset.isEmpty && $0.originOnWire == 1 })
        #expect(try fixture.file.state(madeBy: generation) == fixture.state())
        let download = try fixture.file.downloads(for: fixture.writer.ident)
            .download(after: fixture.writer.download, byteBudget: .max)
        #expect(download.changesets.isEmpty && download.progress.cursor.serverVersion == fixture.file.version)
        try fixture.write(3)
        try fixture.restart()
        #expect(try fixture.state() == StateDigest(of: fixture.writer.state))
        try fixture.test.verify()
    }

    /// It is that of the moment when it was begun, though the file is written meanwhile.
    @Test(arguments: StoreKind.allCases) func aGenerationGetsVisibleByOneCommit(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind), file = fixture.file
        let version = file.version, expected = try fixture.state()
        var round = SyncedFile.generatingRound(), commitCount = 0
        while round.report.generationsMade == 0 {
            #expect(try file.generations().isEmpty)
            guard let commit = try file.step(&round) else { continue }
            try file.commit(commit)
            commitCount += 1
            try fixture.write(1)
        }
        let generation = try #require(try file.generations().first)
        #expect(generation.version == version && commitCount == Int(generation.entryCount) + 1)
        #expect(generation.entryCount > 3)
        #expect(try file.state(madeBy: generation) == expected && fixture.state() != expected)
        try fixture.test.verify()
    }

    @Test(arguments: [StoreKind.sqlite, .shards]) func whatACrashLeavesIsOfNoUseAndGoes(kind: StoreKind) throws {
        for steps in 1...9 {
            let fixture = try GenerationFixture(kind)
            var round = SyncedFile.generatingRound(endingAt: 1)
            for _ in 0..<steps { if let commit = try fixture.file.step(&round) { try fixture.file.commit(commit) } }
            round = SyncedFile.generatingRound(endingAt: 1)
            try fixture.restart()
            #expect(try fixture.file.generations().isEmpty)
            try fixture.write(2)
            let generation = try fixture.file.makeGeneration()
            #expect(try fixture.file.state(madeBy: generation) == fixture.state())
            let leftover = try fixture.file.read { view throws(HistoryError) in try view.leftoverGeneration() }
            #expect(leftover == nil)
            try fixture.restart()
            #expect(try fixture.file.generations() == [generation])
            try fixture.test.verify()
        }
    }

    @Test(arguments: StoreKind.allCases) func aGenerationGoesWhenNobodyNeedsIt(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind), file = fixture.file
        let first = try file.makeGeneration()
        var reader = MemoryClient(try file.allocateIdent())
        try file.change(reader.ident) { $0.lineage = .generation(first.version) }
        try reader.download(from: file)
        try fixture.write(5)
        let second = try file.makeGeneration()
        #expect(try file.generations() == [first, second])
        // It has everything, but may send what it has made in the middle.
        try reader.download(from: file)
        var removal = Commit(file: file.id, lease: file.lease, head: file.head)
        removal.generation = .remove(first.version)
        #expect(try code { try fixture.test.store.commit([removal]) } == .storeFailed)
        #expect(try file.run(SyncedFile.generatingRound()).isEmpty)
        // Once it says that it goes on from there, it needs the log.
        try reader.commit(ChangesetWriter.setting(1, to: -1), at: 99)
        try reader.upload(to: file)
        #expect(try file.clientFile(reader.ident)?.lineage == .log)
        #expect(try file.run(SyncedFile.generatingRound()).generationsDropped == 2)
        // The newest one stays where the log has no beginning.
        let newest = try #require(try file.generations().last)
        for ident in [fixture.writer.ident, reader.ident] {
            try file.change(ident) { ($0.uploadCursor.serverVersion, $0.lockedVersion) = (file.version, file.version) }
        }
        try file.trim(upTo: newest.version - 1)
        removal = Commit(file: file.id, lease: file.lease, head: file.head)
        removal.generation = .remove(newest.version)
        #expect(try code { try fixture.test.store.commit([removal]) } == .storeFailed)
        try fixture.test.verify()
    }

    @Test(arguments: StoreKind.allCases) func aRelayMakesNone(kind: StoreKind) throws {
        let test = try TestStore(kind), file = try SyncedFile.open(in: test.store, keepsState: false)
        let ident = try file.allocateIdent().ident
        try file.integrate(Upload([ChangesetWriter.schema, ChangesetWriter.setting(1, to: 1)]), from: ident)
        #expect(try file.run(SyncedFile.generatingRound()) == MaintenanceReport())
        #expect(try file.generations().isEmpty)
    }

    /// By what was written since the newest one, and by its size.
    @Test func oneIsDueWhenMuchWasWritten() throws {
        let fixture = try GenerationFixture(.memory), file = fixture.file
        var policy = HistoryPolicy()
        #expect(policy.generationBytes == 4 << 20 && policy.generationRatio == 2)
        #expect(try !file.isGenerationDue(policy))
        policy.generationBytes = file.head.cumulativeSize
        #expect(try !file.isGenerationDue(policy))
        policy.generationBytes -= 1
        #expect(try file.isGenerationDue(policy))
        let generation = try file.makeGeneration()
        policy.generationBytes = 0
        #expect(try !file.isGenerationDue(policy))
        try fixture.write(4)
        let written = file.head.cumulativeSize - generation.cumulativeSize
        policy.generationRatio = Double(written) / Double(generation.bytes)
        #expect(try !file.isGenerationDue(policy))
        policy.generationRatio *= 0.99
        #expect(try file.isGenerationDue(policy))
    }

    /// Who begins with the log when a round has looked at all client files keeps it, and the round goes on.
    @Test(arguments: StoreKind.allCases) func whoBeginsInTheMiddleOfARoundKeepsTheLog(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind, writes: 5), file = fixture.file
        try file.makeGeneration(endingAt: .max)
        try fixture.write(1)
        var round = MaintenanceRound(HistoryPolicy(), at: 1000, expires: false, connected: []), hasBegun = false
        while !round.isDone {
            if case .trim = round.stage, !hasBegun {
                let ident = try file.allocateIdent().ident
                _ = try file.downloads(for: ident).download(after: DownloadCursor(), byteBudget: 0)
                #expect(try file.clientFile(ident)?.lineage == .log)
                hasBegun = true
            }
            if let commit = try file.step(&round) { try file.commit(commit) }
        }
        #expect(hasBegun && round.report.trimmedEntries == 0)
        try fixture.test.verify()
    }

    /// With a generation, what nobody needs goes by itself.
    @Test(arguments: StoreKind.allCases) func maintenanceTrimsUpToTheNewestGeneration(kind: StoreKind) throws {
        let fixture = try GenerationFixture(kind), file = fixture.file
        let generation = try file.makeGeneration()
        try fixture.write(5)
        let report = try file.maintain(at: 1000, HistoryPolicy())
        #expect(report.trimmedEntries == generation.version.rawValue && report.lowestPin == nil)
        #expect(file.head.baseVersion == generation.version)
        let status = try file.historyStatus()
        #expect(status.generations == [generation] && status.generationVersion == generation.version)
        var fresh = MemoryClient(try file.allocateIdent())
        try fresh.download(from: file)
        #expect(try StateDigest(of: fresh.state) == fixture.state())
        try fixture.test.verify()
    }
}
