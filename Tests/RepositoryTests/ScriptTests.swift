import Foundation
import Testing

/// What the scripts start beside themselves.
@Suite(.timeLimit(.minutes(2))) struct ScriptTests {
    /// All of them keep the script's standard output open, so that its end tells that they have ended.
    @Test(arguments: [("exit 3", 3), ("kill -TERM $$", SIGTERM), ("false", 1)])
    func whatRunsBesideAScriptThatFailsEndsWithIt(failure: String, status: Int32) throws {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        // As scripts/test runs scripts/checked, which runs a build beside itself.
        let setup = "set -euo pipefail; source \(Repository.root.path)/scripts/setup", path = directory.path
        try Data(
            """
            \(setup)
            run_beside '\(path)/inner.log' bash -c "sleep 100 & echo >'\(path)/begun'; wait"
            sleep 100
            """.utf8
        ).write(to: directory.appendingPathComponent("beside"))
        let output = Pipe()
        let script = try bash(
            """
            \(setup)
            exec 3>&1
            mkfifo '\(path)/begun'
            run_beside '\(path)/log' bash '\(path)/beside'
            read -r <'\(path)/begun' || true
            \(failure)
            """, output)
        script.waitUntilExit()
        #expect(script.terminationStatus == status)
        var end = pollfd(fd: output.fileHandleForReading.fileDescriptor, events: Int16(POLLIN), revents: 0)
        #expect(poll(&end, 1, 30_000) == 1, "something is still running")
        #expect(end.revents & Int16(POLLIN) == 0)
    }

    @Test(arguments: [("echo first; echo last", 0, "last\n"), ("echo first; echo last; exit 3", 1, "first\nlast\n")])
    func aScriptShowsWhatWentWrongBesideIt(command: String, status: Int32, shown: String) throws {
        let log = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        defer { try? FileManager.default.removeItem(at: log) }
        let output = Pipe()
        let script = try bash(
            """
            set -euo pipefail
            source \(Repository.root.path)/scripts/setup
            run_beside '\(log.path)' bash -c '\(command)'
            finish_beside '\(log.path)' 'the name'
            """, output)
        let text = try output.fileHandleForReading.readToEnd() ?? Data()
        script.waitUntilExit()
        #expect(script.terminationStatus == status && String(decoding: text, as: UTF8.self) == shown)
    }

    private func bash(_ script: String, _ output: Pipe) throws -> Process {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["bash", "-c", script]
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        // A worker thread has signals blocked, and what it starts would have them blocked as well.
        var none = sigset_t(), before = sigset_t()
        sigemptyset(&none)
        pthread_sigmask(SIG_SETMASK, &none, &before)
        defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
        try process.run()
        return process
    }
}
