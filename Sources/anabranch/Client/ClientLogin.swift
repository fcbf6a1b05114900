import AnabranchClient
import ArgumentParser
import Foundation

/// The options that say how the user of an app logs in. Tokens are kept, so one log-in is enough.
struct ClientLogin: ParsableArguments {
    @Flag(help: "Log in as a new user without a name; the same one the next time.")
    var anonymous = false

    @Option(
        help: ArgumentHelp(
            "Log in with this address, and the password of $ANABRANCH_PASSWORD or --password-file.",
            valueName: "address"))
    var email: String?

    @Option(help: ArgumentHelp("Log in with an API key. (default: $ANABRANCH_API_KEY)", valueName: "key"))
    var apiKey: String?

    @Option(help: ArgumentHelp("Log in with a JSON Web Token of another service.", valueName: "jwt"))
    var token: String?

    @OptionGroup var input: PasswordInput

    /// True if the command line says how to log in.
    var isAsked: Bool { anonymous || email != nil || apiKey != nil || token != nil }

    /// True if the password is the first line of the standard input.
    var readsStandardInput: Bool {
        email != nil && Self.environment("ANABRANCH_PASSWORD") == nil && input.passwordFile ?? "-" == "-"
    }

    func validate() throws {
        let ways = [anonymous, email != nil, apiKey != nil, token != nil].filter { $0 }.count
        guard ways <= 1 else { throw ValidationError("Give one of --anonymous, --email, --api-key and --token.") }
        guard email != nil || input.passwordFile == nil else {
            throw ValidationError("--password-file needs --email.")
        }
    }

    /// The credentials of the log-in; nil if the options name none.
    func credentials() throws -> AppCredentials? {
        if anonymous { return .anonymous }
        if let email {
            let password = try Self.environment("ANABRANCH_PASSWORD") ?? input.password(isNew: false)
            return .emailPassword(email: email, password: password)
        }
        if let token { return .customToken(token) }
        return (apiKey ?? Self.environment("ANABRANCH_API_KEY")).map { .apiKey($0) }
    }

    private static func environment(_ name: String) -> String? {
        ProcessInfo.processInfo.environment[name].flatMap { $0.isEmpty ? nil : $0 }
    }
}

extension ClientOptions {
    /// The route for the user who logs in now, for the one who did so before, or for a client without a token.
    func route(to server: ClientServer) async throws -> any RouteProvider {
        guard let (app, user) = try await appUser(at: server) else {
            return FixedRoute(server.route(to: try target().app))
        }
        return AppRoute(app, user: user)
    }

    /// The user who logs in now, or the one who did so before; nil for a client without a token.
    func appUser(at server: ClientServer) async throws -> (AppClient, String)? {
        let target = try target()
        guard !target.app.isEmpty, !server.isRoute else { return nil }
        let app = try AppClient(
            appID: target.app, baseURL: server.baseURL,
            store: FileUserStore(path: try folder().appendingPathComponent(target.usersName).path),
            http: NIOHTTPSender(tls: try tls()))
        if let credentials = try login.credentials() { return (app, try await app.logIn(credentials).id) }
        return await app.currentUser.map { (app, $0.id) }
    }
}
