import AnabranchCore
import AnabranchHistory
@testable import AnabranchProtocol
import AnabranchTesting
import Synchronization
import Testing

@testable import AnabranchServer

/// The work on synced files, turn by turn: nobody waits for a long merge, or for many requests, of another file.
@Suite struct FileTurnTests {
    private static let path = "//long"

    /// A file whose second client has begun to upload what has to be merged with twelve entries of the first one.
    private func mergingRig(
        keepsState: Bool = false, then after: [[UInt8]] = []
    ) throws -> (rig: TurnRig, clients: [TurnRig.Client]) {
        let rig = TurnRig(keepsState: keepsState)
        return (rig, try beginMerge(in: rig, then: after))
    }

    private func beginMerge(in rig: TurnRig, then after: [[UInt8]] = []) throws -> [TurnRig.Client] {
        let clients = try joinForMerge(Self.path, in: rig)
        uploadForMerge(clients, in: rig, then: after)
        rig.takeTurns { rig.isMerging(Self.path) }
        return clients
    }

    private func joinForMerge(_ path: String, in rig: TurnRig) throws -> [TurnRig.Client] {
        let clients = try rig.join(path, count: 3)
        rig.upload([TurnRig.object] + TurnRig.updates(12), of: clients[0])
        rig.takeTurns { clients[0].version == 13 }
        return clients
    }

    private func uploadForMerge(_ clients: [TurnRig.Client], in rig: TurnRig, then after: [[UInt8]] = []) {
        rig.upload([TurnRig.object] + TurnRig.updates(2) + after, of: clients[1])
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
        rig.takeTurns { other.version == 1 && !neighbour.downloads.isEmpty }
        #expect(neighbour.downloads.map(\.cursor.serverVersion) == [13])
        rig.upload(TurnRig.updates(1), of: neighbour)
        rig.takeTurns { neighbour.version == 14 }
        #expect(rig.isMerging(Self.path))
        rig.finish()
        #expect(clients[1].version == 17)
        #expect(try log(rig).map(\.origin) == Array(repeating: 2, count: 13) + [4, 3, 3, 3])
    }

