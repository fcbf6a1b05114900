import AnabranchHistory
import AnabranchProtocol
import Foundation
import Logging
import Testing

@testable import AnabranchServer
@testable import anabranch

/// Where settings come from, and what is wrong with them.
@Suite struct ConfigurationTests {
    /// A configuration by a file of this text.
    static func configuration(
        _ yaml: String? = nil, environment: [String: String] = [:], flags: [String: String] = [:]
    ) throws -> Configuration {
        guard let yaml else { return try Configuration(file: nil, environment: environment, flags: flags) }
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).yaml")
        try Data(yaml.utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        return try Configuration(file: file.path, environment: environment, flags: flags)
    }

    /// The reason why there is no such configuration.
    static func complaint(
        _ yaml: String? = nil, environment: [String: String] = [:], flags: [String: String] = [:]
    ) -> String {
        do {
            _ = try configuration(yaml, environment: environment, flags: flags)
            return ""
        } catch {
            return "\(error)"
        }
    }

    // MARK: Sources

    /// Wherever the command is started.
    @Test func pathsInAFileAreRelativeToItsFolder() throws {
        let yaml = """
            data: d
            rules: etc/rules.yaml
            tls-certificate: /c.pem
            tls-key: k.pem
            apps:
              a: {providers: [anon-user], sync: flexible, app-config: exported}
              b: {providers: [custom-token], issuer: {jwks: keys.json}}
              c: {providers: [custom-token], issuer: {jwks: "https://a.b/keys"}}
              rules: {providers: [anon-user]}
            """
        let found = try Self.configuration(yaml, flags: ["admin-token-file": "t"])
        let folder = FileManager.default.temporaryDirectory.path
        #expect(found.data == folder + "/d" && found.tlsCertificate == "/c.pem" && found.tlsKey == folder + "/k.pem")
        guard case .file(folder + "/etc/rules.yaml") = found.rules else {
            Issue.record("\(String(describing: found.rules))")
            return
        }
        #expect(found.apps["a"]?.exportPath == folder + "/exported")
        #expect(found.apps["b"]?.issuer?.jwks == folder + "/keys.json")
        #expect(found.apps["c"]?.issuer?.jwks == "https://a.b/keys")
        #expect(found.adminTokenFile == "t", "a flag is relative to where one is")
        #expect(try Self.configuration("rules: everybody").rules == .everybody)
    }

