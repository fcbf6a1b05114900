import ArgumentParser
import Foundation

struct AdminDisconnect: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "disconnect", abstract: "Close a connection, or end one of its sessions.",
        discussion: """
            The client comes back by itself; to keep somebody out, disable the user or change the rules.

            EXAMPLES
              anabranch admin disconnect 12
              anabranch admin disconnect 12 3
            """)

    @OptionGroup var options: AdminOptions
    @Argument(help: "The connection, as `admin sessions` shows it.")
    var connection: UInt64
    @Argument(help: "The session, if the others shall go on.")
    var session: UInt64?

    func run() async throws {
        struct Body: Encodable {
            var connection: UInt64, session: UInt64?
        }
        try await options.run { client in
            let answer = try await client.post(
                "/v1/sessions/disconnect", Body(connection: connection, session: session))
            if options.json { show(answer) } else { print("disconnected") }
        }
    }
}

struct AdminExpire: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "expire", abstract: "Let a client file expire. This cannot be undone.",
        discussion: """
            Its client is told to reset: it downloads the file anew, and what it had not uploaded is handled as the \
            application has chosen for client resets.

            EXAMPLES
              anabranch admin expire 'my-app/"notes"' 7
            """)

    @OptionGroup var options: AdminOptions
    @Argument(help: "The synced file, as `admin files` shows it.")
    var file: String
    @Argument(help: "The client file, as `admin clients` shows it.")
    var client: UInt64

    func run() async throws {
        struct Body: Encodable {
            var path: String, client: UInt64
        }
        try await options.run { server in
            let answer = try await server.post("/v1/clients/expire", Body(path: file, client: client))
            if options.json { show(answer) } else { print("expired") }
        }
    }
}

struct AdminRevoke: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke", abstract: "End all logins of a user.",
        discussion: """
            Connections are closed and refresh tokens become invalid; the user can log in again.

            EXAMPLES
              anabranch admin revoke 5f0c2d9e8b7a6c5d4e3f2a1b
            """)

    @OptionGroup var options: AdminOptions
    @Argument(help: "The user, as `admin users` shows it.")
    var user: String

    func run() async throws { try await change(user, "revoke", options) }
}

struct AdminDisable: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "disable", abstract: "Shut a user out: end all logins, and allow no further one.",
        discussion: "EXAMPLES\n  anabranch admin disable 5f0c2d9e8b7a6c5d4e3f2a1b")

    @OptionGroup var options: AdminOptions
    @Argument(help: "The user, as `admin users` shows it.")
    var user: String

    func run() async throws { try await change(user, "disable", options) }
}

struct AdminEnable: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "enable", abstract: "Let a user who was shut out log in again.",
        discussion: "EXAMPLES\n  anabranch admin enable 5f0c2d9e8b7a6c5d4e3f2a1b")

    @OptionGroup var options: AdminOptions
    @Argument(help: "The user, as `admin users` shows it.")
    var user: String

    func run() async throws { try await change(user, "enable", options) }
}

private func change(_ user: String, _ verb: String, _ options: AdminOptions) async throws {
    struct Outcome: Decodable { var connections: Int? }
    try await options.run { client in
        let answer = try await client.post("/v1/users/\(verb)", ["user": user])
        if options.json { return show(answer) }
        let outcome = try JSONDecoder().decode(Outcome.self, from: answer)
        print("\(verb)d" + (outcome.connections.map { ", \($0) connections closed" } ?? ""))
    }
}
