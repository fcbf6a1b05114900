import AnabranchCore
import AnabranchHistory
@testable import AnabranchProtocol
import AnabranchTesting
import Synchronization
import Testing

@testable import AnabranchServer

/// When synced files are maintained, and who waits for it: counted in turns, so that nothing depends on clocks.
@Suite struct FileMaintenanceTests {
    private static let path = "//kept"
    private static let steps = "anabranch_maintenance_steps_total"
    private static let failures = "anabranch_maintenance_failures_total"

    /// A rig in which entries are sealed four at a time.
    private static func rig(
        store: any HistoryStore = InMemoryStore(), _ counters: CountingMetrics = CountingMetrics()
    ) -> TurnRig {
        TurnRig(store: store, metrics: counters) { $0.history.sealEntries = 4 }
    }

    private static func status(_ store: any HistoryStore) throws -> HistoryStatus {
        try SyncedFile(path: VirtualPath(path), store: store, keepsState: false).historyStatus()
    }

    // MARK: Who waits

    @Test func oldEntriesAreSealedWhileClientsWrite() throws {
        let counters = CountingMetrics(), rig = Self.rig(counters)
        let clients = try rig.join(Self.path, count: 3)
        for round in 0..<20 as Range<UInt64> {
            rig.upload(TurnRig.updates(3), from: 3 * round + 1, of: clients[0])
            rig.submit(.scan(from: DownloadCursor()), of: clients[1])
            rig.takeTurns { clients[0].version == ServerVersion(3 * round + 3) }
        }
        rig.finish()
        #expect(clients.allSatisfy { $0.errors.isEmpty && $0.doneBytes == $0.submittedBytes })
        let status = try Self.status(rig.store)
        #expect(status.head.version == 60 && status.sealedVersion >= 56)
        #expect(counters.value("anabranch_log_entries_sealed_total") == Int(status.sealedVersion.rawValue))
        #expect(counters.value("anabranch_log_bytes_sealed_total") > 0 && counters.value(Self.failures) == 0)
    }

    @Test func nothingIsDoneWhereLittleWasWritten() throws {
        let counters = CountingMetrics(), rig = Self.rig(counters)
        let client = try rig.join(Self.path, count: 1)[0]
        rig.upload(TurnRig.updates(3), of: client)
        rig.submit(.scan(from: DownloadCursor()), of: client)
        rig.finish()
        #expect(client.version == 3 && counters.value(Self.steps) == 0)
    }

    /// Each upload of the second client is merged in many turns, and the next one comes when it is done.
    @Test func whereMergesNeverEndThereAreStepsMeanwhile() throws {
        let counters = CountingMetrics(), rig = Self.rig(counters)
        let clients = try rig.join(Self.path, count: 2)
        rig.upload(TurnRig.updates(40), of: clients[0])
        rig.takeTurns { clients[0].version == 40 }
        for version in 1...60 as ClosedRange<UInt64> {
            rig.upload(TurnRig.updates(1), from: version, of: clients[1])
            rig.takeTurns { clients[1].version == ServerVersion(40 + version) }
        }
        #expect(counters.value(Self.steps) > 5)
        rig.finish()
        #expect(try Self.status(rig.store).sealedVersion >= 96)
    }

    @Test func whatWaitsComesBeforeEachStep() throws {
        let counters = CountingMetrics(), rig = Self.rig(counters)
        let clients = try rig.join(Self.path, count: 2)
        rig.upload(TurnRig.updates(40), of: clients[0])
        rig.takeTurns { clients[0].version == 40 }
        for _ in 0..<FileTurns.shortTurnsMax {
            let before = counters.value(Self.steps), scans = clients[1].downloads.count
            rig.submit(.scan(from: DownloadCursor(serverVersion: 40)), of: clients[1])
            rig.takeTurns { clients[1].downloads.count > scans }
            #expect(counters.value(Self.steps) - before <= 1)
        }
        rig.finish()
        #expect(counters.value("anabranch_log_entries_sealed_total") >= 36)
    }

    @Test func aMergeThatTakesLongDoesNotHoldItUp() throws {
        let counters = CountingMetrics(), rig = Self.rig(counters)
        let clients = try rig.join(Self.path, count: 2)
        rig.upload([TurnRig.object] + TurnRig.updates(12), of: clients[0])
        rig.takeTurns { clients[0].version == 13 }
        rig.upload([TurnRig.object] + TurnRig.updates(2), of: clients[1])
        rig.takeTurns { rig.isMerging(Self.path) }
        let before = counters.value(Self.steps)
        rig.takeTurns { counters.value(Self.steps) > before }
        #expect(rig.isMerging(Self.path))
        rig.finish()
        #expect(clients[1].version == 16)
    }

