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
