import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import AnabranchTesting
import Foundation
import Testing

/// `anabranch backup` and `anabranch restore` beside a server, as an operator runs them.
@Suite(.timeLimit(.minutes(30)), .enabled(if: ServerProcess.executable != nil, "needs the built command"))
final class BackupCommandTests {
    private let folder = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()
    private var data: String { folder + "/data" }
    private var backup: String { folder + "/backup" }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    private func run(_ arguments: String...) async throws -> AdminCommandTests.Output {
        try await AdminCommandTests.run(arguments)
    }

    /// A server with some data, and a client of one of its files.
    private func server() async throws -> (ServerProcess, SyncClient) {
        let server = try await ServerProcess(data: data)
        var clients: [SyncClient] = []
        for number in 0..<12 {
            let client = SyncClient(partition: "/p\(number)") { server.port }
            try await client.reconnect()
            client.change(Changesets.large(200_000, seed: UInt64(number)), at: 1)
            try await client.upload()
            try await client.waitForAcknowledgement()
            clients.append(client)
        }
        return (server, clients[0])
    }

    /// The server goes on, and what is in its data is whole.
    private func check(_ server: ServerProcess, _ client: SyncClient) async throws {
        client.change(Changesets.large(1_000, seed: 99), at: 2)
        try await client.upload()
        try await client.waitForAcknowledgement()
        #expect(await server.terminate() == 0)
        let verdict = try await run("verify", "--data", data)
        #expect(verdict.status == 0, "\(verdict.text)")
        #expect(verdict.text.hasSuffix("12 files, 13 log entries: no damage\n"))
    }

    /// Starts a backup and kills it as soon as a file is in the target; or has the system do so when it has written so
    /// much of a file, which it does in any case.
    /// - Returns: whether it was killed before it was done.
    private func isKilled(
        at name: String?, blocksMax: String = "unlimited", _ options: [String]
    ) async throws -> Bool {
        let process = Process(), executable: URL = try #require(ServerProcess.executable)
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments =
            [
                // Who started the tests may ignore the signal, which a shell cannot change.
                "-c",
                """
                ulimit -c 0; ulimit -f \(blocksMax)
                exec env --default-signal=XFSZ "$0" backup "$@"
                """,
                executable.path(), "--data", data, "--to", backup,
            ] + options
        process.standardOutput = FileHandle.nullDevice
        let (ending, end) = AsyncStream.makeStream(of: Never.self)
        process.terminationHandler = { _ in end.finish() }
        try process.run()
        if let name {
            // On a thread of its own: where all tests take turns, the turn would come when the backup is done.
            Thread.detachNewThread { [path = backup + "/" + name, number = process.processIdentifier] in
                while kill(number, 0) == 0, !FileManager.default.fileExists(atPath: path) { sched_yield() }
                kill(number, SIGKILL)
            }
        }
        for await _ in ending {}
        return process.terminationReason == .uncaughtSignal
    }