    // MARK: Trouble

    @Test(arguments: [FragileStore.Operation.commit, .read]) func aFailingStoreEndsTheRound(
        _ operation: FragileStore.Operation
    ) throws {
        let counters = CountingMetrics(), store = FragileStore(), rig = Self.rig(store: store, counters)
        let client = try rig.join(Self.path, count: 1)[0]
        rig.upload(TurnRig.updates(9), of: client)
        rig.takeTurns { client.version == 9 }
        store.fail(operation)
        rig.finish()
        #expect(counters.value(Self.failures) == 1 && counters.value(Self.steps) == 1)
        // After a commit nobody knows what is stored, and everybody begins anew.
        #expect(client.errors.count == (operation == .commit ? 1 : 0))
        #expect(client.errors.allSatisfy { $0.triesAgain })
        store.fail()
        if operation == .commit { rig.bind(client) }
        rig.finish()
        #expect(counters.value(Self.steps) == 1, "it is not tried again before more is written")
        rig.upload(TurnRig.updates(4), from: 10, of: client)
        rig.finish()
        #expect(try Self.status(store).sealedVersion == 12 && counters.value(Self.failures) == 1)
    }

    // MARK: Files that nobody has open

    @Test func aFileIsClosedWhenTheRoundIsOver() throws {
        let rig = Self.rig(), client = try rig.join(Self.path, count: 1)[0]
        rig.upload(TurnRig.updates(40), of: client)
        rig.takeTurns { client.version == 40 }
        rig.submit(.close, of: client)
        rig.takeTurn()
        #expect(rig.files.queue(of: client.path) != nil)
        rig.finish()
        #expect(rig.files.queue(of: client.path) == nil)
        #expect(try Self.status(rig.store).sealedVersion >= 36)
    }

    @Test func whenTheServerEndsNoFurtherStepIsTaken() throws {
        let counters = CountingMetrics(), rig = Self.rig(counters)
        let client = try rig.join(Self.path, count: 1)[0]
        rig.upload(TurnRig.updates(40), of: client)
        rig.takeTurns { counters.value(Self.steps) == 2 }
        let outcome = Mutex<Result<MaintenanceReport, any Error>?>(nil)
        let job = FileJob(comesAfterMerge: false) { $0?.maintain { result in outcome.withLock { $0 = result } } }
        rig.files.submit(job, to: client.path)
        rig.files.endLongMerges()
        rig.finish()
        #expect(counters.value(Self.steps) == 2 && counters.value(Self.failures) == 0)
        #expect(throws: HistoryError.self) { try outcome.withLock { try $0?.get() } }
    }

    @Test func whoAsksIsToldWhatWasDone() throws {
        let rig = Self.rig(), client = try rig.join(Self.path, count: 1)[0]
        rig.upload(TurnRig.updates(3), of: client)
        rig.upload(TurnRig.updates(3), from: 4, of: client)
        rig.takeTurns { client.version == 6 }
        rig.submit(.close, of: client)
        let reports = Mutex<[MaintenanceReport]>([])
        for _ in 0..<2 {
            let job = FileJob(comesAfterMerge: false) { file in
                file?.maintain { outcome in
                    if case .success(let report) = outcome { reports.withLock { $0.append(report) } }
                }
            }
            rig.files.submit(job, to: client.path)
        }
        rig.finish()
        #expect(reports.withLock { $0.map(\.sealedEntries) } == [4, 4], "both asked for the same round")
        #expect(rig.files.queue(of: client.path) == nil)
    }

    @Test func filesThatNobodyOpensAreMaintained() async throws {
        let store = InMemoryStore(), paths = (0..<250).map { "//\($0)" }
        for (index, path) in paths.enumerated() where index % 50 == 0 {
            let rig = TurnRig(store: store), client = try rig.join(path, count: 1)[0]
            rig.upload(TurnRig.updates(index < 50 ? 3 : 20), of: client)
            rig.finish()
        }
        for path in paths {
            _ = try SyncedFile(path: VirtualPath(path), store: store).allocateIdents(for: ["ann"], at: 1)
        }
        let counters = CountingMetrics()
        var options = FileOptions()
        options.history.sealEntries = 4
        let environment = FileEnvironment(
            store: store, options: options, metrics: SyncMetrics(factory: counters), logger: .quiet, unixSeconds: { 1 })
        let files = FileQueues(environment, threads: 1) { _ in }
        await MaintenancePass(files: files, catalog: store, logger: .quiet).run()
        #expect(counters.value("anabranch_log_entries_sealed_total") == 4 * 16)
        try await files.shutDown()
    }

    // MARK: Who is seen

