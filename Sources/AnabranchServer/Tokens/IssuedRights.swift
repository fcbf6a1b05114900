import AnabranchCore

/// The rights of a client of a fork, by the token of an app's own issuer (`Spec/Forks.md`, section 3).
struct IssuedRights {
    /// The name by which the issuer knows the user.
    let subject: String
    /// The app that the token is for; nil if it does not say.
    let app: String?
    /// The file that the token is for, in its canonical text (`PartitionValue.bytes`); nil for all.
    let partition: [UInt8]?
    let permission: Permission
    let isAdmin: Bool
    /// The time at which the token expires, in seconds since 1970; nil for never.
    let expiresAt: Int64?

    /// - Throws: an error also if the token gives no right to read.
    init(_ claims: TokenClaims) throws(TokenError) {
        subject = try claims.subject(claims.members["sub"] == nil ? "identity" : "sub")
        app = try claims.either("app_id", "appId").map { value throws(TokenError) in try Self.text(value) }
        partition = try claims.members["path"].map { value throws(TokenError) in
            PartitionValue.withoutSlash(PartitionValue.canonical(plain: try Self.text(value).utf8))
        }
        guard let access = claims.members["access"]?.array?.map(\.string), !access.contains(nil) else {
            throw TokenError("`access` is not a list of rights")
        }
        guard access.contains("download") else { throw TokenError("no right to download") }
        permission = access.contains("upload") ? .write : .read
        isAdmin =
            switch try claims.either("admin", "isAdmin") {
            case nil: false
            case .bool(let flag): flag
            default: throw TokenError("`admin` is neither true nor false")
            }
        _ = try claims.either("exp", "expires")
        let expiry = try claims.time(claims.members["exp"] == nil ? "expires" : "exp")
        expiresAt = expiry == 0 ? nil : expiry
    }

    /// The names of the times before which a token is not valid.
    static let starts = ["nbf", "iat", "timestamp"]

    private static func text(_ value: JSONValue) throws(TokenError) -> String {
        guard let text = value.string, !text.isEmpty else { throw TokenError("a claim is not text") }
        return text
    }
}

extension TokenClaims {
    /// A claim that has two names.
    fileprivate func either(_ name: String, _ other: String) throws(TokenError) -> JSONValue? {
        guard let first = members[name], let second = members[other] else { return members[name] ?? members[other] }
        guard first == second else { throw TokenError("two claims contradict each other") }
        return first
    }
}
