import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// Large uploads are integrated by several commits (`Spec/History.md`, section 6.1).
@Suite struct CommitSizeTests {
    /// The effect of each commit.
    private static func commits(of file: SyncedFile) throws -> [IntegrationReport] {
        var reports: [IntegrationReport] = []
        while file.hasQueuedUploads {
            var limit = StepLimit.none
            #expect(try file.advanceIntegration(at: 1000, until: &limit))
            reports.append(try SyncedFile.commitIntegrations(of: [file])[0].get())
        }
        return reports
    }

    /// Three versions by client 2, and three clients.
    private static func file(_ kind: StoreKind, commitBytesMax: Int) throws -> (file: SyncedFile, test: TestStore) {
        let test = try TestStore(kind)
        let file = try SyncedFile.open(in: test.store)
        _ = try file.allocateIdents(for: [nil, nil, nil], at: 1000)
        try file.integrate(Upload((0..<3).map { ChangesetWriter.setting(1, to: $0) }), from: 2)
        file.mergeOptions.commitBytesMax = commitBytesMax
        return (file, test)
    }

    @Test(arguments: StoreKind.allCases) func aCommitTakesSoManyBytesAndTheNextGoesOn(kind: StoreKind) throws {
        let changesets = (0..<10).map { ChangesetWriter.setting($0 % 3, to: $0) }
        let bytes = changesets[0].count + UploadQueue.overheadBytes
        var stored: [[LogEntry]] = [], forms: [[ReciprocalChangeset]] = []
        #expect(changesets.allSatisfy { $0.count == changesets[0].count })
        // 10 in one, or in two because the last upload does not fit; 4, 3, 3; one by one, and the last upload.
        for (commitBytesMax, commits) in [(.max, 1), (10 * bytes, 2), (4 * bytes, 3), (1, 11)] {
            let (file, test) = try Self.file(kind, commitBytesMax: commitBytesMax)
            // The last one reports progress alone.
            try file.enqueue(Upload(Array(changesets[..<7])), from: 3)
            try file.enqueue(Upload(Array(changesets[7...]), from: 8), from: 3)
            try file.enqueue(Upload(progress: UploadCursor(clientVersion: 20, serverVersion: 2)), from: 3)
            let reports = try Self.commits(of: file)
            #expect(reports.count == commits, "\(commitBytesMax)")
            #expect(reports.reduce(0) { $0 + ($1.uploadsDone[3] ?? 0) } == 3)
            #expect(reports.flatMap(\.outcomes).reduce(0) { $0 + $1.newVersions } == 10)
            #expect(try file.clientFile(3)?.uploadCursor == UploadCursor(clientVersion: 20, serverVersion: 2))
            #expect(file.backlogBytes == 0)
            stored.append(try file.log())
            forms.append(try file.reciprocals(of: 3))
            try test.verify()
        }
        #expect(stored.allSatisfy { $0 == stored[0] } && stored[0].count == 13)
        #expect(forms.allSatisfy { $0 == forms[0] })
    }

    /// Three on one base, seven on another.
    @Test func aCommitEndsAlsoBehindTheFirstChangesetsOfARun() throws {
        let changesets = (0..<10).map { ChangesetWriter.setting($0 % 3, to: $0) }
        let (file, test) = try Self.file(.memory, commitBytesMax: 4 * (changesets[0].count + UploadQueue.overheadBytes))
        let first = Upload(Array(changesets[..<3])), second = Upload(Array(changesets[3...]), from: 4, base: 2)
        try file.enqueue(
            Upload(progress: second.progress, changesets: first.changesets + second.changesets), from: 3)
        #expect(try Self.commits(of: file).flatMap(\.outcomes).map(\.newVersions) == [4, 4, 2])
        try test.verify()
    }

