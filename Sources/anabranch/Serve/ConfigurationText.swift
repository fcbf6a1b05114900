import AnabranchFilesWire
import AnabranchHistory
import AnabranchOverTheAirWire
import AnabranchProtocol
import AnabranchSQLite
import AnabranchServer

/// The effective configuration as a file with the same effect. It names and explains every setting, puts those without
/// a value in a comment, and shows no token.
struct ConfigurationText: CustomStringConvertible {
    let description: String

    init(_ configuration: Configuration) {
        let effective = Self.effective(configuration)
        var lines: [String] = []
        for setting in Setting.all {
            if setting.nameInSection != nil, !lines.contains("\(Setting.historySection):") {
                lines += ["# How much of the past is kept.", "\(Setting.historySection):"]
            }
            let isHidden = setting.isSecret && setting.isSet(configuration)
            let name = setting.nameInSection ?? setting.name, indent = setting.nameInSection == nil ? "" : "  "
            let value = setting.get(effective).map { "\(indent)\(name): \(Self.quoted($0))" }
            lines += [
                "\(indent)# \(setting.meaning) Allowed: \(setting.allowed)",
                value ?? "# \(setting.name) is \(isHidden ? "set, and not shown" : "not set")",
            ]
        }
        lines.append("# The apps by their ids, and how their users log in.")
        lines += configuration.apps.isEmpty ? ["# apps is not set"] : Self.lines(configuration)
        description = lines.joined(separator: "\n") + "\n"
    }

    /// The configuration with the defaults filled in, except those that mean no limit.
    private static func effective(_ configuration: Configuration) -> Configuration {
        var all = configuration
        let server = configuration.server(cores: 1), logins = configuration.appServices
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
        all.shards = configuration.store.shards
        all.explainDays = configuration.store.explainDays
        all.objectBytesMax = limit(server.objectBytesMax)
        all.clientClockSecondsMax = server.clientClockSecondsMax
        all.silenceSeconds = server.limits.silenceMillisecondsMax / 1_000
        all.freeBytesMin = server.freeBytesMin
        return all
    }

    private static func lines(_ configuration: Configuration) -> [String] {
        var lines = ["apps:"]
        for (app, settings) in configuration.apps.sorted(by: { $0.key < $1.key }) {
            let providers = Provider.allCases.filter(settings.providers.contains).map(\.rawValue)
            lines += [
                "  \(quoted(app)):", "    providers: [\(providers.joined(separator: ", "))]",
                "    sync: \(settings.isFlexible ? "flexible" : "partition")",
                "    destructive-schema: \(settings.destructiveSchema.rawValue)",
            ]
            if let path = settings.exportPath { lines.append("    app-config: \(quoted(path))") }
            if let email = configuration.emails[app] {
                lines += ["    email:"] + email.lines(quoted: quoted).map { "      \($0)" }
            }
            if let simperium = configuration.simperium[app] {
                lines += ["    simperium:"] + simperium.lines(quoted: quoted).map { "      \($0)" }
            }
            if let devices = configuration.overTheAir[app] {
                let files = devices.files.map(quoted).joined(separator: ", ")
                let (url, folder) = (quoted(devices.app.url), quoted(devices.app.folder))
                lines.append("    property-list: {url: \(url), folder: \(folder), dataclasses: [\(files)]}")
            }
            if let files = configuration.files[app] {
                lines.append("    files: {trash-days: \(files.trashDays), quota-bytes: \(files.quotaBytes)}")
            }
            for (fork, words) in settings.forks.sorted(by: { $0.key.name < $1.key.name }) {
                lines.append("    \(fork.name): \(words.words(quoted: quoted))")
            }
            guard let issuer = settings.issuer else { continue }
            let members = [
                ("jwks", issuer.jwks), ("iss", issuer.issuer), ("aud", issuer.audience), ("ca", issuer.authority),
            ]
            let words = members.compactMap { name, value in value.map { "\(name): \(quoted($0))" } }
            lines.append("    issuer: {\(words.joined(separator: ", "))}")
        }
        return lines
    }

    /// The text in a form that YAML reads back unchanged.
    private static func quoted(_ text: String) -> String {
        if text.wholeMatch(of: /[A-Za-z0-9_.\/-][A-Za-z0-9_.\/:-]*/) != nil { return text }
        let quote = UInt8(ascii: "'")
        let bytes = text.utf8.flatMap { $0 == quote ? [quote, quote] : [$0] }
        return "'\(String(decoding: bytes, as: UTF8.self))'"
    }
}
