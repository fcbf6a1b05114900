import AnabranchCore

/// A way to log in (`Spec/Protocol.md`, section 1.3).
public enum AppCredentials: Equatable, Sendable {
    /// A new user without any name.
    case anonymous
    /// An address that was registered.
    case emailPassword(email: String, password: String)
    /// An API key that a user has created, or an operator for a server.
    case apiKey(String)
    /// A JSON web token of another issuer.
    case customToken(String)
    /// The fields that another provider requires, as a JSON object of strings, such as `oauth2-apple` with `id_token`.
    case other(provider: String, fields: [String: String])

    /// The provider, as it stands in URLs.
    public var provider: String {
        switch self {
        case .anonymous: "anon-user"
        case .emailPassword: "local-userpass"
        case .apiKey: "api-key"
        case .customToken: "custom-token"
        case .other(let provider, _): provider
        }
    }

    /// The members of the request's body.
    var fields: [String: JSONValue] {
        var fields: [String: JSONValue]
        switch self {
        case .anonymous: fields = [:]
        case .emailPassword(let email, let password):
            fields = ["username": .string(email), "password": .string(password)]
        case .apiKey(let key): fields = ["key": .string(key)]
        case .customToken(let token): fields = ["token": .string(token)]
        case .other(_, let texts): fields = texts.mapValues { .string($0) }
        }
        fields["provider"] = .string(provider)
        return fields
    }
}