    @Test("a commit ends after the changeset with which it has so many bytes", arguments: [(-1, 4), (0, 4), (1, 5)])
    func end(more: Int, versions: Int) throws {
        let changesets = (0..<10).map { ChangesetWriter.setting($0 % 3, to: $0) }
        let bytes = changesets[0].count + UploadQueue.overheadBytes
        let (file, _) = try Self.file(.memory, commitBytesMax: 4 * bytes + more)
        try file.enqueue(Upload(changesets), from: 3)
        #expect(try Self.commits(of: file).first?.outcomes.map(\.newVersions) == [versions])
    }

    /// A device's app is updated while a long merge keeps its uploads waiting.
    @Test(arguments: StoreKind.allCases, [.max, 1]) func eachEntryNamesTheReleaseThatUploadedIt(
        kind: StoreKind, commitBytesMax: Int
    ) throws {
        let (file, test) = try Self.file(kind, commitBytesMax: commitBytesMax)
        let releases: [UInt64] = [1, 1, 2, 3]
        for (number, release) in releases.enumerated() {
            let first = ClientVersion(rawValue: UInt64(2 * number + 1))
            var upload = Upload((0..<2).map { ChangesetWriter.setting(1, to: $0) }, from: first)
            upload.uploader = Uploader(release: release, protocolVersion: 14)
            try file.enqueue(upload, from: 3)
        }
        _ = try Self.commits(of: file)
        #expect(try file.log().dropFirst(3).map(\.uploader.release) == [1, 1, 1, 1, 2, 2, 3, 3])
        try test.verify()
    }

    @Test(arguments: StoreKind.allCases) func whatIsCommittedStaysWhenTheRestIsRefused(kind: StoreKind) throws {
        let (file, test) = try Self.file(kind, commitBytesMax: 1)
        let good = ChangesetWriter.setting(1, to: 1)
        try file.enqueue(Upload([good, good, [255], good]), from: 3)
        try file.enqueue(Upload([ChangesetWriter.setting(1, to: 4)], from: 5), from: 3)
        try file.enqueue(Upload([ChangesetWriter.setting(1, to: 5)]), from: 4)
        let reports = try Self.commits(of: file)
        #expect(reports.flatMap(\.outcomes).map(\.refusal?.code) == [nil, nil, .badChangeset, nil])
        #expect(reports.flatMap(\.outcomes).map(\.ident) == [3, 3, 3, 4])
        #expect(reports[2].uploadsDone == [3: 2])
        #expect(file.version == 6 && file.backlogBytes == 0)
        #expect(try file.clientFile(3)?.uploadCursor.clientVersion == 2)
        try test.verify()
    }

    // MARK: The state

    /// A file whose objects T[1] … T[8] have 15,200 bytes each.
    private static func largeObjects() throws -> (file: SyncedFile, test: TestStore) {
        let test = try TestStore(.sqlite)
        let file = try SyncedFile(path: VirtualPath("/a"), store: test.store, cachedBytesMax: 0)
        _ = try file.allocateIdents(for: [nil, nil], at: 1000)
        try file.write(at: 1) { tx in
            try tx.addClass("T", key: "_id", .int)
            try tx.addColumn("n", .int, to: "T")
            // As much as an object holds without parts that are read when they are needed.
            let names = (0..<8).map { "b\($0)" }
            for name in names { try tx.addColumn(name, .binary, to: "T") }
            let value = Payload.binary([UInt8](repeating: 1, count: 1_900))
            for key in 1...8 as ClosedRange<Int64> {
                try tx.create("T", key: .int(key), Dictionary(uniqueKeysWithValues: names.map { ($0, value) }))
            }
        }
        return (file, test)
    }

    private static func touching(_ objects: ClosedRange<Int64>) -> [UInt8] {
        var changeset = ChangesetWriter()
        for object in objects { changeset.set(object, to: 1) }
        return changeset.bytes
    }

    /// The memory that a change of one of them takes, in bytes.
    private static func bytesOfOne() throws -> Int {
        let (file, test) = try largeObjects()
        try file.enqueue(Upload([touching(1...1)], base: 1), from: 2)
        var limit = StepLimit.none
        #expect(try file.advanceIntegration(at: 1, until: &limit))
        let bytes = file.integrationBytes
        #expect(bytes > 15_000)
        try test.verify()
        return bytes
    }

