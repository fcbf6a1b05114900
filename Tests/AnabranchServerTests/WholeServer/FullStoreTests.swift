import AnabranchCore
import Foundation
import Testing

/// A server whose store has all that it may hold (`store-bytes`), as clients and an operator see it.
@Suite(.timeLimit(.minutes(30)), .enabled(if: ServerProcess.executable != nil, "needs the built command"))
final class FullStoreTests {
    private let folder = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    private func admin(_ arguments: String...) async throws -> AdminCommandTests.Output {
        try await AdminCommandTests.run(["admin"] + arguments + ["--data", folder])
    }

    /// Asks until it is so: what the server knows of its store is a tenth of a second old at most.
    private func wait(isReady: Bool) async throws -> AdminCommandTests.Output {
        for _ in 0..<1000 {
            let answer = try await admin("ready")
            if (answer.status == 0) == isReady { return answer }
        }
        Issue.record("it is not so after 1,000 questions")
        return try await admin("ready")
    }

    private func refusal(of client: SyncClient) async throws -> String {
        while true {
            let message = try await client.require().message()
            guard message.kind == "json_error" else { continue }
            #expect(message.numbers.first == 201)
            return String(decoding: message.body, as: UTF8.self)
        }
    }

    @Test("changes and new partitions wait until something was deleted; what is there can be read, also by new clients")
    func waits() async throws {
        let server = try await ServerProcess(
            data: folder, arguments: ["--dev", "--listen", "127.0.0.1:0", "--store-bytes", "4194304"])
        let names = ["/large", "/small", "/small", "/new-1", "/new-2"]
        let clients = names.map { SyncClient(partition: $0) { server.port } }
        let (large, small, reader) = (clients[0], clients[1], clients[2]), newClients = clients[3...]
        #expect(try await admin("ready").status == 0)
        for (client, bytes) in [(small, 1_000), (large, 4_000_000)] {
            try await client.reconnect()
            client.change(Changesets.large(bytes, seed: 1), at: 1)
            try await client.upload()
            try await client.waitForAcknowledgement()
        }
        #expect(try await wait(isReady: false).complaint.contains("store-bytes allows 4.0 MiB"))

        small.change(Changesets.large(1_000, seed: 2), at: 2)
        try await small.upload()
        let refusal = try await refusal(of: small)
        #expect(refusal.contains("\"tryAgain\":true") && refusal.contains("\"action\":\"Transient\""), "\(refusal)")
        try await small.reconnect()
        try await small.mark()
        try await reader.reconnect()
        try await reader.mark()
        for client in newClients {
            let name = client.partition
            try await client.connect()
            try await client.require().send("bind 1 \(name.utf8.count) 0 1 0\n\(name)")
            #expect(try await self.refusal(of: client).contains("no room for a new file"))
            try await client.disconnect()
        }
        let metrics = try await admin("metrics").text
        #expect(metrics.contains("\nanabranch_sessions_refused_total{limit=\"space\"} 2\n"), "\(metrics)")

        try await large.disconnect()
        let path = try #require(try await admin("files").text.firstMatch(of: /[^\s]*large[^\s]*/)).output
        let deletion = try await admin("delete", "--path", String(path), "--yes")
        #expect(deletion.status == 0, "\(deletion)")
        _ = try await wait(isReady: true)
        try await small.upload()
        try await small.waitForAcknowledgement()
        for client in newClients {
            try await client.reconnect()
            try await client.mark()
        }
        #expect(await server.terminate() == 0)
        let verdict = try await AdminCommandTests.run(["verify", "--data", folder])
        #expect(verdict.status == 0 && verdict.text.contains("3 files, 2 log entries: no damage"), "\(verdict)")
    }
}
