import AnabranchCore
import AnabranchHistory
@testable import AnabranchProtocol
import AnabranchTesting
import Synchronization
import Testing

@testable import AnabranchServer

/// What a store thread does in which turn: nobody waits for a long merge, or for many requests, of another file.
@Suite struct StoreTurnTests {
    private static let path = "//long"

    /// A file whose second client has begun to upload what has to be merged with twelve entries of the first one.
    private func mergingRig(
        keepsState: Bool = false, then behind: [[UInt8]] = []
    ) throws -> (rig: TurnRig, clients: [TurnRig.Client]) {
        let rig = TurnRig(keepsState: keepsState)
        return (rig, try beginMerge(in: rig, then: behind))
    }

    private func beginMerge(in rig: TurnRig, then behind: [[UInt8]] = []) throws -> [TurnRig.Client] {
        let clients = try rig.join(Self.path, count: 3)
        rig.upload([TurnRig.object] + TurnRig.updates(12), of: clients[0])
        rig.finish()
        rig.upload([TurnRig.object] + TurnRig.updates(2) + behind, of: clients[1])
        rig.takeTurn()
        #expect(rig.isMerging(Self.path))
        return clients
    }

    private func log(_ rig: TurnRig) throws -> [LogEntry] {
        try SyncedFile(path: VirtualPath(Self.path), store: rig.store, keepsState: false).log()
    }

    @Test("while an upload is merged, sessions of its file and of others are served")
    func merging() throws {
        let rig = TurnRig()
        let other = try rig.join("//other", count: 1)[0]
        let clients = try beginMerge(in: rig)
        let neighbour = clients[2]
        rig.submit(.scan(from: DownloadCursor()), of: neighbour)
        rig.upload(TurnRig.updates(1), of: other)
        rig.takeTurn()
        #expect(neighbour.downloads.map(\.cursor.serverVersion) == [13])
        rig.takeTurn()
        #expect(other.version == 1)
        rig.upload(TurnRig.updates(1), of: neighbour)
        rig.takeTurn()
        #expect(rig.isMerging(Self.path))
        rig.finish()
        #expect(clients[1].version == 17)
        #expect(try log(rig).map(\.origin) == Array(repeating: 2, count: 13) + [3, 3, 3, 4])
    }

    @Test("an upload counts as waiting until it is committed, and every other request until it is handled")
    func charges() throws {
        let (rig, clients) = try mergingRig()
        let done = clients[1].doneBytes
        #expect(done == 2 * 256 && clients[0].doneBytes == clients[0].submittedBytes)
        rig.submit(.scan(from: DownloadCursor()), of: clients[1])
        rig.takeTurn()
        #expect(clients[1].doneBytes == done + 256)
        rig.finish()
        #expect(clients[1].doneBytes == clients[1].submittedBytes)
    }

    @Test("a large upload is committed in parts, of which everybody is told, and counts as waiting until the last one")
    func parts() throws {
        let rig = TurnRig(), clients = try rig.join("//large", count: 2)
        let field = FieldPath(object: ObjectName(className: "T", key: .int(1)), field: "b")
        let large = ChangesetWriter([.update(field, .binary([UInt8](repeating: 1, count: 600_000)))]).bytes
        rig.upload([large, large, large], of: clients[0])
        var versions: [ServerVersion?] = [], waitingBytes: [Int] = []
        while rig.turns.hasWork {
            rig.takeTurn()
            versions.append(clients[1].version)
            waitingBytes.append(clients[0].submittedBytes - clients[0].doneBytes)
        }
        #expect(Set(versions) == [2, 3])
        #expect(zip(versions, waitingBytes).allSatisfy { ($0 == 3) == ($1 == 0) })
    }

