import AnabranchCore
import ArgumentParser
import Foundation

/// A password that is not given where others can read it, as in the arguments, which every process sees.
struct PasswordInput: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "A file whose first line is the password; - is the standard input. Asked for if it is not given.",
            valueName: "file"))
    var passwordFile: String?

    /// - Parameter isNew: true for a password that is being chosen: if it is typed, it has to be typed twice.
    func password(isNew: Bool = true) throws -> String {
        let line: String
        if let passwordFile, passwordFile != "-" {
            line = try TextInput.lines(ofFile: passwordFile).first ?? ""
        } else if passwordFile == nil, isatty(STDIN_FILENO) == 1 {
            line = Self.asked("Password: ")
            guard !isNew || Self.asked("The same again: ") == line else {
                throw InputError(description: "the two passwords differ")
            }
        } else {
            line = readLine() ?? ""
        }
        guard !line.isEmpty else { throw InputError(description: "there is no password in the input") }
        return line
    }

    /// The answer to a question on the terminal, which does not show it.
    private static func asked(_ question: String) -> String { getpass(question).map { String(cString: $0) } ?? "" }
}

/// The JSON object in an argument.
func customData(_ argument: String) throws -> JSONValue {
    do {
        let value = try JSONValue(parsing: argument.utf8)
        if value.object != nil { return value }
    } catch {
        throw InputError(description: "--json-object: not JSON at byte \(error.offset + 1): \(error.reason)")
    }
    throw InputError(description: "--json-object is not a JSON object, as {\"role\": \"editor\"} is")
}

extension AdminUsers {
    struct Add: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Add a user who logs in with e-mail address and password, or with a custom token.",
            discussion: """
                The app has to be one of the server's configuration; with serve --dev it can be any. Prints the new \
                user's ident.

                EXAMPLES
                  anabranch admin users add --app my-app --email ann@example.com --data ./data
                  anabranch admin users add --app my-app --email ann@example.com \\
                      --password-file password.txt --data ./data
                  anabranch admin users add --app my-app --subject auth0-4711 --data ./data \\
                      --json-object '{"role": "editor"}'
                """)

        @OptionGroup var options: AdminOptions
        @OptionGroup var input: PasswordInput

        @Option(help: ArgumentHelp("The app.", valueName: "id"))
        var app: String
        @Option(help: ArgumentHelp("The address that the user logs in with.", valueName: "address"))
        var email: String?
        @Option(help: ArgumentHelp("The `sub` of the custom tokens that the user logs in with.", valueName: "name"))
        var subject: String?
        @Flag(help: "With --email: no password, so that the user cannot log in until one is set.")
        var noPassword = false
        @Option(help: ArgumentHelp("Custom data of the user.", valueName: "json"))
        var jsonObject: String?

        func validate() throws {
            guard email != nil || subject != nil else { throw ValidationError("Give --email or --subject.") }
            guard email != nil || input.passwordFile == nil else {
                throw ValidationError("--password-file needs --email.")
            }
        }

        func run() async throws {
            var body: [String: JSONValue] = ["app": .string(app)]
            if let email {
                body["email"] = .string(email)
                if !noPassword { body["password"] = .string(try input.password()) }
            }
            if let subject { body["identities"] = [["provider": "custom-token", "name": .string(subject)]] }
            if let jsonObject { body["data"] = try customData(jsonObject) }
            let request = JSONValue.object(body)
            try await options.run { client in
                let answer = try await client.post("/v1/users/add", request)
                if options.json { return show(answer) }
                struct Added: Decodable { var user: String }
                print("added \(try JSONDecoder().decode(Added.self, from: answer).user)")
            }
        }
    }

    struct SetPassword: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "set-password", abstract: "Replace a user's password, and end all logins.",
            discussion: """
                The user has an e-mail address to log in with. The password has 6 to 128 characters.

                EXAMPLES
                  anabranch admin users set-password --app my-app --email ann@example.com \\
                      --data ./data
                  anabranch admin users set-password 5f0c2d9e8b7a6c5d4e3f2a1b --data ./data \\
                      --password-file password.txt
                """)

        @OptionGroup var options: AdminOptions
        @OptionGroup var user: UserArgument
        @OptionGroup var input: PasswordInput

        func run() async throws {
            let password = try input.password()
            try await change(user, "set-password", as: "password set", options) {
                ["user": .string($0), "password": .string(password)]
            }
        }
    }
}
