import Foundation
import Testing

/// The deliberate errors that tests have to find (`scripts/mutants`, `scripts/list-mutants`, `scripts/planted`).
@Suite struct MutantTests {
    @Test(arguments: [
        ("Whole", ""), ("Flexible", ""), ("Nodes", ""), ("Simperium", ""), ("OverTheAir", ""),
        ("Rules", "AnabranchCore/Merge"), ("Lists", "AnabranchCore/Merge"),
    ])
    func allErrorsCanBeMadeTogether(list: String, folder: String) throws {
        let root = Repository.root, copy = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try FileManager.default.copyItem(at: root.appending(path: "Sources"), to: copy)
        defer { try? FileManager.default.removeItem(at: copy) }
        let weave = Process(), output = Pipe()
        weave.executableURL = URL(filePath: "/usr/bin/env")
        weave.arguments = [
            "python3", "-B", "Tests/Mutants/weave.py", "Tests/Mutants/\(list)/mutants.txt",
            copy.appending(path: folder).path(),
        ]
        weave.currentDirectoryURL = root
        (weave.standardOutput, weave.standardError) = (output, output)
        try weave.run()
        let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        weave.waitUntilExit()
        #expect(weave.terminationStatus == 0, "\(text)")
        #expect(!text.isEmpty)
    }
}
