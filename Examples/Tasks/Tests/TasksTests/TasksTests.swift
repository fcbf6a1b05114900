import AnabranchHistory
import AnabranchServer
import Foundation
import Synchronization
import Testing

/// Drives the program as somebody at a terminal does.
@Suite(.timeLimit(.minutes(30))) struct TasksTests {
    /// A window of the program: what is typed, and what it shows.
    final class Window: Sendable {
        private let process = Process()
        private let keyboard = Pipe(), output = Pipe()
        /// What it has shown after what was looked for last.
        private let unread = Mutex("")

        /// Where the programs are that were built: beside the tests.
        private static var products: URL {
            let arguments = ProcessInfo.processInfo.arguments
            let option = arguments.firstIndex(of: "--test-bundle-path").map { arguments[$0 + 1] }
            return URL(fileURLWithPath: option ?? arguments[0]).deletingLastPathComponent()
        }

        init(_ file: String, server: String) throws {
            process.executableURL = Self.products.appendingPathComponent("Tasks")
            process.arguments = [file, server]
            process.standardInput = keyboard
            process.standardOutput = output
            try process.run()
        }

        func type(_ line: String) throws { try keyboard.fileHandleForWriting.write(contentsOf: Data("\(line)\n".utf8)) }

        /// Reads on until it has shown this, on a thread that may wait.
        func shows(_ text: String) async -> Bool {
            await withCheckedContinuation { continuation in
                DispatchQueue.global().async { continuation.resume(returning: self.reads(text)) }
            }
        }

        private func reads(_ text: String) -> Bool {
            unread.withLock { unread in
                while true {
                    if let found = unread.firstRange(of: text) {
                        unread.removeSubrange(..<found.upperBound)
                        return true
                    }
                    var bytes = [UInt8](repeating: 0, count: 4096)
                    let count = read(output.fileHandleForReading.fileDescriptor, &bytes, bytes.count)
                    if count < 0, errno == EINTR { continue }
                    guard count > 0 else { return false }
                    unread += String(decoding: bytes[..<count], as: UTF8.self)
                }
            }
        }

        /// - Returns: its status.
        func close() throws -> Int32 {
            try type("quit")
            process.waitUntilExit()
            return process.terminationStatus
        }
    }

    @Test func twoWindowsShowTheSameList() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("tasks-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        var settings = ServerSettings(cores: 2)
        settings.host = "127.0.0.1"
        settings.port = 0
        let server = SyncServer(settings: settings, store: InMemoryStore(), authenticator: AllowAllAuthenticator())
        let run = Task { try await server.run() }
        let url = "ws://127.0.0.1:\(try await server.listening().port ?? 0)"

        let one = try Window(folder.appendingPathComponent("one").path, server: url)
        try one.type("water the plants")
        #expect(await one.shows("1. [ ] water the plants"))
        let two = try Window(folder.appendingPathComponent("two").path, server: url)
        #expect(await two.shows("1. [ ] water the plants"))
        try two.type("x 1")
        #expect(await one.shows("1. [x] water the plants"))

        // Offline the list is there, and what is typed waits.
        try one.type("off")
        #expect(await one.shows("-- offline --"))
        try one.type("= 1 water the roses")
        #expect(await one.shows("1. [x] water the roses"))
        #expect(await one.shows("-- offline, 1 waiting --"))
        try two.type("x 1")
        #expect(await two.shows("1. [ ] water the plants"))
        try one.type("on")
        #expect(await one.shows("1. [ ] water the roses"))
        #expect(await two.shows("1. [ ] water the roses"))
        try two.type("- 1")
        #expect(await one.shows("\n-- online --"))

        #expect(try one.close() == 0)
        #expect(try two.close() == 0)
        run.cancel()
        try await run.value
    }
}
