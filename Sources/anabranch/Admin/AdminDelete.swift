import ArgumentParser
import CommandSupport
import Foundation

struct AdminDelete: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delete", abstract: "Delete a synced file, or those of a user. This cannot be undone.",
        discussion: """
            With --path, the file goes with all that is stored of it: log, state, what was received, and its client \
            files. Its clients have to reset (208; later 208, 209 or 211): they download the file again, which is \
            empty then, and what they had not uploaded is handled as the application has chosen for client resets.

            With --user, each file goes in which nobody else has ever taken part. In the others what the user has \
            written is part of what everybody has, and stays: there the user's client files expire (222), and the \
            files are listed. The account stays as well, and its devices can come back: delete it, or disable it, \
            before.

            Backups that were made before keep everything. Delete them too, or delete again after a restore.

            EXAMPLES
              anabranch admin delete --path 'my-app/"notes"' --yes --data ./data
              anabranch admin users delete 5f0c2d9e8b7a6c5d4e3f2a1b --yes --data ./data
              anabranch admin delete --user 5f0c2d9e8b7a6c5d4e3f2a1b --yes --data ./data
            """)

    @OptionGroup var options: AdminOptions
    @Option(help: ArgumentHelp("The synced file, as `admin files` shows it.", valueName: "file"))
    var path: String?
    @Option(help: ArgumentHelp("The ident of the user.", valueName: "user"))
    var user: String?
    @Flag(help: "Do it. Without this the command only says what would be deleted.")
    var yes = false

    func validate() throws {
        guard path != nil || user != nil else { throw ValidationError("give --path or --user") }
        guard path == nil || user == nil else { throw ValidationError("give --path or --user, not both") }
    }

    func run() async throws {
        try await options.run { server in
            var deletion = Deletion(server: server, isReal: yes, isQuiet: options.json)
            if let path { try await deletion.delete(path) }
            if let user {
                try await deletion.deleteFiles(of: user)
                if deletion.isEmpty, try await !server.hasUser(user) {
                    throw AdminError(description: "\(Self.nothing(of: user)), and there is no such user")
                }
            }
            if options.json {
                let encoder = JSONEncoder()
                encoder.outputFormatting = .sortedKeys
                show(try encoder.encode(deletion.result))
            } else if let user, deletion.isEmpty {
                print(Self.nothing(of: user))
            } else {
                deletion.printEnd()
            }
        }
    }

    private static func nothing(of user: String) -> String { "no synced file has anything of user \(user)" }
}

/// Deletes files, or says what would be deleted, and keeps account of it.
private struct Deletion {
    struct Result: Encodable {
        var deleted: [String] = []
        /// Files in which others take part, with the number of client files that have expired.
        var shared: [String: Int] = [:]
        /// True if all the space of the files is freed.
        var freed = true
    }

    struct File: Encodable {
        var path: String
        /// The only user of the file: it stays if there are others.
        var only_of: String?
    }
    struct Freed: Decodable { var freed: Bool }
    struct Client: Encodable { var path: String, client: UInt64 }

    /// The files in which a user takes part.
    struct UserFiles: Decodable {
        struct File: Decodable { var path: String, clients_of_user: Int, other_clients: Int }

        var files: [File]
        var next: String?
    }

    let server: AdminClient
    let isReal: Bool
    let isQuiet: Bool
    var result = Result()

    var isEmpty: Bool { result.deleted.isEmpty && result.shared.isEmpty }

    mutating func delete(_ path: String, onlyOf user: String? = nil) async throws {
        if isReal {
            let answer = try await server.post("/v1/files/delete", File(path: path, only_of: user))
            let isFreed = try JSONDecoder().decode(Freed.self, from: answer).freed
            result.freed = result.freed && isFreed
        } else {
            // Fails if there is no such file.
            _ = try await server.get("/v1/clients", [("path", path), ("limit", "1")])
        }
        result.deleted.append(path)
        if !isQuiet { print(isReal ? "deleted \(path)" : "would delete \(path)") }
    }

    mutating func deleteFiles(of user: String) async throws {
        var next: String?
        repeat {
            let answer = try await server.get("/v1/files", [("user", user), ("after", next)])
            let page = try JSONDecoder().decode(UserFiles.self, from: answer)
            for file in page.files {
                if file.other_clients == 0 {
                    do {
                        try await delete(file.path, onlyOf: user)
                        continue
                    } catch let error as AdminError where error.status == 409 {
                        // Another user has joined since the listing.
                    }
                }
                try await expireClients(of: user, in: file.path)
            }
            next = page.next
        } while next != nil
    }

    private mutating func expireClients(of user: String, in path: String) async throws {
        var next: String?
        var count = 0
        repeat {
            let answer = try await server.get("/v1/clients", [("path", path), ("after", next)])
            let page = try JSONDecoder().decode(AdminClients.Listing.self, from: answer)
            for client in page.clients where client.user == user && client.last_seen != nil {
                if isReal { _ = try await server.post("/v1/clients/expire", Client(path: path, client: client.client)) }
                count += 1
            }
            next = page.next
        } while next != nil
        result.shared[path] = count
        guard !isQuiet else { return }
        let verb = isReal ? "expired" : "would expire"
        print("\(path) has other users, and stays; \(counted(count, "client file")) \(verb)")
    }

    func printEnd() {
        guard isReal else { return print("nothing was deleted; --yes does it") }
        if !result.freed { print("what they occupied is freed by the daily maintenance") }
        print("backups that were made before keep it")
    }
}

extension AdminClient {
    fileprivate func hasUser(_ user: String) async throws -> Bool {
        do {
            _ = try await get("/v1/user", [("user", user)])
            return true
        } catch let error as AdminError where error.status == 404 {
            return false
        }
    }
}
