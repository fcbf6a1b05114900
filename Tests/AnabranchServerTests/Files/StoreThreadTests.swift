import AnabranchCore
import AnabranchHistory
@testable import AnabranchProtocol
import NIOEmbedded
import Synchronization
import Testing

@testable import AnabranchServer

@Suite(.timeLimit(.minutes(5))) struct StoreThreadTests {
    @Test func everyJobAfterTheEndFails() async throws {
        let stores = StoreThreads(
            count: 1,
            makeRegistry: {
                FileRegistry(
                    store: InMemoryStore(), limits: Limits(), backlogBytesMax: 0, sharedBodiesBytesMax: 0,
                    metrics: SyncMetrics(), logger: .quiet, unixSeconds: { 1 })
            }, deliver: { _ in })
        try await stores.shutDown()
        for _ in 0..<2 {
            await #expect(throws: HistoryError(.storeFailed, "")) {
                try await stores.run(on: VirtualPath("/f")) { _ in }
            }
        }
    }

    @Test("requests of one pass of an event loop go to the threads of their files together, and all of them are done")
    func outbox() async throws {
        let (done, onDone) = AsyncStream.makeStream(of: ConnectionReplies.self)
        let stores = StoreThreads(
            count: 3,
            makeRegistry: {
                FileRegistry(
                    store: InMemoryStore(), limits: Limits(), backlogBytesMax: 0, sharedBodiesBytesMax: 0,
                    metrics: SyncMetrics(), logger: .quiet, unixSeconds: { 1 })
            }, deliver: { for batch in $0 { onDone.yield(batch) } })
        let loop = EmbeddedEventLoop()
        let outbox = RequestOutboxes(to: stores).outbox(of: loop)
        for number in 1...50 as ClosedRange<UInt64> {
            let session = SessionKey(
                connection: ConnectionID(number: number), session: SessionHandle(ident: 1, serial: 1))
            let request = SessionRequest.open(BindRequest(partition: Array("\(number)".utf8), needsFileIdent: true))
            outbox.append(
                FileRequest(
                    path: VirtualPath("//\(number)"), session: session, user: nil, capabilities: .all, request: request)
            )
        }
        let reserved = stores.budget.bytesInUse
        #expect(reserved == 50 * 256)
        loop.run()
        var replies: Set<ConnectionID> = [], doneBytes = 0
        for await batch in done {
            if !batch.replies.isEmpty { replies.insert(batch.connection) }
            doneBytes += batch.doneBytes
            if doneBytes == reserved { break }
        }
        #expect(replies.count == 50)
        try await stores.shutDown()
        #expect(stores.budget.bytesInUse == 0)
    }

    /// A client that learns of the write from whoever made it asks by MARK whether it has everything. The answer has to
    /// count the write in.
    @Test("when a write returns, the sessions have been told of it")
    func tellingOfWrites() async throws {
        let store = InMemoryStore(), path = VirtualPath("//notes")
        let file = try #require(try SyncedFile(path: path, store: store).allocateIdents(for: [nil], at: 1).first)
        let told = Mutex<Set<ServerVersion>>([])
        let (running, onRunning) = AsyncStream.makeStream(of: Void.self)
        let stores = StoreThreads(
            count: 1,
            makeRegistry: {
                FileRegistry(
                    store: store, limits: Limits(), backlogBytesMax: 0, sharedBodiesBytesMax: 0,
                    metrics: SyncMetrics(), logger: .quiet, unixSeconds: { 1 })
            },
            deliver: { batches in
                for reply in batches.flatMap(\.replies) {
                    switch reply.event {
                    case .identAccepted: onRunning.yield()
                    case .versionExposed(let version): _ = told.withLock { $0.insert(version) }
                    default: Issue.record("\(reply.event)")
                    }
                }
            })
        let session = SessionKey(
            connection: ConnectionID(number: 1), session: SessionHandle(ident: 1, serial: 1))
        let claim = IdentRequest(file: file, download: DownloadCursor(), latest: SaltedVersion())
        for request in [
            SessionRequest.open(BindRequest(partition: Array("/notes".utf8), needsFileIdent: false)),
            .identify(claim),
        ] {
            stores.submit(
                FileRequest(path: path, session: session, user: nil, capabilities: .all, request: request))
        }
        for await _ in running { break }
        for number in 1...200 {
            let made = try await stores.run(on: path) { registry in
                try registry.write(to: path, idempotencyKey: nil, at: 1) { tx in
                    try tx.addClass("Note", key: "_id", .int)
                    try tx.create("Note", key: .int(Int64(number)))
                }
            }
            #expect(told.withLock { $0.contains(made.version) }, "write \(number)")
        }
        try await stores.shutDown()
    }
}
