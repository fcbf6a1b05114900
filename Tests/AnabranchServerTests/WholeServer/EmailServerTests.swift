import AnabranchCore
import Foundation
import NIOCore
import NIOPosix
import Testing

/// `anabranch serve` with servers that take e-mails (`Spec/Admin.md`, section 8).
@Suite(.timeLimit(.minutes(30)), .enabled(if: ServerProcess.executable != nil, "needs the built command"))
struct EmailServerTests {
    /// A server of ours, its log, and where its e-mails arrive.
    private struct World {
        let folder: String
        let mails: PythonServer
        let ports: JSONValue
        let log: LineStream
        let server: ServerProcess

        static func run(_ body: (World) async throws -> Void) async throws {
            let folder = FileManager.default.temporaryDirectory.appendingPathComponent("mail-\(UUID().uuidString)").path
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(atPath: folder) }
            let fixtures = PythonServer.fixtures.appending(path: "smtp").path()
            let certificate = fixtures + "/certificate.pem"
            let mails = try PythonServer("smtp/server.py", [certificate, fixtures + "/key.pem"])
            let ports = try JSONValue(parsing: try await mails.output.first().utf8)
            try configuration(ports, folder, certificate).write(
                toFile: folder + "/anabranch.yaml", atomically: true, encoding: .utf8)
            try "pass word\n".write(toFile: folder + "/password", atomically: true, encoding: .utf8)
            let (server, log) = try await start(folder)
            let world = World(folder: folder, mails: mails, ports: ports, log: log, server: server)
            do {
                try await body(world)
            } catch {
                await server.kill()
                throw error
            }
            await server.terminate()
        }

        static func start(_ folder: String) async throws -> (ServerProcess, LineStream) {
            let log = Pipe()
            let server = try await ServerProcess(
                data: folder + "/data", arguments: ["--config", folder + "/anabranch.yaml"],
                log: log.fileHandleForWriting)
            try log.fileHandleForWriting.close()
            return (server, LineStream(log.fileHandleForReading))
        }

        private static func configuration(_ ports: JSONValue, _ folder: String, _ certificate: String) -> String {
            let rest = "sender: 'Café <app@example.com>', confirm: {url: 'https://app.example.com/confirm'}"
            let log = "user: app, password-file: '\(folder)/password'"
            func app(_ name: String, _ email: String) -> String {
                "  \(name): {providers: [local-userpass], email: {\(email)}}\n"
            }
            func smtp(_ kind: String, scheme: String = "smtp", host: String = "localhost") -> String {
                "smtp: '\(scheme)://\(host):\(ports[kind]?.integer ?? 0)', \(rest)"
            }
            let reset = ", reset: {url: 'app://reset?a=b', subject: Neues Paßwort, text: \".\\n.. {app} {url}\"}"
            return "listen: 127.0.0.1:0\nrules: everybody\napps:\n"
                + app("open", smtp("open", host: "127.0.0.1") + reset)
                + app("starttls", smtp("starttls") + ", \(log), ca: '\(certificate)'")
                + app("login", smtp("login") + ", \(log), ca: '\(certificate)'")
                + app("tls", smtp("tls", scheme: "smtps") + ", \(log), ca: '\(certificate)'")
                + app("wrong", smtp("bare") + ", user: app2, password-file: '\(folder)/password'")
                + app("untrusted", smtp("tls", scheme: "smtps") + ", \(log)")
                + app("unsafe", smtp("bare") + ", \(log), ca: '\(certificate)'")
                + app("talkative", smtp("talkative") + ", \(log), ca: '\(certificate)'")
                + app("silent", smtp("silent"))
                + app("nowhere", "smtp: 'smtp://127.0.0.1:1', \(rest)")
                + app("program", "command: [/bin/sh, -c, 'cat > \(folder)/mail'], confirm: {url: 'app://c'}")
                + app("failing", "command: [/bin/sh, -c, 'exit 3'], confirm: {url: 'app://c'}")
        }

