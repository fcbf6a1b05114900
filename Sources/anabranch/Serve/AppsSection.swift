import AnabranchHistory
import AnabranchServer
import Yams

/// The apps in the configuration file:
///
///     apps:
///       my-app:
///         providers: [anon-user, local-userpass, api-key, custom-token]
///         destructive-schema: refuse
///         issuer: {jwks: issuer-keys.json, iss: "https://id.example.com", aud: my-app}
enum AppsSection {
    static func read(_ node: Node, path: String) throws -> [String: AppSettings] {
        guard let mapping = node.mapping else { throw ConfigurationError(description: "\(path): apps: no app ids") }
        var apps: [String: AppSettings] = [:]
        for (key, value) in mapping {
            let app = key.scalar?.string ?? ""
            guard app.wholeMatch(of: /[A-Za-z0-9_.-]{1,100}/) != nil else {
                throw ConfigurationError(description: "\(path): apps: '\(app)' cannot be an app id")
            }
            apps[app] = try settings(value, place: "\(path): apps: \(app)")
        }
        return apps
    }

    private static func settings(_ node: Node, place: String) throws -> AppSettings {
        var settings = AppSettings(providers: [])
        for (key, value) in node.mapping ?? [:] {
            switch key.scalar?.string {
            case "providers":
                for name in value.sequence ?? [] {
                    guard let provider = name.scalar.flatMap({ Provider(rawValue: $0.string) }) else {
                        throw ConfigurationError(description: "\(place): providers: unknown provider")
                    }
                    settings.providers.insert(provider)
                }
            case "destructive-schema":
                guard let rule = value.scalar.flatMap({ DestructiveSchema(rawValue: $0.string) }) else {
                    throw ConfigurationError(description: "\(place): destructive-schema: refuse or allow")
                }
                settings.destructiveSchema = rule
            case "issuer":
                settings.issuer = try issuer(value, place: "\(place): issuer")
            case let name:
                throw ConfigurationError(description: "\(place): there is no setting '\(name ?? "")'")
            }
        }
        if settings.providers.contains(.customToken) != (settings.issuer != nil) {
            throw ConfigurationError(description: "\(place): custom-token and issuer need each other")
        }
        return settings
    }

    private static func issuer(_ node: Node, place: String) throws -> CustomTokenIssuer {
        var issuer = CustomTokenIssuer(jwksPath: "")
        for (key, value) in node.mapping ?? [:] {
            guard let text = value.scalar?.string, !text.isEmpty else {
                throw ConfigurationError(description: "\(place): texts only")
            }
            switch key.scalar?.string {
            case "jwks": issuer.jwksPath = text
            case "iss": issuer.issuer = text
            case "aud": issuer.audience = text
            case let name: throw ConfigurationError(description: "\(place): there is no setting '\(name ?? "")'")
            }
        }
        guard !issuer.jwksPath.isEmpty else { throw ConfigurationError(description: "\(place): jwks is missing") }
        return issuer
    }

    // MARK: Printing

    static func lines(_ apps: [String: AppSettings]) -> [String] {
        guard !apps.isEmpty else { return [] }
        var lines = ["apps:"]
        for (app, settings) in apps.sorted(by: { $0.key < $1.key }) {
            let providers = Provider.allCases.filter(settings.providers.contains).map(\.rawValue)
            lines += [
                "  \(quoted(app)):", "    providers: [\(providers.joined(separator: ", "))]",
                "    destructive-schema: \(settings.destructiveSchema.rawValue)",
            ]
            guard let issuer = settings.issuer else { continue }
            let members = [("jwks", issuer.jwksPath), ("iss", issuer.issuer), ("aud", issuer.audience)]
            let words = members.compactMap { name, value in value.map { "\(name): \(quoted($0))" } }
            lines.append("    issuer: {\(words.joined(separator: ", "))}")
        }
        return lines
    }

    /// As YAML reads it back unchanged.
    static func quoted(_ text: String) -> String {
        if text.wholeMatch(of: /[A-Za-z0-9_.\/-][A-Za-z0-9_.\/:-]*/) != nil { return text }
        return "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "''") + "'"
    }
}
