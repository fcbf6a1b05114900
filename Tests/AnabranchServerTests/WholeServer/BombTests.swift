import AnabranchProtocol
import AnabranchTesting
import Foundation
import NIOCore
import NIOPosix
import Testing

/// A thousand clients that send messages which are not what they say, all at once, to the built server: each is told
/// the right error, and the server needs little memory for it.
@Suite(
    .timeLimit(.minutes(30)), .enabled(if: ServerProcess.executable != nil, "needs the built command"),
    .enabled(if: FileManager.default.fileExists(atPath: "/proc/self/status"), "the system has no /proc"))
struct ServerBombTests {
    private static let clientCount = 1_000
    /// How much memory they may cost, in bytes.
    private static let bytesMax = 64 << 20

    @Test func aThousandAtOnceCostLittleMemory() async throws {
        let directory = TestFolder.parent + "/anabranch-\(UUID())"
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let server = try await ServerProcess(data: directory)
        let before = try await Self.sendBombs(to: server)
        let peak = try server.peakBytes()
        print("ServerBombTests: \(Self.clientCount) at once cost \((peak - before) >> 10) KiB")
        #expect(peak - before <= Self.bytesMax, "\(peak - before) bytes more than \(before)")
        // Others are served.
        let other = SyncClient(partition: "/other") { server.port }
        try await other.reconnect()
        try await other.ping()
        #expect(await server.terminate() == 0)
    }

    /// Sends them when all clients have connected, and looks at the answers.
    /// - Returns: the server's memory before the first one comes, in bytes.
    private static func sendBombs(to server: ServerProcess) async throws -> Int {
        let bombs = bombs(), port = server.port
        let (connected, didConnect) = AsyncStream.makeStream(of: Void.self)
        let start = MultiThreadedEventLoopGroup.singleton.any().makePromise(of: Void.self)
        return try await withThrowingTaskGroup(of: Void.self) { group in
            defer { start.succeed() }
            var connections = connected.makeAsyncIterator()
            // Each in a task of its own: one after the other, the first would have been silent for too long when the
            // last one has come.
            let atOnce = 50
            for index in 0..<clientCount {
                group.addTask {
                    let client = SyncClient(partition: "/bombs") { port }, bomb = bombs[index % bombs.count]
                    do {
                        defer { didConnect.yield() }
                        try await client.reconnect()
                    }
                    try await start.futureResult.get()
                    try await client.require().write(bomb.frame)
                    let answer = try await client.require().message()
                    #expect(answer.kind == "json_error")
                    #expect(answer.numbers.first == bomb.code, "bomb \(index % bombs.count)")
                }
                if index >= atOnce { await connections.next() }
            }
            for _ in 0..<atOnce { await connections.next() }
            let before = try server.resetPeakBytes()
            start.succeed()
            try await group.waitForAll()
            return before
        }
    }

    /// One in 32 is a GiB of zeros in a MiB: a message under way occupies what has come of it, whatever it says.
    private static func bombs() -> [(frame: [UInt8], code: UInt64)] {
        var random = SeededRandom(seed: 6)
        let body = (0..<6_000).map { _ in UInt8(random.below(40)) }, short = deflated(body)
        func bomb(_ body: [UInt8], _ announced: Int, compressed: Int? = nil, _ code: UInt64 = 110) -> ([UInt8], UInt64)
        {
            let head = "upload 1 1 \(announced) \(compressed ?? body.count) 9 0 0\n"
            return (WebSocketClient.frame(Array(head.utf8) + body), code)
        }
        let shortOnes = [
            bomb(short, 4 << 30), bomb(short, 64 << 20), bomb(short, body.count - 1), bomb(short, body.count + 1),
            bomb(short + body, body.count), bomb(short, 100, compressed: 4 << 30, 103),
            bomb(short, body.count, compressed: 1, 103),
        ]
        return [bomb(ZlibBomb.zeros(1 << 30), 100)] + (0..<31).map { shortOnes[$0 % shortOnes.count] }
    }
}

extension ServerProcess {
    /// From now on the largest memory is what it is now.
    /// - Returns: what that is, in bytes.
    fileprivate func resetPeakBytes() throws -> Int {
        try "5".write(toFile: "/proc/\(processIdentifier)/clear_refs", atomically: false, encoding: .utf8)
        return try peakBytes()
    }

    /// The largest memory that it had, in bytes.
    fileprivate func peakBytes() throws -> Int {
        let status = try String(contentsOfFile: "/proc/\(processIdentifier)/status", encoding: .utf8)
        let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") })
        return try #require(line.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int($0) }) << 10
    }
}
