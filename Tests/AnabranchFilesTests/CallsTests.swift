import AnabranchClient
import Foundation
import Synchronization
import Testing

@testable import AnabranchFiles

/// The calls of the document, each as `Spec/Files.md` shows it (section 7): its lines are lines of these tests.
@Suite(.timeLimit(.minutes(30))) struct CallsTests {
    private final class Owner: Sendable {}

    /// Two devices that are connected, of which the first has a file.
    private static func withDevices(
        _ body: (_ rig: FilesRig, _ device: SpaceDevice, _ other: SpaceDevice) async throws -> Void
    ) async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), other = try await rig.device("two") { $0.policy = .manual }
            for device in [device, other] { try await device.connect() }
            try await device.space.createFolder(SpacePath("/plans"))
            try await device.put("/plans/a.txt", "first")
            for device in [device, other] { try await device.synchronize() }
            try await body(rig, device, other)
            for device in [device, other] { try await device.close() }
        }
    }

    @Test func reading() async throws {
        try await Self.withDevices { _, _, other in
            let space = other.space
            let file = try space.open(SpacePath("/plans/a.txt"))
            #expect(!file.status.isCached)
            #expect(throws: SpaceError.self) { _ = try space.open(SpacePath("/plans/a.txt")) }
            let data = try await file.read()
            let text = try await file.readString()
            let part = try await file.bytes(in: 1..<3)
            let handle = try await file.readHandle()
            #expect(try text == "first" && data == handle.readToEnd() && part == Data("ir".utf8))
            let copy = other.folder.appendingPathComponent("copy")
            try await file.copy(to: copy)
            #expect(try Data(contentsOf: copy) == data)
            #expect(file.path.description == "/plans/a.txt" && file.isOpen)
            file.close()
            #expect(!file.isOpen)
        }
    }

    @Test func writing() async throws {
        try await Self.withDevices { rig, device, other in
            let space = device.space, url = rig.folder.appendingPathComponent("b")
            try Data("of a file".utf8).write(to: url)
            let file = try await space.create(SpacePath("/plans/b.txt"))
            try await file.write(Data("data".utf8))
            try await file.write(string: "text")
            try await file.write(contentsOf: url)
            try await file.write(contentsOf: url, moving: true)
            #expect(!FileManager.default.fileExists(atPath: url.path))
            let made = try await space.create(SpacePath("/plans/c.txt"), Data("content".utf8))
            #expect(made.size == 7)
            try await space.waitForUpload()
            try await other.synchronize()
            let blind = try other.space.open(SpacePath("/plans/b.txt"))
            await #expect(throws: SpaceError.self) { try await blind.write(string: "unseen") }
            try await other.put("/plans/a.txt", "newer")
            let shown = try space.open(SpacePath("/plans/a.txt"))
            try await other.synchronize()
            for await newer in shown.newerStatusUpdates where newer?.isCached == true { break }
            #expect(shown.newerStatus?.isCached == true)
            #expect(try await shown.readString() == "first")
            let isNew = try shown.update()
            #expect(try await shown.readString() == "newer" && isNew)
        }
    }

    @Test func folders() async throws {
        try await Self.withDevices { _, device, _ in
            let space = device.space
            let entries = try await space.list(SpacePath("/plans"))
            let info = try space.info(SpacePath("/plans/a.txt"))
            #expect(entries.map(\.displayName) == ["a.txt"] && info.size == 5 && !info.isFolder)
            try await space.createFolder(SpacePath("/old"))
            try await space.move(SpacePath("/plans/a.txt"), to: SpacePath("/old/b.txt"))
            #expect(try space.entry(info.key)?.path.description == "/old/b.txt")
            try await space.delete(SpacePath("/old"))
            let gone = try space.trash()
            try await space.restore(gone[0])
            #expect(try space.entry(info.key)?.path.description == "/old/b.txt")
            try await space.setPinned(SpacePath("/old/b.txt"), true)
            #expect(try space.isPinned(SpacePath("/old/b.txt")))
            FileSpace.shared = space
            #expect(FileSpace.shared === space)
            FileSpace.shared = nil
        }
    }

    @Test func observing() async throws {
        try await Self.withDevices { _, device, other in
            let space = device.space, owner = Owner(), told = Mutex<[SpaceChange.Kind]>([])
            let (calls, call) = AsyncStream.makeStream(of: Void.self)
            try space.addObserver(owner, at: SpacePath("/plans"), .pathAndChildren) { changes in
                told.withLock { $0 += changes.map(\.kind) }
                call.yield()
            }
            var changes = space.changes(statuses: true).makeAsyncIterator()
            try await device.put("/plans/b.txt", "second")
            for await _ in calls where told.withLock({ $0.contains(.created) }) { break }
            space.removeObserver(owner)
            var kinds: [SpaceChange.Kind] = []
            while !kinds.contains(.statusChanged), let some = await changes.next() { kinds += some.map(\.kind) }
            #expect(kinds.contains(.created))
            let file = try space.open(SpacePath("/plans/b.txt"))
            let model = await ObservedFile(of: file), ofSpace = await ObservedSpace(of: space)
            #expect(await model.path == file.path)
            #expect(await ofSpace.status.pendingFiles <= 1)
            for await status in file.statusUpdates where !status.isPending { break }
            try await space.waitForUpload()
            let status = try await space.status(of: SpacePath("/plans/b.txt"))
            #expect(status.state == .idle && status.isCached && status.issue == nil && status.progress.fraction == 1)
            #expect(space.status.isIdle && space.status.issues.isEmpty)
            try await other.synchronize()
            #expect(try other.space.info(SpacePath("/plans/b.txt")).size == 6)
        }
    }

    @Test func statusesOfAnOwnerEndWithIt() async throws {
        try await Self.withDevices { _, device, _ in
            let space = device.space, store = device.store, told = Mutex(0)
            let (calls, call) = AsyncStream.makeStream(of: Void.self)
            var owner: Owner? = Owner()
            if let owner {
                space.addStatusObserver(owner) { _ in call.yield() }
                store.addStatusObserver(owner) { _ in told.withLock { $0 += 1 } }
                store.addObserver(owner) { _ in told.withLock { $0 += 1 } }
            }
            for await _ in calls { break }
            owner = nil
            // Whatever is under way comes to its end with the next change; those after it are told to nobody.
            try await device.put("/c", "1")
            try await device.synchronize()
            let count = told.withLock { $0 }
            try await device.put("/c", "2")
            try await device.synchronize()
            #expect(told.withLock { $0 } == count)
        }
    }

    @Test func theStore() async throws {
        try await Self.withDevices { rig, device, _ in
            let store = device.store
            #expect(store.completedFirstSync && store.isRunning && store.status.isOnline)
            #expect(store.account == nil, "its route names no user")
            try await store.wait(for: .idle)
            #expect(!store.status.isUploading && !store.status.isDownloading && store.status.pendingTransactions == 0)
            let id = try device.key("/plans/a.txt"), third = try await rig.device("three")
            await #expect(throws: SyncError.self) {
                _ = try await third.store.get(FileRecord.self, id, waiting: .firstSync)
            }
            try await third.connect()
            let record = try await third.store.get(FileRecord.self, id, waiting: .firstSync)
            #expect(record.name == "a.txt")
            await #expect(throws: ObjectError.self) {
                _ = try await third.store.get(FileRecord.self, UUID(), waiting: .download)
            }
            let coming = FileRecord(name: "later")
            async let later = third.store.get(FileRecord.self, coming.id, waiting: .object)
            try await store.write { try $0.insert(coming) }
            #expect(try await later.name == "later")
            try await third.close()
        }
        // Nobody listens at this port.
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("files-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        let alone = try await SpaceDevice("alone", folder, port: 1)
        try await alone.connect()
        let issue = await #expect(throws: SyncIssue.self) {
            _ = try await alone.store.get(FileRecord.self, UUID(), waiting: .download)
        }
        #expect(issue?.kind == .offline)
        #expect(issue?.path == .store)
        let id = UUID(), ofObject = try await alone.store.status(of: FileRecord.self, id).issue?.path
        #expect(try ofObject == .object(FileRecord.self, id))
        try await alone.close()
    }
}
