import AnabranchClient
import Foundation
import Synchronization
import Testing

@testable import AnabranchFiles

/// Names that one side of a mirror cannot have: they are told and passed over, and everything else goes on.
@Suite(.timeLimit(.minutes(30))) struct MirrorNameTests {
    private static func mirror(
        _ name: String, in rig: FilesRig,
        _ body: (SpaceDevice, FolderMirror, String, _ told: () -> String) async throws -> Void
    ) async throws {
        let device = try await rig.device(name), folder = device.folder.appendingPathComponent("mirrored")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let told = Mutex<[String]>([])
        let mirror = try FolderMirror(
            device.space, folder: folder, database: device.folder.appendingPathComponent("rows").path
        ) { report in
            if case .skipped(let path, let reason) = report { told.withLock { $0.append("\(path): \(reason)") } }
        }
        try await body(device, mirror, folder.path) { told.withLock { $0.joined(separator: "\n") } }
        try await device.close()
    }

    @Test func whatTheSpaceCannotNameStaysInTheFolder() async throws {
        try await FilesRig.run { rig in
            try await Self.mirror("one", in: rig) { device, mirror, folder, told in
                // Composed and decomposed: to the space they are one name.
                for name in ["caf\u{E9}", "cafe\u{301}", "plain"] {
                    try Data(name.utf8).write(to: URL(fileURLWithPath: "\(folder)/\(name)"))
                }
                let noText = Array("\(folder)/".utf8CString.dropLast()) + [CChar(bitPattern: 0xFF), 0]
                close(open(noText, O_CREAT | O_WRONLY, 0o600))
                mkfifo(folder + "/pipe", 0o600)
                while try await mirror.compare() > 0 {}
                #expect(try device.space.everything().map(\.displayName).sorted() == ["caf\u{E9}", "plain"])
                for reason in ["composed of other letters", "its name is not in UTF-8", "it is a special file"] {
                    #expect(told().contains(reason), "\(told())")
                }
                #expect(try FileManager.default.contentsOfDirectory(atPath: folder).count >= 4)
            }
        }
    }

    /// With the slash before it, that is one character.
    @Test func aNameMayBeginWithAMark() throws {
        let path = try SpacePath(components: ["\u{301}a", "b", "\u{FE0F}"])
        #expect(try SpacePath(path.description) == path)
        #expect(try SpacePath("/").components.isEmpty && SpacePath("a/b/").components == ["a", "b"])
    }

    /// As `convmv` does it, or a copy by way of another system.
    @Test func lettersThatTheDiskComposesOtherwiseAreTheSameName() async throws {
        try await FilesRig.run { rig in
            try await Self.mirror("one", in: rig) { device, mirror, folder, told in
                for (number, form) in ["caf\u{E9}", "cafe\u{301}", "caf\u{E9}"].enumerated() {
                    let text = "\(number)", path = "\(folder)/\(form)"
                    for other in ["cafe\u{301}", "caf\u{E9}"] {
                        rename("\(folder)/\(other)/\(other)", "\(folder)/\(other)/\(form)")
                        rename("\(folder)/\(other)", "\(folder)/\(form)")
                    }
                    mkdir(path, 0o755)
                    while try await mirror.compare() > 0 {}
                    try await device.put("/caf\u{E9}/caf\u{E9}", text)
                    try await device.put("/caf\u{E9}/new of \(text)", text)
                    while try await mirror.compare() > 0 {}
                    #expect(try FileManager.default.contentsOfDirectory(atPath: folder).count == 1)
                    #expect(try FileManager.default.contentsOfDirectory(atPath: path).count == 2 + number)
                    #expect(try String(contentsOfFile: "\(path)/\(form)", encoding: .utf8) == text, "\(told())")
                }
            }
        }
    }

    /// Two devices make folders of the same names. One of each pair has another name then, on the disk as well, in
    /// whatever order the mirror comes to them.
    @Test func foldersOfOneNameComeToRest() async throws {
        try await FilesRig.run { rig in
            let other = try await rig.device("other"), names = (0..<8).map { "f\($0)" }
            try await other.connect()
            for name in names {
                try await other.space.createFolder(SpacePath("/\(name)"))
                try await other.put("/\(name)/theirs", name)
            }
            try await other.synchronize()
            try await Self.mirror("one", in: rig) { device, mirror, folder, _ in
                for name in names {
                    let path = URL(fileURLWithPath: "\(folder)/\(name)")
                    try FileManager.default.createDirectory(at: path, withIntermediateDirectories: true)
                    try Data(name.utf8).write(to: path.appendingPathComponent("ours"))
                }
                try await mirror.compare()
                try await device.connect()
                try await device.synchronize()
                var count = 0
                while try await mirror.compare() > 0, count < 10 { count += 1 }
                #expect(count < 10)
                let paths = try FileManager.default.subpathsOfDirectory(atPath: folder)
                #expect(try Set(paths.map { "/\($0)" }) == Set(device.space.everything().map(\.path.description)))
                #expect(paths.filter { $0.hasSuffix("ours") || $0.hasSuffix("theirs") }.count == 2 * names.count)
            }
            try await other.close()
        }
    }

    /// It stays under another name, and does not go up with that.
    @Test(arguments: [false, true]) func aFileGetsTheNameOfAFolderThatALinkKeeps(isMoved: Bool) async throws {
        try await FilesRig.run { rig in
            try await Self.mirror("one", in: rig) { device, mirror, folder, _ in
                try await device.space.createFolder(SpacePath("/f"))
                try await device.put("/a", "1")
                while try await mirror.compare() > 0 {}
                symlink("/", folder + "/f/link")
                try await device.space.delete(SpacePath("/f"))
                while try await mirror.compare() > 0 {}
                if isMoved { try await device.space.move(SpacePath("/a"), to: SpacePath("/f")) }
                if !isMoved { try await device.put("/f", "1") }
                for _ in 0..<3 { try await mirror.compare() }
                #expect(try String(contentsOfFile: folder + "/f", encoding: .utf8) == "1")
                #expect(try await device.tree() == (isMoved ? ["/f": "1"] : ["/a": "1", "/f": "1"]))
                let kept = try FileManager.default.subpathsOfDirectory(atPath: folder).filter { $0.hasSuffix("/link") }
                #expect(kept.count == 1 && kept[0].hasPrefix("f (conflict of one"), "\(kept)")
            }
        }
    }

    /// A place too deep for the disk, and names of other programs.
    @Test func whatTheDiskCannotNameStaysInTheSpace() async throws {
        try await FilesRig.run { rig in
            try await Self.mirror("one", in: rig) { device, mirror, folder, told in
                var path = SpacePath.root
                for number in 0..<20 {
                    path = try path.appending(String(repeating: "\(number % 10)", count: 250))
                    try await device.space.createFolder(path)
                }
                try await device.put("/plain", "1")
                // Any client can write these.
                try await device.store.write { tx in
                    for name in ["../outside", "", ".."] { try tx.insert(FolderRecord(name: name)) }
                }
                while try await mirror.compare() > 0 {}
                #expect(told().contains("too long"), "\(told())")
                let names = try FileManager.default.contentsOfDirectory(atPath: folder)
                #expect(names.contains("plain") && names.contains(".._outside") && names.contains(".._"))
                let outside = (folder as NSString).deletingLastPathComponent + "/outside"
                #expect(!FileManager.default.fileExists(atPath: outside))
                // It stays where it is.
                #expect(try device.space.info(path).isFolder)
            }
        }
    }
}
