import AnabranchTesting
import Foundation
import Testing

/// The tracked data of `Tests/Fixtures`.
enum Fixture {
    static let folder = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("Fixtures")

    static let command = BuiltProducts.command("anabranch")

    /// With `ANABRANCH_SNAPSHOTS=record` in the environment, texts that differ are written anew and nothing fails.
    static let isRecording = ProcessInfo.processInfo.environment["ANABRANCH_SNAPSHOTS"] == "record"

    /// Compares with a tracked text, whose lines that begin with # are comments.
    static func expect(_ found: [String], equals path: String) throws {
        let file = folder.appendingPathComponent(path)
        let tracked = try String(contentsOf: file, encoding: .utf8).split(separator: "\n").map(String.init)
        let comments = tracked.prefix { $0.hasPrefix("#") }, expected = tracked.dropFirst(comments.count)
        if isRecording { return try Data((comments + found).map { $0 + "\n" }.joined().utf8).write(to: file) }
        #expect(found.count == expected.count, "lines of \(path)")
        for (found, expected) in zip(found, expected) where found != expected {
            Issue.record("\(found)\nin place of\n\(expected)\nin \(path)")
        }
    }

    /// Makes a data directory of a fixture.
    static func unpack(_ path: String, to destination: String) async throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["bash", folder.appendingPathComponent("unpack.bash").path, path, destination]
        try await process.runToItsEnd()
    }
}

extension Process {
    /// Waits for the end, and requires the exit status 0. When the test is cancelled, which is when its time is over,
    /// the process and its children are ended.
    func runToItsEnd() async throws {
        standardInput = FileHandle.nullDevice
        try await withTaskCancellationHandler {
            // `waitUntilExit` needs a processor for itself on a thread that has not started the process.
            try await withCheckedThrowingContinuation { (ending: CheckedContinuation<Void, any Error>) in
                terminationHandler = { _ in ending.resume() }
                do { try run() } catch { ending.resume(throwing: error) }
            }
        } onCancel: {
            // Each process has a group of its own.
            if isRunning { kill(-processIdentifier, SIGTERM) }
        }
        try #require(terminationStatus == 0, "\(arguments ?? [])")
    }
}
