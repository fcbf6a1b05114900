import Foundation
import Testing

@testable import anabranch

/// The chunks of files in a backup.
@Suite struct ChunkFolderTests {
    @Test func aFolderThatCannotBeListedIsAnError() throws {
        let root = FileManager.default.temporaryDirectory.appending(path: "chunks-\(UUID().uuidString)").path()
        defer { try? FileManager.default.removeItem(atPath: root) }
        let (data, backup) = (root + "/data", root + "/backup"), hash = String(repeating: "ab", count: 32)
        let space = "\(data)/chunks/\(hash)"
        try FileManager.default.createDirectory(atPath: space + "/ab/ab", withIntermediateDirectories: true)
        try Data("/a".utf8).write(to: URL(fileURLWithPath: space + "/path"))
        try Data("1".utf8).write(to: URL(fileURLWithPath: "\(space)/ab/ab/\(hash)"))
        #expect(try ChunkFolder(of: data).copy(to: backup) == 1)
        #expect(try ChunkFolder(of: backup).check().count == 1)
        // A link to itself cannot be opened by anybody.
        try FileManager.default.createSymbolicLink(atPath: space + "/cd", withDestinationPath: space + "/cd")
        let complaint = "\(space)/cd: cannot be listed"
        #expect { try ChunkFolder(of: data).copy(to: backup) } throws: { "\($0)".contains(complaint) }
        #expect { try ChunkFolder(of: data).check() } throws: { "\($0)".contains(complaint) }
    }
}
