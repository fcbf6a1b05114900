import AnabranchCore
import AnabranchHistory
@testable import AnabranchProtocol
import NIOCore
import NIOEmbedded
import Synchronization
import Testing

@testable import AnabranchServer

/// The threads that take the turns of synced files, and those that store what turns come to.
@Suite(.timeLimit(.minutes(30))) struct FileQueueTests {
    private static func environment(_ store: any HistoryStore, _ metrics: SyncMetrics = SyncMetrics())
        -> FileEnvironment
    {
        FileEnvironment(store: store, metrics: metrics, logger: .quiet, unixSeconds: { 1 })
    }

    @Test func everyJobAfterTheEndFails() async throws {
        let files = FileQueues(Self.environment(InMemoryStore()), threads: 1) { _ in }
        try await files.shutDown()
        for _ in 0..<2 {
            await #expect(throws: HistoryError(.storeFailed, "")) {
                try await files.run(on: VirtualPath("/f")) { _ in }
            }
            await #expect(throws: HistoryError(.storeFailed, "")) {
                try await files.write(to: VirtualPath("/f"), idempotencyKey: nil, at: 1) { _ in }
            }
        }
    }

    @Test("one thread at a time works on a file, and all that is submitted to it is done in its order")
    func serial() async throws {
        let files = FileQueues(Self.environment(InMemoryStore()), threads: 4) { _ in }
        let records = (0..<3).map { _ in Record() }
        for number in 0..<3_000 {
            let record = records[number % 3]
            files.submit(
                FileJob(comesAfterMerge: false) { _ in
                    record.begin()
                    record.end(number)
                }, to: VirtualPath("//\(number % 3)"))
        }
        try await files.shutDown()
        for (index, record) in records.enumerated() {
            let (overlaps, numbers) = record.result
            #expect(overlaps == 0)
            #expect(numbers == Array(stride(from: index, to: 3_000, by: 3)))
        }
    }

    /// The steps that were done with a file.
    private final class Record: Sendable {
        private let state = Mutex((isBusy: false, overlaps: 0, numbers: [Int]()))

        var result: (overlaps: Int, numbers: [Int]) { state.withLock { ($0.overlaps, $0.numbers) } }

        func begin() {
            state.withLock { state in
                if state.isBusy { state.overlaps += 1 }
                state.isBusy = true
            }
        }

        func end(_ number: Int) {
            state.withLock { state in
                state.numbers.append(number)
                state.isBusy = false
            }
        }
    }

    /// A new client of a file.
    private static func bind(_ number: UInt64, to path: String) -> FileRequest {
        let session = SessionKey(
            connection: ConnectionID(number: number), session: SessionHandle(ident: 1, serial: 1))
        let request = SessionRequest.open(BindRequest(partition: Array(path.utf8), needsFileIdent: true))
        return FileRequest(
            path: VirtualPath(path), session: session, principal: Principal(app: ""), capabilities: .all,
            request: request)
    }

    /// The files of a server, to each of which a client has come.
    private static func openFiles(_ paths: [VirtualPath], in store: any HistoryStore) async -> FileQueues {
        let (replies, onReply) = AsyncStream.makeStream(of: FileReply.self)
        let files = FileQueues(environment(store), threads: 1) { turn in
            for reply in turn.replies { onReply.yield(reply) }
        }
        for (number, path) in paths.enumerated() { files.submit(bind(UInt64(number), to: "\(path)")) }
        var idents = 0
        for await reply in replies {
            if case .fileIdentAllocated = reply.event { idents += 1 }
            if idents == paths.count { break }
        }
        return files
    }

    /// However many files somebody keeps busy.
    @Test func stepsAreShorterWhileManyFilesWait() {
        let lengths = [0, 16, 32, 160, 100_000].map { FileEnvironment.stepMilliseconds(whileReady: $0) }
        #expect(lengths == [10, 10, 5, 1, 1])
        let environment = Self.environment(InMemoryStore()), files = FileQueues(environment, threads: nil) { _ in }
        for number in 0..<40 as Range<UInt64> { files.submit(Self.bind(number, to: "//\(number)")) }
        files.takeTurn()
        #expect(environment.readyCount.load(ordering: .relaxed) == 39)
    }

    /// A file keeps it until it comes to the request.
    @Test func theSetOfAnIdentCounts() {
        let set = SubscriptionSet(version: 1, query: Array(#"{"T":"TRUEPREDICATE"}"#.utf8))
        let claim = IdentRequest(file: SaltedFileID(ident: 2, salt: 1), subscriptions: set)
        let request = FileRequest(
            path: VirtualPath("a"), session: Self.bind(0, to: "//0").session, principal: Principal(app: ""),
            capabilities: .all, request: .identify(claim, hasRestarted: false))
        #expect(request.cost == 256 + set.query.count)
    }

    @Test("while commits are stored, others of the shard come together for the next one, and nobody else waits")
    func groups() async throws {
        let store = GatedStore(), counters = CountingMetrics()
        let (replies, onReply) = AsyncStream.makeStream(of: FileReply.self)
        let files = FileQueues(Self.environment(store, SyncMetrics(factory: counters)), threads: 1) { turn in
            for reply in turn.replies { onReply.yield(reply) }
        }
        store.closeGate()
        files.submit(Self.bind(0, to: "//0"))
        for await _ in store.inbound { break }
        for number in 1...10 as ClosedRange<UInt64> { files.submit(Self.bind(number, to: "//\(number)")) }
        // When these are done, the only worker has taken the turns of the files before.
        for number in 1...10 {
            #expect(try await files.run(on: VirtualPath("//other\(number)")) { $0.sessions == nil })
        }
        store.openGate()
        var idents = 0
        for await reply in replies {
            guard case .fileIdentAllocated = reply.event else { continue }
            idents += 1
            if idents == 11 { break }
        }
        try await files.shutDown()
        #expect(counters.value("anabranch_transactions_total") == 2)
    }

    @Test("a transaction ends with the commit with which it is too long, also where a generation gets its entries")
    func longGroups() async throws {
        let store = GatedStore(), counters = CountingMetrics()
        let committers = Committers(store, threads: 1, SyncMetrics(factory: counters))
        let (outcomes, onOutcome) = AsyncStream.makeStream(of: HistoryError?.self)
        func commit(_ number: Int, bytes: Int) throws {
            let file = try store.open(VirtualPath("//\(number)"))
            var commit = Commit(file: file.id, lease: file.lease, head: file.head)
            commit.generation = .append(to: 1, last: 1, block: [UInt8](repeating: 0, count: bytes))
            committers.store([commit]) { onOutcome.yield($0) }
        }
        store.closeGate()
        try commit(0, bytes: 1)
        for await _ in store.inbound { break }
        for number in 1...3 { try commit(number, bytes: 3 << 20) }
        store.openGate()
        var outcomeCount = 0
        for await outcome in outcomes {
            #expect(outcome == nil)
            outcomeCount += 1
            if outcomeCount == 4 { break }
        }
        try await committers.shutDown()
        #expect(counters.value("anabranch_transactions_total") == 3)
    }

    @Test("of commits that are stored together, one that fails fails alone")
    func failureInGroup() async throws {
        let store = GatedStore(refusing: [VirtualPath("//3")])
        let (replies, onReply) = AsyncStream.makeStream(of: FileReply.self)
        let files = FileQueues(Self.environment(store), threads: 1) { turn in
            for reply in turn.replies { onReply.yield(reply) }
        }
        store.closeGate()
        for number in 0..<6 as Range<UInt64> { files.submit(Self.bind(number, to: "//\(number)")) }
        for await _ in store.inbound { break }
        // The first commit waits at the gate; when this is done, the others wait behind it.
        #expect(try await files.run(on: VirtualPath("//other")) { $0.sessions == nil })
        store.openGate()
        var made: Set<UInt64> = [], failed: Set<UInt64> = []
        for await reply in replies {
            switch reply.event {
            case .fileIdentAllocated: made.insert(reply.session.connection.number)
            case .failed(let error):
                #expect(error.triesAgain)
                failed.insert(reply.session.connection.number)
            default: Issue.record("\(reply)")
            }
            if made.count + failed.count == 6 { break }
        }
        #expect(failed == [3])
        try await files.shutDown()
    }

    /// Alone it does not fit, since it was made already.
    @Test("a write whose transaction fails when it is made is not made a second time")
    func lateFailureInGroup() async throws {
        let store = GatedStore(isShared: true, isForgetful: true), paths = [VirtualPath("//1"), VirtualPath("//2")]
        let (outcomes, onOutcome) = AsyncStream.makeStream(of: Bool.self)
        let files = FileQueues(Self.environment(store), threads: 1) { _ in }
        store.closeGate()
        files.submit(Self.bind(0, to: "//0"))
        for await _ in store.inbound { break }
        for path in paths {
            let job = FileJob(comesAfterMerge: true) { file in
                file?.write(idempotencyKey: nil, at: 1) { transaction in
                    try transaction.addClass("T\(transaction.classNames.count)")
                } _: { outcome in
                    onOutcome.yield((try? outcome.get()) != nil)
                }
            }
            files.submit(job, to: path)
        }
        #expect(try await files.run(on: VirtualPath("//other")) { $0.sessions == nil })
        store.openGate()
        var made: [Bool] = []
        for await isMade in outcomes {
            made.append(isMade)
            if made.count == 2 { break }
        }
        #expect(made == [false, false])
        try await files.shutDown()
        for path in paths { #expect(try SyncedFile(path: path, store: store).version == 1) }
    }

    @Test("of the open files those are looked at each second that another node has written")
    func polling() async throws {
        let store = GatedStore(isShared: true), paths = [VirtualPath("//1"), VirtualPath("//2")]
        let files = await Self.openFiles(paths, in: store)
        func versions() async throws -> [ServerVersion?] {
            var versions: [ServerVersion?] = []
            for path in paths { versions.append(try await files.run(on: path) { $0.sessions?.file.version }) }
            return versions
        }
        #expect(try await versions() == [0, 0])
        try SyncedFile(path: paths[0], store: store).write(at: 1) { try $0.addClass("T") }
        let before = store.readings.withLock { $0 }
        files.follow()
        #expect(try await versions() == [1, 0])
        let after = store.readings.withLock { $0 }
        #expect(after.filter { before[$0.key] != $0.value }.count == 1, "\(before), \(after)")
        try await files.shutDown()
    }

    @Test("a file to which somebody has come at another node is deleted all the same, after another look at it")
    func deletion() async throws {
        let store = GatedStore(isShared: true), path = VirtualPath("//1")
        let files = await Self.openFiles([path], in: store)
        _ = try SyncedFile(path: path, store: store).allocateIdents(for: [nil], at: 1)
        #expect(try await files.delete(path, onlyOf: nil))
        #expect(try !store.contains(path))
        try await files.shutDown()
    }

    @Test("what is written when the server ends is stored before it has ended")
    func end() async throws {
        let store = GatedStore(), path = VirtualPath("//notes")
        let files = FileQueues(Self.environment(store), threads: 2) { _ in }
        async let made = files.write(to: path, idempotencyKey: nil, at: 1) { tx in
            try tx.addClass("Note", key: "_id", .int)
        }
        #expect(try await made.version == 1)
        files.submit(Self.bind(1, to: "//notes"))
        try await files.shutDown()
        #expect(try SyncedFile(path: path, store: store).head.clientFileCount == 1)
    }

    @Test("what a worker waits for is stored by the committers, too")
    func waiting() async throws {
        let store = GatedStore(), path = VirtualPath("//f"), counters = CountingMetrics()
        let ident = try #require(try SyncedFile(path: path, store: store).allocateIdents(for: [nil], at: 1).first).ident
        let files = FileQueues(Self.environment(store, SyncMetrics(factory: counters)), threads: 1) { _ in }
        #expect(try await files.run(on: path) { try $0.expire(ident) })
        #expect(counters.value("anabranch_transactions_total") == 1)
        try await files.shutDown()
        #expect(try SyncedFile(path: path, store: store).clientFile(ident)?.isExpired == true)
    }

    @Test("requests of one pass of an event loop go to their files together, and all of them are done")
    func outbox() async throws {
        let (done, onDone) = AsyncStream.makeStream(of: TurnReplies.self)
        let files = FileQueues(Self.environment(InMemoryStore()), threads: 3) { onDone.yield($0) }
        let loop = EmbeddedEventLoop()
        let outbox = RequestOutboxes(to: files).outbox(of: loop)
        for number in 1...50 as ClosedRange<UInt64> {
            outbox.append(Self.bind(number, to: "//\(number)"))
        }
        let reserved = files.budget.bytesInUse
        #expect(reserved == 50 * 256)
        loop.run()
        var replies: Set<ConnectionID> = [], doneBytes = 0
        for await turn in done {
            replies.formUnion(turn.replies.map(\.session.connection))
            doneBytes += turn.done.reduce(0) { $0 + $1.bytes }
            if doneBytes == reserved, replies.count == 50 { break }
        }
        try await files.shutDown()
        #expect(files.budget.bytesInUse == 0)
    }

    @Test("what says only how far clients have come waits for more of the like, and for no other request")
    func outboxOfProgress() async throws {
        let files = FileQueues(Self.environment(InMemoryStore()), threads: nil) { _ in }
        let loop = EmbeddedEventLoop(), path = VirtualPath("//f")
        let outbox = RequestOutboxes(to: files).outbox(of: loop)
        func appendProgress() {
            let upload = UploadMessage(Upload(progress: UploadCursor(clientVersion: 1, serverVersion: 0)))
            var request = Self.bind(1, to: "//f")
            request = FileRequest(
                path: path, session: request.session, principal: Principal(app: ""), capabilities: .all,
                request: .integrate(upload))
            outbox.append(request)
            loop.run()
        }
        for _ in 0..<3 { appendProgress() }
        #expect(files.queue(of: path) == nil)
        loop.advanceTime(by: .milliseconds(Int64(RequestOutbox.progressMillisecondsMax)))
        #expect(files.queue(of: path) != nil)
        while files.takeTurn() {}
        #expect(files.queue(of: path) == nil && files.budget.bytesInUse == 0)
        appendProgress()
        outbox.append(Self.bind(1, to: "//f"))
        #expect(files.queue(of: path) == nil)
        loop.run()
        #expect(files.queue(of: path) != nil)
        while files.takeTurn() {}
        for _ in 1..<RequestOutbox.progressCountMax { appendProgress() }
        #expect(!files.takeTurn() && files.budget.bytesInUse > 0)
        appendProgress()
        while files.takeTurn() {}
        #expect(files.budget.bytesInUse == 0)
        // Nothing is left to be sent later.
        loop.advanceTime(by: .seconds(1))
        #expect(files.budget.bytesInUse == 0)
        try await files.shutDown()
    }

    /// A client that learns of the write from whoever made it asks by MARK whether it has everything. The answer has to
    /// count the write in.
    @Test("when a write returns, the sessions have been told of it")
    func tellingOfWrites() async throws {
        let store = InMemoryStore(), path = VirtualPath("//notes")
        let file = try #require(try SyncedFile(path: path, store: store).allocateIdents(for: [nil], at: 1).first)
        let told = Mutex<Set<ServerVersion>>([])
        let (running, onRunning) = AsyncStream.makeStream(of: Void.self)
        let files = FileQueues(
            Self.environment(store), threads: 1,
            deliver: { turn in
                for reply in turn.replies {
                    switch reply.event {
                    case .identAccepted: onRunning.yield()
                    case .versionExposed(let version): _ = told.withLock { $0.insert(version) }
                    case .download(let progress, _): _ = told.withLock { $0.insert(progress.latest.version) }
                    default: Issue.record("\(reply.event)")
                    }
                }
            })
        let session = SessionKey(
            connection: ConnectionID(number: 1), session: SessionHandle(ident: 1, serial: 1))
        let claim = IdentRequest(file: file, download: DownloadCursor(), latest: SaltedVersion())
        for request in [
            SessionRequest.open(BindRequest(partition: Array("/notes".utf8), needsFileIdent: false)),
            .identify(claim, hasRestarted: false),
        ] {
            files.submit(
                FileRequest(
                    path: path, session: session, principal: Principal(app: ""), capabilities: .all, request: request))
        }
        for await _ in running { break }
        for number in 1...200 {
            let made = try await files.write(to: path, idempotencyKey: nil, at: 1) { tx in
                try tx.addClass("Note", key: "_id", .int)
                try tx.create("Note", key: .int(Int64(number)))
            }
            #expect(told.withLock { $0.contains(made.version) }, "write \(number)")
        }
        try await files.shutDown()
    }
}
