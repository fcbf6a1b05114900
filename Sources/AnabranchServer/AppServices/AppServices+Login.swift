import AnabranchCore
import AnabranchHistory
import Crypto
import Logging
import NIOHTTP1

/// Registration, login and linking of identities.
extension AppServices {
    // MARK: E-mail and password

    func register(
        _ body: [String: JSONValue], in app: String, from address: String?
    ) async throws(HTTPError) {
        try require(.emailPassword, in: app)
        let email = try Self.email(in: body, "email")
        let password = try Self.newPassword(in: body)
        let hook = confirmsAddresses(in: app) ? try hook(for: .confirmation, in: app) : nil
        guard hook == nil || AccountEmail.canReach(email) else {
            throw .badRequest("invalid e-mail address: no e-mail can reach it")
        }
        let attempt = Self.attempt(email, in: app, from: address)
        let secret = try await hashing(attempt) { passwords in try passwords.hash(password) }
        let user = newUser(in: app, .emailPassword, name: email, secret: secret, isPending: hook != nil)
        try await store { accounts throws(AccountError) in try accounts.add(user) }
        logger.info("user registered", metadata: ["app": "\(app)", "user": "\(user.ident)"])
        if let hook { start(.confirmation, to: email, in: app, by: hook) }
    }

    /// An address without spaces and control characters. Only apps that confirm addresses ask for more.
    static func email(in body: [String: JSONValue], _ name: String) throws(HTTPError) -> String {
        let email = try body.text(name)
        guard email.unicodeScalars.allSatisfy({ $0.value > 0x20 && $0.value != 0x7f }) else {
            throw .badRequest("invalid e-mail address")
        }
        return email
    }

    static func newPassword(in body: [String: JSONValue]) throws(HTTPError) -> String {
        guard let password = body["password"]?.string,
            (passwordCharactersMin...passwordCharactersMax).contains(password.unicodeScalars.count)
        else {
            throw .badRequest(
                "password must be between \(passwordCharactersMin) and \(passwordCharactersMax) characters")
        }
        return password
    }

    /// The shortest password that a user may choose, in Unicode scalars.
    static let passwordCharactersMin = 6
    /// The longest password that a user may choose, in Unicode scalars.
    static let passwordCharactersMax = 128
    /// The longest password in a login, in bytes. A longer one is wrong without being hashed: no user can have chosen
    /// it.
    static let passwordBytesMax = 1_024
    /// The longest token of an e-mail in a request, in bytes.
    static let emailTokenBytesMax = 1_024

    // MARK: Logging in

    func logIn(_ name: String, _ request: EndpointRequest, to app: String) async throws(HTTPError) -> JSONValue {
        guard let provider = Provider(rawValue: name) else { throw Self.no(provider: name) }
        try require(provider, in: app)
        let body = try request.object()
        if request.query.split(separator: "&").contains("link=true") {
            let (session, user) = try await bearer(request, .access)
            guard user.app.hasBytes(of: app) else { throw .unauthorized }
            try await link(provider, body, to: user, from: request.address)
            let linked = try await validSession(
                for: SessionTokens.Claims(user: user.ident, session: session.ident, app: app))
            guard let linked else { throw .unauthorized }
            return ["access_token": .string(try await token(.access, session, linked.user))]
        }
        let (user, secret) = try await user(by: provider, body, in: app, from: request.address)
        try Self.requireEnabled(user)
        return try await open(provider, for: user, by: secret, from: request.address)
    }

    private static func requireEnabled(_ user: User) throws(HTTPError) {
        guard user.isDisabled else { return }
        throw HTTPError(status: .unauthorized, code: "UserDisabled", message: "user disabled", user: user.ident)
    }

    private static func no(provider name: String) -> HTTPError {
        HTTPError(
            status: .notFound, code: "AuthProviderNotFound",
            message: "authentication provider not found: '\(name.prefix(100))'")
    }