    @Test("of a client whose upload is refused after a long merge, nothing is integrated that came meanwhile")
    func refusal() throws {
        let nowhere = FieldPath(object: ObjectName(className: "Nowhere", key: .int(1)), field: "n")
        let nonsense = ChangesetWriter([.update(nowhere, .int(1))]).bytes
        let (rig, clients) = try mergingRig(keepsState: true, then: [nonsense])
        rig.upload(TurnRig.updates(1), from: 5, of: clients[1])
        rig.upload(TurnRig.updates(1), of: clients[2])
        for _ in 0..<3 { rig.takeTurn() }
        #expect(rig.isMerging(Self.path))
        rig.finish()
        #expect(clients[1].errors.map(\.code) == [.badChangeset])
        #expect(clients[1].doneBytes == clients[1].submittedBytes)
        #expect(try log(rig).map(\.origin) == Array(repeating: 2, count: 13) + [4])
    }

    @Test("a write of the server to a file waits until the merge that has begun there is committed")
    func serverWrite() throws {
        let (rig, clients) = try mergingRig(keepsState: true)
        let written = Mutex<ServerVersion?>(nil), path = VirtualPath(Self.path)
        let job = StoreJob(path: path, comesAfterMerge: true) { registry in
            let made = try? registry?.write(to: path, idempotencyKey: nil, at: 9) { tx in
                try tx.addClass("Note", key: "_id", .int)
            }
            return { written.withLock { $0 = made?.version } }
        }
        rig.turns.take([job], [])
        rig.takeTurn()
        #expect(rig.isMerging(Self.path) && written.withLock { $0 } == nil)
        rig.finish()
        #expect(written.withLock { $0 } == 17)
        #expect(clients[1].version == 17)
    }

    @Test("when the server ends, a long merge is given up, and its client can send the same again")
    func shutdown() throws {
        let (rig, clients) = try mergingRig()
        rig.takeTurn(isEnding: true)
        #expect(!rig.turns.hasWork)
        #expect(clients.map(\.errors.count) == [1, 1, 1])
        #expect(clients[1].errors.map(\.code) == [.otherSessionError] && clients[1].errors[0].triesAgain)
        #expect(clients[1].doneBytes == clients[1].submittedBytes)
        #expect(try log(rig).count == 13)
        rig.bind(clients[1])
        rig.upload([TurnRig.object] + TurnRig.updates(2), of: clients[1])
        rig.finish()
        #expect(clients[1].version == 16)
    }

    @Test("a turn serves those who are up to date, and one of those who catch up, file by file")
    func scans() throws {
        let rig = TurnRig()
        let long = try rig.join(Self.path, count: 4), short = try rig.join("//short", count: 1)
        rig.upload(TurnRig.updates(1), of: long[3])
        rig.finish()
        rig.submit(.scan(from: DownloadCursor()), of: long[3])
        rig.finish()
        for client in long + short { rig.submit(.scan(from: DownloadCursor()), of: client) }
        var served: [Int] = []
        while rig.turns.hasWork {
            rig.takeTurn()
            served.append((long + short).reduce(-1) { $0 + $1.downloads.count })
        }
        #expect(served == [2, 3, 4, 5])
        #expect(short[0].downloads.count == 1 && long[3].downloads.count == 2)
    }

    @Test("the progress of many is written every second, and before its file is closed; that of few at once")
    func progress() throws {
        let rig = TurnRig(storedProgressSessionsMax: 1)
        let clients = try rig.join(Self.path, count: 2)
        let stored = { try SyncedFile(path: VirtualPath(Self.path), store: rig.store, keepsState: false) }
        let progress = { (version: ClientVersion) in
            SessionRequest.integrate(
                UploadMessage(Upload(progress: UploadCursor(clientVersion: version, serverVersion: 0))))
        }
        rig.submit(progress(5), of: clients[0])
        rig.finish()
        #expect(clients[0].doneBytes == clients[0].submittedBytes)
        #expect(try rig.stored(clients[0])?.uploadCursor.clientVersion == 0)
        rig.turns.registry.writeProgress()
        rig.finish()
        #expect(try rig.stored(clients[0])?.uploadCursor.clientVersion == 5)
        rig.submit(progress(6), of: clients[1])
        rig.submit(.close, of: clients[1])
        rig.submit(progress(7), of: clients[0])
        rig.finish()
        #expect(try rig.stored(clients[0])?.uploadCursor.clientVersion == 7)
        rig.submit(.close, of: clients[0])
        rig.finish()
        #expect(rig.turns.registry.openFiles.isEmpty)
        #expect(try stored().clientFile(clients[1].file.ident)?.uploadCursor.clientVersion == 6)
    }

