import AnabranchHistory
import AnabranchInspector
import AnabranchSQLite
import AnabranchServer
import CommandSupport
import Logging

/// A setting with a simple value: its name in the file, in a flag (`--name`) and in the environment (`ANABRANCH_NAME`).
struct Setting {
    let name: String
    /// The purpose of the setting: a sentence of one line.
    let meaning: String
    /// The allowed values, in words that follow "allowed:".
    let allowed: String
    /// Sets the value; returns false if the text is not a value of the setting.
    let set: (inout Configuration, String) -> Bool
    /// The value as a text that `set` takes; nil if it is not set.
    private let value: (Configuration) -> String?
    /// True if its value is never shown, not even a wrong one.
    let isSecret: Bool

    init<Value>(
        _ name: String, _ path: WritableKeyPath<Configuration, Value>, _ form: SettingForm<Value>, _ meaning: String
    ) {
        self.name = name
        self.meaning = meaning
        allowed = form.allowed
        isSecret = form.isSecret
        set = { configuration, word in
            guard let value = form.parse(word) else { return false }
            configuration[keyPath: path] = value
            return true
        }
        value = { form.print($0[keyPath: path]) }
    }

    /// The value as a text that `set` takes; nil if it is not set, or not to be shown.
    func get(_ configuration: Configuration) -> String? { isSecret ? nil : value(configuration) }

    func isSet(_ configuration: Configuration) -> Bool { value(configuration) != nil }

    var variable: String { "ANABRANCH_" + name.uppercased().replacing("-", with: "_") }

    /// The environment variable that was probably meant by one that is none of a setting; nil if none is like it.
    static func meant(byVariable variable: String) -> String? {
        let word = variable.dropFirst("ANABRANCH_".count).lowercased().replacing("_", with: "-")
        return KnownWords.nearest(to: word, in: all.map(\.name)).flatMap { name in
            all.first { $0.name == name }?.variable
        }
    }

    /// All settings, in the order in which they are printed.
    static var all: [Setting] {
        [
            Setting("data", \.data, .path, "The directory of all data; the server makes it if there is none."),
            Setting(
                "store", \.database, .database,
                "The PostgreSQL database that has files and accounts, in place of SQLite in the data directory."),
            Setting(
                "shared", \.isShared, .flag, "With store: whether several servers serve the same files at once."),
            Setting("listen", \.listen, .address, "Where clients connect; port 0 lets the system choose one."),
            Setting("insecure", \.isInsecure, .flag, "Whether to listen without TLS beyond loopback addresses."),
            Setting("dev", \.isDevelopment, .flag, "Whether everybody is let in, on a loopback address only."),
            Setting(
                "allow-destructive-schema", \.allowsDestructiveSchema, .flag,
                "With dev: whether clients may take classes and columns away."),
            Setting("log-level", \.logLevel, .level, "The least important messages that the log shows."),
            Setting(
                "log-format", \.logFormat, .logFormat,
                "Whether the log is text for people, or an object of JSON a line."),
            Setting(
                "public-url", \.publicURL, .url, "How clients reach the server; by default as their Host header says."),
            Setting("tls-certificate", \.tlsCertificate, .file, "The server's certificate, in PEM, for TLS."),
            Setting("tls-key", \.tlsKey, .file, "The private key of the certificate, in PEM."),
            Setting("rules", \.rules, .rules, "Who may read and write what; everybody stands for no rules at all."),
            Setting(
                "user-without-token", \.userWithoutToken, .text,
                "The user that clients without a token count as; by default they are refused."),
            Setting("admin-listen", \.adminListen, .addressOrOff, "Where the admin interface listens."),
            Setting(
                "admin-token-file", \.adminTokenFile, .file,
                "The token of the admin interface; by default the file admin-token in the data directory."),
            Setting("admin-token", \.adminToken, .token, "The token of the admin interface itself, if not in a file."),
            Setting(
                "inspector", \.inspector, .inspector,
                "Whether the admin interface has pages for people, and whether these only show or also act."),
            Setting(
                "inspector-users", \.inspectorUsers, .idents,
                "The users who may log in to these pages with e-mail and password, besides whoever has the token."),
            Setting(
                "smtp-password", \.smtpPassword, .password,
                "The password that apps send e-mails with, unless they have a password-file."),
            Setting("connections", \.connectionsMax, .count(), "The most connections at a time."),
            Setting(
                "connections-per-address", \.connectionsPerAddressMax, .count(),
                "The most connections of one address."),
            Setting("connections-per-user", \.connectionsPerUserMax, .count(), "The most connections of one user."),
            Setting(
                "trusted-proxies", \.trustedProxies, .proxies,
                "The proxies in front, whose X-Forwarded-For says which address a client has."),
            Setting(
                "proxy-protocol", \.usesProxyProtocol, .flag,
                "Whether the proxies say it with the PROXY protocol instead, before everything else."),
            Setting(
                "sessions-per-connection", \.sessionsPerConnectionMax, .count(),
                "The most sessions in one connection."),
            Setting(
                "message-memory-bytes", \.messageMemoryBytesMax, .count(),
                "The memory of long messages under way, of all connections."),
            Setting("logins-per-minute", \.loginsPerMinuteMax, .count(), "The most logins of one address in a minute."),
            Setting("access-token-seconds", \.accessTokenSeconds, .count(), "How long an access token is valid."),
            Setting("session-seconds", \.sessionSeconds, .count(), "How long a login lasts."),
            Setting(
                "shards", \.shards, .count(upTo: UInt64(SQLiteStore.Options.shardsMax)),
                "How many databases a new store has."),
            Setting("object-bytes", \.objectBytesMax, .count(), "How large clients can make an object."),
            Setting(
                "client-clock-seconds", \.clientClockSecondsMax, .count(upTo: UInt64(Int32.max)),
                "Clients whose clocks are wrong by more are named in the log."),
            Setting(
                "silence-seconds", \.silenceSeconds, .count(from: 60, upTo: 3_600),
                "A connection is closed after so long without a message; one whose PINGs show a rhythm, earlier."),
            Setting(
                "free-bytes", \.freeBytesMin, .count(upTo: UInt64(Int.max)),
                "What stays free on the disk of the data; while less is, changes and new partitions wait."),
            Setting(
                "store-bytes", \.storeBytesMax, .count(upTo: UInt64(Int.max)),
                "What the databases may hold; while they hold more, changes of clients and new partitions wait."),
            Setting(
                "adopt-unowned-clients", \.adoptsUnownedClients, .flag,
                "Whether a client file of nobody goes to the first user who comes with it."),
            Setting(
                "partition-bytes", \.partitionBytesMax, .count(upTo: UInt64(Int.max)),
                "What the log of a partition may hold; from half on what nobody needs goes, beyond it changes wait."),
        ] + history
    }

