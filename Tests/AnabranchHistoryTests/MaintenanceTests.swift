import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// The expiry of client files, its reasons, and the effect of clocks on it (`Spec/BoundedHistory.md`, section 7).
@Suite struct MaintenanceTests {
    private static let day: UInt64 = 86_400
    private static let now: UInt64 = 1_000 * day

    // MARK: Who expires

    private static func expiry(
        time: UInt64 = now, connected: Set<ClientFileID> = [], limit: ServerVersion = 100,
        heavyVersion: ServerVersion? = nil
    ) -> Expiry {
        Expiry(
            policy: HistoryPolicy(), time: time, connected: connected, limit: limit, heavyVersion: heavyVersion)
    }

    private static func file(unseenFor days: UInt64, _ lineage: Lineage = .log, base: ServerVersion = 7) -> ClientFile {
        var file = ClientFile(ident: 5, salt: 1, lastSeen: now - days * day, lineage: lineage)
        if base > 0 { file.uploadCursor = UploadCursor(clientVersion: 3, serverVersion: base) }
        file.lockedVersion = base
        return file
    }

    @Test(
        arguments: [
            (60, Lineage.log, 7, 7, nil, ExpiryReason.offline), (59, .log, 7, 7, nil, nil),
            // Who keeps nothing stays, however long away.
            (600, .log, 100, 100, nil, nil), (600, .log, 200, 200, nil, nil),
            (7, .view(9), 0, 9, nil, .bootstrap), (7, .view(9), 12, 12, nil, nil),
            (6, .generation(1), 0, 40, nil, nil), (7, .generation(1), 0, 40, nil, .bootstrap),
            // The newest generation is there in any case.
            (59, .generation(2), 0, 100, nil, nil),
            // A write was acknowledged.
            (7, .generation(1), 9, 40, nil, nil), (60, .generation(1), 9, 40, nil, .offline),
            (1, .log, 7, 7, 7, .pinnedBytes), (1, .log, 7, 7, 6, nil), (0, .log, 7, 7, 7, nil),
        ] as [(UInt64, Lineage, ServerVersion, ServerVersion, ServerVersion?, ExpiryReason?)])
    func whoKeepsEntriesAndIsAwayExpires(
        days: UInt64, lineage: Lineage, base: ServerVersion, pin: ServerVersion, heavyVersion: ServerVersion?,
        reason: ExpiryReason?
    ) {
        let file = Self.file(unseenFor: days, lineage, base: base)
        let expiry = Self.expiry(heavyVersion: heavyVersion)
        #expect(expiry.reason(for: file, pin: pin) == reason)
        #expect(Self.expiry(connected: [5], heavyVersion: heavyVersion).reason(for: file, pin: pin) == nil)
        // The clock went back before the time when it was seen.
        #expect(Self.expiry(time: 1, heavyVersion: heavyVersion).reason(for: file, pin: pin) == nil)
    }

    @Test(arguments: StoreKind.allCases) func theBytesThatAreKeptAreThoseOfTheLog(kind: StoreKind) throws {
        let test = try TestStore(kind)
        let file = try SyncedFile.open(in: test.store)
        let ident = try file.allocateIdent().ident
        for version in 1...20 as ClosedRange<UInt64> {
            let changeset = ChangesetWriter.setting(1, to: Int64(version))
            try file.integrate(Upload([changeset], from: ClientVersion(version), base: 0), from: ident)
        }
        let log = try file.log(), end = log[14].cumulativeSize
        try file.read { view throws(HistoryError) in
            for bytes in 0...end + 1 {
                let expected = log.last { $0.version <= 15 && end - $0.cumulativeSize > bytes }?.version
                let found = try view.version(moreThan: bytes, before: 15)
                #expect(found == expected ?? (end > bytes ? 0 : nil), "\(bytes)")
            }
        }
    }

    // MARK: Rounds

