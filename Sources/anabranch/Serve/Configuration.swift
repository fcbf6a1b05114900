import AnabranchHistory
import AnabranchProtocol
import AnabranchServer
import Foundation
import Logging
import Yams

/// Why a server cannot start with its configuration.
struct ConfigurationError: Error, CustomStringConvertible {
    let description: String
}

/// The settings of `anabranch serve`. A flag overrides the environment, which overrides the file, which overrides the
/// default.
struct Configuration {
    var data = "./data"
    var listen = ListenAddress(host: "127.0.0.1", port: 9090)
    var isInsecure = false
    var isDevelopment = false
    /// In development: apps have no settings of their own there.
    var allowsDestructiveSchema = false
    var logLevel = Logger.Level.info
    var publicURL: String?
    var tlsCertificate: String?
    var tlsKey: String?
    var rules: String?
    var userWithoutToken: String?
    var apps: [String: AppSettings] = [:]
    /// Nil: there is no admin interface.
    var adminListen: ListenAddress? = ListenAddress(host: "127.0.0.1", port: 0)
    var adminTokenFile: String?
    var adminToken: AdminToken?
    var connectionsMax: Int?
    var connectionsPerAddressMax: Int?
    var connectionsPerUserMax: Int?
    var sessionsPerConnectionMax: Int?
    var messageMemoryBytesMax: Int?
    var loginsPerMinuteMax: Int?
    var accessTokenSeconds: Int64?
    var sessionSeconds: UInt64?

    /// A setting with a simple value: its name in the file, in a flag (`--name`) and in the environment
    /// (`ANABRANCH_NAME`).
    struct Setting {
        let name: String
        let set: (inout Configuration, String) -> Bool
        let get: (Configuration) -> String?

        /// - Parameter parse: returns nil for a text that is no value of the setting.
        init<Value>(
            _ name: String, _ path: WritableKeyPath<Configuration, Value>, _ parse: @escaping (String) -> Value?,
            _ print: @escaping (Value) -> String?
        ) {
            self.name = name
            set = { configuration, word in
                guard let value = parse(word) else { return false }
                configuration[keyPath: path] = value
                return true
            }
            get = { print($0[keyPath: path]) }
        }

        var variable: String { "ANABRANCH_" + name.uppercased().replacingOccurrences(of: "-", with: "_") }
    }

    static var settings: [Setting] {
        [
            Setting("data", \.data, { $0.isEmpty ? nil : $0 }, { $0 }),
            Setting("listen", \.listen, ListenAddress.init(argument:), { $0.description }),
            Setting("insecure", \.isInsecure, Bool.init, { "\($0)" }),
            Setting("dev", \.isDevelopment, Bool.init, { "\($0)" }),
            Setting("allow-destructive-schema", \.allowsDestructiveSchema, Bool.init, { "\($0)" }),
            Setting("log-level", \.logLevel, Logger.Level.init(rawValue:), { $0.rawValue }),
            Setting("public-url", \.publicURL, Self.url, { $0 }),
            Setting("tls-certificate", \.tlsCertificate, Self.word, { $0 }),
            Setting("tls-key", \.tlsKey, Self.word, { $0 }),
            Setting("rules", \.rules, Self.word, { $0 }),
            Setting("user-without-token", \.userWithoutToken, Self.word, { $0 }),
            Setting("admin-listen", \.adminListen, Self.adminAddress, { $0?.description ?? "off" }),
            Setting("admin-token-file", \.adminTokenFile, Self.word, { $0 }),
            Setting("admin-token", \.adminToken, { AdminToken($0).map { .some($0) } }, { _ in nil }),
            Setting("connections", \.connectionsMax, Self.number, Self.text),
            Setting("connections-per-address", \.connectionsPerAddressMax, Self.number, Self.text),
            Setting("connections-per-user", \.connectionsPerUserMax, Self.number, Self.text),
            Setting("sessions-per-connection", \.sessionsPerConnectionMax, Self.number, Self.text),
            Setting("message-memory-bytes", \.messageMemoryBytesMax, Self.number, Self.text),
            Setting("logins-per-minute", \.loginsPerMinuteMax, Self.number, Self.text),
            Setting("access-token-seconds", \.accessTokenSeconds, Self.number, Self.text),
            Setting("session-seconds", \.sessionSeconds, Self.number, Self.text),
        ]
    }

    /// 1 to 2^32−1.
    private static func number<Number: FixedWidthInteger>(_ text: String) -> Number?? {
        UInt32(text).flatMap { $0 > 0 ? .some(Number($0)) : nil }
    }

    private static func adminAddress(_ text: String) -> ListenAddress?? {
        text == "off" ? .some(nil) : ListenAddress(argument: text).map { .some($0) }
    }

    private static func text<Number: CustomStringConvertible>(_ number: Number?) -> String? { number?.description }

    private static func word(_ text: String) -> String?? { text.isEmpty ? nil : .some(text) }

    /// Scheme, host and port, without a slash at the end.
    private static func url(_ text: String) -> String?? {
        guard text.wholeMatch(of: /https?:\/\/[A-Za-z0-9._:\[\]-]+/) != nil else { return nil }
        return .some(text)
    }

    // MARK: Sources

    /// - Parameters:
    ///   - file: the path of the YAML file, if there is one.
    ///   - flags: the flags that were given, by name.
    init(file: String?, environment: [String: String], flags: [String: String]) throws {
        if let file { try read(file) }
        let variables = Dictionary(Self.settings.map { ($0.variable, $0) }) { first, _ in first }
        for (name, value) in environment.sorted(by: { $0.key < $1.key }) where name.hasPrefix("ANABRANCH_") {
            // Scripts use the prefix for variables of their own.
            if let setting = variables[name] { try set(setting, value, source: "environment variable \(name)") }
        }
        for setting in Self.settings {
            if let value = flags[setting.name] { try set(setting, value, source: "--\(setting.name)") }
        }
        try check()
    }