    /// The section of the settings that say how much of the past is kept. In the file they stand within the section,
    /// without its name.
    static let historySection = "history"

    private static var history: [Setting] {
        [
            Setting(
                "history-seal-entries", \.history.sealEntries, .count(from: 1, upTo: 16_384),
                "How many log entries become a segment: of 768 small ones each takes 11 bytes there, of fewer more."),
            Setting(
                "history-seal-bytes", \.history.sealBytes, .count(from: 1, upTo: 128 << 20),
                "How many bytes fill a segment sooner: it is read as a whole, 256 KiB in about a millisecond."),
            Setting(
                "history-generation-bytes", \.history.generationBytes, .count(from: 1),
                "After how many bytes of new changes fresh clients get a newer start, so that older changes can go."),
            Setting(
                "history-generation-ratio", \.history.generationRatio, .ratio,
                "How many times the bytes of the state these changes must have, too: a start is made from all of it."),
            Setting(
                "history-offline-days", \.history.offlineDays, .count(from: 1, upTo: 36_500),
                "For how many days a client may be away that keeps old changes from going; longer holidays are rare."),
            Setting(
                "history-pinned-bytes", \.history.pinnedBytes, .count(from: 1),
                "How many bytes such a client may keep; beyond, a day away is enough: one lost phone fills no disk."),
            Setting(
                "history-bootstrap-days", \.history.bootstrapDays, .count(from: 1, upTo: 36_500),
                "For how many days it may be away if it never got beyond its first download: nothing is lost with it."),
            Setting(
                "history-explain-days", \.explainDays, .count(),
                "How long changesets are kept as received where merging has changed them, to explain merges."),
            Setting(
                "history-keep", \.history.keep, .keep,
                "What nobody needs any more is dropped, or goes to an archive, which only grows."),
        ]
    }

    /// The name within the section; nil if the setting is in none.
    var nameInSection: String? {
        let prefix = Self.historySection + "-"
        return name.hasPrefix(prefix) ? String(name.dropFirst(prefix.count)) : nil
    }
}

/// The written form of a setting's values.
struct SettingForm<Value> {
    let allowed: String
    /// Returns nil for a text that is not a value.
    let parse: (String) -> Value?
    let print: (Value) -> String?
    var isSecret = false
}

extension SettingForm<Bool> {
    static var flag: Self { Self(allowed: "true or false", parse: Bool.init, print: { "\($0)" }) }
}

extension SettingForm<HistoryPolicy.Keep> {
    static var keep: Self {
        Self(
            allowed: HistoryPolicy.Keep.allCases.map(\.rawValue).joined(separator: ", "),
            parse: HistoryPolicy.Keep.init(rawValue:), print: { $0.rawValue })
    }
}

extension SettingForm<String> {
    static var path: Self { Self(allowed: "a path", parse: { $0.isEmpty ? nil : $0 }, print: { $0 }) }
}

extension SettingForm<String?> {
    static var file: Self { words("the path of a file") { !$0.isEmpty } }
    static var text: Self { words("a text") { !$0.isEmpty } }

