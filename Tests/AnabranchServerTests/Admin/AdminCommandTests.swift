import AnabranchServer
import Foundation
import Testing

/// `anabranch serve` and `anabranch admin` as processes: what an operator has in front of them.
@Suite(.timeLimit(.minutes(30)), .enabled(if: ServerProcess.executable != nil, "needs the built command"))
struct AdminCommandTests {
    struct Output {
        var status: Int32
        var text: String
        var complaint: String
    }

    /// Runs the command to its end.
    private static func run(_ arguments: String...) async throws -> Output { try await run(arguments) }

    /// - Parameter input: the standard input; nil for none.
    static func run(_ arguments: [String], input: String? = nil) async throws -> Output {
        let process = Process(), output = Pipe(), typed = Pipe()
        // In a file: a pipe that nobody reads before the other one has ended holds only so much.
        let complaints = FileManager.default.temporaryDirectory.appending(path: "complaints-\(UUID().uuidString)")
        try Data().write(to: complaints)
        let executable: URL = try #require(ServerProcess.executable)
        process.executableURL = executable
        process.arguments = arguments
        process.standardOutput = output
        process.standardError = try FileHandle(forWritingTo: complaints)
        process.standardInput = input == nil ? FileHandle.nullDevice : typed
        try process.run()
        if let input {
            try typed.fileHandleForWriting.write(contentsOf: Data(input.utf8))
            try typed.fileHandleForWriting.close()
        }
        return await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
                process.waitUntilExit()
                let complaint = (try? String(contentsOf: complaints, encoding: .utf8)) ?? ""
                try? FileManager.default.removeItem(at: complaints)
                continuation.resume(
                    returning: Output(status: process.terminationStatus, text: text, complaint: complaint))
            }
        }
    }

    private static func withFolder(_ body: (String) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("operator-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try await body(folder)
    }

    @Test func anOperatorNeedsTheDataDirectoryAlone() async throws {
        try await Self.withFolder { folder in
            let server = try await ServerProcess(data: folder)
            #expect(try await Self.run("admin", "health", "--data", folder).text == "ok\n")
            #expect(try await Self.run("admin", "ready", "--data", folder).text == "ready\n")
            let client = try await WebSocketClient.open(port: server.port)
            try await client.send("bind 1 7 0 1 0\n\"notes\"")
            #expect(try await client.message().kind == "ident")
            let files = try await Self.run("admin", "files", "--data", folder).text
            let table = """
                PATH      VERSION  BASE  BYTES  ARCHIVE  CLIENTS
                /"notes"  0        0     0      0        1

                """
            #expect(files == table)
            let sessions = try await Self.run("admin", "sessions", "--data", folder, "--json").text
            #expect(sessions.contains(#""connection":1"#) && sessions.contains(#""user":"developer""#))
            #expect(try await Self.run("admin", "clients", "/\"notes\"", "--data", folder).text.contains("developer"))
            #expect(try await Self.run("admin", "disconnect", "1", "1", "--data", folder).text == "disconnected\n")
            #expect(try await client.message().words.prefix(2) == ["json_error", "200"])
            #expect(try await Self.run("admin", "expire", "/\"notes\"", "2", "--data", folder).text == "expired\n")
            let notes = ["admin", "delete", "--path", "/\"notes\"", "--data", folder]
            let dry = try await Self.run(notes)
            #expect(dry.text == "would delete /\"notes\"\nnothing was deleted; --yes does it\n")
            let deleted = try await Self.run(notes + ["--yes"])
            #expect(deleted.text == "deleted /\"notes\"\nbackups that were made before keep it\n")
            let gone = try await Self.run(notes)
            #expect(gone.status == 1 && gone.complaint == "Error: no such partition: /\"notes\"\n")
            let again = try await Self.run("admin", "disconnect", "1", "1", "--data", folder)
            #expect(again.status == 1 && again.complaint == "Error: no such connection or session\n")
            let metrics = try await Self.run("admin", "metrics", "--data", folder).text
            #expect(metrics.contains("\nanabranch_sessions_opened_total 1\n"))
            #expect(await server.terminate() == 0)
            let trail = try String(contentsOfFile: folder + "/audit.log", encoding: .utf8).split(separator: "\n")
            #expect(trail.count == 3)
            for (line, what) in zip(trail, ["disconnect", "expire", "delete"]) {
                #expect(line.contains("\"what\":\"\(what)\"") && line.contains(" from 127.0.0.1\""), "\(line)")
            }
            let ended = try await Self.run("admin", "health", "--data", folder)
            #expect(ended.status == 1 && ended.complaint.contains("no server is running"))
        }
    }

    @Test func withoutTheTokenTheCommandGetsNothing() async throws {
        try await Self.withFolder { folder in
            let server = try await ServerProcess(data: folder)
            let file = folder + "/other-token"
            try PrivateFile.write("another-token-of-an-operator\n", to: file)
            let refused = try await Self.run("admin", "users", "--data", folder, "--token-file", file)
            #expect(refused.status == 1 && refused.text.isEmpty)
            #expect(refused.complaint == "Error: the token of the admin interface is wrong\n")
            await server.terminate()
        }
    }

    @Test func beyondLoopbackTheAdminInterfaceSpeaksTLS() async throws {
        try await Self.withFolder { folder in
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            let certificate = folder + "/certificate.pem", key = folder + "/key.pem"
            try PrivateFile.write(TLSTests.certificateOne, to: certificate)
            try PrivateFile.write(TLSTests.keyOne, to: key)
            let server = try await ServerProcess(
                data: folder,
                arguments: [
                    "--listen", "127.0.0.1:0", "--admin-listen", "0.0.0.0:0", "--tls-certificate", certificate,
                    "--tls-key", key, "--rules", "everybody",
                ])
            let file = folder + "/admin-address"
            let announced = try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n")
            let url = String(try #require(announced.first))
            #expect(url.hasPrefix("https://127.0.0.1:") && announced.count == 2)
            // As a health check does it, with whatever name the certificate has; but it has to be that one.
            let known = try await Self.run("admin", "health", "--data", folder)
            #expect(known.text == "ok\n", "\(known.complaint)")
            try PrivateFile.write("\(url)\n\(folder)/other.pem\n", to: file)
            try PrivateFile.write(TLSTests.certificateTwo, to: folder + "/other.pem")
            #expect(try await Self.run("admin", "health", "--data", folder).status == 1)
            let trusted = try await Self.run("admin", "health", "--data", folder, "--at", url, "--ca", certificate)
            #expect(trusted.text == "ok\n", "\(trusted.complaint)")
            #expect(try await Self.run("admin", "health", "--data", folder, "--at", url).status == 1)
            let open = url.replacing("https", with: "http")
            #expect(try await Self.run("admin", "health", "--data", folder, "--at", open).status == 1)
            await server.terminate()
        }
    }

    @Test func aServerWithoutAppsLetsNobodyIn() async throws {
        try await Self.withFolder { folder in
            let server = try await ServerProcess(
                data: folder, arguments: ["--listen", "127.0.0.1:0", "--rules", "everybody"])
            for path in ["/realm-sync", "/realm-sync?baas_at=x", "/api/client/v2.0/app/x/realm-sync?baas_at="] {
                let client = try await WebSocketClient.open(port: server.port, path: path)
                #expect(try await client.receive().closeCode == 4001)
            }
            let client = try await WebSocketClient(port: server.port)
            let location = "GET /api/client/v2.0/app/x/location HTTP/1.1\r\nHost: x\r\n\r\n"
            #expect(try await client.request(location).hasPrefix("HTTP/1.1 404 "))
            await server.terminate()
        }
    }

    @Test func aServerDoesNotListenInTheOpenByAccident() async throws {
        try await Self.withFolder { folder in
            for option in ["--listen", "--admin-listen"] {
                let refused = try await Self.run("serve", "--data", folder, option, "0.0.0.0:0")
                #expect(refused.status != 0)
                #expect(refused.complaint.contains("not a loopback address"), "\(refused.complaint)")
            }
            #expect(!FileManager.default.fileExists(atPath: folder))
        }
    }

    @Test func everySubcommandHasHelpWithAnExample() async throws {
        let names = [
            "health", "ready", "metrics", "files", "file", "clients", "history", "sessions", "users", "disconnect",
            "expire", "maintain", "delete", "revoke", "disable", "enable", "ingested",
        ]
        let ofUsers = ["list", "show", "add", "import", "set-password", "set-data", "delete"]
        for arguments in [["help", "admin"]] + names.map({ ["help", "admin", $0] })
            + ofUsers.map({ ["help", "admin", "users", $0] })
        {
            let help = try await Self.run(arguments)
            #expect(help.status == 0)
            #expect(help.text.contains("EXAMPLES\n") && help.text.contains("  anabranch admin"), "\(help.text)")
        }
    }
}
