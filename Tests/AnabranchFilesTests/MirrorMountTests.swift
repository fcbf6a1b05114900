import Foundation
import Synchronization
import Testing

@testable import AnabranchFiles

/// Disks that are mounted in a mirrored folder: nobody has deleted what comes and goes with them.
@Suite(.timeLimit(.minutes(30))) struct MirrorMountTests {
    /// A mirrored folder with the folder `disk`, where another disk can be mounted.
    private final class Machine: Sendable {
        let device: SpaceDevice
        let folder: String
        let disk: String
        let told = Mutex<[String]>([])
        private let isMounted = Mutex(false)
        private let isMountedWhenRead = Mutex(false)
        private let isUnknownOnce = Mutex(false)

        init(_ device: SpaceDevice) throws {
            self.device = device
            folder = device.folder.appendingPathComponent("mirrored").path
            disk = folder + "/disk"
            try FileManager.default.createDirectory(atPath: disk, withIntermediateDirectories: true)
        }

        /// Mirrors the folder, as a process does that starts.
        func mirror() throws -> FolderMirror {
            try FolderMirror(
                device.space, folder: URL(fileURLWithPath: folder),
                database: device.folder.appendingPathComponent("rows").path,
                tell: { report in
                    if case .skipped(let path, let reason) = report {
                        self.told.withLock { $0.append("\(path): \(reason)") }
                    }
                }, mount: { self.number(of: $0) })
        }

        private func number(of path: String) -> UInt64 {
            guard path.contains("/mirrored/disk") else {
                return isUnknownOnce.withLock { isUnknown in
                    defer { isUnknown = false }
                    return isUnknown ? 0 : 1
                }
            }
            let number: UInt64 = isMounted.withLock { $0 } ? 2 : 1
            if isMountedWhenRead.withLock({ $0 }) {
                isMountedWhenRead.withLock { $0 = false }
                mount()
            }
            return number
        }

        private var hidden: String { device.folder.appendingPathComponent("hidden").path }

        /// Mounts a disk that has the file `z`.
        func mount() {
            #expect(rename(disk, hidden) == 0 && mkdir(disk, 0o755) == 0)
            close(open(disk + "/z", O_CREAT | O_WRONLY, 0o600))
            isMounted.withLock { $0 = true }
        }

        func unmount() {
            #expect(unlink(disk + "/z") == 0 && rmdir(disk) == 0 && rename(hidden, disk) == 0)
            isMounted.withLock { $0 = false }
        }

        /// Has the number of the folder's own mount unknown when it is asked for next.
        func hideNumberOnce() { isUnknownOnce.withLock { $0 = true } }

        func mountWhenRead() { isMountedWhenRead.withLock { $0 = true } }

        func write(_ name: String) throws {
            try Data("1".utf8).write(to: URL(fileURLWithPath: "\(folder)/\(name)"))
        }

        func files(in path: String) throws -> [String] {
            try FileManager.default.contentsOfDirectory(atPath: path).sorted()
        }
    }

    @Test(arguments: [false, true]) func theFilesOfADiskAreNotTheFolders(startsAnew: Bool) async throws {
        try await FilesRig.run { rig in
            let machine = try Machine(try await rig.device("one")), device = machine.device
            var mirror = try machine.mirror()
            for name in ["a", "disk/x", "disk/y"] { try machine.write(name) }
            while try await mirror.compare() > 0 {}
            let all = ["/a": "1", "/disk/": "", "/disk/x": "1", "/disk/y": "1"]
            #expect(try await device.tree() == all)
            #expect(machine.told.withLock { $0.isEmpty })

            // It hides what is in the folder, and gets nothing from the space.
            machine.mount()
            if startsAnew { mirror = try machine.mirror() }
            while try await mirror.compare() > 0 {}
            #expect(try await device.tree() == all)
            try await device.put("/disk/new", "1")
            while try await mirror.compare() > 0 {}
            #expect(try machine.files(in: machine.disk) == ["z"])
            let told = machine.told.withLock { $0 }
            #expect(told.count == 1 && told[0].hasSuffix("/disk: another disk or folder is mounted there"), "\(told)")

            // Unmounted, it leaves the folder as it was.
            machine.unmount()
            if startsAnew { mirror = try machine.mirror() }
            while try await mirror.compare() > 0 {}
            #expect(try await device.tree() == all.merging(["/disk/new": "1"]) { $1 })
            #expect(try machine.files(in: machine.disk) == ["new", "x", "y"])
            // The two are compared as ever: now somebody deletes.
            unlink(machine.disk + "/x")
            while try await mirror.compare() > 0 {}
            #expect(try await device.tree() == ["/a": "1", "/disk/": "", "/disk/y": "1", "/disk/new": "1"])
            try await device.close()
        }
    }

    /// It is mounted when its folder is open, and not read yet.
    @Test func whatADiskHidesDuringAComparisonWasNotDeleted() async throws {
        try await FilesRig.run { rig in
            let machine = try Machine(try await rig.device("one")), mirror = try machine.mirror()
            for name in ["disk/x", "disk/y"] { try machine.write(name) }
            while try await mirror.compare() > 0 {}
            machine.mountWhenRead()
            for _ in 0..<3 { try await mirror.compare() }
            #expect(try machine.files(in: machine.disk) == ["z"])
            #expect(try await machine.device.tree() == ["/disk/": "", "/disk/x": "1", "/disk/y": "1"])
            try await machine.device.close()
        }
    }

    /// It hides a file that has another name elsewhere.
    @Test func whatADiskHidesWasNotMoved() async throws {
        try await FilesRig.run { rig in
            let machine = try Machine(try await rig.device("one")), mirror = try machine.mirror()
            try machine.write("disk/x")
            while try await mirror.compare() > 0 {}
            #expect(link(machine.disk + "/x", machine.folder + "/x") == 0)
            machine.mountWhenRead()
            for _ in 0..<3 { try await mirror.compare() }
            #expect(try await machine.device.tree() == ["/disk/": "", "/disk/x": "1", "/x": "1"])
            try await machine.device.close()
        }
    }

    @Test func aFolderWhoseMountIsNotKnownAtOnceIsTheSame() async throws {
        try await FilesRig.run { rig in
            let machine = try Machine(try await rig.device("one")), mirror = try machine.mirror()
            for name in ["a", "disk/x"] { try machine.write(name) }
            while try await mirror.compare() > 0 {}
            unlink(machine.disk + "/x")
            machine.hideNumberOnce()
            while try await mirror.compare() > 0 {}
            #expect(try await machine.device.tree() == ["/a": "1", "/disk/": ""])
            #expect(try machine.files(in: machine.disk).isEmpty)
            #expect(machine.told.withLock { $0.isEmpty })
            try await machine.device.close()
        }
    }

    @Test func aMountHasANumberOfItsOwn() throws {
        let parent = FileManager.default.temporaryDirectory
        let path = parent.appendingPathComponent("mount-\(UUID().uuidString)").path
        #expect(FolderMark.mount(of: path) == 0)
        mkdir(path, 0o755)
        defer { rmdir(path) }
        #expect(FolderMark.mount(of: path) == FolderMark.mount(of: parent.path) && FolderMark.mount(of: path) != 0)
        #if os(Linux)
        #expect(FolderMark.mount(of: "/proc") != FolderMark.mount(of: "/"))
        #endif
    }
}