    @Test(
        "a backup that is killed at any moment is none, the next one is, and the server notices nothing",
        arguments: [false, true])
    func killed(isIncremental: Bool) async throws {
        let (server, client) = try await server(), base = folder + "/base"
        let options = isIncremental ? ["--base", base] : []
        if isIncremental { #expect(try await run("backup", "--data", data, "--to", base).status == 0) }
        let names =
            isIncremental
            ? ["manifest.json", "shard-00.sqlite.delta", "shard-04.sqlite.delta", "accounts.sqlite.delta"]
            : [
                "lock", "backup.json", "shard-00.sqlite", "shard-03.sqlite", "shard-07.sqlite", "accounts.sqlite",
                "keys.json", "manifest.json",
            ]
        var killedCount = 0
        for name in names + [nil] {
            let place = name ?? "a large file"
            guard try await isKilled(at: name, blocksMax: name == nil ? "64" : "unlimited", options) else {
                #expect(name != nil, "the system ends it in any case")
                try? FileManager.default.removeItem(atPath: backup)
                continue
            }
            // Where the machine is busy, the end comes when the backup is done: then it is a whole one.
            if try await run("verify", "--data", backup).status == 0 {
                let restored = try await run("restore", "--from", backup, "--data", folder + "/restored")
                #expect(restored.status == 0 && restored.text.contains("12 files"), "\(place): \(restored)")
                for path in [folder + "/restored", backup] { try FileManager.default.removeItem(atPath: path) }
                continue
            }
            killedCount += 1
            for command in ["verify", "inspect", "restore"] {
                let answer = try await run(command, "--data", backup)
                #expect(answer.status != 0, "\(command) at \(place): \(answer.text)")
            }
            let restored = try await run("restore", "--from", backup, "--data", folder + "/restored")
            #expect(restored.status == 1, "\(place)")
            #expect(!FileManager.default.fileExists(atPath: folder + "/restored"))
            let again = try await AdminCommandTests.run(
                ["backup", "--data", data, "--to", backup, "--verify"] + options)
            #expect(again.status == 0 && again.text.contains("12 files, 0 users"), "\(place): \(again)")
            #expect(try await run("verify", "--data", backup).status == 0)
            try FileManager.default.removeItem(atPath: backup)
        }
        #expect(killedCount > 0)
        try await check(server, client)
    }

    @Test("who ends the verification of an incremental backup finds no copy of it", arguments: [SIGINT, SIGTERM])
    func verificationEnded(by number: Int32) async throws {
        let (server, client) = try await server(), temporary = folder + "/temporary"
        #expect(try await run("backup", "--data", data, "--to", folder + "/base").status == 0)
        #expect(try await run("backup", "--data", data, "--to", backup, "--base", folder + "/base").status == 0)
        try FileManager.default.createDirectory(atPath: temporary, withIntermediateDirectories: true)
        for name in ["backup.json", "shard-03.sqlite", "manifest.json", "shard-00.sqlite-wal"] {
            let process = Process(), executable: URL = try #require(ServerProcess.executable)
            process.executableURL = executable
            process.arguments = ["verify", "--data", backup]
            process.environment = ProcessInfo.processInfo.environment.merging(["TMPDIR": temporary]) { $1 }
            process.standardOutput = FileHandle.nullDevice
            process.standardError = FileHandle.nullDevice
            let (ending, end) = AsyncStream.makeStream(of: Never.self)
            process.terminationHandler = { _ in end.finish() }
            try process.run()
            Thread.detachNewThread { [process = process.processIdentifier] in
                while kill(process, 0) == 0 {
                    let names = (try? FileManager.default.contentsOfDirectory(atPath: temporary)) ?? []
                    let paths = names.map { "\(temporary)/\($0)/\(name)" }
                    if paths.contains(where: { FileManager.default.fileExists(atPath: $0) }) {
                        kill(process, number)
                        return
                    }
                    sched_yield()
                }
            }
            for await _ in ending {}
            #expect(try FileManager.default.contentsOfDirectory(atPath: temporary) == [], "\(name)")
        }
        try await check(server, client)
    }

    @Test("where the target cannot hold the backup, the command says so, and leaves nothing there")
    func tooLarge() async throws {
        let (server, client) = try await server()
        let process = Process(), complaints = Pipe(), executable: URL = try #require(ServerProcess.executable)
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = [
            "-c", "trap '' XFSZ; ulimit -f 200; exec \"$0\" backup --data \"$1\" --to \"$2\"", executable.path(), data,
            backup,
        ]
        process.standardError = complaints
        process.standardOutput = FileHandle.nullDevice
        let (ending, end) = AsyncStream.makeStream(of: Never.self)
        process.terminationHandler = { _ in end.finish() }
        try process.run()
        let complaint = try complaints.fileHandleForReading.readToEnd() ?? Data()
        for await _ in ending {}
        #expect(process.terminationStatus == 1)
        let words = String(decoding: complaint, as: UTF8.self)
        #expect(words.hasPrefix("Error: \(data)/shard-0") && words.contains("cannot be copied to \(backup)/shard-0"))
        #expect(words.split(separator: "\n").count == 1)
        #expect(!FileManager.default.fileExists(atPath: backup))
        try await check(server, client)
    }

    @Test("what a client of flexible sync was sent and has not confirmed is restored, also from an incremental backup")
    func viewsRestored() async throws {
        let path = VirtualPath("pets"), set = SubscriptionSet(version: 1, query: Array(#"{"Dog":"age > 3"}"#.utf8))
        let store = try SQLiteStore(directory: data), synced = try SyncedFile(path: path, store: store)
        let file = try FlexibleFile(synced)
        try file.write(at: 1) { transaction in
            try transaction.addClass("Dog", key: "_id", .int)
            try transaction.addColumn("age", .int, to: "Dog")
        }
        var client = MemoryClient(try synced.allocateIdents(for: [nil], at: 1)[0])
        var session = try file.identify(client.identRequest)
        try client.integrate(try #require(try file.download(for: &session)).download)
        #expect(try await run("backup", "--data", data, "--to", folder + "/base").status == 0)
        #expect(try file.query(set, in: &session) == nil)
        for key in Int64(0)..<8 { try file.write(at: 2) { try $0.create("Dog", key: .int(key), ["age": .int(key)]) } }
        while try file.download(for: &session) != nil {}
        let options = ["--base", folder + "/base", "--verify"]
        let made = try await AdminCommandTests.run(["backup", "--data", data, "--to", backup] + options)
        #expect(made.status == 0, "\(made)")
        try store.close()

        let restored = folder + "/restored"
        #expect(try await run("restore", "--from", backup, "--data", restored).status == 0)
        let again = try SQLiteStore(directory: restored), other = try SyncedFile(path: path, store: again)
        let views = try FlexibleFile(other)
        client.startSession()
        session = try views.identify(client.identRequest)
        #expect(try views.query(set, in: &session) == nil)
        while let message = try views.download(for: &session) { try client.integrate(message.download) }
        #expect(try client.state.read { try $0.objects("Dog").count } == 4)
        try again.close()
        #expect(try await run("verify", "--data", restored).status == 0)
    }

    @Test("clients go on with what was restored, or are told to reset, and a backup of a running server has its users")
    func restored() async throws {
        let (first, client) = try await server()
        let stale = SyncClient(partition: "/p1") { first.port }
        try await stale.reconnect()
        try await stale.mark()
        try await stale.disconnect()
        let other = SyncClient(partition: "/p1") { first.port }
        try await other.reconnect()
        other.change(Changesets.large(100, seed: 5), at: 5)
        try await other.upload()
        try await other.waitForAcknowledgement()
        #expect(try await run("backup", "--data", data, "--to", backup).status == 0)
        client.change(Changesets.large(100, seed: 3), at: 3)
        try await client.upload()
        try await client.waitForAcknowledgement()
        await first.kill()
        let restored = try await run("restore", "--from", backup, "--data", folder + "/restored")
        #expect(restored.status == 0, "\(restored)")
        #expect(restored.text.hasSuffix("12 files: restored\n"))
        let refused = try await run("serve", "--dev", "--listen", "127.0.0.1:0", "--data", backup)
        #expect(refused.status == 1 && refused.complaint.contains("is a backup"))

        let second = try await ServerProcess(data: folder + "/restored")
        let goesOn = try await WebSocketClient.open(port: second.port)
        try await goesOn.send("bind 1 \(stale.partition.utf8.count) 0 0 0\n\(stale.partition)")
        try await goesOn.send(stale.identMessage(session: 1))
        #expect(try await goesOn.message().kind == "download")
        let resets = try await WebSocketClient.open(port: second.port)
        try await resets.send("bind 1 \(client.partition.utf8.count) 0 0 0\n\(client.partition)")
        try await resets.send(client.identMessage(session: 1))
        let answer = try await resets.message()
        #expect(answer.kind == "json_error" && answer.numbers.first == 209, "\(answer)")
        #expect(await second.terminate() == 0)
    }
}