    static var url: Self {
        words("scheme, host, port and path without a slash at the end, like https://example.com/sync") {
            $0.wholeMatch(of: /https?:\/\/[A-Za-z0-9._:\[\]-]+(\/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*/) != nil
        }
    }

    static var token: Self {
        Self(
            allowed: "at least 16 visible ASCII characters", parse: { AdminToken($0) == nil ? nil : .some($0) },
            print: { $0 }, isSecret: true)
    }

    /// It can have a password.
    static var database: Self {
        Self(
            allowed: "a URL like postgres://anabranch@db.example.com/anabranch",
            parse: { $0.wholeMatch(of: /postgres(ql)?:\/\/.+/) == nil ? nil : .some($0) }, print: { $0 },
            isSecret: true)
    }

    static var password: Self {
        Self(allowed: "a text", parse: { $0.isEmpty ? nil : .some($0) }, print: { $0 }, isSecret: true)
    }

    private static func words(_ allowed: String, _ isAllowed: @escaping (String) -> Bool) -> Self {
        Self(allowed: allowed, parse: { isAllowed($0) ? .some($0) : nil }, print: { $0 })
    }
}

extension SettingForm<ListenAddress> {
    static var address: Self {
        Self(
            allowed: "host:port, like 127.0.0.1:9090 or [::1]:9090", parse: ListenAddress.init(argument:),
            print: { $0.description })
    }
}

extension SettingForm<ListenAddress?> {
    static var addressOrOff: Self {
        Self(
            allowed: "off, or host:port, like 127.0.0.1:9091",
            parse: { $0 == "off" ? .some(nil) : ListenAddress(argument: $0).map { .some($0) } },
            print: { $0?.description ?? "off" })
    }
}

extension SettingForm<Set<String>> {
    static var idents: Self {
        Self(
            allowed: "idents of users, as anabranch admin users prints them, with commas between them",
            parse: { text in
                let words = text.split(separator: ",", omittingEmptySubsequences: false)
                let idents = words.compactMap { $0.wholeMatch(of: #/ *([0-9a-f]{24}) */#)?.output.1 }
                return idents.count == words.count ? Set(idents.map(String.init)) : nil
            },
            print: { $0.isEmpty ? nil : $0.sorted().joined(separator: ", ") })
    }
}

extension SettingForm<Inspector.Mode?> {
    static var inspector: Self {
        Self(
            allowed: "off, " + Inspector.Mode.allCases.map(\.rawValue).joined(separator: ", "),
            parse: { $0 == "off" ? .some(nil) : Inspector.Mode(rawValue: $0).map { .some($0) } },
            print: { $0?.rawValue ?? "off" })
    }
}

extension SettingForm<LogFormat> {
    static var logFormat: Self {
        Self(
            allowed: LogFormat.allCases.map(\.rawValue).joined(separator: ", "), parse: LogFormat.init(rawValue:),
            print: { $0.rawValue })
    }
}

extension SettingForm<TrustedProxies> {
    static var proxies: Self {
        Self(
            allowed: "addresses and networks with commas between them, like 127.0.0.1, 10.0.0.0/8",
            parse: { TrustedProxies($0) }, print: { $0 == .none ? nil : $0.description })
    }
}

extension SettingForm<Logger.Level> {
    static var level: Self {
        Self(
            allowed: Logger.Level.allCases.map(\.rawValue).joined(separator: ", "), parse: Logger.Level.init(rawValue:),
            print: { $0.rawValue })
    }
}

extension SettingForm<RulesSetting?> {
    static var rules: Self {
        Self(
            allowed: "the path of a file, or everybody", parse: { RulesSetting($0).map { .some($0) } },
            print: { $0?.description })
    }
}

extension SettingForm<UInt64> {
    static func count(from smallest: UInt64, upTo largest: UInt64 = UInt64(Int64.max)) -> Self {
        Self(
            allowed: "a whole number from \(smallest) to \(largest)",
            parse: { text in UInt64(asPrinted: text).flatMap { (smallest...largest).contains($0) ? $0 : nil } },
            print: { "\($0)" })
    }
}

extension SettingForm<Double> {
    static var ratio: Self {
        Self(
            allowed: "a number from 0 to 1000",
            parse: { text in
                guard text.wholeMatch(of: /(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/) != nil else { return nil }
                return Double(text).flatMap { (0...1000).contains($0) ? $0 : nil }
            },
            print: { "\($0)" })
    }
}

extension SettingForm {
    /// A whole number, from 1 on if nothing else is given.
    static func count<Number: FixedWidthInteger>(
        from smallest: UInt64 = 1, upTo largest: UInt64 = UInt64(UInt32.max)
    ) -> Self where Value == Number? {
        Self(
            allowed: "a whole number from \(smallest) to \(largest)",
            parse: { text in
                UInt64(asPrinted: text).flatMap { smallest <= $0 && $0 <= largest ? .some(Number($0)) : nil }
            },
            print: { $0?.description })
    }
}
