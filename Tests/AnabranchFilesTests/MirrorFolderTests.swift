import AnabranchClient
import Foundation
import Synchronization
import Testing

@testable import AnabranchFiles

/// The folder of a mirror: whether it is the same as before, and what is in it beside contents.
@Suite(.timeLimit(.minutes(30))) struct MirrorFolderTests {
    /// Mirrors a folder of a device, as a process does that starts.
    private static func open(_ device: SpaceDevice) throws -> (mirror: FolderMirror, folder: String) {
        let folder = device.folder.appendingPathComponent("mirrored")
        let rows = device.folder.appendingPathComponent("rows").path
        return (try FolderMirror(device.space, folder: folder, database: rows), folder.path)
    }

    private static func write(_ path: String, _ text: String) throws {
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
    }

    @Test func inAFolderThatHasGoneNothingWasDeleted() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), (mirror, folder) = try Self.open(device)
            try Self.write(folder + "/a", "1")
            while try await mirror.compare() > 0 {}
            // It is replaced while it is mirrored.
            try FileManager.default.moveItem(atPath: folder, toPath: folder + " aside")
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            await #expect(throws: SpaceError.self) { try await mirror.compare() }
            #expect(try await device.tree() == ["/a": "1"])
            // At the next start it is another one, and then it is missing.
            for isMissing in [false, true] {
                if isMissing { try FileManager.default.removeItem(atPath: folder) }
                let (next, _) = try Self.open(device)
                while try await next.compare() > 0 {}
                #expect(try await device.tree() == ["/a": "1"])
                #expect(try String(contentsOfFile: folder + "/a", encoding: .utf8) == "1")
            }
            try await device.close()
        }
    }

    /// As that of another disk that is mounted at the same place, whose numbers of files are the same.
    @Test func aFolderWithTheSameInodeIsAnotherOne() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one")
            var (mirror, folder) = try Self.open(device)
            for name in ["/a", "/b"] { try Self.write(folder + name, "1") }
            while try await mirror.compare() > 0 {}
            // In the same folder it was deleted while nothing mirrored it.
            unlink(folder + "/a")
            (mirror, folder) = try Self.open(device)
            while try await mirror.compare() > 0 {}
            #expect(try await device.tree() == ["/b": "1"])
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == ["b"])

            // Not every disk has attributes.
            guard FolderMark.setNewNumber(of: folder) != nil else { return try await device.close() }
            unlink(folder + "/b")
            (mirror, folder) = try Self.open(device)
            while try await mirror.compare() > 0 {}
            #expect(try await device.tree() == ["/b": "1"])
            #expect(try String(contentsOfFile: folder + "/b", encoding: .utf8) == "1")
            try await device.close()
        }
    }

    /// A folder that is put back from a copy may have its attributes, and the inode of the one that was removed.
    @Test func aFolderThatIsPutBackIsAnotherOne() throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("mark-\(UUID().uuidString)").path
        defer { rmdir(path) }
        mkdir(path, 0o755)
        let status = try #require(FolderScan.status(path)), mark = FolderMark.mark(of: path, status)
        #expect(FolderMark.mark(of: path, status) == mark)
        // Not every disk has both.
        guard let number = FolderMark.number(of: path), FolderMark.birthTime(of: path) != 0 else { return }
        var isOther = false
        // The clock of a disk has ticks.
        for _ in 0..<10_000 where !isOther {
            rmdir(path)
            mkdir(path, 0o755)
            #expect(FolderMark.setNewNumber(of: path, to: number) == number)
            isOther = FolderMark.mark(of: path, status) != mark
        }
        #expect(isOther)
    }

    /// Root folders of disks without attributes often have one inode, and one number of the disk.
    @Test func onADiskWithoutAttributesTheNumberIsAFile() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), (mirror, folder) = try Self.open(device)
            let other = device.folder.appendingPathComponent("other").path, outside = folder + " outside"
            let number = FolderMark.numberInFile(of: folder)
            #expect(FolderMark.numberInFile(of: folder) == number)
            mkdir(other, 0o755)
            // A link is not followed.
            symlink(outside, other + "/.mirror.anabranch-part")
            let numbers = (0..<2).map { _ in FolderMark.numberInFile(of: other) }
            #expect(Set(numbers + [number]).count == 3 && !FolderScan.isTaken(outside))
            while try await mirror.compare() > 0 {}
            #expect(try device.space.everything().isEmpty)
            #expect(FolderMark.numberInFile(of: folder) == number)
            try await device.close()
        }
    }

    /// What both have is not transferred when the mirror begins anew.
    @Test func whatBothHaveIsNotTransferred() async throws {
        try await FilesRig.run { rig in
            let one = try await rig.device("one")
            let two = try await rig.device("two", contentPort: 1) { $0.policy = .manual }
            for device in [one, two] { try await device.connect() }
            try await one.put("/a", "1")
            try await one.synchronize()
            try await two.store.wait(for: .download)
            let folder = two.folder.appendingPathComponent("mirrored")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            try Self.write(folder.path + "/a", "1")
            let (mirror, _) = try Self.open(two)
            while try await mirror.compare() > 0 {}
            #expect(try two.space.everything().map(\.path.description) == ["/a"])
            // An edit goes up from the folder, whether the cache has what was there before or not.
            try Self.write(folder.path + "/a", "second")
            while try await mirror.compare() > 0 {}
            #expect(two.space.status.pendingFiles == 1)
            #expect(try await two.text("/a") == "second")
            for device in [one, two] { try await device.close() }
        }
    }

    @Test func smallContentsComeBeforeLargeOnes() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), folder = device.folder.appendingPathComponent("mirrored")
            for (name, size) in [("/a", 300), ("/b", 100), ("/c", 200)] {
                try await device.put(name, String(repeating: "x", count: size))
            }
            let come = Mutex<[String]>([])
            let mirror = try FolderMirror(
                device.space, folder: folder, database: device.folder.appendingPathComponent("rows").path
            ) { report in
                if case .down(_, let path) = report { come.withLock { $0.append(path.name) } }
            }
            while try await mirror.compare() > 0 {}
            #expect(come.withLock { $0 } == ["b", "c", "a"])
            try await device.close()
        }
    }

    @Test func aChangeWaitsForOneLargeContentAtMost() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), folder = device.folder.appendingPathComponent("mirrored")
            for name in ["/a", "/b"] { try await device.put(name, String(repeating: "x", count: 200)) }
            let mirror = try FolderMirror(
                device.space, folder: folder, database: device.folder.appendingPathComponent("rows").path,
                bytesAtOnce: 100)
            #expect(try await mirror.compare() == 1)
            let here = try FileManager.default.contentsOfDirectory(atPath: folder.path)
            for name in ["a", "b"] where !here.contains(name) { try await device.space.delete(SpacePath("/" + name)) }
            try await device.put("/c", "1")
            while try await mirror.compare() > 0 {}
            #expect(try Set(FileManager.default.contentsOfDirectory(atPath: folder.path)) == Set(here + ["c"]))
            #expect(here.count == 1)
            try await device.close()
        }
    }

    @Test func nothingComesIntoAFolderThatHasTakenThePlaceOfTheMirrored() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), folder = device.folder.appendingPathComponent("mirrored")
            for name in ["/a", "/b", "/c"] { try await device.put(name, "1") }
            let isReplaced = Mutex(false)
            let mirror = try FolderMirror(
                device.space, folder: folder, database: device.folder.appendingPathComponent("rows").path
            ) { report in
                guard case .down = report, !isReplaced.withLock({ $0 }) else { return }
                let path = folder.path
                let isDone = rename(path, path + " aside") == 0 && mkdir(path, 0o755) == 0
                isReplaced.withLock { $0 = isDone }
            }
            try await mirror.compare()
            #expect(isReplaced.withLock { $0 })
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).isEmpty)
            await #expect(throws: SpaceError.self) { try await mirror.compare() }
            #expect(try device.space.everything().count == 3)
            try await device.close()
        }
    }

    @Test func aFolderThatIsRemovedDuringAComparisonDoesNotComeBack() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), folder = device.folder.appendingPathComponent("mirrored")
            let mirror = try FolderMirror(
                device.space, folder: folder, database: device.folder.appendingPathComponent("rows").path
            ) { report in
                // The folder has been found by then.
                if case .up("created", let path) = report, path.name == "a" { rmdir(folder.path + "/f") }
            }
            mkdir(folder.path + "/f", 0o755)
            while try await mirror.compare() > 0 {}
            #expect(try await device.tree() == ["/f/": ""])
            try Self.write(folder.path + "/a", "1")
            while try await mirror.compare() > 0 {}
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["a"])
            #expect(try await device.tree() == ["/a": "1"])
            try await device.close()
        }
    }

    @Test func twoMirrorsDoNotShareAFolder() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), (mirror, folder) = try Self.open(device)
            do {
                let other = try FolderClaim(folder)
                await #expect(throws: SpaceError.self) { try await mirror.run() }
                await #expect(throws: SpaceError.self) { try await mirror.settle() }
                withExtendedLifetime(other) {}
            }
            try await mirror.settle()
            try await device.close()
        }
    }

    /// As files that come out of two archives, in which all have one time.
    @Test func aFileWithTheInodeOfAnotherIsNotTakenForIt() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), (mirror, folder) = try Self.open(device)
            var made: [String: String] = [:]
            for name in ["a", "b"] {
                for path in made.keys { unlink(folder + path) }
                made = Dictionary(uniqueKeysWithValues: (10..<40).map { ("/\(name)\($0)", "\(name) of \($0)") })
                for (path, text) in made {
                    try Self.write(folder + path, text)
                    try FileManager.default.setAttributes(
                        [.modificationDate: Date(timeIntervalSince1970: 1_000_000_000)], ofItemAtPath: folder + path)
                }
                while try await mirror.compare() > 0 {}
                #expect(try await device.tree() == made)
            }
            try await device.close()
        }
    }

    /// The process has ended when the space had the content, and its row was not written yet.
    @Test func anEditAfterAKillIsNoConflict() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), folder = device.folder.appendingPathComponent("mirrored")
            let rows = device.folder.appendingPathComponent("rows").path, killed = Mutex("")
            let mirror = try FolderMirror(device.space, folder: folder, database: rows) { report in
                guard case .up = report else { return }
                let copy = killed.withLock { $0 }
                for end in ["", "-wal"] { try? FileManager.default.copyItem(atPath: rows + end, toPath: copy + end) }
            }
            // A file that is made, and one that is edited.
            for (text, edited) in [("1", "2"), ("3", "4")] {
                let copy = "\(rows) with \(text)"
                killed.withLock { $0 = copy }
                try Self.write(folder.path + "/a", text)
                while try await mirror.compare() > 0 {}
                try Self.write(folder.path + "/a", edited)
                let next = try FolderMirror(device.space, folder: folder, database: copy)
                while try await next.compare() > 0 {}
                #expect(try await device.tree() == ["/a": edited])
                while try await mirror.compare() > 0 {}
            }
            try await device.close()
        }
    }

    @Test func aFolderThatALinkKeepsHereStaysDeleted() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), (mirror, folder) = try Self.open(device)
            for name in ["/f", "/f/g"] { mkdir(folder + name, 0o755) }
            for name in ["/f/a", "/f/g/b"] { try Self.write(folder + name, "1") }
            symlink("b", folder + "/f/g/link")
            while try await mirror.compare() > 0 {}
            #expect(try device.space.everything().count == 4)
            // It stays so at the next start.
            try await device.space.delete(SpacePath("/f"))
            for isNext in [false, true] {
                let mirror = isNext ? try Self.open(device).mirror : mirror
                while try await mirror.compare() > 0 {}
                #expect(try device.space.everything().isEmpty)
                let paths = try FileManager.default.subpathsOfDirectory(atPath: folder)
                #expect(paths.sorted() == ["f", "f/g", "f/g/link"])
            }
            // What is new in it brings it back.
            try Self.write(folder + "/f/g/c", "2")
            while try await mirror.compare() > 0 {}
            #expect(try await device.tree() == ["/f/": "", "/f/g/": "", "/f/g/c": "2"])
            // Without the link, nothing stays.
            unlink(folder + "/f/g/link")
            try await device.space.delete(SpacePath("/f"))
            while try await mirror.compare() > 0 {}
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder).isEmpty)
            try await device.close()
        }
    }

    @Test func whatChangesInAFolderThatIsDeletedElsewhereIsThereAtOnce() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), (mirror, folder) = try Self.open(device)
            mkdir(folder + "/f", 0o755)
            try Self.write(folder + "/f/a", "1")
            while try await mirror.compare() > 0 {}
            try await device.space.delete(SpacePath("/f"))
            try Self.write(folder + "/f/a", "edited")
            while try await mirror.compare() > 0 {}
            #expect(try await device.tree() == ["/f/": "", "/f/a": "edited"])
            #expect(try FileManager.default.subpathsOfDirectory(atPath: folder).sorted() == ["f", "f/a"])
            try await device.close()
        }
    }

    @Test func aFileKeepsItsRightsWhenItIsUpdated() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), (mirror, folder) = try Self.open(device)
            try await device.put("/a", "1")
            while try await mirror.compare() > 0 {}
            for mode in [0o600, 0o755] {
                try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: folder + "/a")
                try await device.put("/a", "of mode \(mode)")
                while try await mirror.compare() > 0 {}
                #expect(try String(contentsOfFile: folder + "/a", encoding: .utf8) == "of mode \(mode)")
                let found = try FileManager.default.attributesOfItem(atPath: folder + "/a")[.posixPermissions]
                #expect(found as? Int == mode)
            }
            try await device.close()
        }
    }

    /// The process has ended after it had made the file, and before it had written it.
    @Test func aFileThatWasMadeWithoutItsContentGetsIt() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), (mirror, folder) = try Self.open(device)
            try await device.space.create(SpacePath("/a")).close()
            try Self.write(folder + "/a", "1")
            while try await mirror.compare() > 0 {}
            #expect(try await device.tree() == ["/a": "1"])
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == ["a"])
            try await device.close()
        }
    }

    @Test func theHolesOfAFileTakeNoRoom() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), (mirror, folder) = try Self.open(device)
            let source = device.folder.appendingPathComponent("sparse"), size = 64 << 20
            try Self.write(source.path, "begin")
            truncate(source.path, off_t(size - 3))
            let handle = try FileHandle(forWritingTo: source)
            try handle.seekToEnd()
            try handle.write(contentsOf: Data("end".utf8))
            try handle.close()
            try await device.space.create(SpacePath("/a"), contentsOf: source).close()
            while try await mirror.compare() > 0 {}
            #expect(FileManager.default.contentsEqual(atPath: folder + "/a", andPath: source.path))
            let status = try #require(FolderScan.status(folder + "/a"))
            #expect(Int(status.st_blocks) * 512 < size / 2)
            try await device.close()
        }
    }

    @Test func ofWhatIsNoFileNothingIsMade() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), pipe = device.folder.appendingPathComponent("pipe")
            mkfifo(pipe.path, 0o600)
            for source in [pipe, device.folder, device.folder.appendingPathComponent("missing")] {
                await #expect(throws: SpaceError.self) {
                    try await device.space.create(SpacePath("/a"), contentsOf: source).close()
                }
            }
            #expect(try device.space.everything().isEmpty)
            try await device.close()
        }
    }
}