    @Test("with more bytes in memory a commit takes no further client", arguments: [(-1, 1), (0, 2), (1, 2)])
    func loaded(more: Int, clients: Int) throws {
        let bytes = try Self.bytesOfOne(), (file, test) = try Self.largeObjects()
        file.mergeOptions.loadedBytesMax = bytes + more
        try file.enqueue(Upload([Self.touching(1...1)], base: 1), from: 2)
        try file.enqueue(Upload([Self.touching(2...2)], base: 1), from: 3)
        #expect(try Self.commits(of: file).first?.outcomes.count == clients)
        try test.verify()
    }

    @Test("a changeset that needs more bytes in memory is refused", arguments: -1...1)
    func applied(more: Int) throws {
        let bytes = try Self.bytesOfOne(), (file, test) = try Self.largeObjects()
        file.mergeOptions.appliedBytesMax = bytes + more
        let refusal = try file.integrate(Upload([Self.touching(1...1)], base: 1), from: 2)
        #expect(refusal?.code == (more < 0 ? .tooLarge : nil))
        try test.verify()
    }

    @Test("a changeset that is too large when it is decoded is refused, and the client keeps it")
    func decoded() throws {
        let (file, test) = try Self.largeObjects()
        file.mergeOptions.decodedBytesMax = 10_000
        let changesets = [1, 1_000].map { count in
            ChangesetWriter([NamedInstruction](repeating: .addTable("S"), count: count)).bytes
        }
        #expect(try file.integrate(Upload([changesets[0]], base: 1), from: 2) == nil)
        #expect(try file.integrate(Upload([changesets[1]], base: 1), from: 3)?.code == .tooLarge)
        var upload = Upload([changesets[1]], base: 1)
        let error = #expect(throws: HistoryError.self) { try file.withholdSchema(of: &upload) }
        #expect(error?.code == .tooLarge)
        try test.verify()
    }

    @Test func whatADroppedIntegrationHasReadCountsNoLonger() throws {
        let (file, test) = try Self.largeObjects()
        try file.enqueue(Upload([Self.touching(1...8)], base: 1), from: 2)
        let before = file.cachedByteCount
        var counts: Set<Int> = []
        for _ in 0..<3 {
            var limit = StepLimit.none
            #expect(try file.advanceIntegration(at: 1, until: &limit))
            #expect(file.integrationBytes > 100_000 && file.cachedByteCount <= before)
            file.dropIntegration()
            counts.insert(file.cachedByteCount)
        }
        #expect(counts.count == 1)
        _ = try file.integrate(at: 1)
        #expect(file.version == 2)
        try test.verify()
    }

    @Test(arguments: [(23_000, 38_000, 4), (.max, 38_000, 4), (0, .max, 8), (.max, .max, 1)])
    func aSmallUploadThatTouchesLargeObjectsLoadsSomeAtATime(
        loadedBytesMax: Int, appliedBytesMax: Int, commits: Int
    ) throws {
        let (file, test) = try Self.largeObjects()
        file.mergeOptions.loadedBytesMax = loadedBytesMax
        file.mergeOptions.appliedBytesMax = appliedBytesMax
        if loadedBytesMax == 0 { file.mergeOptions.commitBytesMax = 1 }
        try file.enqueue(Upload((1...8).map { Self.touching($0...$0) }, base: 1), from: 2)
        var (bytesMax, count) = (0, 0)
        while file.hasQueuedUploads {
            try #require(count < commits)
            var limit = StepLimit.none
            _ = try file.advanceIntegration(at: 1, until: &limit)
            bytesMax = max(bytesMax, file.integrationBytes)
            #expect(try SyncedFile.commitIntegrations(of: [file])[0].get().outcomes.map(\.refusal) == [nil])
            count += 1
        }
        #expect(count == commits)
        #expect(bytesMax < 130_000 / commits + 50_000)
        #expect(file.version == 9)
        try test.verify()
    }

