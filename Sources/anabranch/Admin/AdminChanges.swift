import ArgumentParser
import CommandSupport
import Foundation

struct AdminDisconnect: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "disconnect", abstract: "Close a connection, or end one of its sessions.",
        discussion: """
            The client comes back by itself; to keep somebody out, disable the user or change the rules. With \
            --delete-local the device deletes its copy of the file, and what it has not uploaded is lost; its app \
            can open the file again if the rules let it.

            EXAMPLES
              anabranch admin disconnect 12 --data ./data
              anabranch admin disconnect 12 3 --data ./data
              anabranch admin disconnect 12 3 --delete-local --data ./data
            """)

    @OptionGroup var options: AdminOptions
    @Argument(help: "The connection, as `admin sessions` shows it.")
    var connection: UInt64
    @Argument(help: "The session, if the others shall go on.")
    var session: UInt64?
    @Flag(help: "Have the device delete its copy of the session's file, without a backup.")
    var deleteLocal = false

    func validate() throws {
        guard !deleteLocal || session != nil else { throw ValidationError("--delete-local: name the session.") }
    }

    func run() async throws {
        struct Body: Encodable {
            var connection: UInt64, session: UInt64?, delete_local: Bool
        }
        try await options.run { client in
            let answer = try await client.post(
                "/v1/sessions/disconnect", Body(connection: connection, session: session, delete_local: deleteLocal))
            if options.json { show(answer) } else { print("disconnected") }
        }
    }
}

struct AdminExpire: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "expire", abstract: "Let a client file expire. This cannot be undone.",
        discussion: """
            Its client has to reset: it downloads the file again, and what it had not uploaded is handled as the \
            application has chosen for client resets. What is kept because of it alone goes with the next maintenance: \
            --dry-run says how much that is, and who keeps the log then. `admin maintain` does it at once.

            It acts without asking, since scripts use it and what the client has uploaded stays.

            EXAMPLES
              anabranch admin expire 'my-app/"notes"' 7 --dry-run --data ./data
              anabranch admin expire 'my-app/"notes"' 7 --data ./data
            """)

    @OptionGroup var options: AdminOptions
    @Argument(help: "The synced file, as `admin files` shows it.")
    var file: String
    @Argument(help: "The client file, as `admin clients` shows it.")
    var client: UInt64
    @Flag(help: "Only say what could go then.")
    var dryRun = false

    func run() async throws {
        struct Body: Encodable {
            var path: String, client: UInt64, dry_run: Bool
        }
        struct Pin: Decodable { var client: UInt64, version: UInt64 }
        struct Freed: Decodable { var entries: UInt64, bytes: UInt64, keep: String, pinned_by: Pin? }
        struct Expired: Decodable { var was_expired: Bool }
        try await options.run { server in
            let answer = try await server.post(
                "/v1/clients/expire", Body(path: file, client: client, dry_run: dryRun))
            if options.json { return show(answer) }
            guard dryRun else {
                let expired = try JSONDecoder().decode(Expired.self, from: answer)
                return print(expired.was_expired ? "was expired already" : "expired")
            }
            let freed = try JSONDecoder().decode(Freed.self, from: answer)
            let place = freed.keep == "drop" ? "" : " to the archive, which frees no space"
            print("\(counted(freed.entries, "log entry")) with \(freed.bytes) bytes could go\(place)")
            let pin = freed.pinned_by.map { "client \($0.client) keeps everything after version \($0.version)" }
            print("then \(pin ?? "nobody keeps any of the log")")
        }
    }
}
