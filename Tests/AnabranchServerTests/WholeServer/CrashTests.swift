import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import Foundation
import Testing

@testable import AnabranchServer

/// The built server, killed without warning.
@Suite(.timeLimit(.minutes(30)), .enabled(if: ServerProcess.executable != nil, "needs the built command"))
struct CrashTests {
    /// One shard behaves as each of several, so some places are enough for it. In a file with many sessions, what is
    /// only reported stays in memory at first, and goes with the process: some places are enough there, too, unless
    /// `ANABRANCH_CRASHES=all`.
    @Test(
        "the server is killed between any two messages, and nothing acknowledged is lost",
        arguments: [(8, false, false), (8, true, false), (1, false, false), (1, false, true)])
    func killedBetweenAnyTwoMessages(shards: Int, isCrowded: Bool, isMaintained: Bool) async throws {
        let areAll = ProcessInfo.processInfo.environment["ANABRANCH_CRASHES"] == "all"
        var last = Conversation(), killedAt = 1, forgottenCount = 0
        repeat {
            last = try await Self.conversation(
                killedAt: killedAt, shards: shards, isCrowded: isCrowded, isMaintained: isMaintained)
            forgottenCount += last.forgottenCount
            killedAt += areAll ? 1 : shards == 1 ? 4 : isCrowded ? 3 : 1
        } while killedAt <= last.messageCount
        #expect(last.messageCount > 40)
        if isMaintained { #expect(last.sealedVersion > 0) }
        if isCrowded { #expect(forgottenCount > 0) }
    }

    @Test("a server that is told to end ends with status 0, and what it acknowledged is there")
    func terminated() async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let server = try await ServerProcess(data: directory)
        let client = SyncClient(partition: "/p") { server.port }
        try await client.reconnect()
        client.change(Changesets.large(1000, seed: 1), at: 1)
        try await client.upload()
        try await client.waitForAcknowledgement()
        #expect(await server.terminate() == 0)
        let store = try SQLiteStore(directory: directory)
        #expect(try SyncedFile(path: VirtualPath("//p"), store: store).version == 1)
    }

    @Test("whatever a client says makes one line of the log, which shows what it is")
    func log() async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let path = directory + ".log"
        defer { try? FileManager.default.removeItem(atPath: path) }
        #expect(FileManager.default.createFile(atPath: path, contents: nil))
        let log = try #require(FileHandle(forWritingAtPath: path))
        let server = try await ServerProcess(data: directory, log: log)
        let client = SyncClient(partition: "/p") { server.port }
        try await client.reconnect()
        let text = "one\r\nforged\u{1b}[2J\u{2028}\u{202e}two"
        try await client.require().send("json_error 201 \(text.utf8.count) 1\n\(text)")
        #expect(try await client.require().message().kind == "json_error")
        #expect(await server.terminate() == 0)
        let lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
        let line = try #require(lines.first { $0.contains("could not integrate") })
        #expect(line.contains(#"one\u{d}\u{a}forged\u{1b}[2J\u{2028}\u{202e}two"#))
    }