    static let invalidPassword = HTTPError(
        status: .unauthorized, code: "InvalidPassword", message: "invalid username/password")

    func require(_ provider: Provider, in app: String) throws(HTTPError) {
        guard allowed(in: app)?.providers.contains(provider) == true else {
            throw Self.no(provider: provider.rawValue)
        }
    }

    /// - Parameter secret: the hash of the password that was right. If the user's hash is another one by now, the login
    ///   fails.
    private func open(
        _ provider: Provider, for user: User, by secret: String?, from address: String?
    ) async throws(HTTPError) -> JSONValue {
        let now = unixSeconds()
        let session = LoginSession(
            ident: RandomText.hexadecimal(bytes: 12), user: user.ident, provider: provider.rawValue, createdAt: now,
            expiresAt: now + settings.sessionSeconds)
        try await store { accounts throws(AccountError) in try accounts.add(session, by: secret) }
        logger.info(
            "logged in",
            metadata: [
                "app": "\(user.app)", "user": "\(user.ident)", "provider": "\(provider.rawValue)",
                "remote": "\(address ?? "unknown")",
            ])
        return [
            "access_token": .string(try await token(.access, session, user)),
            "refresh_token": .string(try await token(.refresh, session, user)),
            "user_id": .string(user.ident), "device_id": .string(RandomText.hexadecimal(bytes: 12)),
        ]
    }

    /// - Returns: the user, and the hash of the password if the user logs in with one.
    private func user(
        by provider: Provider, _ body: [String: JSONValue], in app: String, from address: String?
    ) async throws(HTTPError) -> (User, secret: String?) {
        switch provider {
        case .anonymous:
            let user = newUser(in: app, .anonymous, name: RandomText.hexadecimal(bytes: 12))
            try await store { accounts throws(AccountError) in try accounts.add(user) }
            return (user, nil)
        case .emailPassword:
            return try await checkPassword(body, in: app, from: address)
        case .apiKey:
            return (try await userWithKey(try body.text("key"), in: app), nil)
        case .customToken:
            let subject = try await subject(of: body, in: app)
            return (try await findOrAdd(newUser(in: app, .customToken, name: subject)), nil)
        }
    }

    /// Checks an address and a password. Takes the same time, and throws the same error, if there is no such user and
    /// if the password is wrong.
    func checkPassword(
        _ body: [String: JSONValue], in app: String, from address: String?
    ) async throws(HTTPError) -> (User, secret: String?) {
        let email = try body.text("username")
        guard let password = body["password"]?.string, password.utf8.count <= Self.passwordBytesMax else {
            throw Self.invalidPassword
        }
        let user = try await userWithEmail(email, in: app)
        let identity = user?.identity(withEmail: email), secret = identity?.secret
        let isRight = try await hashing(Self.attempt(email, in: app, from: address), isRight: { $0 }) { passwords in
            try passwords.verify(password, against: secret)
        }
        guard isRight, let user else {
            var refusal = Self.invalidPassword
            refusal.user = user?.ident
            throw refusal
        }
        if identity?.isPending == true, confirmsAddresses(in: app) {
            throw HTTPError(
                status: .unauthorized, code: "AuthError", message: "confirmation required", user: user.ident)
        }
        return (user, secret)
    }

    func userWithEmail(_ email: String, in app: String) async throws(HTTPError) -> User? {
        try await store { accounts throws(AccountError) in
            try accounts.user(of: app, provider: Provider.emailPassword.rawValue, name: email)
        }
    }

    private func userWithKey(_ key: String, in app: String) async throws(HTTPError) -> User {
        let digest = Self.digest(ofKey: key)
        let user = try await store { accounts throws(AccountError) -> User? in
            guard let key = try accounts.apiKey(digest: digest), !key.isDisabled else { return nil }
            return try accounts.user(key.user)
        }
        guard let user, user.app.hasBytes(of: app) else {
            throw HTTPError(status: .unauthorized, code: "InvalidSession", message: "invalid API key")
        }
        return user
    }

