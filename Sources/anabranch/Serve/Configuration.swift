import AnabranchHTTP
import AnabranchFilesWire
import AnabranchHistory
import AnabranchInspector
import AnabranchProtocol
import AnabranchSQLite
import AnabranchServer
import AnabranchSimperiumWire
import Foundation
import Logging

/// The permissions to read and write.
enum RulesSetting: Equatable, CustomStringConvertible {
    /// Every user may do everything.
    case everybody
    /// The permissions are those in a file of rules.
    case file(String)

    init?(_ text: String) {
        guard !text.isEmpty else { return nil }
        self = text == "everybody" ? .everybody : .file(text)
    }

    var description: String {
        switch self {
        case .everybody: "everybody"
        case .file(let path): path
        }
    }
}

/// The settings of `anabranch serve`. A flag overrides the environment, which overrides the file, which overrides the
/// default.
struct Configuration {
    var data = "./data"
    /// The PostgreSQL database of the store; nil for SQLite in the data directory.
    var database: String?
    /// Several servers write that database at once.
    var isShared = false
    var listen = ListenAddress(host: "127.0.0.1", port: 9090)
    var isInsecure = false
    var isDevelopment = false
    /// In development mode: apps have no settings of their own there.
    var allowsDestructiveSchema = false
    var logLevel = Logger.Level.info
    var logFormat = LogFormat.text
    var publicURL: String?
    var tlsCertificate: String?
    var tlsKey: String?
    var rules: RulesSetting?
    var userWithoutToken: String?
    var apps: [String: AppSettings] = [:]
    /// The e-mail settings of the apps, by their ids.
    var emails: [String: EmailSettings] = [:]
    /// The buckets of the apps that serve Simperium's clients, by their ids.
    var simperium: [String: SimperiumApp] = [:]
    /// The dataclasses of the apps that serve devices with property lists, by their ids.
    var overTheAir: [String: ConfiguredDataclasses] = [:]
    /// The settings of the apps with file spaces, by their ids.
    var files: [String: FilesApp] = [:]
    var smtpPassword: String?
    /// Nil for no admin interface.
    var adminListen: ListenAddress? = ListenAddress(host: "127.0.0.1", port: 0)
    var adminTokenFile: String?
    var adminToken: String?
    /// Nil for no inspector.
    var inspector: Inspector.Mode? = .readOnly
    /// The idents of the users who may log in to it.
    var inspectorUsers: Set<String> = []
    var connectionsMax: Int?
    var connectionsPerAddressMax: Int?
    var connectionsPerUserMax: Int?
    var trustedProxies = TrustedProxies.none
    var usesProxyProtocol = false
    var sessionsPerConnectionMax: Int?
    var messageMemoryBytesMax: Int?
    var loginsPerMinuteMax: Int?
    var accessTokenSeconds: Int64?
    var sessionSeconds: UInt64?
    var shards: Int?
    var explainDays: Int?
    var objectBytesMax: Int?
    var clientClockSecondsMax: Int?
    var silenceSeconds: Int64?
    var freeBytesMin: Int?
    var storeBytesMax: Int?
    var adoptsUnownedClients = false
    var partitionBytesMax: Int?
    var history = HistoryPolicy()

    /// True if nobody can log in: there are no apps, no user without a token, and no development mode.
    var isClosed: Bool { !isDevelopment && apps.isEmpty && userWithoutToken == nil }

    /// The folders of exported apps, by the apps' ids here.
    var exportPaths: [String: String] { apps.compactMapValues(\.exportPath).filter { $0.value != "everybody" } }

    /// The keys of the server's own tokens.
    var keyPath: String { inData("keys.json") }

    var adminTokenPath: String { adminTokenFile ?? inData("admin-token") }

    /// The file in which the running server announces where its admin interface is.
    var adminAddressPath: String { inData("admin-address") }

    /// The log-ins to the inspector that were ended early.
    var endedLogInsPath: String { inData("inspector-log-outs") }

