import CommandSupport
import AnabranchCore
import ArgumentParser
import Foundation

/// `anabranch admin users import`: adds the users of a file.
struct AdminUsersImport: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import", abstract: "Add the users of a file, with their idents.",
        discussion: """
            A line is a JSON object (Spec/Admin.md, section 2.1): "app", "user" (the ident: 24 hexadecimal digits, so \
            that clients find their files again), "email" and "password", "identities" such as [{"provider": \
            "custom-token", "name": "auth0-4711"}], "api_keys" such as [{"name": "kiosk", "key": "…"}], "data", \
            "disabled", "created_at". Only an app and a way to log in have to be there. Without "password" the user \
            cannot log in with the address until one is set.

            A line whose user is there already, with the same ident, changes nothing, so an import that was stopped \
            can be repeated. A line with a mistake is reported on standard error, with its number; the others go on; \
            the exit status is then 1.

            EXAMPLES
              anabranch admin users import users.jsonl --data ./data
              anabranch admin users import users.jsonl --app my-app --data ./data
              zcat users.jsonl.gz | anabranch admin users import - --data ./data
            """)

    @OptionGroup var options: AdminOptions
    @Argument(help: "A file with a JSON object a line; - is the standard input.")
    var file: String
    @Option(help: ArgumentHelp("The app of the lines that name none.", valueName: "id"))
    var app: String?

    private struct Tally: Encodable {
        var added = 0, already_there = 0, refused = 0
    }

    func run() async throws {
        try await options.run { client in
            var tally = Tally(), number = 0, count = 0, closed: Set<String> = []
            for line in try lines() {
                number += 1
                guard !line.allSatisfy(\.isWhitespace) else { continue }
                count += 1
                do {
                    if let user = try await add(line, client) {
                        tally.added += 1
                        for warning in Self.warnings(user) where closed.insert(warning).inserted {
                            StandardError.write("\(file), line \(number): warning: \(warning)\n")
                        }
                    } else {
                        tally.already_there += 1
                    }
                } catch let error as AdminError where error.status == nil || (error.status ?? 0) >= 500 {
                    throw AdminError(description: "\(file), line \(number): \(error); go on by the same command")
                } catch {
                    tally.refused += 1
                    StandardError.write("\(file), line \(number): \(error)\n")
                }
            }
            guard count > 0 else { throw InputError(description: "\(file): is empty") }
            try report(tally)
        }
    }

    private func lines() throws -> AnySequence<String> {
        if file == "-" { return AnySequence { AnyIterator { readLine() } } }
        return AnySequence(try TextInput.lines(ofFile: file))
    }

    private func report(_ tally: Tally) throws {
        if options.json {
            show(try JSONEncoder().encode(tally))
        } else {
            let users = tally.added == 1 ? "user" : "users"
            print("\(tally.added) \(users) added, \(tally.already_there) already there, \(tally.refused) refused")
        }
        if tally.refused > 0 { throw ExitCode.failure }
    }

    /// The ways to log in that the user has, and that are closed in the app.
    private static func warnings(_ user: JSONValue) -> [String] {
        (user["closed_providers"]?.array ?? []).compactMap(\.string).map {
            "nobody can log in by \($0): it is not among the providers of the app \(user["app"]?.string ?? "")"
        }
    }

    /// - Returns: the user as added; nil if the user was there already.
    private func add(_ line: String, _ client: AdminClient) async throws -> JSONValue? {
        guard var body = (try? JSONValue(parsing: line.utf8))?.object else {
            throw InputError(description: "not a JSON object; a user a line, as {\"email\": \"ann@example.com\"}")
        }
        if body["app"] == nil, let app { body["app"] = .string(app) }
        do {
            return try JSONValue(parsing: try await client.post("/v1/users/add", .object(body)))
        } catch let error as AdminError where error.status == 409 {
            guard let ident = body["user"]?.string, let known = try? await client.get("/v1/user", [("user", ident)]),
                let user = try? JSONValue(parsing: known), user["app"] == body["app"]
            else { throw error }
            return nil
        }
    }
}