    /// A file with 20 entries, of which a client that was seen long ago needs all. Its other clients need none.
    private static func populated(_ store: any HistoryStore, away count: Int = 1) throws -> SyncedFile {
        let file = try SyncedFile.open(in: store, keepsState: true)
        var writer = MemoryClient(try file.allocateIdents(for: ["ann"], at: now)[0])
        try writer.commit(ChangesetWriter.schema, at: 1)
        try writer.write(at: 1) { try $0.create("T", key: 1) }
        for number in 1...18 as ClosedRange<Int64> {
            try writer.commit(ChangesetWriter.setting(1, to: number), at: ChangesetTime(UInt64(number)))
            try writer.upload(to: file)
            try writer.download(from: file)
        }
        var row = try #require(try file.clientFile(writer.ident))
        (row.uploadCursor.serverVersion, row.lockedVersion, row.lastSeen) = (file.version, file.version, now)
        try file.commit([row], at: file.head)
        let idents = try file.allocateIdents(for: Array(repeating: "bob", count: count), at: now - 61 * day)
        let rows = try idents.map { ident in
            var row = try #require(try file.clientFile(ident.ident))
            row.lineage = .log
            return row
        }
        try file.commit(rows, at: file.head)
        return file
    }

    private static func round(
        _ time: UInt64 = now, expires: Bool = true, connected: Set<ClientFileID> = [], upTo limit: ServerVersion
    ) -> MaintenanceRound {
        MaintenanceRound(HistoryPolicy(), at: time, expires: expires, connected: connected, upTo: limit)
    }

