import AnabranchChunks
import AnabranchClient
import AnabranchHistory
import AnabranchServer
import AnabranchTesting
import Foundation
import Synchronization
import Testing

@testable import AnabranchFiles
@testable import AnabranchFilesWire

/// Folders of the disk that are kept equal to a space.
@Suite(.timeLimit(.minutes(30))) struct MirrorTests {
    /// A device with a folder.
    private struct Machine {
        let device: SpaceDevice
        let mirror: FolderMirror
        let folder: URL

        init(_ name: String, in rig: FilesRig, partition: String = "files") async throws {
            device = try await rig.device(name, partition: partition)
            folder = device.folder.appendingPathComponent("mirrored")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            mirror = try FolderMirror(
                device.space, folder: folder, database: device.folder.appendingPathComponent("rows").path)
        }

        func url(_ path: String) -> URL { folder.appendingPathComponent(path) }

        func write(_ path: String, _ text: String) throws {
            try text.write(to: url(path), atomically: false, encoding: .utf8)
        }

        func makeFolder(_ path: String) throws {
            try FileManager.default.createDirectory(at: url(path), withIntermediateDirectories: true)
        }

        /// The files on the disk, without links.
        func tree() throws -> [String: String] {
            var tree: [String: String] = [:]
            for path in try FileManager.default.subpathsOfDirectory(atPath: folder.path) {
                switch try FileManager.default.attributesOfItem(atPath: url(path).path)[.type] as? FileAttributeType {
                case .typeDirectory: tree["/\(path)/"] = ""
                case .typeRegular: tree["/\(path)"] = try String(contentsOf: url(path), encoding: .utf8)
                default: continue
                }
            }
            return tree
        }

        func settle() async throws {
            while try await mirror.compare() > 0 {}
            try await device.settle()
            while try await mirror.compare() > 0 {}
        }
    }

    /// Waits until all show the same, and go on doing so when all have looked at that: the author of a content that has
    /// lost makes a copy of it then.
    private static func converge(_ machines: [Machine]) async throws -> [[String: String]] {
        var trees: [[String: String]] = []
        for _ in 0..<20 {
            for machine in machines { try await machine.settle() }
            let last = trees
            // What is listed can go before it is read, as long as changes still come in.
            guard let shown = try? await machines[0].device.tree() else { continue }
            trees = try machines.map { try $0.tree() } + [shown]
            if Set(trees).count == 1, trees == last { break }
        }
        return trees
    }

    @Test func twoFoldersAreKeptEqual() async throws {
        try await FilesRig.run { rig in
            let machines = [try await Machine("one", in: rig), try await Machine("two", in: rig)]
            let (one, two) = (machines[0], machines[1])
            for machine in machines { try await machine.device.connect() }
            try one.makeFolder("f/g")
            try one.write("f/g/a", "1")
            try two.write("b", "2")
            var trees = try await Self.converge(machines)
            #expect(trees[0] == ["/f/": "", "/f/g/": "", "/f/g/a": "1", "/b": "2"])
            #expect(Set(trees).count == 1)
            // A folder is moved here, and what is in it is edited there.
            let key = try one.device.key("/f/g/a")
            try FileManager.default.moveItem(at: one.url("f"), to: one.url("h"))
            try two.write("f/g/a", "edited")
            trees = try await Self.converge(machines)
            #expect(trees[0] == ["/h/": "", "/h/g/": "", "/h/g/a": "edited", "/b": "2"])
            #expect(Set(trees).count == 1)
            #expect(try two.device.key("/h/g/a") == key)
            // A file that is edited on both sides stays twice.
            try one.write("b", "of one")
            try two.write("b", "of two")
            trees = try await Self.converge(machines)
            #expect(Set(trees).count == 1)
            #expect(trees[0].values.filter { $0.hasPrefix("of ") }.sorted() == ["of one", "of two"])
            try FileManager.default.removeItem(at: two.url("h"))
            trees = try await Self.converge(machines)
            #expect(Set(trees).count == 1)
            #expect(trees[0].keys.filter { $0.hasPrefix("/h") }.isEmpty)
            for machine in machines { try await machine.device.close() }
        }
    }

    /// A store of chunks that looks at a folder whenever a chunk is read.
    private final class Watching: ChunkStore {
        private let store: FolderChunkStore
        let folder = Mutex<String?>(nil)
        let seen = Mutex<Set<String>>([])

        init(_ store: FolderChunkStore) { self.store = store }

        func read(_ chunk: ChunkHash, of path: VirtualPath, in range: Range<Int>) async throws -> EndpointStream? {
            let names = try folder.withLock { $0 }.map(FileManager.default.contentsOfDirectory(atPath:)) ?? []
            seen.withLock { $0.formUnion(names) }
            return try await store.read(chunk, of: path, in: range)
        }

        func put(_ chunk: ChunkHash, of path: VirtualPath, byteCount: Int, _ parts: EndpointStream) async throws {
            try await store.put(chunk, of: path, byteCount: byteCount, parts)
        }

        func byteCount(of chunk: ChunkHash, of path: VirtualPath) async throws -> Int? {
            try await store.byteCount(of: chunk, of: path)
        }

        func remove(_ chunk: ChunkHash, of path: VirtualPath) throws { try store.remove(chunk, of: path) }
        func contains(_ chunk: ChunkHash, of path: VirtualPath) -> Bool { store.contains(chunk, of: path) }
        func paths() async throws -> [VirtualPath] { try await store.paths() }

        func chunks(of path: VirtualPath, putBefore time: UInt64) async throws -> [ChunkHash] {
            try await store.chunks(of: path, putBefore: time)
        }
    }

    /// Parts that a process leaves when it ends are not taken for a file. The name is the longest that one has.
    @Test func aFileThatComesIsNoneBefore() async throws {
        let watching = Mutex<Watching?>(nil)
        let wrap: @Sendable (FolderChunkStore) -> any ChunkStore = { store in
            let made = Watching(store)
            watching.withLock { $0 = made }
            return made
        }
        try await FilesRig.run(wrap: wrap) { rig in
            let store = try #require(watching.withLock { $0 }), name = String(repeating: "\u{4e2d}", count: 85)
            let one = try await rig.device("one"), two = try await Machine("two", in: rig)
            for device in [one, two.device] { try await device.connect() }
            try await one.put("/\(name)", "1")
            try await one.synchronize()
            try await two.device.synchronize()
            store.folder.withLock { $0 = two.folder.path }
            while try await two.mirror.compare() > 0 {}
            #expect(try two.tree() == ["/\(name)": "1"])
            let seen = store.seen.withLock { $0 }
            #expect(!seen.isEmpty && seen.allSatisfy { $0.hasSuffix(FolderScan.draftEnding) }, "\(seen)")
            for device in [one, two.device] { try await device.close() }
        }
    }

    @Test func contentsThatAProcessHasLeftOnTheirWayAreRemoved() async throws {
        try await FilesRig.run { rig in
            let machine = try await Machine("one", in: rig)
            try machine.makeFolder("f")
            let left = ["f/.12.new", ".7", ".x.new", "f/.9.new"].map { $0 + FolderScan.draftEnding }
            for (path, seconds) in zip(left, [-3_600.0, -3_600, -3_600, 3_600]) {
                try machine.write(path, "1")
                try FileManager.default.setAttributes(
                    [.modificationDate: Date(timeIntervalSinceNow: seconds)], ofItemAtPath: machine.url(path).path)
            }
            try await machine.mirror.compare()
            // Names that others may have given, and one that is newer than this process, stay.
            #expect(try Set(machine.tree().keys) == Set(left.dropFirst().map { "/\($0)" } + ["/f/"]))
            try await machine.device.close()
        }
    }

    @Test func namesThatAreExchangedAreSoOnTheDisk() async throws {
        try await FilesRig.run { rig in
            let machine = try await Machine("one", in: rig), space = machine.device.space
            for folder in ["/f", "/g"] { try await space.createFolder(SpacePath(folder)) }
            for path in ["/a", "/b", "/c", "/f/x", "/g/y"] { try await machine.device.put(path, "was \(path)") }
            while try await machine.mirror.compare() > 0 {}
            // The mirror does not look meanwhile.
            let moves = [
                ("/a", "/t"), ("/b", "/a"), ("/c", "/b"), ("/t", "/c"), ("/f", "/t"), ("/g", "/f"), ("/t", "/g"),
            ]
            for (path, target) in moves { try await space.move(SpacePath(path), to: SpacePath(target)) }
            while try await machine.mirror.compare() > 0 {}
            let tree = [
                "/a": "was /b", "/b": "was /c", "/c": "was /a", "/f/": "", "/f/y": "was /g/y", "/g/": "",
                "/g/x": "was /f/x",
            ]
            #expect(try machine.tree() == tree)
            #expect(try await machine.device.tree() == tree)
            try await machine.device.close()
        }
    }

    /// As by `touch`: what the space has by then comes, also if it is that there is nothing any more.
    @Test func whatWasOnlyTouchedHereIsNoConflict() async throws {
        try await FilesRig.run { rig in
            let machine = try await Machine("one", in: rig), space = machine.device.space, names = ["a", "b", "c", "d"]
            for name in names { try await machine.device.put("/\(name)", "1") }
            while try await machine.mirror.compare() > 0 {}
            try await machine.device.put("/a", "2")
            try await machine.device.put("/b", "")
            try await space.delete(SpacePath("/c"))
            try await space.move(SpacePath("/d"), to: SpacePath("/e"))
            let date = Date(timeIntervalSince1970: 1_000_000_000)
            for name in names {
                try FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: machine.url(name).path)
            }
            while try await machine.mirror.compare() > 0 {}
            let tree = ["/a": "2", "/b": "", "/e": "1"]
            #expect(try machine.tree() == tree)
            #expect(try await machine.device.tree() == tree)
            try await machine.device.close()
        }
    }

    @Test func aFileOfTheFarFutureIsMirrored() async throws {
        try await FilesRig.run { rig in
            let machine = try await Machine("one", in: rig)
            try machine.write("a", "1")
            let date = Date(timeIntervalSince1970: 13_000_000_000)
            try FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: machine.url("a").path)
            while try await machine.mirror.compare() > 0 {}
            #expect(try await machine.device.tree() == ["/a": "1"])
            try await machine.device.close()
        }
    }

    /// Links are left alone, and what they lead to is not touched.
    @Test func linksAreLeftAlone() async throws {
        try await FilesRig.run { rig in
            let machine = try await Machine("one", in: rig), other = try await rig.device("other")
            try await machine.device.connect()
            try await other.connect()
            let outside = rig.folder.appendingPathComponent("outside")
            try FileManager.default.createDirectory(at: outside, withIntermediateDirectories: true)
            try "secret".write(to: outside.appendingPathComponent("s"), atomically: true, encoding: .utf8)
            for (name, target) in [("folder", outside), ("file", outside.appendingPathComponent("s"))] {
                try FileManager.default.createSymbolicLink(at: machine.url(name), withDestinationURL: target)
            }
            try await machine.settle()
            #expect(try await machine.device.tree() == [:])
            // Another device makes what has the names of the links.
            try await other.space.createFolder(SpacePath("/folder"))
            try await other.put("/folder/x", "1")
            try await other.put("/file", "2")
            try await other.put("/free", "3")
            try await other.settle()
            try await machine.settle()
            try await machine.settle()
            #expect(try FileManager.default.contentsOfDirectory(atPath: outside.path) == ["s"])
            #expect(try String(contentsOf: outside.appendingPathComponent("s"), encoding: .utf8) == "secret")
            #expect(try machine.tree() == ["/free": "3"])
            #expect(try await machine.device.tree().count == 4)
            try await machine.device.close()
            try await other.close()
        }
    }

    /// Random changes of two folders, with pauses.
    @Test func randomChangesOfFolders() async throws {
        let environment = ProcessInfo.processInfo.environment
        let first = environment["ANABRANCH_SEED"].flatMap(UInt64.init) ?? 1
        let count = environment["ANABRANCH_COUNT"].flatMap(UInt64.init) ?? 4
        try await FilesRig.run { rig in
            for seed in first..<first + count {
                var random = SeededRandom(seed: seed)
                let partition = UUID().uuidString
                let machines = [
                    try await Machine("one", in: rig, partition: partition),
                    try await Machine("two", in: rig, partition: partition),
                ]
                for machine in machines { try await machine.device.connect() }
                for round in 0..<4 {
                    for machine in machines {
                        for step in 0..<random.below(8) { Self.change(machine, "\(round).\(step)", &random) }
                    }
                    let trees = try await Self.converge(machines)
                    #expect(
                        Set(trees).count == 1,
                        """
                        seed \(seed), round \(round): \(trees)
                        again: ANABRANCH_SEED=\(seed) ANABRANCH_COUNT=1 scripts/check --filter MirrorTests
                        """)
                }
                for machine in machines { try await machine.device.close() }
            }
        }
    }

    private static func change(_ machine: Machine, _ text: String, _ random: inout SeededRandom) {
        let files = FileManager.default
        let all = ((try? files.subpathsOfDirectory(atPath: machine.folder.path)) ?? []).sorted()
        let folders = [""] + all.filter { machine.url($0).hasDirectoryPath }
        let target = random.pick(folders) + "/" + random.pick(["a", "b", "c"]),
            source = all.isEmpty ? "x" : random.pick(all)
        // Some of them cannot be done, as is usual.
        switch random.below(6) {
        case 0, 1: try? machine.write(target, text)
        case 2: if !source.isEmpty, !machine.url(source).hasDirectoryPath { try? machine.write(source, text) }
        case 3: try? machine.makeFolder(target)
        case 4: try? files.moveItem(at: machine.url(source), to: machine.url(target))
        default: try? files.removeItem(at: machine.url(source))
        }
    }
}
