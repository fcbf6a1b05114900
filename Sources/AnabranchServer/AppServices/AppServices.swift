import AnabranchCore
public import AnabranchHistory
import AnabranchProtocol
public import Logging
public import Metrics
import NIOHTTP1

/// The part of App Services that a client needs before it can sync: users, logins and tokens, for several apps
/// (`Spec/Protocol.md`, sections 1 and 8.8). Authenticates WebSockets too: an access token is valid exactly if a
/// refresh would succeed.
///
/// Tokens, passwords and keys are never logged.
public final class AppServices: HTTPEndpoints, Authenticator {
    let settings: AppServicesSettings
    let accounts: any AccountStore
    let tokens: SessionTokens
    let issuers: [String: CustomTokenVerifier]
    let emails: [String: any EmailHook]
    let emailTokens: EmailTokens
    let emailRate = RateCounter(seconds: 3600)
    let emailsUnderWay: ConcurrencyLimit
    let passwords: PasswordHash
    let passwordQueue: PasswordQueue
    let unixSeconds: @Sendable () -> UInt64
    let logger: Logger
    let blocking: BlockingWork
    let hashes: BlockingWork
    let metrics: any MetricsFactory
    let loginRefusals: RecentRefusals
    private let logins = RateCounter()
    private let refusals = RateCounter()
    let refusalLines = RefusalLines()

    /// Reads the keys of issuers. Those behind a URL may be there later.
    /// - Parameters:
    ///   - keys: signs the server's own tokens.
    ///   - emails: what sends the e-mails of an app, by the apps' ids. Which ones `AppSettings.emails` says.
    ///   - passwordCost: log2 of scrypt's N, the work of hashing one password, 1 to 20; 15 takes 32 MiB.
    ///   - metrics: makes the counters of logins and e-mails.
    ///   - unixSeconds: the clock, in seconds since 1970.
    /// - Throws: `FileError` if the keys of an issuer cannot be read.
    public init(
        settings: AppServicesSettings, accounts: any AccountStore, keys: KeyFile, emails: [String: any EmailHook] = [:],
        passwordCost: Int = 15, logger: Logger, metrics: any MetricsFactory = MetricsSystem.factory,
        unixSeconds: @escaping @Sendable () -> UInt64
    ) async throws {
        self.settings = settings
        self.accounts = accounts
        self.emails = emails
        self.logger = logger
        blocking = BlockingWork(logger: logger, failureMessage: "accounts not available")
        hashes = BlockingWork(
            logger: logger, failureMessage: "a password cannot be hashed", threads: PasswordHash.threads)
        self.metrics = metrics
        self.unixSeconds = unixSeconds
        loginRefusals = RecentRefusals(unixSeconds: unixSeconds)
        passwords = PasswordHash(cost: passwordCost)
        passwordQueue = PasswordQueue(
            countMax: settings.passwordsUnderWayMax, runningMax: PasswordHash.threadCount)
        emailsUnderWay = ConcurrencyLimit(countMax: settings.emailsUnderWayMax)
        emailTokens = EmailTokens(keys: keys, issuer: settings.issuer)
        tokens = SessionTokens(keys: keys, issuer: settings.issuer, accessSeconds: settings.accessTokenSeconds)
        var issuers: [String: CustomTokenVerifier] = [:]
        for (app, settings) in settings.apps {
            guard let issuer = settings.issuer else { continue }
            issuers[app] = try await CustomTokenVerifier(
                issuer, app: app, logger: logger, now: Int64(clamping: unixSeconds()))
        }
        self.issuers = issuers
        // From the beginning, with 0: an alert sees the first refusal as an increase.
        for outcome in ["limited", "ok", "refused"] { count(outcome, by: 0) }
        guard settings.apps.values.contains(where: { !$0.emails.isEmpty }) else { return }
        for outcome in ["failed", "limited", "sent"] { count(email: outcome, by: 0) }
    }

    var now: Int64 { Int64(clamping: unixSeconds()) }

