import AnabranchChunks
import AnabranchFilesWire
import AnabranchTesting
import Foundation
import Synchronization
import Testing

@testable import AnabranchFiles

extension FolderMirror {
    /// Has the system tell it what changes, as while it runs.
    fileprivate func use(_ watch: FolderWatch) { place.watch = watch }
}

/// What a mirror finds while it runs: by the names that the system tells, without looking at everything again.
@Suite(.timeLimit(.minutes(30))) struct MirrorWatchTests {
    /// A mirror that runs, and looks at everything only where it has to.
    private final class Running: Sendable {
        let device: SpaceDevice
        let folder: URL
        /// How often it has asked what is mounted at a place, which it does for each folder that it reads.
        let looks = Mutex(0)
        private let bell = Bell()
        private let task = Mutex<Task<Void, any Error>?>(nil)

        init(_ name: String, in rig: FilesRig) async throws {
            device = try await rig.device(name)
            folder = device.folder.appendingPathComponent("mirrored")
            try await device.connect()
        }

        func start(pause: Duration = .seconds(86_400)) throws {
            let mirror = try FolderMirror(
                device.space, folder: folder, database: device.folder.appendingPathComponent("rows").path,
                pause: pause, tell: { _ in self.bell.ring() },
                mount: { path in
                    self.looks.withLock { $0 += 1 }
                    return FolderMark.mount(of: path)
                })
            task.withLock { $0 = Task { try await mirror.run() } }
        }

        func end() async throws {
            task.withLock { $0?.cancel() }
            _ = await task.withLock { $0 }?.result
            try await device.close()
        }

        func run(_ line: String) async throws {
            let folder = folder
            let status = try await onOwnThread {
                let process = Process()
                process.executableURL = URL(filePath: "/usr/bin/env")
                process.arguments = ["bash", "-ec", line]
                process.currentDirectoryURL = folder
                try process.run()
                process.waitUntilExit()
                return process.terminationStatus
            }
            #expect(status == 0, "\(line)")
        }

        /// The chunks of all files on the disk; folders end with a slash.
        private func disk() throws -> [String: [ChunkHash]] {
            var tree: [String: [ChunkHash]] = [:]
            for path in try FileManager.default.subpathsOfDirectory(atPath: folder.path) {
                let url = folder.appendingPathComponent(path)
                guard !path.hasSuffix(FolderScan.draftEnding), let found = FolderScan.look(url.path) else { continue }
                tree[found.isFolder ? "/\(path)/" : "/\(path)"] = found.isFolder ? [] : try ContentCache.chunks(of: url)
            }
            return tree
        }

        private func space() throws -> [String: [ChunkHash]] {
            var tree: [String: [ChunkHash]] = [:]
            for entry in try device.space.everything() {
                let content = device.space.newestContent(of: entry.key)
                tree["\(entry.path)" + (entry.isFolder ? "/" : "")] = content?.chunks ?? []
            }
            return tree
        }

        func wait(until isTrue: () throws -> Bool) async throws {
            while try !isTrue() { _ = await bell.wait(atMost: .milliseconds(100)) }
        }

        /// Waits until all folders and spaces are equal.
        static func settle(_ machines: [Running]) async throws {
            while true {
                // What is listed can go before it is read.
                let trees = try machines.flatMap { [try? $0.disk(), try $0.space()] }
                if Set(trees).count == 1 { return }
                for machine in machines { _ = await machine.bell.wait(atMost: .milliseconds(100)) }
            }
        }
    }

    @Test func aChangeIsFoundByItsName() async throws {
        try await FilesRig.run { rig in
            let machine = try await Running("one", in: rig)
            try FileManager.default.createDirectory(at: machine.folder, withIntermediateDirectories: true)
            try await machine.run("for n in $(seq 200); do mkdir $n; echo $n > $n/f; done")
            try machine.start()
            try await Running.settle([machine])
            try await machine.device.synchronize()
            machine.looks.withLock { $0 = 0 }
            try await machine.run("echo new > 7/f; mv 8/f 8/g; rm 9/f; mkdir 10/h")
            try await Running.settle([machine])
            let looks = machine.looks.withLock { $0 }
            #expect(looks > 0 && looks < 200, "\(looks)")
            try await machine.end()
        }
    }

    /// The server keeps it back until all else has come.
    @Test func nothingWaitsForALargeContent() async throws {
        let made = Mutex<CountingStore?>(nil)
        let wrap: @Sendable (FolderChunkStore) -> any ChunkStore = { store in
            let counting = CountingStore(store)
            made.withLock { $0 = counting }
            return counting
        }
        try await FilesRig.run(wrap: wrap) { rig in
            let store = try #require(made.withLock { $0 }), begun = Bell(), gate = Bell()
            let one = try await Running("one", in: rig), two = try await Running("two", in: rig)
            try FileManager.default.createDirectory(at: one.folder, withIntermediateDirectories: true)
            try await one.run("mkdir f; echo 1 > f/a; truncate -s 5M large; echo end >> large")
            let end = try #require(try ContentCache.chunks(of: one.folder.appendingPathComponent("large")).last)
            store.beforeRead.withLock { before in
                before = { chunk in
                    guard chunk == end else { return }
                    begun.ring()
                    _ = await gate.wait()
                }
            }
            for machine in [one, two] { try machine.start() }
            _ = await begun.wait()
            try await one.run("mv f g; echo 2 > b; mv large there")
            try await two.wait {
                let paths = (try? FileManager.default.subpathsOfDirectory(atPath: two.folder.path)) ?? []
                return Set(["b", "g", "g/a"]).isSubset(of: paths)
            }
            #expect(!FileManager.default.fileExists(atPath: two.folder.appendingPathComponent("there").path))
            store.beforeRead.withLock { $0 = { _ in } }
            gate.ring()
            try await Running.settle([one, two])
            let key = try two.device.space.info(SpacePath("/there")).key
            #expect(try one.device.space.info(SpacePath("/there")).key == key)
            for machine in [one, two] { try await machine.end() }
        }
    }

    /// As by programs that change the tags of a file of music, and keep its time; also while everything is looked at.
    @Test(arguments: [86_400, 0]) func whatKeepsItsSizeAndTimeGoesUp(pause: Int) async throws {
        try await FilesRig.run { rig in
            let machine = try await Running("one", in: rig)
            try machine.start(pause: .seconds(pause))
            for text in ["one", "two"] {
                try await machine.run("echo \(text) > a; touch -d 2001-01-01 a")
                try await Running.settle([machine])
            }
            try await machine.end()
        }
    }

    /// The file has its former size and time, and the system has told of so much that the name was lost.
    @Test func whatWasWrittenGoesUpWhenItsNameIsLost() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), folder = device.folder.appendingPathComponent("mirrored")
            let mirror = try FolderMirror(
                device.space, folder: folder, database: device.folder.appendingPathComponent("rows").path)
            try await device.put("/a", "one")
            let watch = try #require(FolderWatch(Bell(), eventsMax: 1)), path = folder.path + "/a"
            await mirror.use(watch)
            while try await mirror.compare() > 0 {}
            let status = try #require(FolderScan.status(path))
            try Data("two".utf8).write(to: folder.appendingPathComponent("a"))
            #expect(utimensat(AT_FDCWD, path, [status.st_atim, status.st_mtim], 0) == 0)
            while try await mirror.compare() > 0 {}
            #expect(try await device.text("/a") == "two")
            try await device.close()
        }
    }

    @Test func namesThatAreLostMayBeThoseOfWrittenFiles() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("watched-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let watch = try #require(FolderWatch(Bell(), eventsMax: 2))
        watch.add(.root, at: folder.path)
        for (names, isLost) in [(["a"], false), (["a", "b", "c"], true), (["a"], false)] {
            for name in names { try Data(name.utf8).write(to: folder.appendingPathComponent(name)) }
            let news = watch.take()
            #expect(news.hasMore == isLost && news.isAllWritten == isLost, "\(names)")
        }
    }

    @Test func onlyHalfAMoveHasToWait() throws {
        let made = FileManager.default.temporaryDirectory.appendingPathComponent("watched-\(UUID().uuidString)")
        let inside = made.path + "/inside", outside = made.path + "/outside"
        try FileManager.default.createDirectory(atPath: inside, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: made) }
        let watch = try #require(FolderWatch(Bell()))
        watch.add(.root, at: inside)
        let a = inside + "/a", b = inside + "/b", draft = inside + "/\(FolderScan.draftName())"
        func append(_ path: String) throws {
            let handle = try #require(FileHandle(forWritingAtPath: path))
            try handle.seekToEnd()
            try handle.write(contentsOf: Data("1".utf8))
            try handle.close()
        }
        let steps: [(name: String, isWhole: Bool, () throws -> Void)] = [
            ("nothing", true, {}),
            ("a new file", false, { try Data().write(to: URL(fileURLWithPath: a)) }),
            ("a move", true, { #expect(rename(a, b) == 0) }),
            ("two moves", true, { #expect(rename(b, a) == 0 && rename(a, b) == 0) }),
            ("a file that is written", true, { try append(b) }),
            ("a file that goes", false, { #expect(rename(b, outside) == 0) }),
            ("one that comes", false, { #expect(rename(outside, a) == 0) }),
            ("a move, and rights", false, { #expect(rename(a, b) == 0 && chmod(b, 0o600) == 0) }),
            ("a content that comes", true, { #expect(rename(b, draft) == 0 && rename(draft, a) == 0) }),
            ("a file that is removed", false, { #expect(unlink(a) == 0) }),
        ]
        for (name, isWhole, make) in steps {
            try make()
            #expect(watch.isWhole == isWhole, "\(name)")
            _ = watch.take()
        }
    }

    @Test func nothingIsMissed() async throws {
        try await FilesRig.run { rig in
            let machines = [try await Running("one", in: rig), try await Running("two", in: rig)]
            for machine in machines { try machine.start() }
            let steps = [
                "mkdir -p a/b/c; echo 1 > a/b/c/f; echo 2 > a/g",
                "mv a/b d; echo 3 >> d/c/f",
                // It leaves the folder and comes back with another content, and is written then.
                "mv d ../out; echo 4 > ../out/c/f; mv ../out a/d; echo 5 > a/d/c/e",
                "ln a/g h", "echo 6 > i", "echo 7 >> h",
                "echo 8 > .new; mv .new a/g",
                "rm a/g; mkdir -p a/g/x; echo 9 > a/g/x/y",
                "rm -r a/g; echo 10 > a/g",
                "for n in $(seq 30); do mkdir -p t/$n/u; echo $n > t/$n/u/v; done; mv t s; rm -r s/1*",
                "mv s/2 s/3/w; mv h s/3/w/h; touch -d 2001-01-01 s; echo 11 > s/3/w/u/v",
                "mv a x; mv s a; mv x s; echo 12 > a/3/w/h; echo 13 > s/new",
                "ln -s / link; echo 14 > \u{E4}; echo 15 > 'n (2)'; echo 16 > n",
                "echo 17 > n; mv 'n (2)' 'n (3)'",
                "rm link; mv \u{E4} \u{E4}2; mkdir link; echo 18 > link/f; rm 'n (3)'",
                "cp -a s s2; rm -r s; mv s2 s", "find . -mindepth 1 -delete",
            ]
            for (number, step) in steps.enumerated() {
                try await machines[number % 2].run(step)
                try await Running.settle(machines)
            }
            #expect(try machines[0].device.space.everything().isEmpty)
            for machine in machines { try await machine.end() }
        }
    }
}