    /// The effective configuration as a file with the same effect.
    var yaml: String { ConfigurationText(self).description }

    private func inData(_ name: String) -> String {
        URL(fileURLWithPath: data, isDirectory: true).appendingPathComponent(name).path
    }

    /// - Parameter cores: the number of processor cores that the server may use.
    func server(cores: Int) -> ServerSettings {
        var settings = ServerSettings(cores: cores)
        settings.host = listen.host
        settings.port = listen.port
        if isDevelopment {
            // All clients share one address, and most of them one user.
            settings.connectionsPerAddressMax = .max
            settings.connectionsPerUserMax = .max
            settings.newFilesPerMinuteMax = .max
            settings.newClientFilesPerMinuteMax = .max
            settings.queryMillisecondsPerMinuteMax = .max
            settings.destructiveSchema = allowsDestructiveSchema ? .allow : .refuse
        }
        settings.adoptsUnownedClientFiles = adoptsUnownedClients
        if let objectBytesMax { settings.objectBytesMax = objectBytesMax }
        if let clientClockSecondsMax { settings.clientClockSecondsMax = clientClockSecondsMax }
        if let silenceSeconds { settings.limits.silenceMillisecondsMax = silenceSeconds * 1_000 }
        if let freeBytesMin { settings.freeBytesMin = freeBytesMin }
        if let storeBytesMax { settings.storeBytesMax = storeBytesMax }
        settings.history = history
        settings.takesModeOfFirstClient = isDevelopment
        settings.limits.echoesErrors = isDevelopment
        settings.forks =
            isDevelopment
            ? WireDialect.forks
            : WireDialect.forks.filter { fork in
                apps.values.contains { $0.forks[fork] != nil }
            }
        settings.flexibleApps = Set(apps.filter(\.value.isFlexible).keys)
        if let partitionBytesMax { settings.history.logBytesMax = UInt64(partitionBytesMax) }
        settings.destructiveSchemaByApp = apps.mapValues(\.destructiveSchema)
        if let connectionsMax { settings.connectionsMax = connectionsMax }
        if let connectionsPerAddressMax { settings.connectionsPerAddressMax = connectionsPerAddressMax }
        if let connectionsPerUserMax { settings.connectionsPerUserMax = connectionsPerUserMax }
        settings.trustedProxies = trustedProxies
        if let publicURL, let url = WebURL(publicURL, ports: ["http": 80, "https": 443]), url.target != "/" {
            settings.basePath = url.target
        }
        settings.usesProxyProtocol = usesProxyProtocol
        if let sessionsPerConnectionMax { settings.limits.sessionsPerConnectionMax = sessionsPerConnectionMax }
        if let messageMemoryBytesMax { settings.messageMemoryBytesMax = messageMemoryBytesMax }
        return settings
    }

    /// The senders of e-mails of the apps, by their ids.
    var emailSenders: [String: Mailer] { emails.mapValues { Mailer(settings: $0, password: smtpPassword) } }

    var store: SQLiteStore.Options {
        var options = SQLiteStore.Options()
        if let shards { options.shards = shards }
        if let explainDays { options.explainDays = explainDays }
        return options
    }

    var appServices: AppServicesSettings {
        var settings = AppServicesSettings()
        settings.apps = apps
        settings.publicURL = publicURL
        settings.userWithoutToken = userWithoutToken
        if let accessTokenSeconds { settings.accessTokenSeconds = accessTokenSeconds }
        if let sessionSeconds { settings.sessionSeconds = sessionSeconds }
        if isDevelopment {
            settings.otherApps = AppSettings(providers: [.anonymous, .emailPassword, .apiKey])
            settings.userWithoutToken = userWithoutToken ?? "developer"
            settings.loginsPerMinuteMax = .max
            settings.takesAnyToken = true
        }
        if let loginsPerMinuteMax { settings.loginsPerMinuteMax = loginsPerMinuteMax }
        return settings
    }
}