    @Test("of the requests that wait, those of one file keep their order, and files take turns")
    func fairQueue() {
        var queue = FairQueue()
        for (file, session) in [("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5), ("b", 6)] as [(String, UInt64)] {
            let key = SessionKey(
                connection: ConnectionID(number: session), session: SessionHandle(ident: 1, serial: session))
            queue.append(
                FileRequest(path: VirtualPath(file), session: key, user: nil, capabilities: .all, request: .close))
        }
        var order: [UInt64] = []
        while let request = queue.popFirst() { order.append(request.session.connection.number) }
        #expect(order == [1, 4, 5, 2, 6, 3])
        #expect(queue.isEmpty)
    }

    @Test("a request that was taken out of its queue is not kept, and neither is its room for a DOWNLOAD")
    func takenOut() throws {
        let budget = MemoryBudget(bytesMax: 100)
        var queue = FairQueue()
        for number in 1...3 as ClosedRange<UInt64> {
            let key = SessionKey(
                connection: ConnectionID(number: number), session: SessionHandle(ident: 1, serial: number))
            queue.append(
                FileRequest(
                    path: VirtualPath("a"), session: key, user: nil, capabilities: .all,
                    request: .scan(from: DownloadCursor()), permit: budget.permit(for: 10)))
        }
        func takeOut() -> Int? { queue.popFirst()?.permit?.bytes }
        for rest in [20, 10, 0] {
            #expect(takeOut() == 10)
            #expect(budget.bytesInUse == rest)
        }
    }

    @Test("a file whose uploads are merged is not kept")
    func takenOutFile() throws {
        var schedule = MergeSchedule()
        func append(_ path: String) throws -> FileSessions {
            let file = try SyncedFile(path: VirtualPath(path), store: InMemoryStore(), keepsState: false)
            let sessions = FileSessions(file)
            schedule.append(sessions)
            return sessions
        }
        weak var first: FileSessions?
        first = try append("//1")
        _ = try append("//2")
        #expect(first != nil)
        _ = schedule.nextNew()
        #expect(first == nil && !schedule.isEmpty)
    }

    @Test("a scan that waits for memory is done in its turn, once, and comes back when there is room")
    func scanWithoutRoom() throws {
        let rig = TurnRig(), budget = MemoryBudget(bytesMax: 200_000), resubmitted = Mutex<[FileRequest]>([])
        rig.turns.registry.downloadMemory = DownloadMemory(budget: budget) { request in
            resubmitted.withLock { $0.append(request) }
        }
        let clients = try rig.join(Self.path, count: 2)
        rig.upload([Changesets.large(100_000, seed: 1)], of: clients[0])
        rig.finish()
        budget.reserve(150_000)
        rig.submit(.scan(from: DownloadCursor()), of: clients[1])
        rig.finish()
        #expect(clients[1].downloads.isEmpty && budget.waitingCount == 1)
        #expect(clients[1].doneBytes == clients[1].submittedBytes)
        budget.release(150_000)
        rig.turns.take([], resubmitted.withLock { $0 })
        resubmitted.withLock { $0 = [] }
        rig.finish()
        #expect(clients[1].downloads.map(\.cursor.serverVersion) == [1])
        #expect(clients[1].doneBytes == clients[1].submittedBytes)
        #expect(budget.bytesInUse > 100_000, "the body waits for its socket")
        clients[1].events = []
        #expect(budget.bytesInUse == 0)
    }

    @Test("a scan waits for memory only as long as its session is there", arguments: [true, false])
    func scanOfSessionThatEnds(isExpired: Bool) throws {
        let rig = TurnRig(), budget = MemoryBudget(bytesMax: 200_000)
        rig.turns.registry.downloadMemory = DownloadMemory(budget: budget) { _ in }
        let clients = try rig.join(Self.path, count: 2)
        rig.upload([Changesets.large(100_000, seed: 1)], of: clients[0])
        rig.finish()
        budget.reserve(150_000)
        for _ in 0..<10 {
            rig.bind(clients[1])
            rig.submit(.scan(from: DownloadCursor()), of: clients[1])
            rig.finish()
            #expect(budget.waitingCount == 1)
            guard !isExpired else { break }
            rig.submit(.close, of: clients[1])
            rig.finish()
        }
        if isExpired { try rig.turns.registry.expire(clients[1].file.ident, of: clients[1].path) }
        #expect(budget.waitingCount == 0)
    }

    /// Two files with the same long merge, of which three steps are done.
    private static func longMerges() throws -> [FileSessions] {
        let store = InMemoryStore()
        return try (1...2).map { number in
            let file = try SyncedFile(path: VirtualPath("//\(number)"), store: store, keepsState: false)
            _ = try file.allocateIdents(for: [nil, nil], at: 1)
            for ident in [2, 3] as [ClientFileID] {
                let changesets = zip((1 as UInt64)..., TurnRig.updates(12)).map { version, bytes in
                    let cursor = UploadCursor(clientVersion: ClientVersion(version), serverVersion: 0)
                    return UploadedChangeset(cursor: cursor, timestamp: 1, changeset: bytes)
                }
                let cursor = UploadCursor(clientVersion: 12, serverVersion: 0)
                try file.enqueue(Upload(progress: cursor, changesets: changesets), from: ident)
                if ident == 2 { _ = try file.integrate(at: 1) }
            }
            let sessions = FileSessions(file)
            for _ in 0..<3 { #expect(try !sessions.merge(at: 1, until: limit)) }
            #expect(file.integrationBytes > 0)
            return sessions
        }
    }

    private static let limit = StepLimit(asking: { true }, piece: 1)

    @Test("what long merges need beside the largest decides whether all of them go on", arguments: -1...1)
    func memoryLimit(more: Int) throws {
        let files = try Self.longMerges()
        var schedule = MergeSchedule(longMergeBytesMax: files[1].file.integrationBytes + more)
        let dropped = files.map { schedule.appendLong($0) }
        #expect(dropped == [0, more < 0 ? 1 : 0])
        #expect(files.map(\.file.isIntegrating) == [true, more >= 0])
    }

    @Test("of long merges that need too much memory together the largest goes on", arguments: [0, Int.max])
    func memory(bytesMax: Int) throws {
        let files = try Self.longMerges()
        var schedule = MergeSchedule(longMergeBytesMax: bytesMax)
        for file in files { schedule.appendLong(file) }
        #expect(files.map(\.file.isIntegrating) == [true, bytesMax > 0])
        var order: [Int] = []
        while let file = schedule.nextLong() {
            order.append(file === files[0] ? 1 : 2)
            if try !file.merge(at: 1, until: Self.limit) { schedule.appendLong(file) }
        }
        // Both have their turns, but what the second does while the first is larger comes to nothing.
        #expect(order.starts(with: [1, 2, 1, 2]))
        let waste = order.count { $0 == 2 } - order.count { $0 == 1 }
        #expect(bytesMax == 0 ? waste > 5 : waste == 0)
        _ = try SyncedFile.commitIntegrations(of: files.map(\.file)).map { try $0.get() }
        #expect(files.map(\.file.version) == [24, 24])
    }
}
