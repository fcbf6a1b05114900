import AnabranchCore
import AnabranchHistory
import NIOHTTP1

/// The API keys of a user (`Spec/Protocol.md`, section 1.6).
extension AppServices {
    func respondToKeys(
        _ route: Route, _ request: EndpointRequest, of user: User
    ) async throws(HTTPError) -> EndpointResponse {
        switch route {
        case .createKey:
            return EndpointResponse(.created, try await createKey(named: try request.object().text("name"), of: user))
        case .keys:
            return EndpointResponse(.ok, .array(try await keys(of: user).map { Self.json($0) }))
        case .key(let ident):
            guard let key = try await keys(of: user).first(where: { $0.ident == ident }) else { throw Self.noKey }
            return EndpointResponse(.ok, Self.json(key))
        case .enableKey(let ident), .disableKey(let ident):
            let isDisabled = route == .disableKey(ident)
            return try await change { accounts throws(AccountError) in
                try accounts.setDisabled(isDisabled, apiKey: ident, of: user.ident)
            }
        case .deleteKey(let ident):
            return try await change { accounts throws(AccountError) in
                try accounts.removeAPIKey(ident, of: user.ident)
            }
        default:
            throw .notFound
        }
    }

    private static let noKey = HTTPError(status: .notFound, code: "APIKeyNotFound", message: "no such API key")

    private func keys(of user: User) async throws(HTTPError) -> [APIKey] {
        try await store { accounts throws(AccountError) in try accounts.apiKeys(of: user.ident) }
    }

    private func createKey(named name: String, of user: User) async throws(HTTPError) -> JSONValue {
        let secret = RandomText.hexadecimal(bytes: 32)
        let key = APIKey(
            ident: RandomText.hexadecimal(bytes: 12), user: user.ident, name: name, digest: Self.digest(ofKey: secret))
        do throws(HTTPError) {
            let countMax = settings.apiKeysPerUserMax
            try await store { accounts throws(AccountError) in try accounts.add(key, countMax: countMax) }
        } catch  where error.status == .conflict {
            throw HTTPError(
                status: .conflict, code: "APIKeyAlreadyExists", message: "API key with name already exists")
        }
        return Self.json(key, secret: secret)
    }

    private func change(
        _ body: @escaping @Sendable (any AccountStore) throws(AccountError) -> Bool
    ) async throws(HTTPError) -> EndpointResponse {
        guard try await store(body) else { throw Self.noKey }
        return EndpointResponse(status: .noContent)
    }

    /// The secret is part of the response only when the key is made.
    private static func json(_ key: APIKey, secret: String? = nil) -> JSONValue {
        var members: [String: JSONValue] = [
            "_id": .string(key.ident), "disabled": .bool(key.isDisabled), "name": .string(key.name),
        ]
        members["key"] = secret.map { .string($0) }
        return .object(members)
    }
}
