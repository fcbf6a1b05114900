import AnabranchCore
import AnabranchHistory
import NIOHTTP1

/// The API keys of a user (`Spec/Protocol.md`, section 1.6).
extension AppServices {
    func answerKeys(
        _ route: Route, _ request: HTTPExchangeRequest, of user: User
    ) async throws(HTTPRefusal) -> HTTPExchangeAnswer {
        switch route {
        case .createKey:
            return HTTPExchangeAnswer(.created, try await createKey(named: try request.object().text("name"), of: user))
        case .keys:
            return HTTPExchangeAnswer(.ok, .array(try await keys(of: user).map { Self.json($0) }))
        case .key(let ident):
            guard let key = try await keys(of: user).first(where: { $0.ident == ident }) else { throw Self.noKey }
            return HTTPExchangeAnswer(.ok, Self.json(key))
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

    private static let noKey = HTTPRefusal(status: .notFound, code: "APIKeyNotFound", message: "no such API key")

    private func keys(of user: User) async throws(HTTPRefusal) -> [APIKey] {
        try await store { accounts throws(AccountError) in try accounts.apiKeys(of: user.ident) }
    }

    private func createKey(named name: String, of user: User) async throws(HTTPRefusal) -> JSONValue {
        let secret = RandomText.hexadecimal(bytes: 32)
        let key = APIKey(
            ident: RandomText.hexadecimal(bytes: 12), user: user.ident, name: name, digest: Self.digest(ofKey: secret))
        do throws(HTTPRefusal) {
            let countMax = settings.apiKeysPerUserMax
            try await store { accounts throws(AccountError) in try accounts.add(key, countMax: countMax) }
        } catch  where error.status == .conflict {
            throw HTTPRefusal(
                status: .conflict, code: "APIKeyAlreadyExists", message: "API key with name already exists")
        }
        return Self.json(key, secret: secret)
    }

    private func change(
        _ body: @escaping @Sendable (any AccountStore) throws(AccountError) -> Bool
    ) async throws(HTTPRefusal) -> HTTPExchangeAnswer {
        guard try await store(body) else { throw Self.noKey }
        return HTTPExchangeAnswer(status: .noContent)
    }

    /// The secret is told once, when the key is made.
    private static func json(_ key: APIKey, secret: String? = nil) -> JSONValue {
        var members: [String: JSONValue] = [
            "_id": .string(key.ident), "disabled": .bool(key.isDisabled), "name": .string(key.name),
        ]
        members["key"] = secret.map { .string($0) }
        return .object(members)
    }
}
