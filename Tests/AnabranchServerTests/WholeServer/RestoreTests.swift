import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import Foundation
import Testing

@testable import AnabranchServer

/// A backup takes the place of data that went on without it (`Spec/Durability.md`, section 6).
@Suite(.timeLimit(.minutes(30)), .enabled(if: ServerProcess.executable != nil, "needs the built command"))
final class RestoreTests {
    private let directory = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()
    private var data: String { directory + "/data" }
    private var backup: String { directory + "/backup" }
    private var port = 0

    init() throws {
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: directory) }

    private func client(_ partition: String = "/f") -> SyncClient { SyncClient(partition: partition) { self.port } }

    /// Serves the data as long as `body` takes.
    private func serve(_ body: () async throws -> Void) async throws {
        let server = try await ServerProcess(data: data)
        port = server.port
        try await body()
        #expect(await server.terminate() == 0)
    }

    private func putBackupInPlace() throws {
        try FileManager.default.removeItem(atPath: data)
        try FileManager.default.copyItem(atPath: backup, toPath: data)
    }

    /// - Returns: also what it prints, complaints included.
    private func restore(_ directory: String) throws -> (status: Int32, output: String) {
        let process = Process(), output = Pipe()
        let executable: URL = try #require(ServerProcess.executable)
        process.executableURL = executable
        process.arguments = ["restore", "--data", directory]
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let text = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return (process.terminationStatus, String(decoding: text, as: UTF8.self))
    }

    /// The code with which the server answers the client as it comes back; nil if it is let in.
    private func refusal(of client: SyncClient) async throws -> String? {
        try await client.disconnect()
        try await client.connect()
        try await client.bind()
        try await client.identify()
        let message = try await client.require().message()
        return message.kind == "json_error" ? message.words[1] : nil
    }

    /// A writer makes versions; a client has uploaded, too, and is up to date; another one was last there at version 1.
    private struct Clients {
        let writer: SyncClient, acknowledged: SyncClient, old: SyncClient, waiting: SyncClient
    }

    /// Backs up, and then tells a client of an acknowledgement that makes no version.
    private func loseAnAcknowledgement() async throws -> Clients {
        let clients = Clients(writer: client(), acknowledged: client(), old: client(), waiting: client("/empty"))
        let material = try Changesets.independent(of: 2, count: 3)
        try await serve {
            for (number, changeset) in material.enumerated() {
                try await clients.writer.reconnect()
                clients.writer.change(changeset, at: ChangesetTime(number))
                try await clients.writer.upload()
                try await clients.writer.waitForAcknowledgement()
                if number == 0 { try await clients.old.reconnect() }
            }
            try await clients.old.disconnect()
            try await clients.acknowledged.reconnect()
            clients.acknowledged.change(try Changesets.independent(of: 3, count: 1)[0], at: 9)
            try await clients.acknowledged.upload()
            try await clients.acknowledged.waitForAcknowledgement()
            try await clients.waiting.reconnect()
        }
        try FileManager.default.copyItem(atPath: data, toPath: backup)
        try await serve {
            let client = clients.acknowledged, before = client.acknowledged
            try await client.reconnect()
            try await client.upload()
            try await client.ping()
            repeat { try await client.reconnect() } while client.acknowledged == before
        }
        try putBackupInPlace()
        return clients
    }

    @Test("a copy served without more ado stops a client for ever: its own check fails, and no error reaches it")
    func withoutRestore() async throws {
        let clients = try await loseAnAcknowledgement()
        try await serve {
            await withKnownIssue("the upload cursor goes back") { try await clients.acknowledged.reconnect() }
        }
    }

    @Test("after a restore whoever may know more is told to reset, and the others go on")
    func restored() async throws {
        let clients = try await loseAnAcknowledgement()
        let (status, output) = try restore(data)
        #expect(status == 0)
        #expect(output.contains("ends at version 4; clients that have it, or a later one, will reset\n"))
        #expect(output.hasSuffix("2 files: restored\n"))
        #expect(output.contains(": empty; 1 client will reset\n"))
        try StoreVerification(directory: data).checkFiles { #expect($0.damages == []) }
        try await serve {
            #expect(try await refusal(of: clients.acknowledged) == "211")
            #expect(try await refusal(of: clients.waiting) == "222")
            let fresh = client()
            for client in [clients.old, fresh] {
                try await client.reconnect()
                try await client.mark()
                #expect(client.received.count == 4)
            }
            clients.old.change(try Changesets.independent(of: 4, count: 1)[0], at: 10)
            try await clients.old.upload()
            try await clients.old.waitForAcknowledgement()
            // Also when there are new versions with the numbers of lost ones.
            #expect(try await refusal(of: clients.acknowledged) == "211")
        }
        let store = try SQLiteStore(directory: data)
        let log = try SyncedFile(path: VirtualPath("//f"), store: store).log()
        #expect(log.count == 5)
        #expect(clients.old.received.map(\.changeset) == log.prefix(4).map(\.changeset))
    }

    @Test("a restore can be repeated, and refuses what is in use, damaged or no store, and changes nothing then")
    func refused() async throws {
        try await serve {
            let writer = client()
            try await writer.reconnect()
            writer.change(try Changesets.independent(of: 2, count: 1)[0], at: 1)
            try await writer.upload()
            try await writer.waitForAcknowledgement()
            let (status, output) = try restore(data)
            #expect(status == 1 && output.contains("in use by another process"))
        }
        for _ in 0..<2 { #expect(try restore(data).status == 0) }
        try StoreVerification(directory: data).checkFiles { #expect($0.damages == []) }
        let none = try restore(directory)
        #expect(none.status == 1 && none.output.contains("there is no store in it"))

        let name = try FileManager.default.contentsOfDirectory(atPath: data).first { name in
            name.hasSuffix(".sqlite")
                && (FileManager.default.contents(atPath: data + "/" + name) ?? Data())
                    .range(of: Data("title".utf8)) != nil
        }
        let database = URL(fileURLWithPath: data + "/" + (try #require(name)))
        var bytes = try Data(contentsOf: database)
        while let place = bytes.range(of: Data("title".utf8)) { bytes[place.lowerBound] ^= 1 }
        try bytes.write(to: database)
        let heads = try StoreReader(directory: data).files().map(\.head)
        let damaged = try restore(data)
        #expect(damaged.status == 1 && damaged.output.contains("//f: log entry 1, or the one before it"))
        #expect(try StoreReader(directory: data).files().map(\.head) == heads)
    }
}
