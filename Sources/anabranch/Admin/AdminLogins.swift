import AnabranchCore
import ArgumentParser
import CommandSupport
import Foundation

/// The user that a command acts on.
struct UserArgument: ParsableArguments {
    @Argument(help: "The user's ident, as `admin users` shows it.")
    var user: String?

    @Option(
        help: ArgumentHelp(
            "In place of the ident: the e-mail address that the user logs in with.", valueName: "address"))
    var email: String?

    @Option(help: ArgumentHelp("The app of the user with that address.", valueName: "id"))
    var app: String?

    func validate() throws {
        guard (user != nil) != (email != nil), (email != nil) == (app != nil) else {
            throw ValidationError("Name one user: by ident, or by --email and --app.")
        }
    }

    /// The user's ident, requested from the server if only the address is given.
    func ident(_ client: AdminClient) async throws -> String {
        if let user {
            guard !user.contains("@") else {
                throw AdminError(description: "there is no user \(user); for an address: --app APP --email \(user)")
            }
            return user
        }
        struct Found: Decodable { var user: String }
        do {
            let answer = try await client.get("/v1/user", [("app", app), ("email", email)])
            return try JSONDecoder().decode(Found.self, from: answer).user
        } catch let error as AdminError where error.status == 404 {
            throw AdminError(description: "the app \(app ?? "") has no user \(email ?? "")")
        }
    }
}

struct AdminRevoke: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke", abstract: "End all logins of a user.",
        discussion: """
            Connections are closed and refresh tokens become invalid; the user can log in again.

            EXAMPLES
              anabranch admin revoke 5f0c2d9e8b7a6c5d4e3f2a1b --data ./data
              anabranch admin revoke --app my-app --email ann@example.com --data ./data
            """)

    @OptionGroup var options: AdminOptions
    @OptionGroup var user: UserArgument

    func run() async throws { try await change(user, "revoke", options) }
}

struct AdminDisable: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "disable", abstract: "Shut a user out: end all logins, and allow no further one.",
        discussion: "EXAMPLES\n  anabranch admin disable 5f0c2d9e8b7a6c5d4e3f2a1b --data ./data")

    @OptionGroup var options: AdminOptions
    @OptionGroup var user: UserArgument

    func run() async throws { try await change(user, "disable", options) }
}

struct AdminEnable: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "enable", abstract: "Let a user who was shut out log in again.",
        discussion: "EXAMPLES\n  anabranch admin enable 5f0c2d9e8b7a6c5d4e3f2a1b --data ./data")

    @OptionGroup var options: AdminOptions
    @OptionGroup var user: UserArgument

    func run() async throws { try await change(user, "enable", options) }
}

/// Changes a user with a request without a body, and prints the result.
func change(_ user: UserArgument, _ verb: String, as done: String? = nil, _ options: AdminOptions) async throws {
    try await change(user, verb, as: done ?? verb + "d", options) { ["user": .string($0)] }
}

/// - Parameter body: makes the request from the user's ident.
func change(
    _ user: UserArgument, _ verb: String, as done: String, _ options: AdminOptions,
    body: (String) -> JSONValue
) async throws {
    struct Outcome: Decodable { var connections: Int? }
    try await options.run { client in
        let answer = try await client.post("/v1/users/\(verb)", body(try await user.ident(client)))
        if options.json { return show(answer) }
        let outcome = try JSONDecoder().decode(Outcome.self, from: answer)
        print(done + (outcome.connections.map { ", \(counted($0, "connection")) closed" } ?? ""))
    }
}
