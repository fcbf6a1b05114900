import AnabranchCore
import AnabranchHistory
import AnabranchTesting
import Testing

@testable import AnabranchReplica

@Suite struct ReplicaTests {
    @Test func emptyTransactionsLeaveNothingBehind() throws {
        var replica = try Replica(MemoryReplicaStore())
        try replica.write(at: 1) { _ in }
        #expect(replica.version == 1)
    }

    @Test func transactionsThatThrowLeaveNothingBehind() throws {
        struct Wrong: Error {}
        var replica = try Replica(MemoryReplicaStore())
        #expect(throws: Wrong.self) {
            try replica.write(at: 1) { tx in
                try Self.declare(tx)
                throw Wrong()
            }
        }
        #expect(replica.version == 1)
        #expect(try replica.state.read { $0.classNames } == [])
    }

    @Test func aMarkIsNeededUntilItsAnswerIsStored() throws {
        var replica = try Replica(MemoryReplicaStore())
        #expect(replica.needsMark)
        try replica.downloaded()
        #expect(!replica.needsMark)
    }

    // MARK: Trimming

    @Test func theLogKeepsWhatTheServerHasNotSeenMerged() throws {
        let server = try Server()
        var one = try server.replica(), two = try server.replica()
        for key in 1...3 { try one.write(at: 1) { try Self.put(key, in: $0) } }
        let versions = one.log.versions.filter { $0.bytes > 0 }.map(\.number)
        #expect(versions == [2, 3, 4])
        try server.upload(&one)
        #expect(one.log.versions(after: 0).filter { $0.bytes > 0 }.count == 3)
        // Acknowledged are all of them; but what another client writes may come from before them.
        try server.download(&one)
        #expect(one.isAcknowledged)
        #expect(one.progress.upload.clientVersion == 4)
        // Behind its own uploads the log has something of another client: that has seen all of them.
        try server.download(&two)
        try two.write(at: 2) { try Self.put(4, in: $0) }
        try server.upload(&two)
        try server.download(&one)
        #expect(one.progress.cursor.clientVersion == 4)
        #expect(one.log.versions.allSatisfy { $0.number > 4 && $0.bytes == 0 })
        #expect(versions.allSatisfy { one.store.changeset(of: $0) == [] })
        #expect(try Self.keys(one) == [1, 2, 3, 4])
    }

    @Test func whatIsNotAcknowledgedIsUploadedAgainInTheNextSession() throws {
        let server = try Server()
        var replica = try server.replica()
        try replica.write(at: 1) { try Self.put(1, in: $0) }
        let lost = try replica.nextUpload()
        #expect(lost?.changesets.count == 1)
        #expect(try replica.nextUpload() == nil)
        replica.startUploading()
        #expect(try replica.nextUpload() == lost)
    }

    // MARK: Client resets

    @Test func recoveringLastsUntilEverythingIsUploadedAndDownloaded() throws {
        let server = try Server()
        var old = try Replica(MemoryReplicaStore())
        try old.write(at: 7) { try Self.put(1, in: $0) }
        var fresh = try server.replica()
        let recovery = try fresh.takePlace(of: old, recovers: true)
        #expect(recovery == ReplicaRecovery(changesets: 1, droppedChanges: 0))
        #expect(fresh.record.isRecovering)
        #expect(fresh.version > old.version)
        // A download alone does not end it, and neither does an upload whose receipt has not come.
        try server.download(&fresh)
        #expect(fresh.record.isRecovering)
        try server.upload(&fresh)
        #expect(fresh.record.isRecovering)
        try server.download(&fresh)
        #expect(!fresh.record.isRecovering)
        #expect(fresh.isAcknowledged)
        var third = try server.replica()
        try server.download(&third)
        #expect(try Self.keys(third) == [1])
    }

    @Test(arguments: [true, false])
    func aResetWithNothingToRecoverIsOverAtOnce(recovers: Bool) throws {
        let server = try Server()
        var old = try server.replica()
        if !recovers { try old.write(at: 7) { try Self.put(1, in: $0) } }
        var fresh = try server.replica()
        #expect(try fresh.takePlace(of: old, recovers: recovers) == ReplicaRecovery())
        #expect(!fresh.record.isRecovering)
        #expect(fresh.isAcknowledged)
        #expect(fresh.writingTime(1) == old.writingTime(1))
    }

    @Test func changesOfWhatIsGoneAreCounted() throws {
        let server = try Server()
        var old = try server.replica()
        try old.write(at: 1) { try Self.put(1, in: $0) }
        try server.upload(&old)
        try server.download(&old)
        try old.write(at: 2) { tx in try tx.object("Item", key: .int(1))?.set("text", to: .string(Array("x".utf8))) }
        // The fresh state has no such object.
        var fresh = try Server().replica()
        let recovery = try fresh.takePlace(of: old, recovers: true)
        #expect(recovery.changesets == 0)
        #expect(recovery.droppedChanges == 1)
        #expect(!fresh.record.isRecovering)
    }

    @Test(arguments: [true, false])
    func subscriptionsOutliveAReset(recovers: Bool) throws {
        var old = try Replica(MemoryReplicaStore())
        try old.useFlexibleSync()
        try old.identify(as: SaltedFileID(ident: 2, salt: 1))
        let first = try old.subscribe([Subscription("Item")])
        let progress = DownloadProgress(
            cursor: DownloadCursor(serverVersion: 1, clientVersion: 0), latest: SaltedVersion(version: 1, salt: 5),
            upload: UploadCursor(), downloadableBytes: 0)
        try old.integrate(Download(progress: progress), as: .bootstrap(first, isLast: true))
        try old.subscriptionsMarked()
        let second = try old.subscribe([Subscription("Item", "text == 'x'")])
        var fresh = try Replica(MemoryReplicaStore())
        try fresh.useFlexibleSync()
        try fresh.identify(as: SaltedFileID(ident: 3, salt: 1))
        _ = try fresh.takePlace(of: old, recovers: recovers)
        let sets = try #require(fresh.record.subscriptions)
        #expect(sets.active?.version == first)
        #expect(sets.active?.state == .complete)
        #expect(sets.entry(second)?.state == (recovers ? .pending : nil))
        #expect(try fresh.subscribe([]) > second)
    }

    // MARK: Parts

    private static func declare(_ tx: WriteTransaction) throws {
        try tx.addClass("Item", key: "_id", .int)
        try tx.addColumn("text", .string, isNullable: true, to: "Item")
    }

    private static func put(_ key: Int, in tx: WriteTransaction) throws {
        try declare(tx)
        try tx.create("Item", key: .int(Int64(key)))
    }

    private static func keys(_ replica: Replica<MemoryReplicaStore>) throws -> [Int64] {
        try replica.state.read { tx in
            try tx.objects("Item").compactMap { if case .int(let key) = $0.key { key } else { nil } }
        }
    }
}

/// A server in memory.
private struct Server {
    let file: SyncedFile

    init() throws { file = try SyncedFile(path: VirtualPath("file"), store: InMemoryStore()) }

    func replica() throws -> Replica<MemoryReplicaStore> {
        var replica = try Replica(MemoryReplicaStore())
        try replica.identify(as: try file.allocateIdents(for: [nil], at: 1)[0])
        return replica
    }

    func upload(_ replica: inout Replica<MemoryReplicaStore>) throws {
        while let upload = try replica.nextUpload() { _ = try file.integrateAtOnce(upload, from: replica.ident) }
    }

    func download(_ replica: inout Replica<MemoryReplicaStore>) throws {
        let scan = file.downloads(for: replica.ident, .all)
        try replica.integrate(try scan.download(after: replica.progress.cursor, byteBudget: .max))
    }
}
