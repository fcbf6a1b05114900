import AnabranchCore
import AnabranchHTTP
public import Foundation

/// An app of a server: its users, their log-ins and tokens (`Spec/Protocol.md`, section 1). Everything that fails
/// throws `AppError`; a cancelled task gets `CancellationError`, or an answer that came just before.
///
/// Tokens, passwords and keys are in no error and in no log.
public actor AppClient {
    /// The app's id.
    public nonisolated let appID: String
    /// Scheme, host and port of the server, and its path if there is one, as they were given, without a slash at the
    /// end.
    public nonisolated let baseURL: String

    private let http: any HTTPSender
    private let store: any UserStore
    private let device: [String: String]
    private let unixSeconds: @Sendable () -> Int64

    private(set) var stored: StoredUsers
    private var location: AppLocation?
    private var locating: Task<AppLocation, any Error>?
    private var refreshing: [String: Task<String, any Error>] = [:]
    private var observers: [Int: AsyncStream<AppUser>.Continuation] = [:]
    private var lastObserver = 0

    /// Reads the stored users; sends no request yet.
    /// - Parameters:
    ///   - baseURL: scheme, host and port of the server, as `https://sync.example.com`, and its path if it has one.
    ///   - store: keeps the users with their tokens.
    ///   - http: sends the requests.
    ///   - device: facts about the device that a log-in sends besides those known without it: `deviceName`, `bundleId`
    ///     …
    ///   - unixSeconds: the clock, in seconds since 1970.
    /// - Throws: `AppError`.
    public init(
        appID: String, baseURL: String, store: any UserStore, http: any HTTPSender = NIOHTTPSender(),
        device: [String: String] = [:],
        unixSeconds: @escaping @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970) }
    ) throws {
        let baseURL = AppLocation.withoutSlashes(baseURL)
        guard let parts = WebURL(baseURL, ports: AppLocation.httpPorts), !parts.target.contains("?") else {
            throw AppError(.invalidURL, "a server's URL is like https://sync.example.com, and not '\(baseURL)'")
        }
        guard appID.contains(/^[A-Za-z0-9._~-]+$/) else { throw AppError(.invalidURL, "no id of an app: '\(appID)'") }
        self.appID = appID
        self.baseURL = baseURL
        self.store = store
        self.http = http
        self.device = device
        self.unixSeconds = unixSeconds
        do {
            stored = try store.read().map { try StoredUsers($0) } ?? StoredUsers()
        } catch let error as AppError {
            throw error
        } catch {
            throw AppError(.storeFailed, "what is kept of the users cannot be read: \(error)")
        }
    }

    // MARK: Users

    /// All users that have logged in and were not removed, also those that are logged out, in the order of their first
    /// log-ins.
    public var users: [AppUser] { stored.users.map(\.user) }

    /// The user that logged in last, or was switched to; nil if it logged out.
    public var currentUser: AppUser? { stored.current.flatMap { user($0) } }

    /// - Returns: nil if this client has no such user.
    public func user(_ id: String) -> AppUser? { stored.index(of: id).map { stored.users[$0].user } }

    /// Makes another user that is logged in the current one.
    public func switchUser(to id: String) throws {
        _ = try refreshToken(of: id)
        try change { $0.current = id }
    }

    /// The changes to users from now on: log-ins and log-outs, new data and new ways to log in. A user that was removed
    /// is reported as logged out.
    public func userChanges() -> AsyncStream<AppUser> {
        let (stream, continuation) = AsyncStream.makeStream(of: AppUser.self)
        lastObserver += 1
        let observer = lastObserver
        observers[observer] = continuation
        continuation.onTermination = { [weak self] _ in Task { await self?.forget(observer) } }
        return stream
    }

    private func forget(_ observer: Int) { observers[observer] = nil }

    /// Changes the stored users. If they cannot be stored, nothing changes.
    func change(_ body: (inout StoredUsers) throws -> Void) throws {
        var changed = stored
        try body(&changed)
        guard changed != stored else { return }
        do {
            try store.write(try changed.text)
        } catch {
            throw AppError(.storeFailed, "the users cannot be stored: \(error)")
        }
        adopt(changed)
    }

    private func adopt(_ changed: StoredUsers) {
        let before = stored
        stored = changed
        var news = changed.users.filter { user in
            before.index(of: user.id).map { before.users[$0].user } != user.user
        }
        for var user in before.users where user.refreshToken != nil && changed.index(of: user.id) == nil {
            user.logOut()
            news.append(user)
        }
        for user in news { for observer in observers.values { observer.yield(user.user) } }
    }

    // MARK: Tokens

    /// A token for requests of the user. If the stored one has expired, a new one is requested.
    public func accessToken(of id: String) async throws -> String {
        _ = try refreshToken(of: id)
        if let token = storedAccessToken(of: id), !token.hasEnded(at: unixSeconds()) { return token.text }
        return try await refreshAccessToken(of: id)
    }

    /// Asks for a new token for requests of the user, with new custom data in it: for instance after close code 4001.
    /// Concurrent calls share one request and get the same token. If the server says that the log-in has ended, the
    /// user is logged out (`AppError.Code.loggedOut`).
    @discardableResult
    public func refreshAccessToken(of id: String) async throws -> String {
        let task = refreshing[id] ?? Task { try await refresh(id) }
        refreshing[id] = task
        return try await task.valueUnlessCancelled
    }

    private func refresh(_ id: String) async throws -> String {
        defer { refreshing[id] = nil }
        let refreshToken = try refreshToken(of: id)
        let token = try Self.token(
            "access_token", of: try await request("POST", "/auth/session", withRefreshTokenOf: id))
        var changed = stored
        guard let index = changed.index(of: id), changed.users[index].refreshToken == refreshToken else {
            // A user that has logged out since then stays so, and one that has logged in again has another token.
            if let other = storedAccessToken(of: id) { return other.text }
            throw AppError(.loggedOut, "the user \(id) has logged out meanwhile")
        }
        changed.users[index].accessToken = token.text
        changed.users[index].customData = token.customData
        adopt(changed)
        // If it cannot be stored, the next start of the program asks for another one.
        if let text = try? changed.text { try? store.write(text) }
        return token.text
    }

    func refreshToken(of id: String) throws(AppError) -> String {
        guard let index = stored.index(of: id) else { throw AppError(.noSuchUser, "there is no user \(id) here") }
        guard let token = stored.users[index].refreshToken else {
            throw AppError(.loggedOut, "the user \(id) is logged out")
        }
        return token
    }

    private func storedAccessToken(of id: String) -> SessionToken? {
        stored.index(of: id).flatMap { stored.users[$0].accessToken }.flatMap { SessionToken($0) }
    }

    static func token(_ name: String, of answer: JSONValue) throws(AppError) -> SessionToken {
        guard let token = answer[name]?.string.flatMap({ SessionToken($0) }) else {
            throw AppError(.badAnswer, "the answer has no \(name) that is a JSON web token with exp and iat")
        }
        return token
    }

    // MARK: The server's location

    /// The URL of a WebSocket of the user, with a token (section 1.7). Location and token are requested from the server
    /// if they are not known.
    public func syncURL(of id: String) async throws -> String {
        let token = try await accessToken(of: id)
        return AppLocation.url(route: try await currentLocation().syncRoute, token: token)
    }

    /// Asks the server for its location again, for instance after close code 4003.
    public func refreshLocation() async throws {
        location = nil
        _ = try await currentLocation()
    }

    private func currentLocation() async throws -> AppLocation {
        if let location { return location }
        let task = locating ?? Task { try await locate() }
        locating = task
        return try await task.valueUnlessCancelled
    }

    private func locate() async throws -> AppLocation {
        defer { locating = nil }
        let url = "\(baseURL)\(AppLocation.basePath)/app/\(appID)/location"
        let found = try AppLocation(try await send(HTTPCall(method: "GET", url: url)), of: appID, at: baseURL)
        location = found
        return found
    }

    // MARK: Requests

    var loginOptions: JSONValue { DeviceInfo.options(app: appID, device) }

    /// Sends a request of a user. If the access token is refused, the request is repeated once with a new one.
    func request(_ method: String, _ path: String, of id: String, body: JSONValue? = nil) async throws -> JSONValue {
        let token = try await accessToken(of: id)
        do {
            return try await request(method, path, token: token, body: body)
        } catch let error as AppError where error.status == 401 {
            let isNew = storedAccessToken(of: id).map { $0.text != token } ?? false
            if !isNew { try await refreshAccessToken(of: id) }
            return try await request(method, path, token: try await accessToken(of: id), body: body)
        }
    }

    /// Sends a request of a user with the refresh token of the log-in. If that is refused, the user is logged out,
    /// unless there has been another log-in since (sections 1.1 and 2.3).
    func request(
        _ method: String, _ path: String, withRefreshTokenOf id: String, body: JSONValue? = nil
    ) async throws -> JSONValue {
        let token = try refreshToken(of: id)
        do {
            return try await request(method, path, token: token, body: body)
        } catch let error as AppError where error.status == 401 || error.status == 403 && path == "/auth/session" {
            if (try? refreshToken(of: id)) == token { try change { $0.logOut(id) } }
            throw AppError(.loggedOut, "the server has ended the log-in: \(error.reason)", status: error.status)
        }
    }

    /// - Parameter path: the path after the base route.
    func request(_ method: String, _ path: String, token: String? = nil, body: JSONValue? = nil) async throws
        -> JSONValue
    {
        let location = try await currentLocation()
        var call = HTTPCall(method: method, url: location.host + AppLocation.basePath + path)
        call.headers = [("Content-Type", "application/json;charset=utf-8"), ("Accept", "application/json")]
        if let token { call.headers.append(("Authorization", "Bearer \(token)")) }
        call.body = body.map { Array($0.encoded.utf8) } ?? []
        return try await send(call)
    }

    /// - Returns: the JSON of a successful answer; an empty object if it has no body.
    private func send(_ call: HTTPCall) async throws -> JSONValue {
        let answer: HTTPAnswer
        do {
            answer = try await http.send(call)
        } catch let error as AppError {
            throw error
        } catch let error as CancellationError {
            throw error
        } catch {
            throw AppError(.noAnswer, "no answer: \(error)")
        }
        let json = answer.body.isEmpty ? [:] : try? JSONValue(parsing: answer.body)
        let isSuccess = (200..<300).contains(answer.status)
        if let error = AppError(json, status: answer.status) { throw error }
        guard isSuccess else {
            throw AppError(.httpStatus, "the server answers \(answer.status)", status: answer.status)
        }
        guard let json else { throw AppError(.badAnswer, "the answer is not JSON", status: answer.status) }
        return json
    }
}

extension AppError {
    /// The error in an answer of the server; nil if it tells of none (section 1.1).
    fileprivate init?(_ answer: JSONValue?, status: Int) {
        let name = answer?["error_code"]?.string, text = answer?["error"]?.string
        guard name != nil || text != nil else { return nil }
        self.init(name.map { Code(rawValue: $0) } ?? .httpStatus, text ?? name ?? "", status: status)
    }
}

extension Task where Failure == any Error {
    /// The result of the task. A caller that is cancelled stops waiting, and the task goes on for the others.
    package var valueUnlessCancelled: Success {
        get async throws {
            let (values, continuation) = AsyncThrowingStream.makeStream(of: Success.self)
            Task<Void, Never> {
                do {
                    continuation.yield(try await value)
                    continuation.finish()
                } catch {
                    continuation.finish(throwing: error)
                }
            }
            for try await value in values { return value }
            throw Swift.CancellationError()
        }
    }
}
