import AnabranchFilesWire
import AnabranchHistory
import AnabranchProtocol
import AnabranchServer
import AnabranchOverTheAirWire
import AnabranchSimperiumWire
import CommandSupport
import Yams

/// The apps in the configuration file:
///
///     apps:
///       my-app:
///         providers: [anon-user, local-userpass, api-key, custom-token]
///         sync: partition
///         app-config: exported/my-app
///         destructive-schema: refuse
///         issuer: {jwks: issuer-keys.json, iss: "https://id.example.com", aud: my-app}
///         barq: {}                         # see ForkSection
///         email: {}                        # see EmailSection
///         simperium: {}                    # see SimperiumSection
///         property-list: {}                # see PropertyListSection
///         files: {}                        # see FilesSection
struct AppsSection {
    /// The place of the section, for messages.
    let place: String
    private(set) var apps: [String: AppSettings] = [:]
    /// How the apps send e-mails, if they do.
    private(set) var emails: [String: EmailSettings] = [:]
    /// The buckets of the apps that serve Simperium's clients.
    private(set) var simperium: [String: SimperiumApp] = [:]
    /// The dataclasses of the apps that serve devices with property lists.
    private(set) var overTheAir: [String: ConfiguredDataclasses] = [:]
    /// The settings of the apps with file spaces.
    private(set) var files: [String: FilesApp] = [:]
    private(set) var problems: [String] = []

    private static let keys =
        [
            "providers", "sync", "app-config", "destructive-schema", "issuer", "email", "simperium", "property-list",
            "files",
        ]
        + WireDialect.forks.map(\.name)
    private static let issuerKeys = ["jwks", "iss", "aud", "ca"]

    init(place: String) { self.place = place }

    mutating func read(_ node: Node) {
        guard let mapping = node.mapping else {
            return problems.append("\(place): no app ids; allowed: my-app: {providers: [anon-user]}")
        }
        for (key, value) in mapping {
            let app = key.scalar?.string ?? ""
            guard AppSettings.isAppID(app) else {
                problems.append("\(place): '\(app)' cannot be an app id; allowed: letters, digits, _ . and -")
                continue
            }
            apps[app] = settings(value, of: app, place: "\(place): \(app)")
        }
    }

    private mutating func settings(_ node: Node, of app: String, place: String) -> AppSettings {
        var settings = AppSettings(providers: []), hasProviders = false
        for (key, value) in node.mapping ?? [:] {
            switch key.scalar?.string {
            case "providers":
                settings.providers = providers(value, place: "\(place): providers")
                hasProviders = true
            case "sync":
                switch value.scalar?.string {
                case "partition": settings.isFlexible = false
                case "flexible": settings.isFlexible = true
                default: problems.append("\(place): sync: \(Self.found(value)); allowed: partition, flexible")
                }
            case "app-config":
                settings.exportPath = value.scalar?.string
                if settings.exportPath?.isEmpty ?? true {
                    problems.append(
                        "\(place): app-config: \(Self.found(value)); allowed: the path of a folder, or everybody")
                }
            case "destructive-schema":
                if let rule = value.scalar.flatMap({ DestructiveSchema(rawValue: $0.string) }) {
                    settings.destructiveSchema = rule
                } else {
                    problems.append("\(place): destructive-schema: \(Self.found(value)); allowed: refuse, allow")
                }
            case "issuer":
                settings.issuer = issuer(value, place: "\(place): issuer")
            case "email":
                var section = EmailSection(place: "\(place): email")
                emails[app] = section.read(value)
                settings.emails = Set((emails[app]?.templates ?? [:]).keys)
                problems += section.problems
            case "simperium":
                var section = SimperiumSection(place: "\(place): simperium")
                simperium[app] = section.read(value)
                problems += section.problems
            case "property-list":
                var section = PropertyListSection(place: "\(place): property-list")
                overTheAir[app] = section.read(value)
                problems += section.problems
            case "files":
                var section = FilesSection(place: "\(place): files")
                files[app] = section.read(value)
                problems += section.problems
            case let name where WireDialect.forks.contains { $0.name == name }: break
            case let name:
                problems.append("\(place): " + KnownWords.unknown("setting", name ?? "", of: Self.keys))
            }
        }
        readForks(of: node, into: &settings, place: place)
        if !hasProviders, settings.forks.isEmpty {
            problems.append("\(place): providers is missing, so nobody could log in; allowed: \(Self.providerList)")
        } else if !settings.forks.isEmpty, settings.issuer == nil {
            problems.append(
                "\(place): \(settings.forks.keys.map(\.name).sorted().joined(separator: " and ")): only with an issuer "
                    + "of tokens, as in issuer: {jwks: FILE}")
        } else if settings.forks.isEmpty || settings.providers.contains(.customToken),
            settings.providers.contains(.customToken) != (settings.issuer != nil)
        {
            problems.append(
                "\(place): custom-token and issuer need each other, as in providers: [custom-token] and "
                    + "issuer: {jwks: FILE}")
        }
        if emails[app] != nil, !settings.providers.contains(.emailPassword) {
            problems.append("\(place): email: only with the provider local-userpass")
        }
        if files[app] != nil, settings.isFlexible { problems.append("\(place): files: only with sync: partition") }
        if simperium[app] != nil {
            if settings.isFlexible {
                problems.append(
                    "\(place): simperium: only with sync: partition (Spec/Simperium.md, section 14)")
            }
            if !settings.providers.contains(.emailPassword) {
                problems.append("\(place): simperium: only with the provider local-userpass")
            }
        }
        if let url = overTheAir[app]?.app.url {
            if settings.isFlexible { problems.append("\(place): property-list: only with sync: partition") }
            if overTheAir.contains(where: { $0.key != app && $0.value.app.url == url }) {
                problems.append("\(place): property-list: url: \(url) is another app's too; allowed: one for each app")
            }
        }
        if settings.exportPath != nil, !settings.isFlexible {
            problems.append("\(place): app-config: only with sync: flexible")
        }
        return settings
    }