        /// - Returns: the status of the answer, and the text of its code.
        func post(_ app: String, _ action: String, _ body: JSONValue) async throws -> (status: Int, code: String) {
            let path = "/api/client/v2.0/app/\(app)/auth/providers/local-userpass/\(action)"
            let answer = try await request("POST", path, body.encoded)
            return (answer.status, answer.json?["error_code"]?.string ?? "")
        }

        func request(
            _ method: String, _ path: String, token: String? = nil, _ body: String = ""
        ) async throws -> AppServicesRig.Response {
            let authorization = token.map { "Authorization: Bearer \($0)\r\n" } ?? ""
            let head = """
                \(method) \(path) HTTP/1.1\r
                Host: 127.0.0.1\r
                Connection: close\r
                \(authorization)Content-Length: \(body.utf8.count)\r
                \r

                """
            let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
                .connect(host: "127.0.0.1", port: server.port) { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
                    }
                }
            return try AppServicesRig.Response(
                try await channel.executeThenClose { inbound, outbound in
                    let socket = RawSocket(inbound: inbound, outbound: outbound)
                    try await socket.send(Array((head + body).utf8))
                    return try await socket.readToEnd()
                })
        }

        func register(_ app: String, _ email: String = "ann@example.com") async throws {
            #expect(
                try await post(app, "register", ["email": .string(email), "password": "correct horse"]).status == 201)
        }

        func mail() async throws -> JSONValue { try JSONValue(parsing: try await mails.output.first().utf8) }

        /// The link at the end of the text, as the body of the request that it leads to.
        static func body(ofLinkIn mail: JSONValue, after url: String) throws -> [String: JSONValue] {
            let words = try #require(mail["text"]?.string).split(whereSeparator: \.isWhitespace)
            let link = try #require(words.first { $0.hasPrefix(url) })
            let parts = try #require(link.dropFirst(url.count).wholeMatch(of: /token=([\w.-]+)&tokenId=([0-9a-f]{24})/))
            return ["token": .string(String(parts.output.1)), "tokenId": .string(String(parts.output.2))]
        }
    }

    @Test func anAddressIsConfirmedAndAPasswordReset() async throws {
        try await World.run { world async throws in
            try await world.register("open")
            let login: JSONValue = ["username": "ann@example.com", "password": "correct horse"]
            #expect(try await world.post("open", "login", login) == (401, "AuthError"))
            let mail = try await world.mail()
            #expect(mail["from"] == "app@example.com" && mail["to"] == ["ann@example.com"] && mail["tls"] == false)
            #expect(mail["headers"]?["From"] == "Café <app@example.com>")
            #expect(mail["headers"]?["Subject"] == "Confirm your e-mail address")
            #expect(mail["text"]?.string?.contains("this e-mail address with open.") == true)
            let list = ["admin", "users", "--data", world.folder + "/data"]
            #expect(try await AdminCommandTests.run(list).text.contains("unconfirmed"))
            let token = try World.body(ofLinkIn: mail, after: "https://app.example.com/confirm?")
            #expect(try await world.post("wrong", "confirm", .object(token)) == (400, "UserpassTokenInvalid"))
            #expect(try await world.post("open", "confirm", .object(token)).status == 200)
            #expect(try await !AdminCommandTests.run(list).text.contains("unconfirmed"))
            let answer = try await world.request(
                "POST", "/api/client/v2.0/app/open/auth/providers/local-userpass/login", login.encoded)
            let refresh = try AppServicesRig.Login(answer).refresh
            #expect(try await world.post("open", "reset/send", ["email": "ann@example.com"]).status == 200)
            let reset = try await world.mail()
            #expect(reset["headers"]?["Subject"] == "Neues Paßwort")
            #expect(reset["text"]?.string?.hasPrefix(".\n.. open app://reset?a=b&token=") == true)
            var body = try World.body(ofLinkIn: reset, after: "app://reset?a=b&")
            body["password"] = "battery staple"
            #expect(try await world.post("open", "reset", .object(body)).status == 200)
            #expect(try await world.post("open", "reset", .object(body)) == (400, "UserpassTokenInvalid"))
            let session = try await world.request("POST", "/api/client/v2.0/auth/session", token: refresh)
            #expect(session.status == 401)
            #expect(try await world.post("open", "login", login) == (401, "InvalidPassword"))
            let again: JSONValue = ["username": "ann@example.com", "password": "battery staple"]
            #expect(try await world.post("open", "login", again).status == 200)
        }
    }

    @Test func whoIsUnconfirmedStaysSoAndTokensAreGoodAfterARestart() async throws {
        try await World.run { world async throws in
            try await world.register("open")
            let token = try World.body(ofLinkIn: try await world.mail(), after: "https://app.example.com/confirm?")
            await world.server.kill()
            let (server, log) = try await World.start(world.folder)
            let next = World(folder: world.folder, mails: world.mails, ports: world.ports, log: log, server: server)
            let login: JSONValue = ["username": "ann@example.com", "password": "correct horse"]
            #expect(try await next.post("open", "login", login) == (401, "AuthError"))
            #expect(try await next.post("open", "confirm", .object(token)).status == 200)
            #expect(try await next.post("open", "login", login).status == 200)
            #expect(await server.terminate() == 0)
        }
    }

    @Test(arguments: [("starttls", "app by PLAIN"), ("login", "app by LOGIN"), ("tls", "app by PLAIN")])
    func eMailsTravelEncryptedWithALogIn(app: String, user: String) async throws {
        try await World.run { world async throws in
            try await world.register(app)
            let mail = try await world.mail()
            #expect(mail["user"] == .string(user))
            #expect(mail["tls"] == .bool(app != "tls"), "what begins with TLS needs no STARTTLS")
        }
    }

    @Test(arguments: [
        ("wrong", "ann@example.com", "it answers 535 to the log-in"),
        ("open", "refused@example.com", "it answers 550 to RCPT TO: 5.1.1 there is no such mailbox"),
        ("open", "dropped@example.com", "it closed the connection"),
        ("open", "echoed@example.com", "it answers 554 to the e-mail: nobody may open"),
        ("untrusted", "ann@example.com", "its certificate is not trusted"),
        ("unsafe", "ann@example.com", "it offers no STARTTLS"),
        ("talkative", "ann@example.com", "it said something between STARTTLS and TLS"),
        ("nowhere", "ann@example.com", "127.0.0.1:1: Connection refused"),
        ("failing", "ann@example.com", "/bin/sh ended with status 3"),
    ])
    func whatIsNotSentIsALineOfTheLog(app: String, email: String, reason: String) async throws {
        try await World.run { world async throws in
            try await world.register(app, email)
            let line = try await world.log.first(with: "e-mail not sent")
            #expect(line.contains(reason), "\(line)")
            #expect(line.contains("notice") && !line.contains("eyJ") && !line.contains("pass word"))
            let metrics = try await AdminCommandTests.run(["admin", "metrics", "--data", world.folder + "/data"])
            #expect(metrics.text.contains(#"anabranch_emails_total{outcome="failed"} 1"#))
        }
    }

    @Test func aShutdownWaitsForNoEMail() async throws {
        try await World.run { world async throws in
            try await world.register("silent")
            #expect(try await world.mails.output.first() == "\"connected\"")
            #expect(await world.server.terminate() == 0)
            for await line in world.log.lines { #expect(!line.contains("not done within"), "it was waited for") }
        }
    }

    @Test func aProgramIsToldWhatToSend() async throws {
        try await World.run { world async throws in
            try await world.register("program")
            _ = try await world.log.first(with: "e-mail sent")
            let text = try String(contentsOfFile: world.folder + "/mail", encoding: .utf8)
            let mail = try JSONValue(parsing: text.dropLast().utf8)
            #expect(mail["kind"] == "confirm" && mail["app"] == "program" && mail["email"] == "ann@example.com")
            let token = try #require(mail["token"]?.string), ident = try #require(mail["tokenId"]?.string)
            #expect(mail["url"] == .string("app://c?token=\(token)&tokenId=\(ident)"))
            let body: JSONValue = ["token": .string(token), "tokenId": .string(ident)]
            #expect(try await world.post("program", "confirm", body).status == 200)
        }
    }
}
