import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// A node that merges more slowly than others write.
@Suite(.timeLimit(.minutes(30))) struct OvertakenNodeTests {
    /// The steps that a merge has between two commits of the other node: enough for an upload, not for all that wait.
    private static let steps = 30
    private static let uploads: UInt64 = 100

    /// Two nodes, and a client that has uploaded to the first of them.
    private static func nodes(
        in store: InMemoryStore
    ) throws -> (slow: SyncedFile, quick: SyncedFile, ident: ClientFileID) {
        let slow = try SyncedFile.open(in: store, keepsState: true)
        let quick = try SyncedFile.open(in: store, seed: 2, keepsState: true)
        let client = try RoamingClient(at: slow)
        try client.come(to: slow)
        try client.upload(to: slow)
        _ = try slow.integrate(at: 1000)
        return (slow, quick, client.file.ident)
    }

    @Test func itGetsThroughWithFewerUploadsAtATime() throws {
        let store = InMemoryStore(isShared: true), (slow, quick, ident) = try Self.nodes(in: store)
        func write(_ key: UInt64) throws { try quick.write(at: 1000) { try $0.create("S", key: .int(Int64(key))) } }
        try quick.write(at: 1000) { try $0.addClass("S", key: "_id", .int) }
        for key in 1...Self.uploads { try write(key) }
        try slow.follow()
        // Each of them is merged by itself, since all have other bases.
        for number in 1...Self.uploads {
            var changeset = ChangesetWriter()
            changeset.create(Int64(number))
            let upload = Upload(
                [changeset.bytes], from: ClientVersion(rawValue: number + 1),
                base: ServerVersion(rawValue: number + 1))
            try slow.enqueue(upload, from: ident)
        }
        var round: UInt64 = 0
        while slow.hasQueuedUploads, round < 2_000 {
            round += 1
            try merge(slow, in: store)
            try write(Self.uploads + round)
            try slow.follow()
        }
        #expect(!slow.hasQueuedUploads)
        let own = try slow.log().filter { $0.origin == ident }.map(\.clientVersion.rawValue)
        #expect(own == Array(1...Self.uploads + 1))
    }

    @Test func aMergeThatHasLeftNothingInACommitGoesOnWithWhatOthersWrite() throws {
        let store = InMemoryStore(isShared: true), (slow, quick, ident) = try Self.nodes(in: store)
        try quick.write(at: 1000) { try $0.addClass("S", key: "_id", .int) }
        try slow.follow()
        var changeset = ChangesetWriter()
        changeset.create(1)
        try slow.enqueue(Upload([changeset.bytes], from: 2, base: 1), from: ident)
        #expect(try slow.stepIntegration(at: 1000) == nil)
        #expect(slow.isIntegrating)
        try quick.write(at: 1000) { try $0.create("S", key: 1) }
        try slow.follow()
        #expect(!slow.isIntegrating && slow.integrationBytes > 0)
        #expect(try slow.integrate(at: 1000).outcomes.map(\.newVersions) == [1])
        #expect(!slow.hasQueuedUploads)
    }

    /// Merges for some steps, and commits if that is enough.
    private func merge(_ file: SyncedFile, in store: InMemoryStore) throws {
        var isMerged = false
        for _ in 0..<Self.steps where !isMerged {
            var limit = StepLimit.smallest
            isMerged = try file.advanceIntegration(at: 1000, until: &limit)
        }
        guard isMerged else { return }
        let merged = file.takeMerged(), commit = file.completed(merged.commit)
        let failure = store.commitByShard([commit])[file.id]
        file.finish(commit, failure)
        _ = try file.finish(merged, failure).get()
    }
}
