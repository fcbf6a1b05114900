import AnabranchChunks
import AnabranchClient
import Foundation
import GRDB
import Testing

@testable import AnabranchFiles

/// New files whose content is still on its way to the server.
@Suite(.timeLimit(.minutes(30))) struct AwaitedTests {
    /// Runs two devices, the second with a mirrored folder. Of what the first one makes only the names go up, until it
    /// is opened anew. It is left to `body` to close it.
    private static func run(
        _ body: (_ rig: FilesRig, _ one: SpaceDevice, _ two: SpaceDevice, FolderMirror, String) async throws -> Void
    ) async throws {
        try await FilesRig.run { rig in
            let one = try await rig.device("one", contentPort: 1), two = try await rig.device("two")
            for device in [one, two] { try await device.connect() }
            let (mirror, folder) = try open(two)
            try await body(rig, one, two, mirror, folder)
            try await two.close()
        }
    }

    private static func open(_ device: SpaceDevice) throws -> (FolderMirror, String) {
        let folder = device.folder.appendingPathComponent("mirrored")
        let rows = device.folder.appendingPathComponent("rows").path
        return (try FolderMirror(device.space, folder: folder, database: rows), folder.path)
    }

    private static func write(_ path: String, _ text: String) throws {
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
    }

    /// Makes a file as a command does.
    private static func put(_ path: String, _ text: String, on device: SpaceDevice) async throws {
        let source = device.folder.appendingPathComponent("source")
        try write(source.path, text)
        try await device.space.put(source, at: SpacePath(path), isSeen: true)
    }

    /// Waits until the names of one device are on another.
    private static func passNames(_ one: SpaceDevice, _ two: SpaceDevice) async throws {
        try await one.store.wait(for: .upload)
        try await two.store.wait(for: .download)
    }

    private static func openAnew(_ device: SpaceDevice, _ rig: FilesRig) async throws -> SpaceDevice {
        try await device.close()
        let again = try await rig.device("one", in: device.folder)
        try await again.connect()
        return again
    }

    private static func files(in folder: String) throws -> [String: String] {
        var files: [String: String] = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
            files[name] = try String(contentsOfFile: "\(folder)/\(name)", encoding: .utf8)
        }
        return files
    }

    @Test func aContentThatIsOnItsWayIsNoEmptyOne() async throws {
        try await Self.run { rig, one, two, mirror, folder in
            try await Self.put("/a", "1", on: one)
            #expect(try await one.text("/a") == "1")
            try await Self.passNames(one, two)
            let entry = try #require(try await two.space.list().first)
            #expect(entry.contentID == nil && !entry.isFolder)
            #expect(try two.space.info(entry.path) == entry)
            let file = try two.space.open(entry.path)
            for status in [file.status, try await two.space.status(of: entry.path)] {
                #expect(!status.isCached && status.state == .idle && status.progress.fraction == 0)
                #expect(status.issue?.kind == .awaited && status.issue?.path == entry.path)
            }
            let sentence = "/a: the content has not arrived at the server yet"
            let copy = rig.folder.appendingPathComponent("copy")
            var error = await #expect(throws: SpaceError.self) { try await file.copy(to: copy) }
            #expect(error?.code == .unavailable && error?.reason == sentence)
            #expect(!FileManager.default.fileExists(atPath: copy.path))
            error = await #expect(throws: SpaceError.self) { _ = try await file.read() }
            #expect(error?.code == .unavailable && error?.reason == sentence)
            error = await #expect(throws: SpaceError.self) { try await file.write(string: "unseen") }
            #expect(error?.code == .notCached)
            // The mirror has what it had.
            try Self.write(folder + "/b", "2")
            while try await mirror.compare() > 0 {}
            #expect(rename(folder + "/b", folder + "/c") == 0)
            while try await mirror.compare() > 0 {}
            #expect(try Self.files(in: folder) == ["c": "2"])
            #expect(try two.space.everything().map(\.path.description).sorted() == ["/a", "/c"])

            let again = try await Self.openAnew(one, rig)
            for device in [again, two] { try await device.synchronize() }
            #expect(file.newerStatus != nil && file.status.issue == nil)
            file.close()
            while try await mirror.compare() > 0 {}
            #expect(try Self.files(in: folder) == ["a": "1", "c": "2"])
            #expect(try await again.text("/a") == "1")
            try await again.close()
        }
    }

    @Test func anApplicationMakesAFileWithItsContent() async throws {
        try await Self.run { rig, one, two, mirror, folder in
            try await one.space.create(SpacePath("/a"), Data("1".utf8)).close()
            let source = rig.folder.appendingPathComponent("source")
            try Self.write(source.path, "2")
            try await one.space.create(SpacePath("/b"), contentsOf: source).close()
            try await Self.passNames(one, two)
            #expect(try await two.space.list().map(\.contentID) == [nil, nil])
            while try await mirror.compare() > 0 {}
            #expect(try Self.files(in: folder).isEmpty)
            let again = try await Self.openAnew(one, rig)
            for device in [again, two] { try await device.synchronize() }
            while try await mirror.compare() > 0 {}
            #expect(try Self.files(in: folder) == ["a": "1", "b": "2"])
            try await again.close()
        }
    }

    /// Its chunks have found room on the disk, and the row of what waits does not.
    @Test func aFileWhoseContentCannotBeKeptIsNotMade() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), contents = device.folder.appendingPathComponent("contents")
            let database = try DatabaseQueue(path: contents.appendingPathComponent("files.db").path)
            try await database.write { db in
                try db.execute(
                    sql: "CREATE TRIGGER full BEFORE INSERT ON pending BEGIN SELECT RAISE(ABORT, 'full'); END")
            }
            let path = try SpacePath("/a")
            let error = await #expect(throws: SpaceError.self) {
                try await device.space.create(path, Data("1".utf8)).close()
            }
            #expect(error?.code == .storageFailed)
            #expect(try device.space.everything().isEmpty)
            let chunks = try FileManager.default.subpathsOfDirectory(atPath: contents.path + "/chunks")
            #expect(!chunks.contains { $0.contains("/") })
            try await database.write { try $0.execute(sql: "DROP TRIGGER full") }
            try database.close()
            try await device.space.create(path, Data("1".utf8)).close()
            #expect(try await device.tree() == ["/a": "1"])
            try await device.close()
        }
    }

    /// The process has ended when the content waited, and its file was not made yet.
    @Test func aContentWithoutItsFileGetsIt() async throws {
        try await FilesRig.run { rig in
            var device = try await rig.device("one")
            let folder = device.folder, cache = device.space.cache, base = Manifest.awaited.id
            let stored = try cache.store(Data("1".utf8))
            let content = try #require(Manifest(size: 1, chunks: stored.chunks, ancestors: [base]))
            try cache.add(
                ContentCache.Pending(
                    file: UUID(), content: content, base: base, name: "a", parent: nil, modified: Date(),
                    isCopy: false))
            try await device.close()
            device = try await rig.device("one", in: folder)
            #expect(try await device.tree() == ["/a": "1"])
            let other = try await rig.device("other")
            for device in [device, other] {
                try await device.connect()
                try await device.synchronize()
            }
            for device in [device, other] { #expect(try await device.tree() == ["/a": "1"]) }
            for device in [device, other] { try await device.close() }
        }
    }

    @Test func aFileThatIsMadeUnderItsNameStays() async throws {
        try await Self.run { rig, one, two, mirror, folder in
            try await Self.put("/a", "of one", on: one)
            try await Self.passNames(one, two)
            try Self.write(folder + "/a", "of two")
            while try await mirror.compare() > 0 {}
            #expect(try Self.files(in: folder) == ["a": "of two"])
            #expect(try await two.text("/a") == "of two")
            try await two.synchronize()

            let again = try await Self.openAnew(one, rig)
            try await [again, two].converge()
            while try await mirror.compare() > 0 {}
            for found in [try await again.tree(), try await two.tree(), try Self.files(in: folder)] {
                #expect(found.values.sorted() == ["of one", "of two"])
            }
            try await again.close()
        }
    }

    @Test func aFolderThatIsDeletedComesBackWithThem() async throws {
        try await Self.run { rig, one, two, mirror, folder in
            try await one.space.createFolder(SpacePath("/f"))
            try await Self.passNames(one, two)
            while try await mirror.compare() > 0 {}
            try await Self.put("/f/a", "1", on: one)
            try await Self.passNames(one, two)
            #expect(rmdir(folder + "/f") == 0)
            while try await mirror.compare() > 0 {}
            #expect(try two.space.everything().isEmpty)
            #expect(try Self.files(in: folder).isEmpty)

            let again = try await Self.openAnew(one, rig)
            for device in [again, two] { try await device.synchronize() }
            while try await mirror.compare() > 0 {}
            #expect(try Self.files(in: folder + "/f") == ["a": "1"])
            #expect(try await again.tree() == ["/f/": "", "/f/a": "1"])
            try await again.close()
        }
    }

    /// A process may have ended after it had made the file, and before it had written down its content.
    @Test func anEmptyFileHasAContent() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), (mirror, folder) = try Self.open(device)
            try await device.space.create(SpacePath("/a"), with: .awaited).close()
            #expect(try device.space.info(SpacePath("/a")).contentID == nil)
            for name in ["a", "b"] { try Self.write("\(folder)/\(name)", "") }
            while try await mirror.compare() > 0 {}
            #expect(try await device.tree() == ["/a": "", "/b": ""])
            let content = try device.space.info(SpacePath("/a")).contentID
            #expect(content != nil && content != Manifest.empty.id.description)
            #expect(try device.space.info(SpacePath("/b")).contentID == Manifest.empty.id.description)
            try await device.close()
        }
    }
}