    private mutating func readForks(of node: Node, into settings: inout AppSettings, place: String) {
        for dialect in WireDialect.forks {
            guard let value = node.mapping?[dialect.name] else { continue }
            var section = ForkSection(place: "\(place): \(dialect.name)", isFlexible: settings.isFlexible)
            settings.forks[dialect] = section.read(value)
            problems += section.problems
            if settings.isFlexible, !dialect.hasFlexibleSync {
                problems.append("\(place): \(dialect.name): only with sync: partition")
            }
        }
    }

    private static let providerList = "a list of " + Provider.allCases.map(\.rawValue).joined(separator: ", ")

    private mutating func providers(_ node: Node, place: String) -> Set<Provider> {
        guard let names = node.sequence else {
            problems.append("\(place): \(Self.found(node)); allowed: \(Self.providerList), like [anon-user]")
            return []
        }
        var providers: Set<Provider> = []
        for name in names {
            if let provider = name.scalar.flatMap({ Provider(rawValue: $0.string) }) {
                providers.insert(provider)
            } else {
                let known = Provider.allCases.map(\.rawValue)
                problems.append("\(place): " + KnownWords.unknown("provider", name.scalar?.string ?? "", of: known))
            }
        }
        return providers
    }

    private mutating func issuer(_ node: Node, place: String) -> CustomTokenIssuer {
        var issuer = CustomTokenIssuer(jwks: "")
        for (key, value) in node.mapping ?? [:] {
            let name = key.scalar?.string ?? ""
            guard Self.issuerKeys.contains(name) else {
                problems.append("\(place): " + KnownWords.unknown("setting", name, of: Self.issuerKeys))
                continue
            }
            guard let text = value.scalar?.string, !text.isEmpty else {
                problems.append("\(place): \(name): \(Self.found(value)); allowed: a text")
                continue
            }
            switch name {
            case "jwks": issuer.jwks = text
            case "iss": issuer.issuer = text
            case "ca": issuer.authority = text
            default: issuer.audience = text
            }
        }
        if issuer.jwks.isEmpty {
            problems.append(
                "\(place): jwks is missing: a file with the issuer's keys (RFC 7517, or in PEM), or a URL with https")
        }
        if issuer.authority != nil, !issuer.isURL { problems.append("\(place): ca: only with a URL") }
        return issuer
    }

    /// The description of a node that stands where something else is expected.
    static func found(_ node: Node) -> String {
        switch node {
        case .scalar(let scalar): "cannot be '\(scalar.string)'"
        case .sequence: "cannot be a list"
        default: "cannot be this"
        }
    }
}
