import AnabranchChunks
import AnabranchClient
import AnabranchCore
import AnabranchFilesWire
import AnabranchHistory
import AnabranchServer
import Foundation
import Synchronization
import Testing

@testable import AnabranchFiles

/// Folders as no program makes them, but any client can write them.
@Suite(.timeLimit(.minutes(30))) struct DeepFolderTests {
    private static let count = 40_000

    /// Runs a server with a store that syncs, without a space on top.
    private static func run(_ body: (FilesRig, SyncedStore) async throws -> Void) async throws {
        try await FilesRig.run { rig in
            let store = try await SyncedStore(rig.folder.appendingPathComponent("store").path)
            let client = SyncClient(
                SyncConfiguration(FixedRoute(server: "ws://127.0.0.1:\(rig.port)", app: FilesRig.app, token: "ann")))
            try await client.add(store, partition: "files")
            try await body(rig, store)
            await client.stop()
            try await store.close()
        }
    }

    private static func write(_ folders: [FolderRecord], to store: SyncedStore) async throws {
        try await store.write { tx in for folder in folders { try tx.save(folder) } }
        try await store.wait(for: .upload)
    }

    /// The server looks for loops on the way from each of them to the root.
    @Test func foldersThatLieInEachOther() async throws {
        try await Self.run { rig, store in
            var folders = [FolderRecord(name: "f")]
            while folders.count < Self.count { folders.append(FolderRecord(name: "f", parent: folders.last?.id)) }
            try await Self.write(folders, to: store)
            // The way is too long to look at it with each change. Once in a while it is.
            folders[0].parent = folders.last?.id
            folders[0].moved = Date(timeIntervalSinceNow: 60)
            try await Self.write([folders[0]], to: store)
            try await rig.wire.sweep(FilesRig.path)
            try await store.wait(for: .download)
            #expect(try store.get(FolderRecord.self, folders[0].id).parent == nil)
        }
    }

    /// Of each loop, one folder goes into the root.
    @Test func manyLoops() async throws {
        try await Self.run { rig, store in
            var folders: [FolderRecord] = []
            for number in 0..<Self.count {
                var pair = [FolderRecord(name: "a\(number)"), FolderRecord(name: "b\(number)")]
                (pair[0].parent, pair[1].parent) = (pair[1].id, pair[0].id)
                folders += pair
            }
            try await Self.write(folders, to: store)
            try await rig.wire.sweep(FilesRig.path)
            try await store.wait(for: .download)
            let found = try store.objects(FolderRecord.all)
            #expect(found.count == 2 * Self.count && found.count { $0.parent == nil } == Self.count)
        }
    }

    /// An edit that a client has made before the server cuts a loop loses, also if that was in the same second.
    @Test func theLaterOfTwoEditsInASecondWins() async throws {
        try await FilesRig.run { rig in
            let second = Double(rig.clock.now), time = Mutex(second - 20)
            rig.clock.setFraction(0.9)
            let replica = try SyncedReplica(path: rig.folder.appendingPathComponent("store").path) {
                ChangesetTime(secondsSince1970: time.withLock { $0 })
            }
            let store = try await SyncedStore(replica, [])
            let client = SyncClient(
                SyncConfiguration(FixedRoute(server: "ws://127.0.0.1:\(rig.port)", app: FilesRig.app, token: "ann")))
            try await client.add(store, partition: "files")
            let folders = [20.0, 10, 30].map {
                FolderRecord(name: "f\($0)", moved: Date(timeIntervalSince1970: second - $0))
            }
            try await Self.write(folders, to: store)
            await client.remove(store)
            let keys = try folders.map { try #require(UUIDBytes(text: $0.id.uuidString)) }
            try await rig.server.write(to: FilesRig.path, at: Date(timeIntervalSince1970: second + 0.1)) { tx in
                for (folder, parent) in [(keys[0], keys[1]), (keys[1], keys[0])] {
                    let object = try tx.object(SpaceClasses.folder, key: .uuid(folder))
                    try object?.set(SpaceClasses.parent, to: .uuid(parent))
                }
            }
            try await rig.wire.sweep(FilesRig.path)
            time.withLock { $0 = second + 0.5 }
            var moved = folders[1]
            moved.parent = folders[2].id
            try await store.write { [moved] tx in try tx.save(moved) }
            try await client.add(store, partition: "files")
            try await store.wait(for: .upload)
            try await store.wait(for: .download)
            #expect(try store.get(FolderRecord.self, moved.id).parent == nil)
            #expect(try store.get(FolderRecord.self, folders[0].id).parent == moved.id)
            await client.stop()
            try await store.close()
        }
    }

    /// Each path is short, and all devices show the same.
    @Test func foldersTooDeepAreShownInTheRoot() {
        var tree = SpaceTree(), keys: [UUID] = []
        for number in 0..<4 * SpaceTree.depthMax {
            let key = UUID()
            tree.set(
                SpaceTree.Node(key: key, isFolder: true, name: "\(number)", parent: keys.last, moved: Date()), key)
            keys.append(key)
        }
        tree.findCuts()
        let first = stride(from: 0, to: keys.count, by: SpaceTree.depthMax).map { keys[$0] }
        #expect(Set(tree.list(nil).map(\.key)) == Set(first))
        let paths = tree.paths(of: keys)
        #expect(paths.count == keys.count && paths.values.allSatisfy { $0.components.count <= SpaceTree.depthMax })
        // A loop is cut, and what lies in it begins there.
        var node = SpaceTree.Node(key: keys[0], isFolder: true, name: "0", parent: keys[1], moved: .distantFuture)
        tree.set(node, keys[0])
        tree.findCuts()
        #expect(Set(tree.list(nil).map(\.key)) == Set(first))
        node.parent = keys.last
        tree.set(node, keys[0])
        tree.findCuts()
        #expect(Set(tree.list(nil).map(\.key)) == Set(first) && tree.paths(of: keys).count == keys.count)
    }

    /// Their names have numbers.
    @Test func manyFoldersOfOneName() {
        let count = 100_000
        var tree = SpaceTree(), keys: [UUID] = []
        for _ in 0..<count {
            let key = UUID()
            tree.set(SpaceTree.Node(key: key, isFolder: true, name: "f", moved: Date()), key)
            keys.append(key)
        }
        let names = tree.list(nil).map(\.name)
        #expect(names.first == "f" && names.last == "f (\(count))" && Set(names).count == count)
        let paths = tree.paths(of: keys)
        #expect(Set(paths.values.map(\.name)) == Set(names))
        for key in keys.prefix(3) { #expect(tree.path(of: key) == paths[key]) }
    }

    /// Photos often have numbers, and none of them is one that the space has given.
    @Test(.timeLimit(.minutes(30))) func manyNamesWithNumbers() {
        var tree = SpaceTree()
        for number in 0..<100_000 {
            let key = UUID()
            tree.set(SpaceTree.Node(key: key, isFolder: true, name: "a (\(number))", moved: Date()), key)
        }
        for number in 0..<2_000 { #expect(tree.find("b (\(number))", in: nil) == nil) }
        let key = UUID()
        tree.set(SpaceTree.Node(key: key, isFolder: true, name: "a (7)", moved: Date()), key)
        #expect(tree.find("a (7) (2)", in: nil) != nil)
    }

    /// The trash shows the folder alone.
    @Test func aDeletedFolderWithManyFiles() {
        var tree = SpaceTree()
        let folder = UUID(), content = Manifest.empty
        tree.set(SpaceTree.Node(key: folder, isFolder: true, name: "f", moved: Date(), trashed: []), folder)
        for number in 0..<100_000 {
            let key = UUID()
            tree.set(
                SpaceTree.Node(
                    key: key, isFolder: false, name: "\(number)", parent: folder, moved: Date(),
                    content: .init(content), trashed: content.id.bytes), key)
        }
        #expect(tree.trash() == [folder] && tree.paths(of: [folder])[folder]?.description == "/f")
        // One that lives has it live as well.
        let key = UUID()
        tree.set(SpaceTree.Node(key: key, isFolder: false, name: "new", parent: folder, moved: Date()), key)
        #expect(tree.trash().count == 100_000)
    }
}