    @Test func itIsNotedOnceADayThatAClientIsStillThere() throws {
        let rig = Self.rig()
        rig.clock.seconds = 1_000_000
        let clients = try rig.join(Self.path, count: FileTurns.recordedCountMax + 10)
        for later in [3_600, 90_000, 100_000, 180_000] as [UInt64] {
            let before = try clients.map { try #require(try rig.stored($0)).lastSeen }
            rig.clock.seconds = 1_000_000 + later
            rig.files.updateConnected()
            rig.finish()
            let after = try clients.map { try #require(try rig.stored($0)).lastSeen }
            for (before, after) in zip(before, after) {
                #expect(after == (1_000_000 + later - before >= 86_400 ? 1_000_000 + later : before))
            }
        }
        #expect(clients.allSatisfy { $0.errors.isEmpty })
    }

    // MARK: Limits

    @Test func aLogThatHoldsMoreThanItMayTakesNoMore() throws {
        let rig = TurnRig { $0.history.logBytesMax = 30 }, clients = try rig.join(Self.path, count: 2)
        rig.upload(TurnRig.updates(3), of: clients[0])
        rig.finish()
        rig.upload(TurnRig.updates(1), from: 4, of: clients[0])
        rig.submit(.scan(from: DownloadCursor()), of: clients[1])
        rig.finish()
        #expect(clients[0].errors.map(\.code) == [.otherSessionError] && clients[0].errors[0].triesAgain)
        #expect(clients[1].errors.isEmpty && clients[1].downloads.last?.cursor.serverVersion == 3)
    }

    /// Who keeps it comes on while it is full: then it is looked again, though nothing was written.
    @Test func aFullLogHasRoomWhenNobodyNeedsItAnyMore() throws {
        let rig = TurnRig(keepsState: true) { $0.history.logBytesMax = 60 }
        let client = try rig.join(Self.path, count: 1)[0]
        func upload(_ changesets: [[UInt8]], upTo number: UInt64, after version: ServerVersion) {
            let cursor = UploadCursor(clientVersion: ClientVersion(number), serverVersion: version)
            let uploaded = changesets.map { UploadedChangeset(cursor: cursor, timestamp: 5, changeset: $0) }
            let upload = Upload(progress: cursor, lockedVersion: version, changesets: uploaded)
            rig.submit(.integrate(UploadMessage(upload)), of: client)
            rig.finish()
        }
        upload([TurnRig.object], upTo: 1, after: 0)
        for number in 2...6 as ClosedRange<UInt64> where client.errors.isEmpty {
            upload(TurnRig.updates(1), upTo: number, after: 0)
        }
        #expect(client.errors.map(\.code) == [.otherSessionError])
        let full = try #require(client.version)
        // It learns what the others have written, and says so.
        rig.bind(client)
        rig.submit(.scan(from: DownloadCursor()), of: client)
        rig.finish()
        upload([], upTo: full.rawValue + 1, after: full)
        #expect(client.errors.count == 1)
        upload(TurnRig.updates(1), upTo: full.rawValue + 2, after: full)
        #expect(client.errors.count == 2 && client.version == full)
        rig.clock.seconds += FullFiles.roundSeconds
        let latest = try #require(client.downloads.last).latest
        func comeAgain() {
            let cursor = DownloadCursor(serverVersion: full, clientVersion: ClientVersion(full.rawValue))
            let bind = BindRequest(partition: client.path.bytes, needsFileIdent: false)
            rig.submit(.open(bind), of: client)
            let claim = IdentRequest(file: client.file, download: cursor, latest: latest)
            rig.submit(.identify(claim, hasRestarted: false), of: client)
            rig.finish()
            upload(TurnRig.updates(1), upTo: full.rawValue + 2, after: full)
        }
        comeAgain()
        #expect(client.errors.map(\.code) == [.otherSessionError, .otherSessionError, .otherSessionError])
        comeAgain()
        #expect(client.errors.count == 3 && client.version == full + 1)
    }

    @Test func aFullFileIsToldOfOnceAndLookedAtOnceAMinute() {
        let files = FullFiles(), path = VirtualPath(Self.path)
        #expect(files.isRoundDue(for: path, at: 100) && !files.isRoundDue(for: path, at: 159))
        #expect(files.isRoundDue(for: path, at: 160) && files.isRoundDue(for: VirtualPath("//other"), at: 160))
        // The clock was set back.
        #expect(files.isRoundDue(for: path, at: 1))
        #expect(!files.record(path, isFull: false))
        #expect(files.record(path, isFull: true) && !files.record(path, isFull: true))
        #expect(!files.record(path, isFull: false) && files.record(path, isFull: true))
    }
}