    /// Few bytes erase many links, or, where the key of their object is long, make rows that are much longer.
    @Test(arguments: [true, false]) func aSmallUploadThatChangesManyLinksIsSeveralCommits(erases: Bool) throws {
        let test = try TestStore(.sqlite)
        let file = try SyncedFile(path: VirtualPath("/a"), store: test.store, cachedBytesMax: 0)
        _ = try file.allocateIdents(for: [nil], at: 1000)
        let long = PrimaryKey.string(Array(repeating: UInt8(ascii: "k"), count: 4_000))
        try file.write(at: 1) { tx in
            try tx.addClass("T", key: "_id", .int)
            try tx.addClass("S", key: "_id", .string)
            for owner in ["T", "S"] { try tx.addLink("l", to: "T", collection: .list, of: owner) }
            let target = try tx.create("T", key: 0)
            try tx.create("S", key: long)
            for key in 1...8 as ClosedRange<Int64> where erases {
                let list = try tx.create("T", key: .int(key)).list("l")
                for _ in 0..<500 { try list.append(target.link) }
            }
        }
        let changesets = (1...8 as ClosedRange<Int64>).map { number in
            let list = FieldPath(object: ObjectName(className: "S", key: long), field: "l", path: [.index(0)])
            let link = Payload.link(className: Array("T".utf8), key: 0)
            let insertions = (0..<8 as Range<UInt32>).map { index in
                NamedInstruction.insert(list, link, size: UInt32(8 * (number - 1)) + index)
            }
            let erasure = NamedInstruction.eraseObject(ObjectName(className: "T", key: .int(number)))
            return ChangesetWriter(erases ? [erasure] : insertions).bytes
        }
        (file.mergeOptions.loadedBytesMax, file.mergeOptions.appliedBytesMax) = (32_000, 80_000)
        try file.enqueue(Upload(changesets, base: 1), from: 2)
        let reports = try Self.commits(of: file)
        #expect(reports.flatMap(\.outcomes).map(\.newVersions) == [2, 2, 2, 2])
        #expect(reports.flatMap(\.outcomes).allSatisfy { $0.refusal == nil })
        try test.verify()
    }

    /// Each changeset has a base of its own, so that none is applied together with another.
    @Test(arguments: [(23_000, 4), (.max, 1)]) func behindARunACommitEndsThatHasMuchInMemory(
        loadedBytesMax: Int, commits: Int
    ) throws {
        let (file, test) = try Self.largeObjects()
        try file.integrate(Upload([[UInt8]](repeating: [], count: 7), base: 1), from: 3)
        #expect(file.version == 8)
        file.mergeOptions.appliedBytesMax = .max
        file.mergeOptions.loadedBytesMax = loadedBytesMax
        let changesets = (1...8 as ClosedRange<UInt64>).map { number in
            let cursor = UploadCursor(clientVersion: ClientVersion(number), serverVersion: ServerVersion(number))
            let object = Int64(number)
            return UploadedChangeset(cursor: cursor, timestamp: 500, changeset: Self.touching(object...object))
        }
        try file.enqueue(Upload(progress: changesets[7].cursor, changesets: changesets), from: 2)
        let reports = try Self.commits(of: file)
        #expect(reports.count == commits && file.version == 16)
        #expect(reports.flatMap(\.outcomes).allSatisfy { $0.refusal == nil })
        try test.verify()
    }

    @Test func aChangesetThatTouchesTooMuchIsRefusedAndTheClientKeepsIt() throws {
        let (file, test) = try Self.largeObjects()
        file.mergeOptions.appliedBytesMax = 38_000
        try file.enqueue(Upload([Self.touching(1...1), Self.touching(1...4)], base: 1), from: 2)
        try file.enqueue(Upload([Self.touching(5...6)], base: 1), from: 3)
        let reports = try Self.commits(of: file)
        #expect(reports.flatMap(\.outcomes).map(\.refusal?.code).filter { $0 != nil } == [.tooLarge])
        #expect(file.version == 3)
        try test.verify()
    }
}
