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

    // MARK: The clock

    /// 2026, and 2105, in milliseconds.
    private static let today: ChangesetTime = 350_000_000_000, wrong: ChangesetTime = 2_850_000_000_000

    @Test("a clock that goes back by a little stands still; one that was wrong counts again")
    func clocksThatGoBack() throws {
        var replica = try Replica(MemoryReplicaStore())
        try replica.write(at: replica.writingTime(Self.today)) { try Self.put(1, in: $0) }
        #expect(replica.writingTime(Self.today + 1) == Self.today + 1)
        #expect(replica.writingTime(Self.today - 5_000) == Self.today)
        #expect(replica.writingTime(Self.today - 5_001) == Self.today - 5_001)
        try replica.write(at: replica.writingTime(Self.wrong)) { try Self.put(2, in: $0) }
        #expect(replica.writingTime(Self.today) == Self.today)
        try replica.write(at: replica.writingTime(Self.today)) { try Self.put(3, in: $0) }
        #expect(replica.record.lastWritten == Self.today)
        #expect(replica.writingTime(Self.today - 1) == Self.today)
    }

    @Test("of two devices the one that wrote last wins, also if its clock or the other one's was wrong before")
    func theLastUpdateWins() throws {
        let server = try Server()
        var one = try server.replica(), two = try server.replica()
        func write(_ text: String, _ replica: inout Replica<MemoryReplicaStore>, clock: ChangesetTime) throws {
            try replica.write(at: replica.writingTime(clock)) { tx in
                try Self.put(1, in: tx)
                try tx.object("Item", key: 1)?.set("text", to: .string(Array(text.utf8)))
            }
        }
        for clocks in [[Self.wrong, Self.today], [Self.today, Self.wrong]] {
            try write("first", &one, clock: clocks[0])
            try write("second", &two, clock: clocks[1])
            try server.exchange(&one, &two)
            try write("newer", &one, clock: Self.today + 11_000)
            try write("older", &two, clock: Self.today + 10_000)
            try server.exchange(&one, &two)
            let text = try two.state.read { try $0.object("Item", key: 1)?["text"] }
            #expect(text == .string(Array("newer".utf8)))
            #expect(two.record.lastWritten == Self.today + 10_000)
        }
    }

    @Test("what is made again after a reset has its old time, unless a wrong clock told it")
    func timesOfWhatIsRecovered() throws {
        let server = try Server()
        var old = try Replica(MemoryReplicaStore())
        let now = Self.today + 1_000_000
        for (key, time) in [Self.today, Self.wrong, now + 4_000].enumerated() {
            try old.write(at: time) { try Self.put(key, in: $0) }
        }
        var fresh = try server.replica()
        _ = try fresh.takePlace(of: old, recovers: true, at: now)
        #expect(Set(fresh.log.versions.filter { $0.bytes > 0 }.map(\.timestamp)) == [Self.today, now, now + 4_000])
        #expect(fresh.writingTime(now) == now + 4_000)
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
        // After its own uploads the log has something of another client, which has seen all of them.
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

    // MARK: Downloads

    @Test func aLongDownloadIsIntegratedInParts() throws {
        let server = try Server()
        var one = try server.replica(), two = try server.replica()
        try one.write(at: 1) { try Self.put(1, in: $0) }
        try server.exchange(&one, &two)
        try two.downloaded()
        let long = Payload.string(Array(repeating: 97, count: 20_000))
        for key in 2...6 {
            try one.write(at: 1) { tx in
                try Self.put(key, in: tx)
                try tx.object("Item", key: .int(Int64(key)))?.set("text", to: long)
                try tx.object("Item", key: 1)?.set("text", to: .string(Array("\(key)".utf8)))
            }
        }
        // It meets all of them.
        try two.write(at: 2) { tx in try tx.object("Item", key: 1)?.set("text", to: .string(Array("own".utf8))) }
        try server.upload(&one)
        let scan = server.file.downloads(for: two.ident, .all)
        let download = try scan.download(after: two.progress.cursor, byteBudget: .max)
        let parts = two.parts(of: download, as: .steady)
        #expect(parts.map(\.changesets.count) == [2, 2, 1])
        #expect(parts.flatMap(\.changesets) == download.changesets)
        #expect(parts.last?.progress == download.progress)
        for part in parts {
            #expect(part.progress.cursor == part.changesets.last?.cursor)
            try two.integrate(part)
        }
        #expect(two.progress == download.progress)
        #expect(try Self.keys(two) == [1, 2, 3, 4, 5, 6])
        try server.upload(&two)
        try server.download(&one)
        for replica in [one, two] {
            #expect(try replica.state.read { try $0.object("Item", key: 1)?["text"] } == .string(Array("own".utf8)))
        }
        // A part of what a replica begins with is nothing to begin with.
        #expect(try server.replica().parts(of: download, as: .steady) == [download])
    }

    // MARK: Client resets

    @Test func recoveringLastsUntilEverythingIsUploadedAndDownloaded() throws {
        let server = try Server()
        var old = try Replica(MemoryReplicaStore())
        try old.write(at: 7) { try Self.put(1, in: $0) }
        var fresh = try server.replica()
        let recovery = try fresh.takePlace(of: old, recovers: true, at: 100)
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
        #expect(try fresh.takePlace(of: old, recovers: recovers, at: 100) == ReplicaRecovery())
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
        let recovery = try fresh.takePlace(of: old, recovers: true, at: 100)
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
        _ = try fresh.takePlace(of: old, recovers: recovers, at: 100)
        let sets = try #require(fresh.record.subscriptions)
        #expect(sets.active?.version == first)
        #expect(sets.active?.state == .complete)
        #expect(sets.entry(second)?.state == (recovers ? .pending : nil))
        #expect(try fresh.subscribe([]) > second)
    }

    /// A server may send the active set again, from version 14 of the protocol on in parts. Those of a connection that
    /// was lost do not count.
    @Test func theActiveSetIsBootstrappedAgainInParts() throws {
        var source = try Replica(MemoryReplicaStore()), changesets: [[UInt8]] = []
        for key in 1...4 { changesets.append(try source.write(at: 1) { try Self.put(key, in: $0) }.changeset) }
        var replica = try Replica(MemoryReplicaStore())
        try replica.useFlexibleSync()
        try replica.identify(as: SaltedFileID(ident: 2, salt: 1))
        let first = try replica.subscribe([Subscription("Item")])
        func bring(_ key: Int, isLast: Bool, at version: ServerVersion) throws {
            let cursor = DownloadCursor(serverVersion: version, clientVersion: 0)
            let changeset = DownloadedChangeset(
                cursor: cursor, tag: OriginTag(timestamp: 1, ident: 1), changeset: changesets[key - 1])
            let progress = DownloadProgress(
                cursor: isLast ? cursor : replica.progress.cursor, latest: SaltedVersion(version: version, salt: 5),
                upload: UploadCursor(), downloadableBytes: 0)
            try replica.integrate(
                Download(progress: progress, changesets: [changeset]), as: .bootstrap(first, isLast: isLast))
        }
        try bring(1, isLast: true, at: 1)
        try replica.subscriptionsMarked()
        try bring(1, isLast: false, at: 2)
        try replica.dropBootstrapParts()
        for key in 2...4 { try bring(key, isLast: key == 4, at: 2) }
        #expect(try Self.keys(replica) == [1, 2, 3, 4])
        #expect(replica.record.subscriptions?.active?.state == .complete)
    }

    /// "é" and "e\u{301}" are one `String`, and two texts.
    @Test func subscriptionsThatLookAlikeAreTwo() throws {
        var replica = try Replica(MemoryReplicaStore())
        try replica.useFlexibleSync()
        let all = ["\u{e9}", "e\u{301}"].flatMap { name in
            [Subscription("Item", "text == '\(name)'"), Subscription(name), Subscription("Other", name: name)]
        }
        #expect(Set(all).count == 6)
        try replica.subscribe(all)
        let predicates = try #require(replica.record.subscriptions?.latest.set.predicates)
        #expect(
            predicates == [
                "Item": "(text == 'e\u{301}') OR (text == '\u{e9}')", "e\u{301}": "(TRUEPREDICATE)",
                "\u{e9}": "(TRUEPREDICATE)", "Other": "(TRUEPREDICATE)",
            ])
    }

    /// Writes before a set are uploaded before its QUERY, later ones after it: also after two resets.
    @Test func waitingSubscriptionsKeepTheirPlaceBetweenTheChanges() throws {
        var old = try Replica(MemoryReplicaStore())
        try old.useFlexibleSync()
        try old.identify(as: SaltedFileID(ident: 2, salt: 1))
        var sets: [QueryVersion] = []
        for key in 1...3 {
            try old.write(at: 1) { try Self.put(key, in: $0) }
            sets.append(try old.subscribe([Subscription("Item", "_id == \(key)")]))
        }
        try old.write(at: 1) { try Self.put(4, in: $0) }
        for ident in 3...4 as ClosedRange<UInt64> {
            var fresh = try Replica(MemoryReplicaStore())
            try fresh.useFlexibleSync()
            try fresh.identify(as: SaltedFileID(ident: ClientFileID(rawValue: ident), salt: 1))
            _ = try fresh.takePlace(of: old, recovers: true, at: 100)
            old = fresh
        }
        var keys = 0
        for set in sets {
            let snapshot = try #require(old.record.subscriptions?.entry(set)?.snapshot)
            // The classes come first, in a transaction of their own.
            let before = old.log.versions.filter { $0.bytes > 0 && $0.number <= snapshot }.count
            keys += 1
            #expect(before == keys + 1)
        }
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

    /// Both have everything afterwards.
    func exchange(_ one: inout Replica<MemoryReplicaStore>, _ two: inout Replica<MemoryReplicaStore>) throws {
        try upload(&one)
        try upload(&two)
        try download(&one)
        try download(&two)
    }

    func download(_ replica: inout Replica<MemoryReplicaStore>) throws {
        let scan = file.downloads(for: replica.ident, .all)
        try replica.integrate(try scan.download(after: replica.progress.cursor, byteBudget: .max))
    }
}
