import AnabranchChunks
import AnabranchClient
import AnabranchFilesWire
import AnabranchHistory
import AnabranchSQLite
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchFiles

/// Upkeep by the server, its tools and the devices.
@Suite(.timeLimit(.minutes(30))) struct UpkeepTests {
    /// A partition without a chunk has a trash, too; one of another kind is left alone.
    @Test func partitionsWithoutChunksAreSwept() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one")
            try await device.connect()
            for name in ["/f", "/f/g", "/kept"] { try await device.space.createFolder(SpacePath(name)) }
            try await device.space.delete(SpacePath("/f"))
            try await device.synchronize()
            #expect(try await rig.store.paths().isEmpty)
            rig.clock.advance(by: 31 * 86_400)
            // Contents of a folder go before it, and nothing goes before the device has said that it knows of its end.
            for _ in 0..<20 where try !device.space.trash().isEmpty {
                await rig.wire.sweepAll()
                try await device.synchronize()
            }
            #expect(try device.space.trash().isEmpty)
            #expect(try device.space.everything().map(\.path.description) == ["/kept"])
            try await device.close()
        }
    }

    /// Many deleted folders are erased, those that are empty first.
    @Test func nestedFoldersGoFromTheInside() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one")
            try await device.connect()
            var path = SpacePath.root
            for _ in 0..<5 {
                path = try path.appending("f")
                try await device.space.createFolder(path)
            }
            try await device.space.delete(SpacePath("/f"))
            try await device.synchronize()
            rig.clock.advance(by: 31 * 86_400)
            for _ in 0..<20 where try !device.space.trash().isEmpty {
                try await rig.wire.sweep(FilesRig.path)
                try await device.synchronize()
            }
            #expect(try device.space.trash().isEmpty)
            try await device.close()
        }
    }

    /// `anabranch verify` names the file of which a chunk is missing, or too short.
    @Test func verifyFindsMissingContents() async throws {
        let program = try #require(BuiltProducts.command("anabranch")).path()
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("files-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        @Sendable func verify(_ words: String...) async throws -> (status: Int32, text: String) {
            try await onOwnThread {
                let process = Process(), output = Pipe()
                process.executableURL = URL(filePath: program)
                process.arguments = ["verify", "--data", folder.path] + words
                process.standardOutput = output
                process.standardError = FileHandle.nullDevice
                try process.run()
                let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
                process.waitUntilExit()
                return (process.terminationStatus, text)
            }
        }
        let store = try SQLiteStore(directory: folder.path), data = folder.appendingPathComponent("devices")
        let (key, chunks) = try await FilesRig.run(in: folder, history: store) { rig in
            let device = try await rig.device("one", in: data)
            try await device.connect()
            try await device.put("/a", "kept")
            try await device.put("/b", "to be lost")
            try await device.synchronize()
            let key = try device.key("/b")
            try await device.close()
            return (key, rig.store)
        }
        try store.close()
        var found = try await verify("--chunks")
        #expect(found.status == 0, "\(found.text)")
        let lost = ChunkHash(of: "to be lost".utf8)
        try chunks.remove(lost, of: FilesRig.path)
        found = try await verify()
        #expect(found.status == 1)
        #expect(
            found.text.contains("file \(key.uuidString.lowercased()): 1 of 1 chunk missing or too short"),
            "\(found.text)")
    }

    /// Gives one answer to all requests.
    private struct Answering: HTTPSender {
        let body: String

        func send(_ request: HTTPCall) async throws -> HTTPAnswer { HTTPAnswer(status: 404, body: Array(body.utf8)) }
    }

    /// No app of the server has `files`, or something before it answers, or only this app has none.
    @Test(arguments: [#"{"error":"no such endpoint","error_code":"NotFound","link":""}"#, "<html></html>", nil])
    func aServerWithoutFilesIsAnIssue(answer: String?) async throws {
        let sentence =
            "the server keeps no files of the app 'other': its configuration has to say `files: {}` for that app"
        try await FilesRig.run { rig in
            let folder = rig.folder.appendingPathComponent("device")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            let store = try await SyncedStore(folder.appendingPathComponent("store").path)
            let space = try await FileSpace(
                store, folder: folder.appendingPathComponent("contents").path,
                service: FileService(
                    server: "http://127.0.0.1:\(rig.port)", app: "other", partition: "files", token: "ann",
                    sender: answer.map(Answering.init)))
            try await space.create(SpacePath("/a")).write(string: "text")
            let issue = await #expect(throws: FileIssue.self) { try await space.waitForUpload() }
            #expect(issue?.kind == .noFileSpace && issue?.reason == sentence, "\(String(describing: issue))")
            let missing = try await space.create(SpacePath("/b"))
            let content = try #require(Manifest(size: 1, chunks: [ChunkHash(of: "1".utf8)]))
            try await store.write { tx in
                try tx.edit(FileRecord.self, missing.key) { $0.setContent(content, modified: Date()) }
            }
            missing.close()
            let file = try space.open(SpacePath("/b"))
            let error = await #expect(throws: SpaceError.self) { _ = try await file.read() }
            #expect(error?.code == .unavailable && error?.reason == sentence)
            try await space.close()
            try await store.close()
        }
    }

    /// A user whose login has ended is told so; what was written stays, and goes up after the next login.
    @Test func anUnlinkedAccountIsAnIssue() async throws {
        try await FilesRig.run { rig in
            let folder = rig.folder.appendingPathComponent("device")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            let store = try await SyncedStore(folder.appendingPathComponent("store").path)
            let client = SyncClient(
                SyncConfiguration(FixedRoute(server: "ws://127.0.0.1:\(rig.port)", app: FilesRig.app, token: "ann")))
            try await client.add(store, partition: "files")
            func space(token: String?) async throws -> FileSpace {
                try await FileSpace(
                    store, folder: folder.appendingPathComponent("contents").path,
                    service: FileService(
                        server: "http://127.0.0.1:\(rig.port)", app: FilesRig.app, partition: "files", token: token))
            }
            let unlinked = try await space(token: nil)
            let file = try await unlinked.create(SpacePath("/a"))
            try await file.write(string: "text")
            let issue = await #expect(throws: FileIssue.self) { try await unlinked.waitForUpload() }
            #expect(issue?.kind == .unauthorized)
            #expect(issue?.reason == "the token has ended or is unknown")
            #expect(try await file.readString() == "text")
            try await unlinked.close()
            let linked = try await space(token: "ann")
            try await linked.waitForUpload()
            #expect(try await linked.status(of: SpacePath("/a")).isPending == false)
            try await linked.close()
            await client.stop()
            try await store.close()
        }
    }

    /// A chunk that the device's own disk has changed is brought again.
    @Test func aDamagedCacheIsMended() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one")
            try await device.connect()
            try await device.put("/a", "text")
            try await device.synchronize()
            let hash = "\(ChunkHash(of: "text".utf8))"
            let cached = device.folder.appendingPathComponent("contents/chunks/\(hash.prefix(2))/\(hash)")
            try Data("tent".utf8).write(to: cached)
            #expect(try await device.text("/a") == "text")
            #expect(try Data(contentsOf: cached) == Data("text".utf8))
            try await device.close()
        }
    }

    /// A process that is killed leaves no half chunks for ever.
    @Test func straysAreRemoved() async throws {
        try await FilesRig.run { rig in
            let folder = rig.folder.appendingPathComponent("cache").path
            var cache = try ContentCache(folder: folder, bytesMax: 100)
            try cache.put(ChunkHash(of: "kept".utf8), Array("kept".utf8))
            var stray = [Array("stray".utf8)]
            let stored = try cache.store { _ in stray.isEmpty ? [] : stray.removeFirst() }
            #expect(try cache.has(ChunkHash(of: "kept".utf8)))
            #expect(try !cache.has(stored))
            // As after a kill: it is not closed.
            cache = try ContentCache(folder: folder, bytesMax: 100)
            let left = try FileManager.default.subpathsOfDirectory(atPath: folder + "/chunks")
            #expect(left.filter { $0.count > 2 }.map { String($0.suffix(64)) } == ["\(ChunkHash(of: "kept".utf8))"])
            try cache.close()
        }
    }
}