    func allowed(in app: String) -> AppSettings? { settings.apps[exactly: app] ?? settings.otherApps }

    // MARK: HTTP

    /// Answers a request of an SDK (`Spec/Protocol.md`, sections 1.2 to 1.6).
    public func respond(to request: EndpointRequest) async -> EndpointResponse {
        do throws(HTTPError) {
            guard let route = Route(request.method, request.path) else { throw .notFound }
            // An app for clients of forks alone has no endpoints.
            if let app = route.app, allowed(in: app)?.providers.isEmpty ?? true {
                throw HTTPError(status: .notFound, code: "AppNotFound", message: "no such app")
            }
            return try await counting(route) { () throws(HTTPError) in try await answer(route, request) }
        } catch {
            log(error, of: request)
            return EndpointResponse(error)
        }
    }

    /// A line for each refusal, within limits: what finds out about guessing reads them.
    private func log(_ error: HTTPError, of request: EndpointRequest) {
        let isOfServer = error.status.code >= 500, isUnknown = error.status == .notFound
        var metadata: Logger.Metadata = [
            "status": "\(error.status.code)", "error": "\(error.code)", "reason": "\(error.message)",
            "remote": "\(request.address ?? "unknown")", "path": "\(request.path.prefix(200))",
        ]
        if let user = error.user {
            metadata["user"] = "\(user)"
            loginRefusals.record(of: user, code: error.code, reason: error.message)
        }
        refusalLines.log(
            "request refused", level: isOfServer ? .warning : isUnknown ? .info : .notice, from: request.address,
            metadata, to: logger)
    }

    /// Counts logins and registrations by their outcome.
    private func counting(
        _ route: Route, _ attempt: () async throws(HTTPError) -> EndpointResponse
    ) async throws(HTTPError) -> EndpointResponse {
        switch route {
        case .login, .register: break
        default: return try await attempt()
        }
        do throws(HTTPError) {
            let answer = try await attempt()
            count("ok")
            return answer
        } catch {
            count(error.status == .tooManyRequests ? "limited" : "refused")
            throw error
        }
    }

    private func count(_ outcome: String, by number: Int = 1) {
        Counter(label: "anabranch_logins_total", dimensions: [("outcome", outcome)], factory: metrics)
            .increment(by: number)
    }

    private func answer(
        _ route: Route, _ request: EndpointRequest
    ) async throws(HTTPError) -> EndpointResponse {
        switch route {
        case .location(let app):
            return EndpointResponse(.ok, try location(of: app, request))
        case .register(let app):
            try checkRate(request)
            try await register(try request.object(), in: app, from: request.address)
            return EndpointResponse(.created, [:])
        case .login(let app, let provider):
            try checkRate(request)
            return EndpointResponse(.ok, try await logIn(provider, request, to: app))
        case .email(let action, let app):
            try checkRate(request)
            try await email(action, try request.object(), in: app, from: request.address)
            return EndpointResponse(.ok, [:])
        case .profile:
            return EndpointResponse(.ok, Self.profile(of: try await bearer(request, .access).user))
        case .refresh:
            let (session, user) = try await bearer(request, .refresh)
            return EndpointResponse(.created, ["access_token": .string(try await token(.access, session, user))])
        case .logOut:
            let session = try await bearer(request, .refresh).session
            try await store { accounts throws(AccountError) in try accounts.removeSession(session.ident) }
            return EndpointResponse(status: .noContent)
        case .deleteUser:
            let user = try await bearer(request, .access).user
            try await store { accounts throws(AccountError) in try accounts.removeUser(user.ident) }
            return EndpointResponse(status: .noContent)
        case .createKey, .keys, .key, .enableKey, .disableKey, .deleteKey:
            let user = try await bearer(request, .refresh).user
            return try await respondToKeys(route, request, of: user)
        case .callFunction(let app):
            guard try await bearer(request, .access).user.app.hasBytes(of: app) else { throw .unauthorized }
            let body = try request.object()
            if let service = body["service"]?.string { throw Self.no("service", service, code: "ServiceNotFound") }
            throw Self.no("function", try body.text("name"), code: "FunctionNotFound")
        case .watch:
            throw Self.no("service", "mongodb-atlas", code: "ServiceNotFound")
        case .push(let app, let service):
            guard try await bearer(request, .access).user.app.hasBytes(of: app) else { throw .unauthorized }
            throw Self.no("service", service, code: "ServiceNotFound")
        }
    }

