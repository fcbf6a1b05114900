import AnabranchCore
import AnabranchHistory
import AnabranchRules

/// A user as the body of `POST /v1/users/add` describes it (`Spec/Admin.md`, section 2.1).
struct NewUser {
    private static let keys: Set = [
        "app", "user", "email", "password", "identities", "api_keys", "data", "disabled", "created_at",
    ]
    /// The most API keys that a user can bring.
    static let apiKeysMax = 20
    /// The longest API key, in bytes.
    static let apiKeyBytesMax = 1_024
    /// The longest custom data, in bytes of JSON.
    static let dataBytesMax = 16 << 10

    private let app: String
    private let ident: String
    private let identities: [Identity]
    private let data: String
    private let isDisabled: Bool
    private let createdAt: UInt64?
    /// The password in plain text; nil if the user has none yet.
    let password: String?
    /// API keys by their names, in plain text.
    private let keys: [String: String]

    /// The error for an app that is not one of the server's.
    static func unknown(_ app: String, of apps: Set<String>) -> HTTPError {
        .badRequest("there is no app '\(app)'; allowed: \(apps.sorted().joined(separator: ", "))")
    }

    /// - Parameter apps: the existing apps; nil if every app id names one.
    init(_ body: [String: JSONValue], apps: Set<String>?) throws(HTTPError) {
        if let key = body.keys.sorted().first(where: { !Self.keys.contains($0) }) {
            throw .badRequest(
                "there is no member '\(key.prefix(100))'; allowed: \(Self.keys.sorted().joined(separator: ", "))")
        }
        app = try body.text("app")
        if let apps, !apps.contains(exactly: app) { throw Self.unknown(app, of: apps) }
        ident = body["user"] == nil ? RandomText.hexadecimal(bytes: 12) : try body.text("user")
        guard ident.wholeMatch(of: /[0-9a-f]{24}/) != nil else {
            throw .badRequest("user has to be 24 hexadecimal digits, in small letters")
        }
        password = body["password"] == nil ? nil : try AppServices.newPassword(in: body)
        let email = body["email"] == nil ? nil : try AppServices.email(in: body, "email")
        if password != nil, email == nil { throw .badRequest("a password needs an e-mail address: email") }
        keys = try Self.keys(in: body)
        identities = try Self.identities(in: body, email: email, keys: keys.keys.sorted())
        data = try Self.data(in: body) ?? "{}"
        isDisabled = try Self.flag("disabled", in: body)
        createdAt = body["created_at"] == nil ? nil : try body.number("created_at")
    }

    private static func identities(
        in body: [String: JSONValue], email: String?, keys: [String]
    ) throws(HTTPError) -> [Identity] {
        var names = (email.map { [(Provider.emailPassword, $0)] } ?? []) + keys.map { (Provider.apiKey, $0) }
        let entries = body["identities"].map(\.array) ?? []
        guard let entries else { throw .badRequest("identities has to be an array") }
        for entry in entries {
            guard let members = entry.object, let provider = members["provider"]?.string.flatMap(Provider.init),
                provider == .customToken || provider == .anonymous
            else { throw .badRequest("identities: provider has to be custom-token or anon-user") }
            names.append((provider, try members.text("name")))
        }
        guard !names.isEmpty else {
            throw .badRequest("email, identities or api_keys are missing: nobody could log in")
        }
        return names.map {
            Identity(ident: RandomText.hexadecimal(bytes: 12), provider: $0.rawValue, name: $1)
        }
    }

    /// The keys by their names, from a list of `{"name", "key"}`. So a key that is part of an app's code goes on
    /// working.
    private static func keys(in body: [String: JSONValue]) throws(HTTPError) -> [String: String] {
        guard let entries = body["api_keys"] else { return [:] }
        guard let entries = entries.array, entries.count <= apiKeysMax else {
            throw .badRequest("api_keys has to be an array of at most \(apiKeysMax) keys")
        }
        var keys: [String: String] = [:]
        for entry in entries {
            guard let members = entry.object else { throw .badRequest("api_keys: each has to be {name, key}") }
            let name = try members.text("name"), key = try members.text("key", bytesMax: apiKeyBytesMax)
            guard keys.updateValue(key, forKey: name) == nil, !key.isEmpty else {
                throw .badRequest("api_keys: '\(name.prefix(100))' is there twice, or is empty")
            }
        }
        return keys
    }

    /// The member `data`; nil if there is none.
    static func data(in body: [String: JSONValue]) throws(HTTPError) -> String? {
        guard let value = body["data"] else { return nil }
        guard value.object != nil, value.encoded.utf8.count <= dataBytesMax else {
            throw .badRequest("data has to be a JSON object of at most \(dataBytesMax) bytes")
        }
        if let mistake = value.mistake(at: "data") { throw .badRequest(mistake) }
        return value.encoded
    }

    private static func flag(_ name: String, in body: [String: JSONValue]) throws(HTTPError) -> Bool {
        switch body[name] {
        case nil, .bool(false): return false
        case .bool(true): return true
        default: throw .badRequest("\(name) has to be true or false")
        }
    }

    /// - Parameters:
    ///   - secret: the hashed password; nil if there is none.
    ///   - createdAt: the time if the body names none, in seconds since 1970.
    func user(secret: String?, createdAt now: UInt64) -> User {
        let identities = identities.map { identity in
            var identity = identity
            if identity.provider == Provider.emailPassword.rawValue { identity.secret = secret }
            return identity
        }
        return User(
            ident: ident, app: app, identities: identities, customData: data, isDisabled: isDisabled,
            createdAt: createdAt ?? now)
    }

    /// The API keys as they are stored.
    func apiKeys(of user: User) -> [APIKey] {
        keys.sorted { $0.key < $1.key }.map { name, key in
            APIKey(
                ident: RandomText.hexadecimal(bytes: 12), user: user.ident, name: name,
                digest: AppServices.digest(ofKey: key))
        }
    }
}