    private mutating func set(_ setting: Setting, _ value: String, source: String) throws {
        guard setting.set(&self, value) else {
            // A token is never printed, not even a wrong one.
            let found = setting.name == "admin-token" ? "this: at least 16 visible ASCII characters" : "'\(value)'"
            throw ConfigurationError(description: "\(source): cannot be \(found)")
        }
    }

    private mutating func read(_ path: String) throws {
        let root: Node?
        do {
            root = try Yams.compose(yaml: String(contentsOfFile: path, encoding: .utf8))
        } catch {
            throw ConfigurationError(description: "\(path): \(error)")
        }
        guard let root else { return }
        guard let mapping = root.mapping else { throw ConfigurationError(description: "\(path): no keys") }
        for (key, value) in mapping {
            let name = key.scalar?.string ?? ""
            if name == "apps" {
                apps = try AppsSection.read(value, path: path)
            } else if let setting = Self.settings.first(where: { $0.name == name }), let text = value.scalar?.string {
                try set(setting, text, source: "\(path): \(name)")
            } else if Self.settings.contains(where: { $0.name == name }) {
                throw ConfigurationError(description: "\(path): \(name) has to be one word")
            } else {
                throw ConfigurationError(description: "\(path): there is no setting '\(name)'")
            }
        }
    }

    private func check() throws {
        if isDevelopment, !listen.isLoopback {
            throw ConfigurationError(
                description: "dev: \(listen.host) is not a loopback address, and everybody is let in")
        }
        if allowsDestructiveSchema, !isDevelopment {
            throw ConfigurationError(
                description: "allow-destructive-schema: only with dev; an app has destructive-schema: allow of its own")
        }
        guard (tlsCertificate == nil) == (tlsKey == nil) else {
            throw ConfigurationError(description: "tls-certificate and tls-key need each other")
        }
        if !listen.isLoopback, userWithoutToken != nil, !isInsecure {
            throw ConfigurationError(
                description:
                    "user-without-token: \(listen.host) is not a loopback address, and everybody is let in: pass "
                    + "--insecure if that is meant")
        }
        if tlsCertificate == nil, !isInsecure {
            for (name, address) in [("listen", listen), ("admin-listen", adminListen)] {
                guard let address, !address.isLoopback else { continue }
                throw ConfigurationError(
                    description:
                        "\(name): \(address.host) is not a loopback address, and tokens and passwords would travel in "
                        + "the open: give a certificate, or pass --insecure if they may")
            }
        }
    }

    // MARK: Uses

    /// The effective configuration as a file with the same effect. It names every setting, those without a value in a
    /// comment, and shows no token.
    var yaml: String {
        let effective = effective
        var lines = Self.settings.map { setting in
            if let value = setting.get(effective) { return "\(setting.name): \(AppsSection.quoted(value))" }
            let isHidden = setting.name == "admin-token" && adminToken != nil
            return "# \(setting.name) is \(isHidden ? "set, and not shown" : "not set")"
        }
        lines += AppsSection.lines(apps)
        return lines.joined(separator: "\n") + "\n"
    }

    /// The configuration with its defaults filled in, except those that mean no limit.
    private var effective: Configuration {
        var all = self
        let server = server(cores: 1), logins = appServices
        func limit(_ value: Int) -> Int? { value == .max ? nil : value }
        all.connectionsMax = limit(server.connectionsMax)
        all.connectionsPerAddressMax = limit(server.connectionsPerAddressMax)
        all.connectionsPerUserMax = limit(server.connectionsPerUserMax)
        all.sessionsPerConnectionMax = limit(server.limits.sessionsPerConnectionMax)
        all.messageMemoryBytesMax = server.messageMemoryBytesMax
        all.loginsPerMinuteMax = limit(logins.loginsPerMinuteMax)
        all.accessTokenSeconds = logins.accessTokenSeconds
        all.sessionSeconds = logins.sessionSeconds
        all.userWithoutToken = logins.userWithoutToken
        return all
    }

    /// Nobody can log in: there are no apps, no user without a token, and no development mode.
    var isClosed: Bool { !isDevelopment && apps.isEmpty && userWithoutToken == nil }

    /// The keys of the server's own tokens.
    var keyPath: String { inData("keys.json") }

    var adminTokenPath: String { adminTokenFile ?? inData("admin-token") }

    /// The file in which the running server announces where its admin interface is.
    var adminAddressPath: String { inData("admin-address") }

    private func inData(_ name: String) -> String {
        URL(fileURLWithPath: data, isDirectory: true).appendingPathComponent(name).path
    }

    /// - Parameter cores: how many processor cores the server may use.
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
            settings.destructiveSchema = allowsDestructiveSchema ? .allow : .refuse
        }
        settings.destructiveSchemaByApp = apps.mapValues(\.destructiveSchema)
        if let connectionsMax { settings.connectionsMax = connectionsMax }
        if let connectionsPerAddressMax { settings.connectionsPerAddressMax = connectionsPerAddressMax }
        if let connectionsPerUserMax { settings.connectionsPerUserMax = connectionsPerUserMax }
        if let sessionsPerConnectionMax { settings.limits.sessionsPerConnectionMax = sessionsPerConnectionMax }
        if let messageMemoryBytesMax { settings.messageMemoryBytesMax = messageMemoryBytesMax }
        return settings
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
        }
        if let loginsPerMinuteMax { settings.loginsPerMinuteMax = loginsPerMinuteMax }
        return settings
    }
}