    /// The refusal of something that the server does not have, in the words of App Services where an app has none of
    /// that name.
    private static func no(_ what: String, _ name: String, code: String) -> HTTPError {
        HTTPError(status: .notFound, code: code, message: "\(what) not found: '\(name.prefix(100))'")
    }

    /// All members: old clients need two that new ones do not (section 1.2).
    private func location(of app: String, _ request: EndpointRequest) throws(HTTPError) -> JSONValue {
        let base: String
        if let publicURL = settings.publicURL {
            base = publicURL
        } else {
            let hosts = request.headers["host"]
            guard hosts.count == 1, Self.isHost(hosts[0]) else { throw .badRequest("no usable Host header") }
            base = (request.isSecure ? "https://" : "http://") + hosts[0]
        }
        let webSocketBase = "ws" + base.dropFirst("http".count)
        return [
            "deployment_model": "GLOBAL", "location": "US-VA", "hostname": .string(base),
            "ws_hostname": .string(webSocketBase),
            "sync_route": .string("\(webSocketBase)/api/client/v2.0/app/\(app)/realm-sync"),
        ]
    }

    /// A name or an address, with or without a port.
    private static func isHost(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.count <= 255
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"):
                    true
                default: [".", "-", "_", ":", "[", "]"].contains(Unicode.Scalar(byte))
                }
            }
    }

    private static func profile(of user: User) -> JSONValue {
        let identities = user.identities.map { identity -> JSONValue in
            ["id": .string(identity.ident), "provider_type": .string(identity.provider)]
        }
        let email = user.emailIdentities.first?.name
        return [
            "data": email.map { ["email": .string($0)] } ?? [:], "identities": .array(identities),
            "type": "normal", "user_id": .string(user.ident),
        ]
    }

    private func checkRate(_ request: EndpointRequest) throws(HTTPError) { try checkRate(of: request.address) }

    /// Counts an attempt to log in.
    func checkRate(of address: String?) throws(HTTPError) {
        guard logins.count(address ?? "", now: now) <= settings.loginsPerMinuteMax else {
            throw HTTPError(status: .tooManyRequests, code: "TooManyRequests", message: "too many attempts; wait")
        }
    }

    // MARK: Tokens

    /// The session of the token that a request carries.
    func bearer(
        _ request: EndpointRequest, _ kind: SessionTokens.Kind
    ) async throws(HTTPError) -> (session: LoginSession, user: User) {
        let values = request.headers["authorization"]
        guard values.count == 1, values[0].hasPrefix("Bearer ") else { throw .unauthorized }
        do {
            let claims = try await tokens.read(String(values[0].dropFirst("Bearer ".count)), as: kind, now: now)
            guard let session = try await validSession(for: claims) else { throw HTTPError.unauthorized }
            return session
        } catch let error as HTTPError {
            throw error
        } catch {
            throw .unauthorized
        }
    }

    /// The session of a genuine token; nil if it has ended or its user is disabled. The one test for all tokens.
    func validSession(for claims: SessionTokens.Claims) async throws(HTTPError) -> (session: LoginSession, user: User)?
    {
        let found = try await store { accounts throws(AccountError) in try accounts.session(claims.session) }
        guard let (session, user) = found, session.expiresAt > unixSeconds(), !user.isDisabled,
            user.ident.hasBytes(of: claims.user), user.app.hasBytes(of: claims.app)
        else { return nil }
        return (session, user)
    }

    func token(
        _ kind: SessionTokens.Kind, _ session: LoginSession, _ user: User
    ) async throws(HTTPError) -> String {
        do {
            return try await tokens.issue(kind, session, user, now: now)
        } catch {
            throw blocking.internalError(error)
        }
    }

    // MARK: WebSockets

    /// Admits a client with a valid access token of the app. Refusals take longer and longer if they are many.
    public func admit(_ credentials: Credentials) async -> Admission {
        let (admission, name) = await decide(credentials)
        if case .admitted = admission { return admission }
        // A client whose token is refused tries again as fast as it can, so repeated refusals are delayed.
        let excess = refusals.count(name, now: now) - settings.promptRefusalsPerMinuteMax
        if excess > 0 {
            try? await Task.sleep(for: .milliseconds(min(Self.refusalMillisecondsMax, 125 << min(excess, 6))))
        }
        return admission
    }

    /// The longest delay of the answer to a refused handshake.
    static let refusalMillisecondsMax = 8_000

    /// - Returns: also the user or the address that a refusal counts against.
    private func decide(_ credentials: Credentials) async -> (Admission, String) {
        if credentials.dialect.hasTokensOfIssuers { return await decideByIssuer(credentials) }
        let address = credentials.address ?? ""
        if let user = settings.userWithoutToken, credentials.token.isEmpty || credentials.app.isEmpty {
            guard !credentials.isOfWebPage else {
                return (.userRefused(reason: "asked for by a web page, without a token"), address)
            }
            return (.admitted(Principal(app: credentials.app, user: user)), address)
        }
        do {
            let claims = try await tokens.read(credentials.token, as: .access, now: now)
            guard let (session, user) = try await validSession(for: claims) else {
                let reason = "the login of user \(claims.user) has ended, or the user is disabled"
                return (.tokenRefused(reason: reason), claims.user)
            }
            // A refresh would make another token for the same app, so a wrong app is no reason to refresh.
            guard user.app == credentials.app, allowed(in: user.app) != nil else {
                return (.userRefused(reason: "the token is for the app \(user.app)"), user.ident)
            }
            return (.admitted(Self.principal(of: user, by: session.provider, login: session.ident)), user.ident)
        } catch let error as TokenError {
            return (.tokenRefused(reason: "the token: \(error)"), address)
        } catch {
            return (.unavailable, address)
        }
    }

    static func principal(of user: User, by provider: String, login: String?) -> Principal {
        var principal = Principal(
            app: user.app, user: user.ident, provider: provider, customData: user.customData, login: login)
        principal.providers = user.identities.map(\.provider)
        if let identity = user.emailIdentities.first {
            principal.data = JSONValue.object(["email": .string(identity.name)]).encoded
        }
        return principal
    }

    /// The logins whose sessions are gone or expired, or whose users are disabled. None if the store cannot tell.
    public func ended(among logins: Set<String>) async -> Set<String> {
        let now = unixSeconds()
        let ended = try? await store { accounts throws(AccountError) in
            var ended: Set<String> = []
            for login in logins {
                let hasEnded =
                    if login.hasPrefix(Self.loginByIssuer) {
                        try accounts.user(String(login.dropFirst(Self.loginByIssuer.count)))?.isDisabled
                    } else {
                        try accounts.session(login).map { $0.session.expiresAt <= now || $0.user.isDisabled }
                    }
                if hasEnded ?? true { ended.insert(login) }
            }
            return ended
        }
        return ended ?? []
    }

    // MARK: The store

    func store<Result: Sendable>(
        _ body: @escaping @Sendable (any AccountStore) throws(AccountError) -> Result
    ) async throws(HTTPError) -> Result {
        let accounts = accounts
        return try await blocking.run {
            try body(accounts)
        } refusal: { error in
            switch (error as? AccountError)?.code {
            case .nameTaken: HTTPError(status: .conflict, code: "AccountNameInUse", message: "name already in use")
            case .noSuchUser: .unauthorized
            case .secretReplaced: Self.invalidPassword
            case .tooManyKeys: .badRequest("the user has too many API keys")
            case .storeFailed, nil: nil
            }
        }
    }
}
