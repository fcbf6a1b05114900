import AnabranchServer
import Foundation
import Testing

/// `anabranch admin users` as a process, before a server that is one.
@Suite(.timeLimit(.minutes(30)), .enabled(if: ServerProcess.executable != nil, "needs the built command"))
struct AdminUsersCommandTests {
    private static let configuration = """
        listen: 127.0.0.1:0
        rules: everybody
        apps:
          my-app: {providers: [local-userpass, custom-token], issuer: {jwks: KEYS}}
          other: {providers: [anon-user]}
        """

    /// A server of two apps, and what runs `anabranch admin users ARGUMENT… --config …`.
    private static func withServer(
        _ body: (String, ([String], String?) async throws -> AdminCommandTests.Output) async throws -> Void
    ) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("users-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let file = folder + "/anabranch.yaml"
        let keys =
            #"{"keys":[{"kty":"oct","alg":"HS256","kid":"a","k":"MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE"}]}"#
        try PrivateFile.write(keys, to: folder + "/keys.json")
        let text = "data: \(folder)/data\n" + configuration.replacing("KEYS", with: folder + "/keys.json")
        try PrivateFile.write(text, to: file)
        let server = try await ServerProcess(data: folder + "/data", arguments: ["--config", file])
        try await body(folder) { arguments, input in
            try await AdminCommandTests.run(["admin", "users"] + arguments + ["--config", file], input: input)
        }
        await server.terminate()
    }

    @Test func aUserIsAddedShownChangedAndDeleted() async throws {
        try await Self.withServer { _, users in
            let ann = ["--app", "my-app", "--email", "ann@example.com"]
            let added = try await users(["add"] + ann + ["--json-object", #"{"role":"reader"}"#], "correct horse\n")
            let ident = String(added.text.dropFirst("added ".count).dropLast())
            #expect(added.text.hasPrefix("added ") && ident.wholeMatch(of: /[0-9a-f]{24}/) != nil, "\(added)")
            #expect(try await users(["show", ident], nil).text.contains(#""data":{"role":"reader"}"#))
            #expect(try await users(["show"] + ann, nil).text == users(["show", ident], nil).text)
            let set = try await users(["set-data", ident, "--json-object", #"{"role":"editor"}"#], nil)
            #expect(set.text == "changed, 0 connections closed\n", "\(set)")
            #expect(try await users(["show"] + ann, nil).text.contains(#""data":{"role":"editor"}"#))
            let password = try await users(["set-password"] + ann, "another horse\n")
            #expect(password.text == "password set, 0 connections closed\n", "\(password)")
            #expect(try await users(["add"] + ann, "correct horse\n").complaint.hasPrefix("Error: somebody else has"))
            #expect(try await users(["add", "--app", "my-app", "--subject", "s-1"], nil).status == 0)
            let list = try await users(["--app", "my-app"], nil).text.split(separator: "\n")
            #expect(list.count == 3 && list[0].hasPrefix("USER "))
            #expect(try await users(["list"] + ann, nil).text.split(separator: "\n").count == 2)
            let asked = try await users(["delete"] + ann, nil)
            #expect(asked.status == 1 && asked.complaint == "Error: nobody was deleted: that needs --yes\n")
            #expect(asked.text.contains("ann@example.com"))
            #expect(try await users(["delete", "--yes"] + ann, nil).text == "deleted, 0 connections closed\n")
            let again = try await users(["delete", "--yes"] + ann, nil)
            #expect(again.complaint == "Error: the app my-app has no user ann@example.com\n")
        }
    }

    @Test func mistakesAreNamed() async throws {
        try await Self.withServer { _, users in
            let unknown = try await users(["add", "--app", "my-ap", "--email", "a@b", "--no-password"], nil)
            #expect(
                unknown.status == 1 && unknown.complaint == "Error: there is no app 'my-ap'; allowed: my-app, other\n")
            let short = try await users(["add", "--app", "my-app", "--email", "a@b"], "short\n")
            #expect(short.status == 1 && short.complaint.contains("between 6 and 128 characters"))
            let none = try await users(["set-password", "--app", "my-app", "--email", "a@b"], "")
            #expect(none.status == 1 && none.complaint == "Error: there is no password in the input\n")
            for arguments in [
                ["show"], ["show", "x", "--email", "a@b"], ["show", "--email", "a@b"], ["add", "--app", "a"],
            ] {
                #expect(try await users(arguments, nil).status == 64, "\(arguments)")
            }
        }
    }

    @Test func anImportKeepsIdentsGoesOnAfterMistakesAndCanBeRepeated() async throws {
        try await Self.withServer { folder, users in
            let file = folder + "/users.jsonl"
            let good = [
                #"{"user":"5f0c1e2d3b4a59687766aabb","email":"ann@example.com","password":"correct horse"}"#,
                #"{"user":"5f0c1e2d3b4a59687766aabc","app":"other","email":"bob@example.com"}"#,
            ]
            let bad = ["no JSON", #"{"email":"a b"}"#, #"{"email":"x@y","colour":1}"#]
            try PrivateFile.write((good + [""] + bad).joined(separator: "\n"), to: file)
            let first = try await users(["import", file, "--app", "my-app"], nil)
            #expect(first.status == 1 && first.text == "2 users added, 0 already there, 3 refused\n", "\(first)")
            let complaints = first.complaint.split(separator: "\n")
            #expect(complaints.count == 4, "\(first.complaint)")
            let closed = "warning: nobody can log in by local-userpass: it is not among the providers of the app other"
            #expect(complaints.first?.hasSuffix("users.jsonl, line 2: \(closed)") == true, "\(first.complaint)")
            #expect(complaints.dropFirst().first?.contains("users.jsonl, line 4: not a JSON object; a user") == true)
            #expect(complaints.last?.contains("line 6: there is no member 'colour'") == true)
            let again = try await users(["import", "-", "--app", "my-app", "--json"], good.joined(separator: "\n"))
            #expect(again.status == 0 && again.text.contains(#""already_there":2"#), "\(again)")
            #expect(try await users(["show", "5f0c1e2d3b4a59687766aabb"], nil).text.contains("ann@example.com"))
            let ids = (0..<1_002).map { #"{"app":"my-app","email":"\#($0)@b"}"# }.joined(separator: "\n")
            #expect(try await users(["import", "-"], ids).text.hasPrefix("1002 users added"))
            let all = try await users(["list", "--all"], nil).text
            #expect(all.split(separator: "\n").count { $0.contains("local-userpass") } == 1_004)
            #expect(try await users(["list", "--all", "--json"], nil).text.split(separator: "\n").count == 2)
            #expect(try await users(["import", "/dev/null"], nil).complaint == "Error: /dev/null: is empty\n")
            let missing = try await users(["import", folder + "/none"], nil)
            #expect(missing.status == 1 && missing.complaint.hasSuffix("/none: No such file or directory\n"))
        }
    }
}