    @Test(arguments: StoreKind.allCases) func whoIsAwayForLongKeepsTheLogNoMore(kind: StoreKind) throws {
        let test = try TestStore(kind)
        let file = try Self.populated(test.store)
        // Without a generation nothing can go, and so nobody expires.
        #expect(try file.maintain(at: Self.now, HistoryPolicy()) == MaintenanceReport())
        let kept = ClientFilePin(ident: 3, version: 0, lastSeen: Self.now - 61 * Self.day)
        for round in [
            Self.round(Self.now - Self.day - 1, upTo: 15), Self.round(expires: false, upTo: 15),
            Self.round(connected: [3], upTo: 15),
        ] {
            let report = try file.run(round)
            #expect(report.isEmpty && report.lowestPin == kept)
            #expect(file.head.baseVersion == 0)
        }
        let bytes = try file.log()[14].cumulativeSize
        #expect(try file.historyStatus().lowestPin == kept)
        let report = try file.run(Self.round(upTo: 15))
        #expect(
            report.expired == [
                ExpiredClientFile(ident: 3, user: "bob", reason: .offline, lastSeen: Self.now - 61 * Self.day)
            ])
        #expect(report.trimmedEntries == 15 && report.trimmedBytes == bytes && report.lowestPin == nil)
        #expect(file.head.baseVersion == 15)
        #expect(try file.clientFile(3)?.isExpired == true && file.clientFile(2)?.isExpired == false)
        let again = try file.run(Self.round(upTo: 15))
        #expect(again.expired.isEmpty && again.trimmedEntries == 0)
        try test.verify()
    }

    @Test(arguments: StoreKind.allCases) func manyExpireInSeveralCommits(kind: StoreKind) throws {
        let test = try TestStore(kind)
        let count = MaintenanceRound.expiredCountMax * 2 + 1
        let file = try Self.populated(test.store, away: count)
        var round = Self.round(upTo: 15), sizes: [Int] = []
        while !round.isDone {
            guard let commit = try file.step(&round) else { continue }
            if commit.trim == nil { sizes.append(commit.clientFiles.count) }
            try file.commit(commit)
        }
        #expect(sizes == [MaintenanceRound.expiredCountMax, MaintenanceRound.expiredCountMax, 1])
        #expect(round.report.expired.count == count && file.head.baseVersion == 15)
    }

    /// Who comes between two steps of a round is there.
    @Test(arguments: StoreKind.allCases) func whoComesInTheMiddleOfARoundStays(kind: StoreKind) throws {
        for moment in 0..<6 {
            let test = try TestStore(kind)
            let file = try Self.populated(test.store)
            let salt = try #require(try file.clientFile(3)).salt
            var round = Self.round(upTo: 15), steps = 0
            while !round.isDone {
                if steps == moment, try file.clientFile(3)?.isExpired == false {
                    _ = try file.identify(IdentRequest(file: SaltedFileID(ident: 3, salt: salt)))
                }
                steps += 1
                if let commit = try file.step(&round) { try file.commit(commit) }
            }
            let isExpired = try #require(try file.clientFile(3)).isExpired
            #expect(isExpired == !round.report.expired.isEmpty && isExpired == (file.head.baseVersion == 15))
            if moment < 3 { #expect(!isExpired, "at step \(moment)") }
        }
    }

    /// The server makes rounds of its own when something was written.
    @Test func aRoundIsDueWhenEnoughWasWritten() throws {
        let file = try Self.populated(try TestStore(.memory).store)
        var policy = HistoryPolicy()
        #expect(!file.isMaintenanceDue(policy))
        policy.sealEntries = 20
        #expect(file.isMaintenanceDue(policy))
        _ = try file.maintain(at: Self.now, policy)
        #expect(!file.isMaintenanceDue(policy))
        policy.sealBytes = 1
        #expect(!file.isMaintenanceDue(policy))
        try file.write(at: 1) { try $0.create("T", key: 2) }
        #expect(file.isMaintenanceDue(policy))
    }

    @Test(arguments: StoreKind.allCases) func itIsSaidWhatWouldGoWithoutAClientFile(kind: StoreKind) throws {
        let test = try TestStore(kind)
        let file = try Self.populated(test.store, away: 2)
        #expect(try file.freed(byExpiring: 3, upTo: 15) == (0, 0))
        try file.expire(4)
        #expect(try file.freed(byExpiring: 3, upTo: 15) == (15, try file.log()[14].cumulativeSize))
        #expect(try file.freed(byExpiring: 2, upTo: 15) == (0, 0))
        #expect(try file.freed(byExpiring: 3) == (0, 0))
        #expect(try code { _ = try file.freed(byExpiring: 99) } == .badClientFileIdent)
        let status = try file.historyStatus()
        #expect(status.lowestPin?.ident == 3 && status.user == "bob" && status.pinnedBytes == file.head.logBytes)
    }

    // MARK: The clock

    /// The changes of the two clocks, in hours, and if client files may expire then.
    @Test(
        arguments: [
            [(0, 0, true), (1, 1, true), (2, 2, true)],
            // It is set by less than the precision of the times that are noted.
            [(0, 0, true), (20, 1, true), (25, 2, true)],
            [(0, 0, true), (50, 1, false), (51, 2, false)],
            [(0, 0, true), (10, 10, true), (-30, 11, false), (-29, 12, false)],
            // In small steps, each of which would pass.
            [(0, 0, true), (20, 1, true), (40, 2, false)],
            // It was wrong for a while.
            [(0, 0, true), (5_000, 1, false), (2, 2, true), (3, 3, true)],
            // All clients have had the time to come since.
            [(0, 0, true), (1_000, 1, false), (1_000 + 1_439, 1_440, false), (1_000 + 1_440, 1_441, true)],
        ] as [[(Int64, UInt64, Bool)]])
    func nobodyExpiresBecauseOfAJump(steps: [(Int64, UInt64, Bool)]) {
        var clock = ClockWatch(remembered: nil)
        for (wall, monotonic, isTrusted) in steps {
            let time = UInt64(Int64(Self.now) + wall * 3_600)
            clock.record(wall: time, monotonic: monotonic * 3_600, trustedAfter: 60 * Self.day)
            #expect((clock.jump == nil) == isTrusted, "\(wall)")
            #expect(clock.rememberedTime(wall: time) == (isTrusted ? time : nil))
        }
    }

    @Test(arguments: [(0, true), (86_400, true), (86_401, false), (-86_400, true), (-86_401, false)])
    func aServerThatWasOffForLongLooksLikeAJump(seconds: Int64, isTrusted: Bool) {
        var clock = ClockWatch(remembered: Self.now)
        for monotonic in 0..<3 as Range<UInt64> {
            let wall = UInt64(Int64(Self.now) + seconds) + monotonic
            clock.record(wall: wall, monotonic: 500 + monotonic, trustedAfter: 60 * Self.day)
            #expect(clock.jump == (isTrusted ? nil : seconds))
        }
        clock.trust()
        clock.record(wall: UInt64(Int64(Self.now) + seconds) + 9, monotonic: 509, trustedAfter: 60 * Self.day)
        #expect(clock.jump == nil)
    }

    @Test func aStoreRemembersTheTime() throws {
        let test = try TestStore(.shards)
        #expect(try test.store.recordedTime() == nil)
        try test.store.recordTime(5)
        try test.store.recordTime(1_700_000_000)
        try test.restart()
        #expect(try test.store.recordedTime() == 1_700_000_000)
    }
}
