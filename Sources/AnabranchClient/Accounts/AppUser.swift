/// A user of an app, as this client knows it. A value: later changes to the user do not affect it.
public struct AppUser: Equatable, Sendable {
    /// One way in which the user can log in.
    public struct Identity: Equatable, Sendable {
        /// The server's name for it.
        public let id: String
        /// The provider, as `anon-user` or `local-userpass`.
        public let provider: String
    }

    /// The server's name for the user: 24 hexadecimal digits.
    public let id: String
    /// True if there are tokens; without them the user has to log in again.
    public let isLoggedIn: Bool
    /// The provider of the last log-in.
    public let provider: String
    /// All ways in which the user can log in.
    public let identities: [Identity]
    /// The user's data from the log-in providers, such as the e-mail address: a JSON object.
    public let profile: String
    /// The data that the server keeps about the user and puts into tokens, a JSON object; nil if there is none.
    public let customData: String?
    /// The server's name for this device.
    public let deviceID: String

    /// True for a user that can only log in anonymously: after a log-out, nobody can log in as this user again.
    public var isAnonymous: Bool {
        identities.count == 1 && identities[0].provider == AppCredentials.anonymous.provider
    }
}
