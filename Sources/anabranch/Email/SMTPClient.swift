import AnabranchHTTP
import AnabranchServer
import Foundation
import NIOCore
import NIOPosix
import NIOSSL

/// Sends e-mails by SMTP (RFC 5321), each on a connection of its own.
struct SMTPClient: Sendable {
    let server: SMTPServer
    /// Nil if nobody logs in.
    let password: String?
    /// The time that the whole exchange may take.
    let secondsMax: Int

    func send(_ message: EmailMessage) async throws {
        do {
            let connection = try await connect()
            let limit = connection.channel.eventLoop.scheduleTask(in: .seconds(Int64(secondsMax))) {
                connection.replies.value.fail("not done within \(secondsMax) s")
                connection.channel.close(promise: nil)
            }
            defer {
                limit.cancel()
                connection.channel.close(promise: nil)
            }
            try await deliver(message, connection)
        } catch {
            let reason = (error as? EmailError)?.description ?? OutgoingConnection.reason(error)
            throw EmailError("\(server.host):\(server.port): \(reason)")
        }
    }

    // MARK: The conversation

    private func deliver(_ message: EmailMessage, _ connection: Connection) async throws {
        try Self.expect(220, try await connection.greeting.get(), "the connection")
        var offers = try await hello(connection)
        if !server.beginsWithTLS, !server.isLoopback || server.authority != nil {
            if offers.contains("STARTTLS") {
                try await connection.say("STARTTLS", expect: 220)
                try await connection.startTLS(try tls())
                offers = try await hello(connection)
            } else if server.user != nil || server.authority != nil {
                throw EmailError("it offers no STARTTLS, and the password would travel in the open")
            }
        }
        if let user = server.user { try await logIn(user, offers, connection) }
        try await connection.say("MAIL FROM:<\(server.sender.address)>", expect: 250)
        try await connection.say("RCPT TO:<\(message.address)>", expect: 250)
        try await connection.say("DATA", expect: 354)
        let lines = message.lines().map { $0.hasPrefix(".") ? ".\($0)" : $0 }
        try await connection.say(lines.joined(separator: "\r\n") + "\r\n.", as: "the e-mail", expect: 250)
        // The server has accepted the e-mail, whatever it answers now.
        _ = try? await connection.say("QUIT", expect: 221)
    }

    /// - Returns: the extensions that it offers, in capital letters.
    private func hello(_ connection: Connection) async throws -> [String] {
        let name = connection.channel.localAddress?.ipAddress ?? "127.0.0.1"
        let reply = try await connection.say("EHLO [\(name.contains(":") ? "IPv6:" : "")\(name)]", expect: 250)
        return reply.lines.map { $0.uppercased() }
    }

    private func logIn(_ user: String, _ offers: [String], _ connection: Connection) async throws {
        guard let password else { throw EmailError("there is no password") }
        let ways = offers.first { $0.hasPrefix("AUTH ") }?.split(separator: " ") ?? []
        if ways.contains("PLAIN") {
            let both = Data("\0\(user)\0\(password)".utf8).base64EncodedString()
            try await connection.say("AUTH PLAIN \(both)", as: "the log-in", expect: 235)
        } else if ways.contains("LOGIN") {
            try await connection.say("AUTH LOGIN", as: "the log-in", expect: 334)
            try await connection.say(Data(user.utf8).base64EncodedString(), as: "the log-in", expect: 334)
            try await connection.say(Data(password.utf8).base64EncodedString(), as: "the log-in", expect: 235)
        } else {
            throw EmailError("it offers no log-in with PLAIN or LOGIN")
        }
    }

    fileprivate static func expect(_ code: Int, _ reply: SMTPReply, _ what: String) throws {
        guard reply.code != code else { return }
        throw EmailError("it answers \(reply.code) to \(what): \(reply.lines.joined(separator: " "))")
    }

    // MARK: The connection

    fileprivate struct Connection: Sendable {
        let channel: any Channel
        let replies: NIOLoopBound<SMTPReplies>
        let greeting: EventLoopFuture<SMTPReply>

        /// - Parameter what: the name of the command in messages, if not the line up to its first colon or bracket.
        @discardableResult
        func say(_ line: String, as what: String? = nil, expect code: Int) async throws -> SMTPReply {
            let reply = try await channel.eventLoop.flatSubmit { [channel, replies] in
                let reply = replies.value.next(on: channel.eventLoop)
                channel.writeAndFlush(ByteBuffer(string: line + "\r\n"), promise: nil)
                return reply
            }.get()
            try SMTPClient.expect(code, reply, what ?? String(line.prefix { $0 != ":" && $0 != "[" }))
            return reply
        }

        /// Begins TLS. Anything that came unencrypted after the answer could be somebody else's, so it is an error.
        func startTLS(_ handler: @escaping @Sendable () throws -> NIOSSLClientHandler) async throws {
            try await channel.eventLoop.submit { [channel, replies] in
                guard replies.value.isEmpty else { throw EmailError("it said something between STARTTLS and TLS") }
                try channel.pipeline.syncOperations.addHandler(try handler(), position: .first)
            }.get()
        }
    }

    private func connect() async throws -> Connection {
        let handler = server.beginsWithTLS ? try tls() : nil
        return try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .connectTimeout(.seconds(Int64(secondsMax)))
            .connect(host: server.host, port: server.port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    let replies = SMTPReplies()
                    let greeting = replies.next(on: channel.eventLoop)
                    if let handler { try channel.pipeline.syncOperations.addHandler(try handler()) }
                    try channel.pipeline.syncOperations.addHandler(replies)
                    return Connection(
                        channel: channel, replies: NIOLoopBound(replies, eventLoop: channel.eventLoop),
                        greeting: greeting)
                }
            }
    }

    private func tls() throws -> @Sendable () throws -> NIOSSLClientHandler {
        var configuration = TLSConfiguration.makeClientConfiguration()
        if let authority = server.authority { configuration.trustRoots = .file(authority) }
        let context = try NIOSSLContext(configuration: configuration)
        let name = WebURL.serverName(server.host)
        return { try NIOSSLClientHandler(context: context, serverHostname: name) }
    }
}
