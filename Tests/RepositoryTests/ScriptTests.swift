import Foundation
import Testing

/// The programs that the scripts start.
@Suite(.timeLimit(.minutes(30))) struct ScriptTests {
    /// All of them keep the writing end of a named pipe open, so that its end tells that they have ended.
    @Test(arguments: [("exit 3", 3), ("kill -TERM $$", SIGTERM), ("false", 1)])
    func whatRunsBesideAScriptThatFailsEndsWithIt(failure: String, status: Int32) async throws {
        let directory = try Self.directory(), path = directory.path
        defer { try? FileManager.default.removeItem(at: directory) }
        // As a script that runs something beside itself which does the same.
        try Data(
            """
            \(Self.setup)
            run_beside '\(path)/inner.log' bash -c "sleep 100 & echo >'\(path)/begun'; wait"
            sleep 100
            """.utf8
        ).write(to: directory.appendingPathComponent("beside"))
        #expect(mkfifo("\(path)/alive", 0o600) == 0)
        let alive = open("\(path)/alive", O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        defer { close(alive) }
        let ended = try await bash(
            """
            \(Self.setup)
            exec 3>'\(path)/alive'
            mkfifo '\(path)/begun'
            run_beside '\(path)/log' bash '\(path)/beside'
            read -r <'\(path)/begun' || true
            \(failure)
            """, to: directory.appendingPathComponent("output"))
        #expect(ended == status)
        var end = pollfd(fd: alive, events: Int16(POLLIN), revents: 0)
        #expect(poll(&end, 1, 30_000) == 1, "something is still running")
        #expect(end.revents & Int16(POLLHUP) != 0)
    }

    @Test(arguments: [("echo first; echo last", 0, "last\n"), ("echo first; echo last; exit 3", 1, "first\nlast\n")])
    func aScriptShowsWhatWentWrongBesideIt(command: String, status: Int32, shown: String) async throws {
        let directory = try Self.directory(), output = directory.appendingPathComponent("output")
        defer { try? FileManager.default.removeItem(at: directory) }
        let ended = try await bash(
            """
            \(Self.setup)
            run_beside '\(directory.path)/log' bash -c '\(command)'
            finish_beside '\(directory.path)/log' 'the name'
            """, to: output)
        #expect(ended == status)
        #expect(try String(contentsOf: output, encoding: .utf8) == shown)
    }

    private static let setup = "set -euo pipefail; source \(Repository.root.path)/scripts/setup"

    private static func directory() throws -> URL {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        return directory
    }

    /// - Returns: the status of the script, or the signal that has ended it.
    private func bash(_ script: String, to output: URL) async throws -> Int32 {
        #expect(FileManager.default.createFile(atPath: output.path, contents: nil))
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["bash", "-c", script]
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = try FileHandle(forWritingTo: output)
        process.standardError = FileHandle.nullDevice
        let (endings, onEnd) = AsyncStream.makeStream(of: Int32.self)
        process.terminationHandler = { process in
            onEnd.yield(process.terminationStatus)
            onEnd.finish()
        }
        do {
            // A worker thread has signals blocked, and what it starts would have them blocked as well.
            var none = sigset_t(), before = sigset_t()
            sigemptyset(&none)
            pthread_sigmask(SIG_SETMASK, &none, &before)
            defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
            try process.run()
        }
        for await status in endings { return status }
        return -1
    }
}
