import NIOHTTP1

/// The endpoints of App Services (`Spec/Protocol.md`, sections 1.2 and 1.6).
enum Route: Equatable {
    case location(app: String)
    case register(app: String)
    case login(app: String, provider: String)
    case email(EmailAction, app: String)
    case profile
    case refresh
    case logOut
    case deleteUser
    case createKey
    case keys
    case key(String)
    case enableKey(String)
    case disableKey(String)
    case deleteKey(String)
    case callFunction(app: String)
    /// Changes of a collection in MongoDB.
    case watch(app: String)
    case push(app: String, service: String)

    enum EmailAction: String {
        case confirm = "confirm"
        case sendConfirmation = "confirm/send"
        case callConfirmation = "confirm/call"
        case reset = "reset"
        case sendReset = "reset/send"
        case callReset = "reset/call"
    }

    /// The app that the path names; nil if it names none.
    var app: String? {
        switch self {
        case .location(let app), .register(let app), .login(let app, _), .email(_, let app), .callFunction(let app),
            .watch(let app), .push(let app, _):
            app
        default: nil
        }
    }

    /// The endpoint of a method and a path; nil if there is none.
    init?(_ method: HTTPMethod, _ path: String) {
        let prefix = "/api/client/v2.0/"
        guard path.hasPrefix(prefix) else { return nil }
        let parts = path.dropFirst(prefix.count).split(separator: "/", omittingEmptySubsequences: false).map(
            String.init)
        guard !parts.contains("") else { return nil }
        let found =
            parts.first == "app"
            ? Self.ofApp(method, Array(parts.dropFirst())) : Self.ofUser(method, Array(parts.dropFirst()), in: parts[0])
        guard let found else { return nil }
        self = found
    }

    private static func ofApp(_ method: HTTPMethod, _ parts: [String]) -> Route? {
        guard let app = parts.first else { return nil }
        switch (method, Array(parts.dropFirst())) {
        case (.GET, ["location"]): return .location(app: app)
        case (.POST, ["auth", "providers", Provider.emailPassword.rawValue, "register"]): return .register(app: app)
        case (.POST, let rest) where rest.count == 4 && rest.starts(with: ["auth", "providers"]) && rest[3] == "login":
            return .login(app: app, provider: rest[2])
        case (.POST, let rest) where rest.starts(with: ["auth", "providers", Provider.emailPassword.rawValue]):
            return EmailAction(rawValue: rest.dropFirst(3).joined(separator: "/")).map { .email($0, app: app) }
        case (.POST, ["functions", "call"]): return .callFunction(app: app)
        case (.GET, ["functions", "call"]): return .watch(app: app)
        case (.PUT, let rest), (.DELETE, let rest):
            guard rest.count == 4, rest.starts(with: ["push", "providers"]), rest[3] == "registration" else {
                return nil
            }
            return .push(app: app, service: rest[2])
        default: return nil
        }
    }

    private static func ofUser(_ method: HTTPMethod, _ parts: [String], in folder: String) -> Route? {
        guard folder == "auth" else { return nil }
        switch (method, parts.count) {
        case (.GET, 1) where parts == ["profile"]: return .profile
        case (.POST, 1) where parts == ["session"]: return .refresh
        case (.DELETE, 1) where parts == ["session"]: return .logOut
        case (.DELETE, 1) where parts == ["delete"]: return .deleteUser
        case (.POST, 1) where parts == ["api_keys"]: return .createKey
        case (.GET, 1) where parts == ["api_keys"]: return .keys
        case (.GET, 2) where parts[0] == "api_keys": return .key(parts[1])
        case (.DELETE, 2) where parts[0] == "api_keys": return .deleteKey(parts[1])
        case (.PUT, 3) where parts[0] == "api_keys" && parts[2] == "enable": return .enableKey(parts[1])
        case (.PUT, 3) where parts[0] == "api_keys" && parts[2] == "disable": return .disableKey(parts[1])
        default: return nil
        }
    }
}
