import AnabranchClient
import AnabranchCore
import AnabranchHistory
import AnabranchServer
import Crypto
import Foundation
import Logging
import NIOCore
import Synchronization
import Testing

extension Logger {
    /// Says nothing.
    static var quiet: Logger { Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }) }
}

/// Seconds since 1970, and only as `advance` says.
final class Clock: Sendable {
    private let seconds = Mutex<Int64>(1_800_000_000)

    var now: Int64 { seconds.withLock { $0 } }

    func advance(by count: Int64) { seconds.withLock { $0 += count } }
}

/// Counts the requests of a client by their method and the last part of their path.
final class CountingSender: HTTPSender {
    private let counts = Mutex<[String: Int]>([:])

    func send(_ request: HTTPCall) async throws -> HTTPAnswer {
        let name = "\(request.method) \(request.url.split(separator: "/").last ?? "")"
        counts.withLock { $0[name, default: 0] += 1 }
        return try await NIOHTTPSender().send(request)
    }

    func count(_ name: String) -> Int { counts.withLock { $0[name] ?? 0 } }
}

/// A server with App Services in this process, with a clock that tests turn.
struct TestApp: Sendable {
    let server: SyncServer
    let port: Int
    let accounts: InMemoryAccountStore
    let clock: Clock
    let folder: URL

    static let secret = [UInt8](repeating: 9, count: 32)
    static let fixtures = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appendingPathComponent("Fixtures")

    var url: String { "http://127.0.0.1:\(port)" }

    /// Runs a server for as long as `body` takes.
    /// - Parameter emails: sends the e-mails of the app `my-app`, whose users confirm their addresses then.
    static func run<Result>(
        emails: (any EmailHook)? = nil, _ body: (TestApp) async throws -> Result
    ) async throws -> Result {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("client-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let jwks = folder.appendingPathComponent("jwks.json").path
        let key: JSONValue = ["kty": "oct", "kid": "h", "alg": "HS256", "k": .string(base64URL(secret))]
        try JSONValue.object(["keys": [key]]).encoded.write(toFile: jwks, atomically: true, encoding: .utf8)
        var app = AppSettings(providers: Set(Provider.allCases), issuer: CustomTokenIssuer(jwks: jwks))
        if emails != nil { app.emails = [.confirmation, .reset] }
        var settings = AppServicesSettings()
        settings.apps = ["my-app": app, "closed": AppSettings(providers: [.emailPassword])]
        settings.promptRefusalsPerMinuteMax = .max
        let clock = Clock(), accounts = InMemoryAccountStore()
        let keys = try await KeyFile(
            path: folder.appendingPathComponent("keys.json").path, now: UInt64(clock.now), logger: .quiet)
        let services = try await AppServices(
            settings: settings, accounts: accounts, keys: keys, emails: emails.map { ["my-app": $0] } ?? [:],
            passwordCost: 1, logger: .quiet, unixSeconds: { UInt64(clock.now) })
        let routes = [HTTPRoute(to: services)]
        return try await withServer(authenticator: services, routes: routes, clock: clock) { server, port in
            try await body(TestApp(server: server, port: port, accounts: accounts, clock: clock, folder: folder))
        }
    }

    /// A client of the app `my-app`.
    func client(
        app: String = "my-app", store: any UserStore = InMemoryUserStore(), http: any HTTPSender = NIOHTTPSender(),
        clock: Clock? = nil
    ) throws -> AppClient {
        let clock = clock ?? self.clock
        return try AppClient(appID: app, baseURL: url, store: store, http: http, unixSeconds: { clock.now })
    }

    /// A token of another issuer.
    func customToken(of subject: String) -> String {
        let header: JSONValue = ["alg": "HS256", "kid": "h"]
        let claims: JSONValue = ["sub": .string(subject), "aud": "my-app", "exp": .integer(clock.now + 60)]
        let signed = Self.base64URL(header.encoded.utf8) + "." + Self.base64URL(claims.encoded.utf8)
        let code = HMAC<SHA256>.authenticationCode(for: Array(signed.utf8), using: SymmetricKey(data: Self.secret))
        return signed + "." + Self.base64URL(code)
    }

    static func base64URL(_ bytes: some Sequence<UInt8>) -> String {
        Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }
}

/// The error that is thrown where one of this type has to be.
func thrown<Failure: Error>(_ type: Failure.Type, by body: @Sendable () async throws -> Void) async -> Failure? {
    do {
        try await body()
        Issue.record("nothing is thrown")
        return nil
    } catch {
        if !(error is Failure) { Issue.record(error) }
        return error as? Failure
    }
}

/// Expects an error of an app. Closures stand in no `#expect`: the compiler takes one in a macro for another one
/// outside.
func appFails(
    _ code: AppError.Code, at place: SourceLocation = #_sourceLocation, by body: @Sendable () async throws -> Void
) async {
    let error = await thrown(AppError.self, by: body)
    #expect(error?.code == code, "\(String(describing: error))", sourceLocation: place)
}

/// Expects an error of a WebSocket.
func transportFails(
    _ code: TransportError.Code, at place: SourceLocation = #_sourceLocation,
    by body: @Sendable () async throws -> Void
) async {
    let error = await thrown(TransportError.self, by: body)
    #expect(error?.code == code, "\(String(describing: error))", sourceLocation: place)
}

/// Runs a server on a loopback port for as long as `body` takes, and ends it in order.
func withServer<Result>(
    authenticator: any Authenticator = AllowAllAuthenticator(), routes: [HTTPRoute] = [],
    tls: TLSFiles? = nil, clock: Clock = Clock(), port: Int = 0, authorizer: any Authorizer = AllowAllAuthorizer(),
    exports: AppExports? = nil, _ body: (SyncServer, _ port: Int) async throws -> Result
) async throws -> Result {
    var settings = ServerSettings(cores: 2)
    settings.port = port
    // A request may wait until all other tests leave it a processor.
    settings.handshakeSecondsMax = 30 * 60
    settings.lingerSecondsMax = 1
    settings.shutdownSecondsMax = 2
    settings.loginCheckSecondsMax = 1
    settings.flexibleApps = [Device.flexibleApp]
    let server = SyncServer(
        settings: settings, store: InMemoryStore(), authenticator: authenticator, routes: routes,
        authorizer: authorizer, exports: exports, tls: tls, logger: .quiet, unixSeconds: { UInt64(clock.now) })
    return try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await server.run() }
        defer { group.cancelAll() }
        return try await body(server, try #require(try await server.listening().port))
    }
}
