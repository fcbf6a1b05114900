/// The reason why a request to an app, or a call on one of its users, failed (`Spec/Protocol.md`, sections 1.1 and
/// 1.6).
public struct AppError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The kind of an error: the `error_code` of the server's answer, or one of the codes that begin with `Client`.
    public struct Code: RawRepresentable, Hashable, Sendable {
        /// The name, as the server writes it.
        public let rawValue: String

        /// A code that the server has under this name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The e-mail address or the password is wrong.
        public static let invalidPassword = Code(rawValue: "InvalidPassword")
        /// Somebody has registered that address, or that identity belongs to another user.
        public static let accountNameInUse = Code(rawValue: "AccountNameInUse")
        /// A token or a key is not accepted.
        public static let invalidSession = Code(rawValue: "InvalidSession")
        /// The address has to be confirmed before the first log-in.
        public static let confirmationRequired = Code(rawValue: "AuthError")
        /// An operator has disabled the user.
        public static let userDisabled = Code(rawValue: "UserDisabled")
        /// The server knows no such user.
        public static let userNotFound = Code(rawValue: "UserNotFound")
        /// The address is confirmed already.
        public static let userAlreadyConfirmed = Code(rawValue: "UserAlreadyConfirmed")
        /// The token of an e-mail is wrong, used or expired.
        public static let emailTokenInvalid = Code(rawValue: "UserpassTokenInvalid")
        /// The app does not send such e-mails.
        public static let emailNotConfigured = Code(rawValue: "EmailNotConfigured")
        /// The app does not let its users log in that way.
        public static let providerNotFound = Code(rawValue: "AuthProviderNotFound")
        /// The server has no app of that id.
        public static let appNotFound = Code(rawValue: "AppNotFound")
        /// The user has no such API key.
        public static let apiKeyNotFound = Code(rawValue: "APIKeyNotFound")
        /// The user has an API key of that name.
        public static let apiKeyAlreadyExists = Code(rawValue: "APIKeyAlreadyExists")
        /// There were too many attempts; later ones may succeed.
        public static let tooManyRequests = Code(rawValue: "TooManyRequests")
        /// The server does not accept something in the request.
        public static let badRequest = Code(rawValue: "BadRequest")

        /// The server gave no answer: it cannot be reached, is not trusted, or took too long.
        public static let noAnswer = Code(rawValue: "ClientNoAnswer")
        /// The server, or a proxy in front of it, answers with a status of failure and nothing else.
        public static let httpStatus = Code(rawValue: "ClientHTTPStatus")
        /// The server's answer is not one of section 1.
        public static let badAnswer = Code(rawValue: "ClientBadAnswer")
        /// The user is logged out, or has been logged out just now because the server ended the log-in.
        public static let loggedOut = Code(rawValue: "ClientLoggedOut")
        /// This client has no user of that id.
        public static let noSuchUser = Code(rawValue: "ClientNoSuchUser")
        /// The URL of the server, or the app's id, cannot be used.
        public static let invalidURL = Code(rawValue: "ClientInvalidURL")
        /// The stored users could not be read or written.
        public static let storeFailed = Code(rawValue: "ClientStoreFailed")
    }

    /// The kind of the error.
    public let code: Code
    /// The reason as text for people, without tokens and passwords.
    public let reason: String
    /// The HTTP status of the server's answer; nil if there was none.
    public let status: Int?

    /// The reason.
    public var description: String { reason }

    /// An error; `status` is the HTTP status of the answer, if there was one.
    public init(_ code: Code, _ reason: String, status: Int? = nil) {
        self.code = code
        self.reason = reason
        self.status = status
    }
}
