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
        let test = try TestStore(kind)
        let file = try SyncedFile.open(in: test.store, keepsState: keepsState)
        _ = try file.allocateIdents(for: [nil, nil], at: 1000)
        try file.integrate(Upload((keepsState ? [Self.object] : []) + Self.updates, timestamp: 9), from: 2)
        try file.enqueue(
            Upload((keepsState ? [Self.object] : []) + changesets, timestamp: 10), from: 3)
        for _ in 0..<5 { #expect(try !Self.step(file)) }
        return (file, test)
    }

    private static let updates = (0..<12).map { ChangesetWriter.setting(1, to: $0) }
    private static let object = ChangesetWriter([
        .addTable("T"), .addColumn("T", "n"), .createObject(ObjectName(className: "T", key: .int(1))),
    ]).bytes

    private static func step(_ file: SyncedFile) throws -> Bool {
        var limit = StepLimit.smallest
        return try file.advanceIntegration(at: 1000, until: &limit)
    }

    private static func finish(_ file: SyncedFile) throws -> IntegrationReport {
        while try !step(file) {}
        return try SyncedFile.commitIntegrations(of: [file])[0].get()
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
        #expect(file.isIntegrating)
        try file.expire(3)
        #expect(!file.isIntegrating)
        #expect(try Self.finish(file).outcomes.map(\.refusal?.code) == [.clientFileExpired])
        #expect(try file.clientFile(3)?.isExpired == true)
        #expect(file.version == 12)
    }

    @Test func aWriteOfTheServerComesFirstAndTheMergeBeginsAnew() throws {
        let (file, _) = try begin(keepsState: true)
        let made = try file.write(at: 11) { tx in
            try tx.create("T", key: 2)
        }
        #expect(made.version == 14)
        #expect(try Self.finish(file).outcomes.map(\.newVersions) == [2])
        #expect(try file.log().map(\.origin).suffix(3) == [0, 3, 3])
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
        #expect(try Self.finish(file).outcomes.map(\.refusal?.code) == [.badChangeset])
        #expect(try Self.finish(file).outcomes.map(\.ident) == [2])
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
            try file.enqueue(Upload(Self.updates, timestamp: 600), from: 3)
            try file.enqueue(Upload([erasure.bytes]), from: 4)
            let report = isStepwise ? try Self.finish(file) : try file.integrate(at: 1000)
            #expect(report.outcomes.map(\.refusal) == [nil, nil] && report.entriesVisited == 12 + 24)
            return try withExtendedLifetime(test) { try file.log() }
        }
        #expect(logs[0] == logs[1] && logs[0].count == 25)
    }
}
