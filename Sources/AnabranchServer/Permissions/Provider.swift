/// A way to log in. The raw values are the names in URLs (`Spec/Protocol.md`, section 1.3).
public enum Provider: String, CaseIterable, Sendable {
    /// A new user without any name.
    case anonymous = "anon-user"
    /// An e-mail address and a password.
    case emailPassword = "local-userpass"
    /// An API key that a user has made.
    case apiKey = "api-key"
    /// A JSON web token of another issuer.
    case customToken = "custom-token"
}