    @Test("an upload counts as waiting until it is committed, and every other request until it is handled")
    func charges() throws {
        let (rig, clients) = try mergingRig()
        let done = clients[1].doneBytes
        #expect(done == 2 * 256 && clients[0].doneBytes == clients[0].submittedBytes)
        rig.submit(.scan(from: DownloadCursor()), of: clients[1])
        rig.takeTurns { !clients[1].downloads.isEmpty }
        #expect(clients[1].doneBytes == done + 256 && rig.isMerging(Self.path))
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
        while rig.takeTurn() {
            versions.append(clients[1].version)
            waitingBytes.append(clients[0].submittedBytes - clients[0].doneBytes)
        }
        #expect(Set(versions) == [0, 2, 3])
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

    @Test("a write of the server to a file does not wait for a long merge there, which takes it in")
    func serverWrite() throws {
        let (rig, clients) = try mergingRig(keepsState: true)
        let written = Mutex<ServerVersion?>(nil)
        let job = FileJob(comesAfterMerge: true) { file in
            file?.write(idempotencyKey: nil, at: 9, { try $0.addClass("Note", key: "_id", .int) }) { outcome in
                written.withLock { $0 = try? outcome.get().version }
            }
        }
        rig.files.submit(job, to: VirtualPath(Self.path))
        rig.takeTurns { written.withLock { $0 } != nil }
        #expect(rig.isMerging(Self.path) && written.withLock { $0 } == 14)
        rig.finish()
        #expect(clients[1].version == 17)
    }

    @Test("when the server ends, a long merge is given up, and its client can send the same again")
    func shutdown() throws {
        let (rig, clients) = try mergingRig()
        rig.files.endLongMerges()
        rig.finish()
        #expect(clients.map(\.errors.count) == [1, 1, 1])
        #expect(clients[1].errors.map(\.code) == [.otherSessionError] && clients[1].errors[0].triesAgain)
        #expect(clients[1].doneBytes == clients[1].submittedBytes)
        #expect(try log(rig).count == 13)
        let next = TurnRig(store: rig.store)
        next.adopt(clients[1])
        next.upload([TurnRig.object] + TurnRig.updates(2), of: clients[1])
        next.finish()
        #expect(clients[1].version == 16)
    }

    @Test("entries of other nodes count whoever has made the file take them in, as an IDENT")
    func followedEntries() throws {
        let store = InMemoryStore(isShared: true), counters = CountingMetrics()
        let rig = TurnRig(store: store, keepsState: true, metrics: counters)
        _ = try rig.join(Self.path, count: 1)
        try SyncedFile(path: VirtualPath(Self.path), store: store).write(at: 1) { try $0.addClass("T") }
        let client = try rig.join(Self.path, count: 1)[0]
        #expect(client.version == 1 && counters.value("anabranch_log_entries_followed_total") == 1)
    }

    @Test("who is up to date is served before those who catch up, and these file by file")
    func scans() throws {
        let rig = TurnRig()
        let writer = try rig.join(Self.path, count: 1), short = try rig.join("//short", count: 1)
        rig.upload(TurnRig.updates(1), of: writer[0])
        rig.finish()
        let all = try rig.join(Self.path, count: 3) + writer + short
        var counts = all.map(\.downloads.count), order: [Int] = []
        for client in all { rig.submit(.scan(from: DownloadCursor()), of: client) }
        while rig.takeTurn() {
            let served = all.indices.filter { all[$0].downloads.count > counts[$0] }
            order += served
            counts = all.map(\.downloads.count)
            #expect(served.count <= 1)
        }
        #expect(order == [3, 4, 0, 1, 2])
    }

    @Test("a long merge and those who catch up in its file take turns")
    func mergeAndCatchUps() throws {
        let (rig, clients) = try mergingRig()
        for _ in 0..<3 { rig.submit(.scan(from: DownloadCursor()), of: clients[2]) }
        var steps: [Int] = []
        while rig.isMerging(Self.path), rig.takeTurn() { steps.append(clients[2].downloads.count) }
        #expect(steps.prefix(7).last == 3 && steps.count > 7)
        #expect(zip(steps, steps.dropFirst()).allSatisfy { $1 - $0 <= 1 })
    }

    @Test("who comes to a file in which others write all the time gets what there is")
    func newcomer() throws {
        let rig = TurnRig(), clients = try rig.join(Self.path, count: 2)
        rig.submit(.scan(from: DownloadCursor()), of: clients[1])
        for number in 1...40 as ClosedRange<UInt64> {
            rig.upload(TurnRig.updates(1), from: number, of: clients[0])
            rig.takeTurn()
        }
        #expect(clients[1].downloads.count == 1)
    }

    /// A write of the server that creates an object of the class that `TurnRig.object` has.
    private static func write(_ number: Int, _ written: Counter) -> FileJob {
        FileJob(comesAfterMerge: true) { file in
            let create = { (tx: WriteTransaction) in _ = try tx.create("T", key: .int(Int64(number))) }
            file?.write(idempotencyKey: nil, at: 9, create) { outcome in
                if case .success = outcome { written.count.withLock { $0 += 1 } }
            }
        }
    }

    private final class Counter: Sendable {
        let count = Mutex(0)
    }

    @Test("a write of the server returns although others write to its file all the time")
    func writeToBusyFile() throws {
        let rig = TurnRig(keepsState: true), clients = try rig.join(Self.path, count: 1), written = Counter()
        rig.upload([TurnRig.object], of: clients[0])
        rig.finish()
        for number in 1...40 {
            rig.files.submit(Self.write(number + 100, written), to: VirtualPath(Self.path))
            rig.upload(TurnRig.updates(1), from: UInt64(number + 1), of: clients[0])
            rig.takeTurn()
        }
        #expect(written.count.withLock { $0 } > 0)
        rig.finish()
        #expect(written.count.withLock { $0 } == 40 && clients[0].errors.isEmpty && clients[0].version == 81)
    }

    @Test("many writes of the server stop nobody else in their file")
    func manyWrites() throws {
        let rig = TurnRig(keepsState: true), clients = try rig.join(Self.path, count: 2), written = Counter()
        rig.upload([TurnRig.object], of: clients[0])
        rig.submit(.close, of: clients[1])
        rig.finish()
        for number in 1...30 { rig.files.submit(Self.write(number + 100, written), to: VirtualPath(Self.path)) }
        rig.submit(.open(BindRequest(partition: clients[1].path.bytes, needsFileIdent: true)), of: clients[1])
        rig.takeTurns { clients[1].events.contains { if case .fileIdentAllocated = $0 { true } else { false } } }
        #expect(written.count.withLock { $0 } < 5)
        rig.finish()
        #expect(written.count.withLock { $0 } == 30)
    }

    @Test("a long merge comes to its end although its file always has something for a short turn")
    func mergeOfBusyFile() throws {
        let (rig, clients) = try mergingRig()
        for number in 0..<1000 where rig.isMerging(Self.path) {
            rig.submit(.integrate(UploadMessage(Upload(progress: UploadCursor()))), of: clients[2])
            rig.takeTurn()
            #expect(number < 999)
        }
        rig.finish()
        #expect(clients[1].version == 16)
    }

    @Test("the progress of many is written every second, and before its file is closed; that of few at once")
    func progress() throws {
        let rig = TurnRig { $0.storedProgressSessionsMax = 1 }
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
        rig.files.writeProgress()
        rig.finish()
        #expect(try rig.stored(clients[0])?.uploadCursor.clientVersion == 5)
        rig.submit(progress(6), of: clients[1])
        rig.submit(.close, of: clients[1])
        rig.submit(progress(7), of: clients[0])
        rig.finish()
        #expect(try rig.stored(clients[0])?.uploadCursor.clientVersion == 7)
        rig.submit(.close, of: clients[0])
        rig.finish()
        #expect(rig.files.queue(of: clients[0].path) == nil)
        #expect(try stored().clientFile(clients[1].file.ident)?.uploadCursor.clientVersion == 6)
    }

    @Test("short turns come first, in the order in which files became ready; a long one comes after many of them")
    func readyFiles() throws {
        let rig = TurnRig()
        func file(_ number: Int) throws -> FileQueue {
            let client = try rig.join("//\(number)", count: 1)[0]
            return try #require(rig.files.queue(of: client.path))
        }
        let long = [try file(0), try file(1)], short = [try file(2), try file(3)]
        var ready = ReadyFiles()
        for file in long { ready.append(file, for: .long) }
        var order: [Int] = []
        for number in 0..<3 * ReadyFiles.shortTurnsMax {
            ready.append(short[number % 2], for: .short)
            let next = ready.popFirst()
            order.append(next === short[0] ? 2 : next === short[1] ? 3 : next === long[0] ? 0 : 1)
        }
        let expected = (0..<order.count - 2).map { 2 + $0 % 2 }
        #expect(order.filter { $0 > 1 } == expected)
        #expect(order.indices.filter { order[$0] < 2 } == [ReadyFiles.shortTurnsMax, 2 * ReadyFiles.shortTurnsMax + 1])
        #expect(order.filter { $0 < 2 } == [0, 1])
    }

    @Test("a file that is ready for a long turn gets a short one when something comes in, and only one of both")
    func promoted() throws {
        let rig = TurnRig()
        let client = try rig.join("//f", count: 1)[0]
        let file = try #require(rig.files.queue(of: client.path))
        var ready = ReadyFiles()
        // Its place among those with long turns is found again each time, and there is only one.
        for _ in 0..<3 {
            ready.append(file, for: .long)
            _ = ready.promote(file)
            let first = ready.popFirst()
            #expect(first === file)
        }
        ready.append(file, for: .long)
        let next = ready.popFirst(), last = ready.popFirst()
        #expect(next === file && last == nil)
        ready.append(file, for: .long)
        _ = ready.promote(file)
        let first = ready.popFirst(), second = ready.popFirst()
        #expect(first === file && second == nil)
    }

    @Test("a scan that waits for memory is done in its turn, once, and comes back when there is room")
    func scanWithoutRoom() throws {
        let budget = MemoryBudget(bytesMax: 200_000), rig = TurnRig(messageMemory: budget)
        let clients = try rig.join(Self.path, count: 2)
        rig.upload([Changesets.large(100_000, seed: 1)], of: clients[0])
        rig.finish()
        budget.reserve(150_000)
        rig.submit(.scan(from: DownloadCursor()), of: clients[1])
        rig.finish()
        #expect(clients[1].downloads.isEmpty && budget.waitingCount == 1)
        #expect(clients[1].doneBytes == clients[1].submittedBytes)
        budget.release(150_000)
        rig.finish()
        #expect(clients[1].downloads.map(\.cursor.serverVersion) == [1])
        #expect(clients[1].doneBytes == clients[1].submittedBytes)
        #expect(budget.bytesInUse > 100_000, "the body waits for its socket")
        clients[1].events = []
        #expect(budget.bytesInUse == 0)
    }

    @Test("a scan waits for memory only as long as its session is there", arguments: [true, false])
    func scanOfSessionThatEnds(isExpired: Bool) throws {
        let budget = MemoryBudget(bytesMax: 200_000), rig = TurnRig(messageMemory: budget)
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
        let ident = clients[1].file.ident
        if isExpired {
            rig.files.submit(FileJob(comesAfterMerge: false) { _ = try? $0?.expire(ident) }, to: clients[1].path)
            rig.finish()
        }
        #expect(budget.waitingCount == 0)
    }

    @Test("of long merges that need too much memory together the largest goes on", arguments: [0, Int.max])
    func memory(bytesMax: Int) throws {
        let counters = CountingMetrics(), rig = TurnRig(metrics: counters) { $0.longMergeBytesMax = bytesMax }
        let clients = try ["//1", "//2"].map { try joinForMerge($0, in: rig) }
        for clients in clients { uploadForMerge(clients, in: rig) }
        rig.finish()
        #expect(clients.map { $0[1].version } == [16, 16])
        let dropped = counters.value("anabranch_long_merges_dropped_total")
        #expect(bytesMax == 0 ? dropped > 0 : dropped == 0)
        #expect(rig.files.environment.longMerges.mergeCount == 0)
    }

    @Test("what long merges need beside the largest decides whether all of them go on", arguments: -1...1)
    func memoryLimit(more: Int) {
        let budget = MergeBudget(bytesMax: 50 + more)
        let paths = (1...3).map { VirtualPath("/\($0)") }
        #expect(budget.record(paths[0], 1000).isEmpty && budget.record(paths[1], 30).isEmpty)
        #expect(budget.record(paths[2], 20) == (more < 0 ? [paths[1]] : []))
    }

    @Test("a merge that is done needs no memory")
    func memoryOfMergesThatAreDone() {
        let budget = MergeBudget(bytesMax: 0)
        let paths = (1...2).map { VirtualPath("/\($0)") }
        #expect(budget.record(paths[0], 10).isEmpty && budget.record(paths[0], 0).isEmpty)
        #expect(budget.record(paths[1], 10).isEmpty)
        #expect(budget.record(paths[0], 10) == [paths[1]])
    }
}
