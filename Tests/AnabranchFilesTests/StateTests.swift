import AnabranchChunks
import AnabranchClient
import Foundation
import Synchronization
import Testing

@testable import AnabranchFiles
@testable import AnabranchFilesWire

/// The states of files, one after another, and those who observe them or wait.
@Suite(.timeLimit(.minutes(30))) struct StateTests {
    /// Lets so many pass as it is opened for.
    private actor Gate {
        private var count = 0
        private var waiting: [CheckedContinuation<Void, Never>] = []

        func pass() async {
            if count > 0 { count -= 1 } else { await withCheckedContinuation { waiting.append($0) } }
        }

        func open(for more: Int = 1) {
            for _ in 0..<more {
                if waiting.isEmpty { count += 1 } else { waiting.removeFirst().resume() }
            }
        }
    }

    private static let chunkCount = 4

    private static var content: Data {
        var content = Data(count: chunkCount * Manifest.chunkBytes)
        for index in 0..<chunkCount { content[index * Manifest.chunkBytes] = UInt8(index + 1) }
        return content
    }

    /// Runs two devices, of which the first has put a large file; the second gets a chunk each time that the gate is
    /// opened.
    private static func run(
        _ body: (_ rig: FilesRig, _ one: SpaceDevice, _ two: SpaceDevice, Gate) async throws -> Void
    ) async throws {
        let gate = Gate()
        let wrap: @Sendable (FolderChunkStore) -> any ChunkStore = { store in
            let store = CountingStore(store)
            store.beforeRead.withLock { $0 = { _ in await gate.pass() } }
            return store
        }
        try await FilesRig.run(wrap: wrap) { rig in
            let one = try await rig.device("one"), two = try await rig.device("two") { $0.policy = .manual }
            for device in [one, two] { try await device.connect() }
            let file = try await one.space.create(SpacePath("/big"))
            try await file.write(content)
            file.close()
            for device in [one, two] { try await device.synchronize() }
            try await body(rig, one, two, gate)
            for device in [one, two] { try await device.close() }
        }
    }

    @Test(arguments: [true, false]) func aDownloadRisesToItsEnd(isCopy: Bool) async throws {
        try await Self.run { rig, _, two, gate in
            let file = try two.space.open(SpacePath("/big")), copy = rig.folder.appendingPathComponent("copy")
            #expect(file.status.state == .idle && file.status.progress.fraction == 0)
            let statuses = file.statusUpdates
            let fetching = Task { if isCopy { try await file.copy(to: copy) } else { try await file.fetch() } }
            var fractions: [Double] = []
            for await status in statuses {
                if status.state == .downloading {
                    #expect(!status.isCached && status.issue == nil)
                    fractions.append(status.progress.fraction)
                    await gate.open()
                } else if !fractions.isEmpty {
                    #expect(status.isCached != isCopy)
                    #expect(status.progress.fraction == (isCopy ? 0 : 1))
                    break
                }
            }
            try await fetching.value
            #expect(fractions.first == 0 && fractions.count >= Self.chunkCount)
            #expect(zip(fractions, fractions.dropFirst()).allSatisfy { $0 < $1 }, "\(fractions)")
            #expect(two.space.status.isIdle)
        }
    }

    /// It waits, goes up, and is acknowledged when the server has its chunks and its name.
    @Test func anUploadRisesToItsEnd() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), file = try await device.space.create(SpacePath("/big"))
            try await file.write(Self.content)
            let statuses = file.statusUpdates
            try await device.connect()
            var last = 0.0
            for await status in statuses {
                #expect(status.isCached && status.issue == nil)
                #expect(status.progress.fraction >= last && status.progress.fraction <= 1)
                last = status.progress.fraction
                if !status.isPending {
                    #expect(status.state == .idle)
                    break
                }
            }
            #expect(last == 1)
            try await device.close()
        }
    }

    @Test func whoeverIsCancelledDoesNotWait() async throws {
        try await Self.run { rig, _, two, gate in
            let file = try two.space.open(SpacePath("/big"))
            let cancelled = Task { try await file.read() }, other = Task { try await file.read() }
            for await status in file.statusUpdates where status.state == .downloading { break }
            cancelled.cancel()
            await #expect(throws: _Concurrency.CancellationError.self) { _ = try await cancelled.value }
            await gate.open(for: Self.chunkCount)
            #expect(try await other.value == Self.content)
            file.close()

            // A copy past the cache is wanted by nobody else.
            let three = try await rig.device("three") { $0.policy = .manual }
            try await three.connect()
            try await three.synchronize()
            let copy = rig.folder.appendingPathComponent("copy"), source = try three.space.open(SpacePath("/big"))
            let copying = Task { try await source.copy(to: copy) }
            for await status in source.statusUpdates where status.state == .downloading { break }
            // One that waits for its turn does not wait for the end of that.
            let waiting = Task { try await source.copy(to: rig.folder.appendingPathComponent("second")) }
            waiting.cancel()
            await #expect(throws: _Concurrency.CancellationError.self) { try await waiting.value }
            copying.cancel()
            await #expect(throws: _Concurrency.CancellationError.self) { try await copying.value }
            #expect(!FileManager.default.fileExists(atPath: copy.path))
            #expect(source.status.state == .idle && source.status.issue == nil)
            await gate.open(for: 2 * Self.chunkCount)
            try await three.close()
        }
        // Nobody listens at this port.
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("files-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        let alone = try await SpaceDevice("alone", folder, port: 1)
        try await alone.connect()
        try await alone.put("/a", "1")
        let waits: [@Sendable () async throws -> Void] = [
            { _ = try await alone.space.list() }, { try await alone.space.waitForUpload() },
        ]
        for wait in waits {
            let waiting = Task { try await wait() }
            waiting.cancel()
            await #expect(throws: _Concurrency.CancellationError.self) { try await waiting.value }
        }
        try await alone.close()
    }

    /// Copies past the cache, of which one waits for the other.
    @Test func downloadsEndWithTheirSpace() async throws {
        try await Self.run { rig, _, _, gate in
            let three = try await rig.device("three") { $0.policy = .manual }
            try await three.connect()
            try await three.synchronize()
            let file = try three.space.open(SpacePath("/big"))
            let places = ["a", "b"].map { rig.folder.appendingPathComponent($0) }
            let copying = places.map { place in Task { try await file.copy(to: place) } }
            for await status in file.statusUpdates where status.state == .downloading { break }
            try await three.close()
            await gate.open(for: 4 * Self.chunkCount)
            for copy in copying { await #expect(throws: (any Error).self) { try await copy.value } }
            for place in places { #expect(!FileManager.default.fileExists(atPath: place.path)) }
        }
    }

    /// An issue of a content goes when no file has the content any more.
    @Test func whatIsNotNeededHasNoIssue() async throws {
        try await FilesRig.run { rig in
            let one = try await rig.device("one")
            let two = try await rig.device("two", contentPort: 1) { $0.policy = .manual }
            for device in [one, two] { try await device.connect() }
            try await one.put("/a", "first")
            try await one.synchronize()
            try await two.store.wait(for: .download)
            let file = try two.space.open(SpacePath("/a"))
            await #expect(throws: SpaceError.self) { _ = try await file.read() }
            #expect(file.status.issue?.kind == .offline)
            let copy = rig.folder.appendingPathComponent("copy"), drafts = two.space.cache.drafts
            await #expect(throws: SpaceError.self) { try await file.copy(to: copy) }
            #expect(try FileManager.default.contentsOfDirectory(atPath: drafts).count == 1)
            try await one.put("/a", "second")
            try await one.synchronize()
            try await two.store.wait(for: .download)
            for await newer in file.newerStatusUpdates where newer != nil { break }
            // The handle shows it.
            #expect(two.space.status.issues.count == 1)
            file.close()
            try await one.put("/b", "1")
            for await status in two.space.statusUpdates where status.issues.isEmpty { break }
            #expect(try FileManager.default.contentsOfDirectory(atPath: drafts).isEmpty)
            for device in [one, two] { try await device.close() }
        }
    }

    @Test func anotherContentIsAnotherTransfer() throws {
        let board = TransferBoard { _ in }, way = TransferBoard.Way.upload(UUID())
        let (first, second) = (ChunkHash(of: [1]), ChunkHash(of: [2]))
        board.begin(way, of: first, transferred: 0, total: 100)
        board.advance(way, of: first, by: 60)
        // It goes on after a failure.
        board.stop(way, of: first, because: FileIssue(.offline, "no server"))
        board.begin(way, of: first, transferred: 20, total: 100)
        #expect(board.transfer(way)?.progress == FileProgress(transferred: 60, total: 100))
        board.begin(way, of: second, transferred: 0, total: 10)
        #expect(board.transfer(way)?.progress == FileProgress(transferred: 0, total: 10))
        #expect(board.transfer(way)?.issue == nil)
        // What is still under way of the other one does not count.
        board.advance(way, of: first, by: 40)
        board.stop(way, of: first, because: FileIssue(.offline, "no server"))
        #expect(board.transfer(way)?.progress == FileProgress(transferred: 0, total: 10))
        #expect(board.transfer(way)?.isMoving == true)
    }

    @Test func newerContentsComeWhileAConditionHolds() async throws {
        try await FilesRig.run { rig in
            let holds = Mutex(false), asked = Mutex(0), one = try await rig.device("one")
            let two = try await rig.device("two") {
                $0.policy = .when {
                    asked.withLock { $0 += 1 }
                    return holds.withLock { $0 }
                }
            }
            for device in [one, two] { try await device.connect() }
            try await one.put("/a", "first")
            for device in [one, two] { try await device.synchronize() }
            let file = try two.space.open(SpacePath("/a"))
            #expect(asked.withLock { $0 } > 0)
            #expect(!file.status.isCached && file.status.state == .idle)
            holds.withLock { $0 = true }
            try await one.put("/a", "second")
            try await one.synchronize()
            for await newer in file.newerStatusUpdates where newer?.isCached == true { break }
            #expect(try file.update())
            #expect(try await file.readString() == "second")
            for device in [one, two] { try await device.close() }
        }
    }

    // MARK: Observers

    private final class Owner: Sendable {}

    @Test func tenThousandObservers() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), count = 10_000, told = Mutex(0)
            let (calls, call) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
            let owners = (0..<100).map { _ in Owner() }
            for number in 0..<count {
                device.space.addObserver(owners[number % owners.count]) { changes in
                    told.withLock { $0 += changes.count }
                    call.yield()
                }
            }
            try await device.space.createFolder(SpacePath("/f"))
            for await _ in calls where told.withLock({ $0 }) == count { break }
            for owner in owners { device.space.removeObserver(owner) }
            try await device.close()
        }
    }

    /// Who does not read gets one change of each path, and the newest status.
    @Test func whoDoesNotReadGetsWhatIsLast() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one", contentPort: 1)
            try await device.put("/a", "0")
            var changes = device.space.changes().makeAsyncIterator()
            let statuses = device.space.statusUpdates
            for number in 1...100 { try await device.put("/a", "\(number)") }
            let kinds = await changes.next()?.map(\.kind)
            #expect(kinds == [.updated])
            for await status in statuses {
                #expect(status.pendingFiles == 1)
                break
            }
            try await device.close()
        }
    }

    @Test func aScopeOfOnePathHasNothingElse() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), space = device.space
            try await space.createFolder(SpacePath("/f"))
            var changes = try space.changes(at: SpacePath("/f"), .path).makeAsyncIterator()
            try await device.put("/f/a", "1")
            try await device.put("/b", "1")
            try await space.move(SpacePath("/f"), to: SpacePath("/g"))
            #expect(try await changes.next()?.map(\.kind) == [.moved(from: SpacePath("/f"))])
            try await device.close()
        }
    }

    @Test func modelsOfViewsFollow() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one")
            try await modelsOfViewsFollow(device)
            try await device.close()
        }
    }

    @MainActor private func modelsOfViewsFollow(_ device: SpaceDevice) async throws {
        let space = device.space
        try await space.createFolder(SpacePath("/f"))
        let file = try await space.create(SpacePath("/f/a"))
        let observed = ObservedFile(of: file), ofSpace = ObservedSpace(of: space)
        #expect(observed.path == file.path && observed.newerStatus == nil)
        try await file.write(string: "1")
        while !observed.status.isPending || observed.status.progress.total != 1 { await Task.yield() }
        // The folder around it is moved.
        try await space.move(SpacePath("/f"), to: SpacePath("/g"))
        while observed.path.description != "/g/a" { await Task.yield() }
        try await device.connect()
        try await device.synchronize()
        while !ofSpace.status.isIdle || observed.status.isPending { await Task.yield() }
        #expect(observed.status.isCached)
    }
}
