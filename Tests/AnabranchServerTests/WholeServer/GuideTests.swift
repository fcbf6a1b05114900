import Foundation
import Testing

/// The commands of the guides are run as they stand, in an empty folder, with the files that the guides show.
@Suite(.serialized, .timeLimit(.minutes(30))) struct GuideTests {
    /// What has to be among what the commands print.
    private static let guides = [
        ("FromAtlas", ["the configuration is good", "2 objects written", "water the plants", #"my-app/"user=5f0c"#]),
        ("Operate", ["the configuration is good", "ann@example.com", "anabranch_sessions", "no damage"]),
    ]

    @Test(arguments: guides) func theCommandsOfAGuideWork(name: String, expected: [String]) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("guide-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let blocks = try Self.blocks(of: name)
        for block in blocks {
            guard let file = block.file else { continue }
            try Data(block.text.utf8).write(to: folder.appendingPathComponent(file))
        }
        let script = blocks.filter { $0.language == "sh" }.map(\.text).joined()
        #expect(!script.isEmpty)
        let (status, output) = try await Self.run(script, in: folder)
        #expect(status == 0, "\(output)")
        for text in expected { #expect(output.contains(text), "\(text) is not in:\n\(output)") }
    }

    private struct Block {
        let language: String
        /// The name that stands before it.
        let file: String?
        var text = ""
    }

    private static func blocks(of name: String) throws -> [Block] {
        let page = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../../Spec/Guide/\(name).md").standardizedFileURL
        var blocks: [Block] = [], file: String?, isInBlock = false
        for line in try String(contentsOf: page, encoding: .utf8).split(separator: "\n") {
            if line.hasPrefix("```") {
                isInBlock.toggle()
                if isInBlock { blocks.append(Block(language: String(line.dropFirst(3)), file: file)) }
                file = nil
            } else if isInBlock {
                blocks[blocks.count - 1].text += line.replacing("127.0.0.1:9090", with: "127.0.0.1:0") + "\n"
            } else {
                file = line.wholeMatch(of: /`([\w.-]+)`:/).map { String($0.output.1) }
            }
        }
        return blocks
    }

    private static func run(_ script: String, in folder: URL) async throws -> (status: Int32, output: String) {
        let executable = try #require(ServerProcess.executable), output = folder.appendingPathComponent("output")
        #expect(FileManager.default.createFile(atPath: output.path, contents: nil))
        let log = try FileHandle(forWritingTo: output), process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/bash")
        process.arguments = ["-c", "set -eu\ntrap 'kill $(jobs -p) 2> /dev/null && wait' EXIT\n" + script]
        process.currentDirectoryURL = folder
        var environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("ANABRANCH_") }
        environment["PATH"] = executable.deletingLastPathComponent().path + ":" + (environment["PATH"] ?? "")
        process.environment = environment
        (process.standardOutput, process.standardError) = (log, log)
        let (ending, end) = AsyncStream.makeStream(of: Never.self)
        process.terminationHandler = { _ in end.finish() }
        try process.run()
        for await _ in ending {}
        return (process.terminationStatus, try String(contentsOf: output, encoding: .utf8))
    }
}
