import AnabranchCore

/// A text by which programs log in as a user (`Spec/Protocol.md`, section 1.6).
public struct UserAPIKey: Equatable, Sendable {
    /// The server's name for it.
    public let id: String
    /// The user's name for it.
    public let name: String
    /// True if nobody can log in with it.
    public let isDisabled: Bool
    /// The text itself; the server tells it only once, when the key is created.
    public let key: String?
}

/// API keys of a user.
extension AppClient {
    /// Creates a key. Its text is in the answer and nowhere else.
    public func createAPIKey(named name: String, of id: String) async throws -> UserAPIKey {
        try Self.key(try await keys("POST", "", of: id, body: ["name": .string(name)]))
    }

    /// The keys of the user, without their texts.
    public func apiKeys(of id: String) async throws -> [UserAPIKey] {
        guard let list = try await keys("GET", "", of: id).array else {
            throw AppError(.badAnswer, "the answer is not a list of keys")
        }
        return try list.map { try Self.key($0) }
    }

    /// Enables or disables a key.
    public func setAPIKey(_ key: String, isEnabled: Bool, of id: String) async throws {
        _ = try await keys("PUT", "/\(key)/\(isEnabled ? "enable" : "disable")", of: id)
    }

    /// Deletes an API key of a user, by its ident. Nobody can log in with it any more.
    public func deleteAPIKey(_ key: String, of id: String) async throws {
        _ = try await keys("DELETE", "/\(key)", of: id)
    }

    /// Sends a request for API keys, with the refresh token.
    private func keys(_ method: String, _ path: String, of id: String, body: JSONValue? = nil) async throws -> JSONValue
    {
        guard path.allSatisfy({ $0 == "/" || $0.isASCII && ($0.isLetter || $0.isNumber) }) else {
            throw AppError(.apiKeyNotFound, "no such API key")
        }
        return try await request(method, "/auth/api_keys\(path)", withRefreshTokenOf: id, body: body)
    }

    private static func key(_ answer: JSONValue) throws(AppError) -> UserAPIKey {
        guard let id = answer["_id"]?.string, let name = answer["name"]?.string,
            let isDisabled = answer["disabled"]?.bool
        else { throw AppError(.badAnswer, "the answer is not a key") }
        return UserAPIKey(id: id, name: name, isDisabled: isDisabled, key: answer["key"]?.string)
    }
}