    @Test func aFlagCountsMoreThanTheEnvironmentAndThatMoreThanTheFile() throws {
        let yaml = "data: file\nlisten: 127.0.0.1:1\nlog-level: debug\n"
        let environment = ["ANABRANCH_DATA": "environment", "ANABRANCH_LISTEN": "127.0.0.1:2", "DATA": "x"]
        let all = try Self.configuration(yaml, environment: environment, flags: ["data": "flag"])
        #expect(all.data == "flag")
        #expect(all.listen.description == "127.0.0.1:2")
        #expect(all.logLevel == .debug)
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).yaml").path
        try Data(yaml.replacing("file", with: "/file").utf8).write(to: URL(fileURLWithPath: file))
        defer { try? FileManager.default.removeItem(atPath: file) }
        let sources = ConfigurationSources(file: file, environment: environment, flags: ["listen": "127.0.0.1:3"])
        #expect(sources.overridden == ["data: environment of ANABRANCH_DATA counts, not /file of \(file)"])
        let none = try Self.configuration()
        #expect(none.data == "./data")
        #expect(none.listen.description == "127.0.0.1:9090")
        #expect(none.logLevel == .info)
    }

    /// A value for each setting, other than the default where others allow it.
    private static let values = [
        "data": "/elsewhere", "shared": "false",
        "listen": "[::1]:7000", "insecure": "true", "dev": "true",
        "allow-destructive-schema": "true", "log-level": "error", "log-format": "json", "proxy-protocol": "true",
        "trusted-proxies": "10.0.0.0/8, ::1",
        "public-url": "https://sync.example.com", "tls-certificate": "/cert.pem", "tls-key": "/key.pem",
        "rules": "/rules.yaml", "user-without-token": "somebody", "admin-listen": "127.0.0.1:9091",
        "admin-token-file": "/token", "inspector": "read-write", "access-token-seconds": "10", "session-seconds": "11",
        "inspector-users": "0123456789abcdef01234567, 5eed0000000000000000ad31", "connections": "5",
        "connections-per-address": "6", "connections-per-user": "7",
        "sessions-per-connection": "8", "message-memory-bytes": "13", "logins-per-minute": "9",
        "shards": "15", "object-bytes": "12", "client-clock-seconds": "25", "silence-seconds": "75", "free-bytes": "16",
        "store-bytes": "24",
        "adopt-unowned-clients": "true", "partition-bytes": "17",
        "history-seal-entries": "18", "history-seal-bytes": "19", "history-generation-bytes": "20",
        "history-generation-ratio": "0.5", "history-offline-days": "21", "history-pinned-bytes": "22",
        "history-bootstrap-days": "23", "history-explain-days": "14", "history-keep": "archive",
    ]

    @Test func everySettingComesFromEverySourceAndIsPrinted() throws {
        let settings = Setting.all.filter { !$0.isSecret }
        #expect(Set(settings.map(\.name)) == Set(Self.values.keys), "a value is missing here")
        let simple = settings.filter { $0.nameInSection == nil }.map { "\($0.name): '\(Self.values[$0.name] ?? "")'\n" }
        let history = settings.compactMap { setting in
            setting.nameInSection.map { "  \($0): '\(Self.values[setting.name] ?? "")'\n" }
        }
        let yaml = simple.joined() + "history:\n" + history.joined()
        let ofFile = try Self.configuration(yaml)
        let ofEnvironment = try Self.configuration(
            environment: Dictionary(
                uniqueKeysWithValues: settings.map { ($0.variable, Self.values[$0.name] ?? "") }))
        let ofFlags = try Self.configuration(flags: Self.values)
        for configuration in [ofFile, ofEnvironment, ofFlags] {
            for setting in settings { #expect(setting.get(configuration) == Self.values[setting.name]) }
        }
        #expect(try Self.configuration(ofFile.yaml).yaml == ofFile.yaml)
    }

    @Test func whatAppliesIsPrintedAlsoWhereNothingWasSaid() throws {
        let lines = try Self.configuration().yaml.split(separator: "\n").map(String.init)
        for line in [
            "data: ./data", "listen: 127.0.0.1:9090", "dev: false", "allow-destructive-schema: false",
            "admin-listen: 127.0.0.1:0", "inspector: read-only", "connections: 10000",
            "connections-per-address: 1000", "connections-per-user: 500", "sessions-per-connection: 1000",
            "message-memory-bytes: 268435456", "logins-per-minute: 300", "access-token-seconds: 1800",
            "session-seconds: 5184000", "# rules is not set",
            "# admin-token is not set", "# inspector-users is not set", "# user-without-token is not set",
            "object-bytes: 17825792", "client-clock-seconds: 300", "silence-seconds: 660",
            "free-bytes: 268435456", "adopt-unowned-clients: false",
            "# store-bytes is not set", "# partition-bytes is not set",
            "history:", "  seal-entries: 768", "  seal-bytes: 262144",
            "  generation-bytes: 4194304", "  generation-ratio: 2.0", "  offline-days: 60",
            "  pinned-bytes: 1073741824", "  bootstrap-days: 7",
        ] { #expect(lines.contains(line), "\(line)") }
        #expect(lines.contains("# apps is not set"))
        // The sections are the history and the apps.
        #expect(lines.count == 2 * (Setting.all.count + 2), "a line on what it means, and one with its value")
        let development = try Self.configuration(flags: ["dev": "true", "data": "/data"])
        #expect(development.yaml.contains("\nuser-without-token: developer\n"))
        #expect(development.yaml.contains("\n# logins-per-minute is not set\n"))
        #expect(try Self.configuration(development.yaml).yaml == development.yaml)
    }

    @Test func appsArePrintedAsTheyAreRead() throws {
        let yaml = """
            data: /data
            apps:
              my-app:
                providers: [anon-user, local-userpass, custom-token]
                issuer: {jwks: /keys.json, iss: 'https://id.example.com/', aud: 'it''\u{301}s mine'}
              other:
                providers: [api-key]
                destructive-schema: allow
            """
        let configuration = try Self.configuration(yaml)
        #expect(configuration.apps["other"] == AppSettings(providers: [.apiKey], destructiveSchema: .allow))
        #expect(configuration.apps["my-app"]?.destructiveSchema == .refuse)
        let id = "https://id.example.com/"
        let issuer = CustomTokenIssuer(jwks: "/keys.json", issuer: id, audience: "it'\u{301}s mine")
        #expect(configuration.apps["my-app"]?.issuer == issuer)
        let printed = try Self.configuration(configuration.yaml)
        #expect(printed.apps == configuration.apps)
        #expect(printed.yaml == configuration.yaml)
    }

    @Test func whatIsWrongWithTheHistoryIsToldWithItsPlace() throws {
        for (yaml, complaint) in [
            ("history: 5\n", "history: no settings; allowed: {offline-days: 60}"),
            ("history: {offline-day: 5}\n", "history: there is no setting 'offline-day'; did you mean 'offline-days'?"),
            ("history: {seal-entries: 0}\n", "seal-entries: cannot be '0'; allowed: a whole number from 1 to 16384"),
            ("history: {generation-ratio: -1}\n", "cannot be '-1'; allowed: a number from 0 to 1000"),
            ("history: {offline-days: [1]}\n", "history: offline-days has to be one word; allowed: a whole number"),
            ("history: {keep: all}\n", "keep: cannot be 'all'; allowed: drop, archive"),
            ("history-offline-days: 5\n", "there is no setting 'history-offline-days'"),
        ] {
            let found = Self.complaint(yaml)
            #expect(found.contains(complaint), "\(found)")
        }
        let low = try Self.configuration(
            "history: {seal-entries: 1, seal-bytes: 1, generation-bytes: 1, generation-ratio: 0}\n")
        #expect(low.server(cores: 1).history == low.history && low.history.sealEntries == 1)
        #expect(low.history.keep == .drop)
        #expect(try Self.configuration("history: {keep: archive}\n").server(cores: 1).history.keep == .archive)
    }

    @Test func theTokenOfTheAdminInterfaceIsNeverPrinted() throws {
        let token = "a-long-secret-of-the-operator"
        for configuration in [
            try Self.configuration("admin-token: \(token)\n"),
            try Self.configuration(environment: ["ANABRANCH_ADMIN_TOKEN": token]),
        ] {
            #expect(configuration.adminToken != nil)
            #expect(!configuration.yaml.contains(token))
            #expect(configuration.yaml.contains("# admin-token is set"))
            #expect(try Self.configuration(configuration.yaml).adminToken == nil)
        }
        let complaint = Self.complaint(environment: ["ANABRANCH_ADMIN_TOKEN": "too-short"])
        #expect(complaint.contains("ANABRANCH_ADMIN_TOKEN") && !complaint.contains("too-short"))
    }

    // MARK: Mistakes

    @Test(arguments: [
        ("color: red", "there is no setting 'color'"), ("Data: x", "there is no setting 'Data'"),
        ("data: [a, b]", "data has to be one word"),
        ("listen: 9090", "listen: cannot be '9090'; allowed: host:port, like 127.0.0.1:9090"),
        ("listen: '::1:9090'", "listen: cannot be '::1:9090'"),
        ("listen: 127.0.0.1:65536", "listen: cannot be '127.0.0.1:65536'"),
        ("insecure: maybe", "insecure: cannot be 'maybe'"),
        ("log-level: loud", "log-level: cannot be 'loud'; allowed: trace, debug, info,"),
        ("public-url: example.com", "public-url: cannot be 'example.com'"),
        ("public-url: https://example.com/", "public-url: cannot be 'https://example.com/'"),
        ("public-url: https://example.com/x/", "public-url: cannot be 'https://example.com/x/'"),
        ("public-url: https://example.com/../x", "public-url: cannot be 'https://example.com/../x'"),
        ("public-url: https://example.com/x?y", "public-url: cannot be 'https://example.com/x?y'"),
        ("connections: 0", "connections: cannot be '0'"), ("connections: -1", "connections: cannot be '-1'"),
        ("connections-per-user: many", "connections-per-user: cannot be 'many'"),
        ("session-seconds: 4294967296", "session-seconds: cannot be '4294967296'"),
        ("inspector: on", "inspector: cannot be 'on'"), ("admin-listen: on", "admin-listen: cannot be 'on'"),
        ("inspector-users: ann@example.com", "inspector-users: cannot be 'ann@example.com'; allowed: idents of users"),
        ("inspector-users: '0123456789abcdef01234567,'", "inspector-users: cannot be"),
        ("data: ~/data", "data: '~/data': only shells know ~"), ("data: ~ann/data", "'~ann/data': only shells know ~"),
        ("rules: ''", "rules: cannot be ''"), ("- a", "no settings; allowed: a line for each"), ("a: b: c", "yaml"),
        ("apps: x", "apps: no app ids"), ("apps: {a/b: {}}", "'a/b' cannot be an app id"),
        (
            "apps: {a: {destructive-schema: maybe, providers: []}}",
            "apps: a: destructive-schema: cannot be 'maybe'; allowed: refuse, allow"
        ),
        ("apps: {a: {providers: [], app-config: x}}", "apps: a: app-config: only with sync: flexible"),
        ("apps: {a: {providers: [], sync: flexible, app-config: ''}}", "apps: a: app-config: cannot be ''"),
        ("apps: {a: {color: red}}", "apps: a: there is no setting 'color'"),
        ("apps: {a: {providers: [magic]}}", "apps: a: providers: there is no provider 'magic'; allowed: anon-user, "),
        (
            "apps: {a: {providers: anon-user}}",
            "apps: a: providers: cannot be 'anon-user'; allowed: a list of anon-user"
        ),
        (
            "apps: {a: {provider: [anon-user]}}",
            "did you mean 'providers'? allowed: providers, sync, app-config, destructive-schema, issuer"
        ),
        ("apps: {a: {}}", "apps: a: providers is missing"), ("apps: {a: }", "apps: a: providers is missing"),
        ("tls-cert: x", "there is no setting 'tls-cert'; allowed: data, store, shared, listen,"),
        ("rule: x", "did you mean 'rules'?"),
        ("apps: {a: {providers: [custom-token]}}", "custom-token and issuer need each other"),
        ("apps: {a: {issuer: {jwks: x, color: y}, providers: [custom-token]}}", "there is no setting 'color'"),
        ("apps: {a: {issuer: {iss: x}, providers: [custom-token]}}", "jwks is missing"),
        ("apps: {a: {issuer: {jwks: x, ca: y}, providers: [custom-token]}}", "issuer: ca: only with a URL"),
    ])
    func aMistakeInTheFileNamesItself(yaml: String, complaint: String) {
        let found = Self.complaint(yaml)
        #expect(found.contains(complaint), "\(found)")
        #expect(found.contains(".yaml: "), "\(found)")
    }

    @Test func aMistakeElsewhereNamesItsPlace() {
        #expect(
            Self.complaint(environment: ["ANABRANCH_DEV": "1"])
                == "environment variable ANABRANCH_DEV: cannot be '1'; allowed: true or false")
        #expect(Self.complaint(flags: ["listen": "here"]).hasPrefix("--listen: cannot be 'here'; allowed: host:port"))
        #expect(Self.complaint(environment: ["ANABRANCH_SEED": "1"]) == "", "others may use the prefix")
        #expect(Self.complaint("allow-destructive-schema: true").hasPrefix("allow-destructive-schema: only with dev"))
    }

    @Test func everyMistakeIsNamedAtOnce() {
        let complaint = Self.complaint(
            """
            listen: here
            color: red
            tls-key: k
            apps: {a: {providers: word, destructive-schema: maybe}, b/c: {}, d: {providers: [x, y]}}
            """, environment: ["ANABRANCH_LOG_LEVEL": "loud"], flags: ["connections": "0"])
        for part in [
            "yaml: listen: cannot be 'here'", "yaml: there is no setting 'color'", "tls-certificate and tls-key need",
            "apps: a: providers: cannot be 'word'", "apps: a: destructive-schema:", "'b/c' cannot be an app id",
            "no provider 'x'", "no provider 'y'", "ANABRANCH_LOG_LEVEL: cannot be", "--connections: cannot be '0'",
        ] { #expect(complaint.contains(part), "\(part) is not in:\n\(complaint)") }
        #expect(complaint.split(separator: "\n").count == 10, "\(complaint)")
    }

    @Test func aFileThatCannotBeReadIsNamedInPlainWords() throws {
        let folder = FileManager.default.temporaryDirectory.path
        #expect(throws: ConfigurationError.self) {
            try Configuration(file: folder, environment: [:], flags: [:])
        }
        do {
            _ = try Configuration(file: "none.yaml", environment: [:], flags: [:])
            Issue.record("there is no such file")
        } catch {
            #expect("\(error)" == "none.yaml: No such file or directory")
        }
    }

    @Test(arguments: [
        (["listen": "0.0.0.0:9090"], "listen: 0.0.0.0"),
        (["listen": "0.0.0.0:9090", "insecure": "true"], ""),
        (["listen": "0.0.0.0:9090", "tls-certificate": "c", "tls-key": "k"], ""),
        (["listen": "localhost:9090"], ""), (["listen": "127.9.9.9:1"], ""), (["listen": "127.1:1"], "listen: 127.1"),
        (["listen": "[::]:9090"], "listen: ::"), (["listen": "sync.example.com:9090"], "listen: sync.example.com"),
        (["admin-listen": "0.0.0.0:9091"], "admin-listen: 0.0.0.0"),
        (["admin-listen": "0.0.0.0:9091", "insecure": "true"], ""),
        (["admin-listen": "0.0.0.0:9091", "tls-certificate": "c", "tls-key": "k"], ""),
        (["admin-listen": "off"], ""), (["dev": "true"], ""),
        (["dev": "true", "listen": "0.0.0.0:9090", "insecure": "true"], "dev: 0.0.0.0"),
        (["user-without-token": "x"], ""),
        (
            ["user-without-token": "x", "listen": "0.0.0.0:1", "tls-certificate": "c", "tls-key": "k"],
            "user-without-token"
        ),
        (["tls-certificate": "c"], "need each other"), (["tls-key": "k"], "need each other"),
    ])
    func tokensDoNotTravelInTheOpen(flags: [String: String], complaint: String) {
        let found = Self.complaint(flags: flags)
        #expect(complaint.isEmpty ? found.isEmpty : found.contains(complaint), "\(found)")
    }

    @Test func onlyWhoeverIsNamedIsLetIn() throws {
        let nothing = try Self.configuration()
        #expect(nothing.isClosed)
        #expect(nothing.appServices.otherApps == nil && nothing.appServices.apps.isEmpty)
        #expect(nothing.appServices.userWithoutToken == nil)
        let development = try Self.configuration(flags: ["dev": "true"])
        #expect(!development.isClosed)
        #expect(development.appServices.otherApps?.providers == [.anonymous, .emailPassword, .apiKey])
        #expect(development.appServices.userWithoutToken == "developer")
        #expect(!(try Self.configuration("apps: {a: {providers: [anon-user]}}").isClosed))
    }

    /// The file that the image and the service are shown with.
    @Test func theExampleIsAConfiguration() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let example = try Configuration(
            file: root.appendingPathComponent("scripts/deploy/anabranch.yaml").path, environment: [:], flags: [:])
        #expect(!example.isClosed && !example.isInsecure && !example.isDevelopment)
        #expect(example.missingPermissions == [])
        #expect(example.adminListen?.isLoopback == true && example.data == "/var/lib/anabranch")
    }

    @Test func limitsReachTheServer() throws {
        let flags = Self.values.filter { !["dev", "allow-destructive-schema"].contains($0.key) }
        let settings = try Self.configuration(flags: flags).server(cores: 1)
        #expect(settings.host == "::1" && settings.port == 7000)
        #expect(settings.connectionsMax == 5 && settings.connectionsPerAddressMax == 6)
        #expect(settings.connectionsPerUserMax == 7 && settings.limits.sessionsPerConnectionMax == 8)
        #expect(settings.objectBytesMax == 12 && settings.freeBytesMin == 16 && settings.storeBytesMax == 24)
        #expect(settings.adoptsUnownedClientFiles)
        #expect(settings.messageMemoryBytesMax == 13 && settings.clientClockSecondsMax == 25)
        #expect(settings.limits.silenceMillisecondsMax == 75_000)
        let usual = try Self.configuration().server(cores: 1), limits = ServerSettings(cores: 1)
        #expect(usual.connectionsPerAddressMax == limits.connectionsPerAddressMax)
        #expect(usual.connectionsPerUserMax == limits.connectionsPerUserMax)
        let development = try Self.configuration(flags: ["dev": "true", "connections-per-user": "3"]).server(cores: 1)
        #expect(development.connectionsPerAddressMax == .max && development.connectionsPerUserMax == 3)
    }

    /// Bare development mode refuses, too.
    @Test func destructiveSchemaChangesHaveToBeAllowed() throws {
        func rule(_ app: String, _ yaml: String) throws -> DestructiveSchema {
            try Self.configuration(yaml).server(cores: 1).destructiveSchema(of: VirtualPath(app + "/p/q"))
        }
        let apps = "apps: {a: {providers: [anon-user], destructive-schema: allow}, b: {providers: [anon-user]}}"
        #expect(try rule("a", apps) == .allow)
        #expect(try rule("b", apps) == .refuse)
        #expect(try rule("", apps) == .refuse)
        #expect(try rule("any", "dev: true") == .refuse)
        #expect(try rule("any", "{dev: true, allow-destructive-schema: true}") == .allow)
        #expect(try rule("b", "{dev: true, allow-destructive-schema: true, \(apps)}") == .refuse)
    }
}
