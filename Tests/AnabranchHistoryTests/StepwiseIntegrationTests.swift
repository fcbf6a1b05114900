import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// An integration that is made in steps, and what happens to the file in between (`Spec/History.md`, section 6.1).
@Suite struct StepwiseIntegrationTests {
    /// A file with a log of twelve entries by client 2, and an upload of client 3 that meets them all, of which a part
    /// is merged.
    private func begin(
        _ kind: StoreKind = .memory, keepsState: Bool = false, with changesets: [[UInt8]] = [updates[0]]
    ) throws -> (file: SyncedFile, test: TestStore) {
        let test = try TestStore(kind), file = try Self.open(test, keepsState: keepsState)
        try file.enqueue(
            Upload((keepsState ? [Self.object] : []) + changesets, timestamp: 10), from: 3)
        for _ in 0..<5 { #expect(try file.stepIntegration(at: 1000) == nil) }
        return (file, test)
    }

    private static func open(_ test: TestStore, keepsState: Bool = false) throws -> SyncedFile {
        let file = try SyncedFile.open(in: test.store, keepsState: keepsState)
        _ = try file.allocateIdents(for: [nil, nil], at: 1000)
        try file.integrate(Upload((keepsState ? [object] : []) + updates, timestamp: 9), from: 2)
        return file
    }

    private static let updates = (0..<12).map { ChangesetWriter.setting(1, to: $0) }
    private static let object = ChangesetWriter([
        .addTable("T"), .addColumn("T", "n"), .createObject(ObjectName(className: "T", key: .int(1))),
    ]).bytes

    private static func finish(_ file: SyncedFile) throws -> IntegrationReport {
        while true { if let report = try file.stepIntegration(at: 1000) { return report } }
    }

    @Test(arguments: StoreKind.allCases) func identsThatAreAllocatedMeanwhileStay(kind: StoreKind) throws {
        let (file, test) = try begin(kind)
        #expect(try file.allocateIdent().ident == 4)
        #expect(try Self.finish(file).outcomes.map(\.refusal) == [nil])
        #expect(try file.allocateIdent().ident == 5)
        #expect(file.version == 13)
        try test.verify()
    }

    @Test(arguments: StoreKind.allCases) func aClientFileThatExpiresMeanwhileStaysExpired(kind: StoreKind) throws {
        let (file, test) = try begin(kind)
        defer { _ = test }
        try file.expire(2)
        try file.expire(3)
        #expect(try Self.finish(file).outcomes.map(\.refusal?.code) == [.clientFileExpired])
        #expect(try file.clientFile(3)?.isExpired == true)
        #expect(file.version == 12)
    }

    @Test func aWriteOfTheServerComesFirstAndTheMergeTakesItIn() throws {
        let (file, _) = try begin(keepsState: true)
        let made = try file.write(at: 11) { tx in
            try tx.create("T", key: 2)
        }
        #expect(made.version == 14 && file.integrationBytes > 0)
        #expect(try Self.finish(file).outcomes.map(\.newVersions).reduce(0, +) == 2)
        #expect(try file.log().map(\.origin).suffix(3) == [0, 3, 3])
    }

    @Test("a merge that takes long goes on beside what others upload, and meets it", arguments: StoreKind.allCases)
    func others(kind: StoreKind) throws {
        let (file, test) = try begin(kind), other = try TestStore(kind), expected = try Self.open(other)
        let uploads = (0..<5).map { number in
            Upload([Self.updates[number]], from: ClientVersion(14 + number), timestamp: ChangesetTime(8 + number))
        }
        for upload in uploads {
            try file.enqueue(upload, from: 2)
            var limit = StepLimit.none
            #expect(try file.advanceIntegration(at: 1000, until: &limit))
            #expect(try SyncedFile.commitIntegrations(of: [file])[0].get().outcomes.map(\.ident) == [2])
            #expect(try file.stepIntegration(at: 1000, isLong: true) == nil)
        }
        #expect(file.version == 17 && file.integrationBytes > 0)
        #expect(try Self.finish(file).outcomes.map(\.ident) == [3])
        for upload in uploads { try expected.integrate(upload, from: 2) }
        try expected.integrate(Upload([Self.updates[0]], timestamp: 10), from: 3)
        #expect(try file.log() == expected.log())
        let downloads = try [file, expected].map { file in
            try file.downloads(for: 3).download(after: DownloadCursor(), byteBudget: .max).changesets
        }
        #expect(downloads[0] == downloads[1])
        try test.verify()
        try other.verify()
    }

    @Test("others that write whenever a merge has met what there was wait for it in the end")
    func overtaken() throws {
        let (file, _) = try begin(keepsState: true)
        var idents: [ClientFileID] = []
        for number in 2..<1_000 where idents.isEmpty {
            // In a running server, a write waits for an integration under way.
            if !file.isIntegrating {
                _ = try file.write(at: 11) { tx in _ = try tx.create("T", key: .int(Int64(number))) }
            }
            idents += try file.stepIntegration(at: 1000)?.outcomes.map(\.ident) ?? []
        }
        #expect(idents == [3] && !file.hasQueuedUploads)
        #expect(try file.log().map(\.origin).suffix(2) == [3, 3])
    }

    @Test func aMergeThatMeetsTheEndOfAStepHasOneOfItsOwnBeforeItIsSetAside() throws {
        let test = try TestStore(.memory), file = try Self.open(test)
        defer { _ = test }
        try file.enqueue(Upload([Self.updates[0]], timestamp: 10), from: 3)
        #expect(try file.stepIntegration(at: 1000) == nil)
        #expect(file.isIntegrating && !file.hasLongUploads)
        var limit = StepLimit.none
        #expect(try file.advanceIntegration(at: 1000, until: &limit))
        #expect(try SyncedFile.commitIntegrations(of: [file])[0].get().outcomes.map(\.newVersions) == [1])
        #expect(!file.hasQueuedUploads)
    }

    @Test func uploadsThatComeMeanwhileWaitForTheNextIntegration() throws {
        let (file, _) = try begin()
        try file.enqueue(Upload([Self.updates[1]], from: 2, timestamp: 11), from: 3)
        #expect(try Self.finish(file).outcomes.map(\.newVersions) == [1])
        #expect(file.version == 13 && file.hasQueuedUploads)
        #expect(try Self.finish(file).outcomes.map(\.newVersions) == [1])
        #expect(file.version == 14 && !file.hasQueuedUploads && file.backlogBytes == 0)
    }

    @Test("what a client has queued after an upload that is refused goes with it, and nothing of others")
    func refusal() throws {
        let (file, _) = try begin(keepsState: true, with: [Self.updates[0], ChangesetWriter.setting(99, to: 1)])
        try file.enqueue(Upload([Self.updates[1]], from: 4, timestamp: 11), from: 3)
        try file.enqueue(Upload([Self.updates[1]], from: 14, timestamp: 11), from: 2)
        let outcomes = try Self.finish(file).outcomes + Self.finish(file).outcomes
        #expect(outcomes.first { $0.ident == 3 }?.refusal?.code == .badChangeset)
        #expect(outcomes.first { $0.ident == 2 }?.newVersions == 1)
        #expect(file.version == 14 && file.backlogBytes == 0)
    }

    /// Entries of the whole log are looked for version by version, and come from the integration itself as well.
    @Test(arguments: StoreKind.allCases) func aSearchThatReadsTheWholeLogGivesTheSameInSteps(kind: StoreKind) throws {
        var erasure = ChangesetWriter()
        erasure.eraseTable("U")
        let logs = try [true, false].map { isStepwise in
            let test = try TestStore(kind)
            let file = try SyncedFile.open(in: test.store)
            _ = try file.allocateIdents(for: [nil, nil, nil], at: 1000)
            try file.integrate(Upload(Self.updates), from: 2)
            var visitedCount = 0
            let uploads: [(ClientFileID, Upload)] = [
                (3, Upload(Self.updates, timestamp: 600)), (4, Upload([erasure.bytes])),
            ]
            for (ident, upload) in uploads {
                try file.enqueue(upload, from: ident)
                let report = isStepwise ? try Self.finish(file) : try file.integrate(at: 1000)
                #expect(report.outcomes.map(\.refusal) == [nil] && !file.hasQueuedUploads)
                visitedCount += report.entriesVisited
            }
            #expect(visitedCount == 12 + 24)
            return try withExtendedLifetime(test) { try file.log() }
        }
        #expect(logs[0] == logs[1] && logs[0].count == 25)
    }
}
