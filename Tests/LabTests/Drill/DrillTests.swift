import Foundation
import Testing

/// `anabranch-lab drill`: passes where backups are restored as they have to be, and fails where they are not.
@Suite(.serialized, .timeLimit(.minutes(30))) struct DrillTests {
    @Test("clients of a restored backup go on or are told to reset, and all end in one state")
    func passes() async throws {
        let answer = try await LabProcess.run(["drill", "--serve", LabProcess.server, "--count", "3", "--seed", "1"])
        #expect(answer.status == 0, "\(answer)")
        let lines = answer.output.split(separator: "\n")
        #expect(lines.last == "3 passed, 0 failed")
        for (line, end) in zip(lines, [" clients went on", " clients were told to reset: ", " whole backups, "]) {
            #expect(line.contains(end), "\(line)")
            #expect(line.split(separator: " ").first.flatMap { Int($0) } ?? 0 > 0, "\(line)")
        }
        #expect(lines[2].hasSuffix(" incremental ones") && !lines[2].contains(" 0 incremental"), "\(lines[2])")
    }

    @Test("a copy that is served as it is makes drills fail, and each says how to repeat it")
    func fails() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("drill-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        // A server that has everything but the renewal of salts.
        let server = folder.appendingPathComponent("anabranch").path
        let script = """
            #!/bin/sh
            if [ "$1" != restore ]; then exec '\(try LabProcess.server)' "$@"; fi
            mkdir -p "$5" && cp "$3"/* "$5" && rm "$5/backup.json"

            """
        try Data(script.utf8).write(to: URL(fileURLWithPath: server))
        try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: server)
        let answer = try await LabProcess.run(["drill", "--serve", server, "--count", "6", "--seed", "1"])
        #expect(answer.status == 1)
        #expect(answer.output.contains("FAILED: "), "\(answer)")
        #expect(answer.output.contains("repeat: anabranch-lab drill --serve \(server) --count 1 --seed "))
    }

    @Test("a drill whose server does not start fails, and is no crash")
    func noServer() async throws {
        let answer = try await LabProcess.run(["drill", "--serve", "/bin/false", "--count", "1"])
        #expect(answer.status == 1)
        #expect(answer.output.contains("0 passed, 1 failed"))
        let complaint = try await LabProcess.run(["drill", "--serve", "/none", "--count", "1"]).complaint
        #expect(complaint.contains("there is no program /none"))
    }

    @Test("what killed servers have acknowledged is there, and no client notices more than lost connections")
    func kills() async throws {
        let answer = try await LabProcess.run(
            ["kills", "--serve", LabProcess.server, "--count", "1", "--cycles", "4", "--seed", "1"])
        #expect(answer.status == 0, "\(answer)")
        #expect(answer.output == "4 servers killed\n1 passed, 0 failed\n")
    }
}
