import AnabranchCore
import ArgumentParser
import Foundation

/// `anabranch admin users`: the users of all apps.
struct AdminUsers: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "users", abstract: "List the users of all apps; also add, import, change and delete some.",
        discussion: """
            EXAMPLES
              anabranch admin users --limit 1000 --data ./data
              anabranch admin users --app my-app --data ./data
              anabranch admin users add --app my-app --email ann@example.com --data ./data
              anabranch admin users set-password --app my-app --email ann@example.com \\
                  --data ./data
              anabranch admin users show 5f0c2d9e8b7a6c5d4e3f2a1b --data ./data
            """,
        subcommands: [
            List.self, Show.self, Add.self, AdminUsersImport.self, SetPassword.self, SetData.self, Delete.self,
        ],
        defaultSubcommand: List.self)

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List users, by their idents.",
            discussion: """
                EXAMPLES
                  anabranch admin users list --app my-app --limit 1000 --data ./data
                  anabranch admin users list --app my-app --email ann@example.com --json \\
                      --data ./data
                """)

        struct Listing: AdminListing {
            struct User: Decodable {
                struct Identity: Decodable {
                    var provider: String, name: String, confirmed: Bool
                }

                var user: String, app: String, disabled: Bool, created_at: Double, identities: [Identity]
            }

            static let path = "/v1/users"
            static let columns = ["USER", "APP", "CREATED", "STATE", "LOGS IN AS"]
            var users: [User]
            var next: String?
            var rows: [[String]] {
                users.map { user in
                    [
                        user.user, user.app, Date(timeIntervalSince1970: user.created_at).formatted(.iso8601),
                        user.disabled
                            ? "disabled" : user.identities.allSatisfy(\.confirmed) ? "enabled" : "unconfirmed",
                        user.identities.map { "\($0.provider):\($0.name)" }.joined(separator: " "),
                    ]
                }
            }
        }

        @OptionGroup var options: AdminOptions
        @OptionGroup var page: PageOptions

        @Option(help: ArgumentHelp("Only users of this app.", valueName: "id"))
        var app: String?
        @Option(help: ArgumentHelp("Only the user with this e-mail address; with --app.", valueName: "address"))
        var email: String?

        func run() async throws { try await page.show(Listing.self, [("app", app), ("email", email)], options) }
    }

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print all about a user, custom data included, as JSON.",
            discussion: """
                EXAMPLES
                  anabranch admin users show 5f0c2d9e8b7a6c5d4e3f2a1b --data ./data
                  anabranch admin users show --app my-app --email ann@example.com \\
                      --data ./data | jq .data
                """)

        @OptionGroup var options: AdminOptions
        @OptionGroup var user: UserArgument

        func run() async throws {
            try await options.run { client in
                let query = [("user", user.user), ("app", user.app), ("email", user.email)]
                anabranch.show(try await client.get("/v1/user", query))
            }
        }
    }

    struct Delete: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Delete a user, with logins and API keys. This cannot be undone.",
            discussion: """
                Connections are closed. What the user has written stays in the synced files.

                EXAMPLES
                  anabranch admin users delete 5f0c2d9e8b7a6c5d4e3f2a1b --yes --data ./data
                """)

        @OptionGroup var options: AdminOptions
        @OptionGroup var user: UserArgument
        @Flag(help: "Do it. Without this the command only says who would be deleted.")
        var yes = false

        func run() async throws {
            guard !yes else { return try await change(user, "delete", options) }
            try await options.run { client in
                let query = [("user", user.user), ("app", user.app), ("email", user.email)]
                anabranch.show(try await client.get("/v1/user", query))
                throw AdminError(description: "nobody was deleted: that needs --yes")
            }
        }
    }

    struct SetData: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "set-data", abstract: "Replace the custom data of a user, a JSON object.",
            discussion: """
                Rules can ask for it (data: {role: editor}), and apps read it. Connections are closed; their clients \
                come back by themselves, with what the data allow.

                EXAMPLES
                  anabranch admin users set-data 5f0c2d9e8b7a6c5d4e3f2a1b --data ./data \\
                      --json-object '{"role": "editor"}'
                  anabranch admin users set-data --app my-app --email ann@example.com \\
                      --json-object '{}' --data ./data
                """)

        @OptionGroup var options: AdminOptions
        @OptionGroup var user: UserArgument
        @Option(help: ArgumentHelp("The data.", valueName: "json"))
        var jsonObject: String

        func run() async throws {
            let data = try customData(jsonObject)
            try await change(user, "set-data", as: "changed", options) { ["user": .string($0), "data": data] }
        }
    }
}