    @Test("an address that others can reach needs to be allowed")
    func insecure() async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()
        defer { try? FileManager.default.removeItem(atPath: directory) }
        await #expect(throws: ServerProcess.DidNotStart.self) {
            _ = try await ServerProcess(data: directory, arguments: ["--listen", "0.0.0.0:0", "--rules", "everybody"])
        }
        let server = try await ServerProcess(
            data: directory, arguments: ["--listen", "0.0.0.0:0", "--insecure", "--rules", "everybody"])
        #expect(await server.terminate() == 0)
    }

    private struct Killed: Error {}

    private struct Conversation {
        var messageCount = 0
        /// How often the server had heard how far a client had come, and forgot it.
        var forgottenCount = 0
        /// Up to where the log is in segments at the end.
        var sealedVersion: ServerVersion = 0
    }

    /// Maintenance has something to do after each change.
    private static let maintaining = [
        "--history-seal-entries", "1", "--history-generation-bytes", "1", "--history-generation-ratio", "0",
    ]

    /// Two clients take turns in changing, uploading and downloading. The server is killed after this many messages and
    /// started again; the clients go on from what they have on their disks.
    /// - Parameters:
    ///   - isCrowded: whether the file has so many sessions that the server is lazy about progress.
    ///   - isMaintained: whether the server seals, and lets go what it can, all the time.
    private static func conversation(
        killedAt: Int, shards: Int, isCrowded: Bool, isMaintained: Bool
    ) async throws -> Conversation {
        let directory = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()
        defer { try? FileManager.default.removeItem(atPath: directory) }
        try SQLiteStore(directory: directory, options: .init(shards: shards)).close()
        let arguments = ["--dev", "--listen", "127.0.0.1:0"] + (isMaintained ? maintaining : [])
        var server = try await ServerProcess(data: directory, arguments: arguments)
        var crowd = isCrowded ? try await crowd(on: server.port) : nil
        var port = server.port, result = Conversation()
        let clients = [0, 1].map { _ in SyncClient(partition: partition) { port } }
        for client in clients {
            client.onMessage = {
                result.messageCount += 1
                if result.messageCount == killedAt { throw Killed() }
            }
        }

        func survive(_ client: SyncClient, _ action: (SyncClient) async throws -> Void) async throws {
            do {
                try await action(client)
            } catch is Killed {
                await server.kill()
                try verify(directory)
                result.forgottenCount += try forgottenCount(of: clients, directory)
                server = try await ServerProcess(data: directory, arguments: arguments)
                port = server.port
                try await crowd?.close()
                if isCrowded { crowd = try await Self.crowd(on: port) }
                for client in clients { try await client.disconnect() }
                try await action(client)
            }
        }

        let material = [try Changesets.ofClient(2), try Changesets.ofClient(3)]
        for round in 0..<4 {
            for (index, client) in clients.enumerated() {
                client.change(material[index][round], at: ChangesetTime(1000 * round + index))
                try await survive(client) { client in
                    if !client.isConnected { try await client.reconnect() }
                    try await client.upload()
                    try await client.waitForAcknowledgement()
                    if round % 2 == index { try await report(client) }
                }
            }
        }
        for client in clients + clients {
            try await survive(client) { client in
                if !client.isConnected { try await client.reconnect() }
                try await report(client)
            }
        }
        await server.kill()
        try await crowd?.close()
        try verify(directory)
        let log = try readFile(directory) { try $0.log() }
        result.sealedVersion = try readFile(directory) { try $0.historyStatus().sealedVersion }
        for client in clients { client.checkInvariants(log) }
        return result
    }

    private static let partition = "{\"$oid\":\"1\"}"

    private static func readFile<Result>(_ directory: String, _ body: (SyncedFile) throws -> Result) throws -> Result {
        let store = try SQLiteStore(directory: directory)
        defer { try? store.close() }
        return try body(try SyncedFile(path: VirtualPath("/" + partition), store: store))
    }

    /// Downloads everything and says so, which the server may forget when it is killed.
    private static func report(_ client: SyncClient) async throws {
        try await client.mark()
        try await client.upload()
        try await client.ping()
    }

    /// Sessions that do nothing, of clients of their own, on one connection: so many that mere progress is not stored
    /// at once.
    private static func crowd(on port: Int) async throws -> WebSocketClient {
        let socket = try await WebSocketClient.open(port: port)
        let sessions = 1...FileOptions().storedProgressSessionsMax
        for session in sessions { try await socket.send("bind \(session) \(partition.utf8.count) 0 1 0\n\(partition)") }
        var idents: [[UInt64]] = []
        for _ in sessions { idents.append(try await socket.message().numbers) }
        for ident in idents { try await socket.send("ident \(ident[0]) \(ident[1]) \(ident[2]) 0 0 0 0\n") }
        for _ in sessions { #expect(try await socket.message().kind == "download") }
        return socket
    }

    /// How many of the clients have told the server more than it has stored.
    private static func forgottenCount(of clients: [SyncClient], _ directory: String) throws -> Int {
        try readFile(directory) { file in
            try clients.count { client in
                let stored = try file.clientFile(client.ident)?.uploadCursor.clientVersion ?? 0
                return client.heard > stored
            }
        }
    }

    /// Whatever is on the disk is whole; the state is what the log makes, if all of that is there.
    private static func verify(_ directory: String) throws {
        let verification = try StoreVerification(directory: directory)
        #expect(try verification.checkDatabase() == [])
        try verification.checkFiles { #expect($0.damages == [] && $0.skippedCount == 0) }
    }
}