    private func subject(of body: [String: JSONValue], in app: String) async throws(HTTPError) -> String {
        guard let issuer = issuers[exactly: app] else { throw Self.no(provider: Provider.customToken.rawValue) }
        let token = try body.text("token", bytesMax: JSONWebToken.bytesMax)
        do {
            return try await issuer.subject(of: token, now: now)
        } catch {
            logger.info("custom token refused", metadata: ["app": "\(app)", "reason": "\(error)"])
            throw HTTPError(status: .unauthorized, code: "InvalidSession", message: "the token is not accepted")
        }
    }

    /// Finds the user of an identity, or adds it. Two first logins at the same time make one user.
    func findOrAdd(_ user: User) async throws(HTTPError) -> User {
        try await store { accounts throws(AccountError) in
            let identity = user.identities[0]
            let found = { () throws(AccountError) in
                try accounts.user(of: user.app, provider: identity.provider, name: identity.name)
            }
            if let known = try found() { return known }
            do throws(AccountError) {
                try accounts.add(user)
                return user
            } catch {
                guard error.code == .nameTaken, let known = try found() else { throw error }
                return known
            }
        }
    }

    func newUser(
        in app: String, _ provider: Provider, name: String, secret: String? = nil, isPending: Bool = false
    ) -> User {
        let identity = Identity(
            ident: RandomText.hexadecimal(bytes: 12), provider: provider.rawValue, name: name, secret: secret,
            isPending: isPending)
        return User(
            ident: RandomText.hexadecimal(bytes: 12), app: app, identities: [identity], createdAt: unixSeconds())
    }

    // MARK: Linking

    /// Gives a user one more way to log in. An e-mail address has to be registered, and its user has to be new.
    private func link(
        _ provider: Provider, _ body: [String: JSONValue], to user: User, from address: String?
    ) async throws(HTTPError) {
        switch provider {
        case .anonymous, .apiKey:
            throw .badRequest("this provider cannot be linked")
        case .customToken:
            let identity = Identity(
                ident: RandomText.hexadecimal(bytes: 12), provider: provider.rawValue,
                name: try await subject(of: body, in: user.app))
            try await store { accounts throws(AccountError) in try accounts.add(identity, to: user.ident) }
        case .emailPassword:
            let (owner, _) = try await checkPassword(body, in: user.app, from: address)
            try Self.requireEnabled(owner)
            guard let identity = owner.emailIdentities.first else { throw Self.invalidPassword }
            try await store { accounts throws(AccountError) in
                try accounts.move(identity.ident, from: owner.ident, to: user.ident)
            }
        }
    }

    // MARK: Work

    /// Hashes when it is the attempt's turn, on a thread that may be busy for a while.
    /// - Parameter isRight: whether the result means that the password was right; nil for one that is chosen, which
    ///   everybody may do.
    func hashing<Result: Sendable>(
        _ attempt: PasswordQueue.Attempt, isRight: (Result) -> Bool? = { _ in nil },
        _ body: @escaping @Sendable (PasswordHash) throws -> Result
    ) async throws(HTTPError) -> Result {
        guard await passwordQueue.begin(attempt, now: now) else {
            throw HTTPError(status: .tooManyRequests, code: "TooManyRequests", message: "too many attempts; wait")
        }
        var wasRight: Bool?
        defer { passwordQueue.end(attempt, wasRight: wasRight) }
        let passwords = passwords
        let result = try await hashes.run { try body(passwords) }
        wasRight = isRight(result)
        return result
    }

    static func attempt(_ email: String, in app: String, from address: String?) -> PasswordQueue.Attempt {
        PasswordQueue.Attempt(address: address ?? "", account: "\(app)/\(email.lowercased())")
    }

    static func digest(ofKey key: String) -> [UInt8] { Array(SHA256.hash(data: Array(key.utf8))) }
}
