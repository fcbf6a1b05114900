import AnabranchHistory
import AnabranchSQLite
import AnabranchServer
import Foundation
import Logging

/// A server for apps with a Realm SDK, whose users log in as they did with App Services.
enum AppServer {
    /// - Parameters:
    ///   - directory: the store's; accounts, keys and the operator's token come to it.
    ///   - tls: nil to listen without TLS.
    ///   - roles: what users may do, as the exported app says it; nil lets all of them do everything.
    static func make(
        directory: String, host: String = "127.0.0.1", port: Int, tls: TLSFiles? = nil, roles: AppExports? = nil
    ) async throws -> SyncServer {
        let logger = Logger(label: "notes"), metrics = PrometheusMetrics()
        let now = { @Sendable in UInt64(Date().timeIntervalSince1970) }
        let store = try SQLiteStore(directory: directory)
        let accounts = try SQLiteAccountStore(directory: directory)

        var services = AppServicesSettings()
        services.apps["notes"] = AppSettings(providers: [.anonymous, .emailPassword, .apiKey])
        let keys = try await KeyFile(path: "\(directory)/keys", now: now(), logger: logger)
        let apps = try await AppServices(
            settings: services, accounts: accounts, keys: keys, logger: logger, metrics: metrics, unixSeconds: now)

        let token = try AdminToken(path: "\(directory)/admin-token", logger: logger)
        let admin = AdminInterface(
            settings: AdminSettings(), token: token, catalog: store, accounts: accounts, metrics: metrics
        ) { address in logger.notice("the admin interface has port \(address.port ?? 0)") }

        var settings = ServerSettings(cores: ProcessInfo.processInfo.activeProcessorCount)
        (settings.host, settings.port) = (host, port)
        settings.flexibleApps = ["notes"]
        return SyncServer(
            settings: settings, store: store, authenticator: apps, routes: [HTTPRoute(to: apps)], exports: roles,
            tls: tls, logger: logger, metrics: metrics, admin: admin)
    }
}
