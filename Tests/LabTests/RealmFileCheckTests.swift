import Foundation
import Testing

/// `check realm-files` with the files that the reference wrote.
@Suite final class RealmFileCheckTests {
    private static let vectors = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("Vectors/RealmFiles")
    private let folder = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())")

    deinit { try? FileManager.default.removeItem(at: folder) }

    @Test func allAreReadAsTheReferenceReadsThem() async throws {
        let answer = try await LabProcess.run(["check", "realm-files", Self.vectors.path])
        #expect(
            answer.output == """
                75 equal, 0 different; 16 of them with sync state
                damaged: 23 as expected, 0 not

                """)
        #expect(answer.status == 0)
    }

    @Test func aDifferenceIsNamed() async throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        for (name, copy) in [("01-new.realm.gz", "a.realm.gz"), ("00-example.jsonl.gz", "a.jsonl.gz")] {
            try FileManager.default.copyItem(at: Self.vectors.appending(path: name), to: folder.appending(path: copy))
        }
        let answer = try await LabProcess.run(["check", "realm-files", folder.path()])
        #expect(answer.output == "a.realm.gz: 1 lines, not 3\n0 equal, 1 different; 0 of them with sync state\n")
        #expect(answer.status == 1)
    }
}
