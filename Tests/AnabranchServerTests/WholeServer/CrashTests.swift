import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import Foundation
import Testing

@testable import AnabranchServer

/// The built server, killed without warning.
@Suite(.serialized, .timeLimit(.minutes(10)), .enabled(if: ServerProcess.executable != nil, "needs the built command"))
struct CrashTests {
    /// One shard behaves as each of several, so some places are enough for it.
    @Test("the server is killed between any two messages, and nothing acknowledged is lost", arguments: [8, 1])
    func killedBetweenAnyTwoMessages(shards: Int) async throws {
        var messageCount = 0, killedAt = 1
        repeat {
            messageCount = try await Self.conversation(killedAt: killedAt, shards: shards)
            killedAt += shards == 1 ? 4 : 1
        } while killedAt <= messageCount
        #expect(messageCount > 40)
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

    /// Two clients take turns in changing, uploading and downloading. The server is killed after this many messages and
    /// started again; the clients go on from what they have on their disks.
    /// - Returns: how many messages there were.
    private static func conversation(killedAt: Int, shards: Int) async throws -> Int {
        let directory = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()
        defer { try? FileManager.default.removeItem(atPath: directory) }
        try SQLiteStore(directory: directory, options: .init(shards: shards)).close()
        var server = try await ServerProcess(data: directory)
        var port = server.port, messageCount = 0
        let clients = [0, 1].map { _ in SyncClient(partition: "{\"$oid\":\"1\"}") { port } }
        for client in clients {
            client.onMessage = {
                messageCount += 1
                if messageCount == killedAt { throw Killed() }
            }
        }

        func survive(_ client: SyncClient, _ action: (SyncClient) async throws -> Void) async throws {
            do {
                try await action(client)
            } catch is Killed {
                await server.kill()
                try verify(directory)
                server = try await ServerProcess(data: directory)
                port = server.port
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
                    if round % 2 == index { try await client.mark() }
                }
            }
        }
        for client in clients {
            try await survive(client) { client in
                if !client.isConnected { try await client.reconnect() }
                try await client.mark()
            }
        }
        await server.kill()
        try verify(directory)
        let store = try SQLiteStore(directory: directory)
        let log = try SyncedFile(path: VirtualPath("/{\"$oid\":\"1\"}"), store: store).log()
        for client in clients { client.checkInvariants(log) }
        return messageCount
    }

    /// Whatever is on the disk is whole; the state is what the log makes.
    private static func verify(_ directory: String) throws {
        let verification = try StoreVerification(directory: directory)
        #expect(try verification.checkDatabase() == [])
        try verification.checkFiles { #expect($0.damages == [] && $0.skippedCount == 0) }
    }
}
