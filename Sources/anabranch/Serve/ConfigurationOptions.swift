import ArgumentParser
import Foundation

/// The flags of a server.
struct ConfigurationOptions: ParsableArguments {
    @OptionGroup(title: "SETTINGS") var server: ServerOptions
    @OptionGroup(title: "HISTORY") var history: HistoryOptions

    func configuration() throws -> Configuration { try Configuration(sources()) }

    /// The settings of all sources, and everything that is wrong with them.
    func sources() -> ConfigurationSources {
        ConfigurationSources(
            file: server.config, environment: ProcessInfo.processInfo.environment,
            flags: server.flags.merging(history.flags) { $1 })
    }
}

/// The flags that most users set.
struct ServerOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The configuration file, in YAML.", valueName: "file"))
    var config: String?

    @Option(help: ArgumentHelp("The directory of the data; made if there is none. (default: ./data)", valueName: "dir"))
    var data: String?

    @Option(
        help: ArgumentHelp(
            "The PostgreSQL database of files and accounts. (default: SQLite in the data directory)", valueName: "url"))
    var store: String?

    @Flag(help: "With --store: several servers serve the same files at once; each of them has this flag.")
    var shared = false

    @Option(
        help: ArgumentHelp(
            "Where to listen; port 0 lets the system choose. (default: 127.0.0.1:9090)", valueName: "host:port"))
    var listen: String?

    @Option(
        help: ArgumentHelp(
            "Where the admin interface listens, or off. (default: 127.0.0.1 and a port that the system chooses)",
            valueName: "host:port"))
    var adminListen: String?

    @Option(
        help: ArgumentHelp(
            "The token of the admin interface; made if there is none. (default: admin-token in the data directory)",
            valueName: "file"))
    var adminTokenFile: String?

    @Flag(help: "Let everybody in, on a loopback address: for development.")
    var dev = false

    @Flag(help: "With --dev: let clients take classes and columns away. (default: such uploads are refused)")
    var allowDestructiveSchema = false

    @Flag(help: "Listen without TLS on an address that is not a loopback address.")
    var insecure = false

    @Option(
        help: ArgumentHelp(
            "How clients reach the server: scheme, host and port. (default: what their Host header says)",
            valueName: "url"))
    var publicURL: String?

    @Option(help: ArgumentHelp("The server's certificate, in PEM, for TLS 1.2 and 1.3.", valueName: "file"))
    var tlsCertificate: String?

    @Option(help: ArgumentHelp("The private key of the certificate.", valueName: "file"))
    var tlsKey: String?

    @Option(
        help: ArgumentHelp(
            """
            Who may read and write what: a file of rules (Spec/Admin.md, section 5), or everybody if every user may \
            do everything. (default: none, and then only --dev, or apps of flexible sync alone, start)
            """, valueName: "file"))
    var rules: String?

    @Option(
        help: ArgumentHelp(
            "While the databases hold more, changes of clients and new partitions wait. (default: no limit)",
            valueName: "bytes"))
    var storeBytes: String?

    @Option(help: "What to log: trace, debug, info, notice, warning, error or critical. (default: info)")
    var logLevel: String?

    @Option(help: "How to log: text, or json for an object a line. (default: text)")
    var logFormat: String?

    fileprivate var flags: [String: String] {
        var flags: [String: String] = [:]
        flags["data"] = data
        flags["store"] = store
        flags["listen"] = listen
        flags["admin-listen"] = adminListen
        flags["admin-token-file"] = adminTokenFile
        flags["dev"] = dev ? "true" : nil
        flags["allow-destructive-schema"] = allowDestructiveSchema ? "true" : nil
        flags["insecure"] = insecure ? "true" : nil
        flags["shared"] = shared ? "true" : nil
        flags["public-url"] = publicURL
        flags["tls-certificate"] = tlsCertificate
        flags["tls-key"] = tlsKey
        flags["rules"] = rules
        flags["store-bytes"] = storeBytes
        flags["log-level"] = logLevel
        flags["log-format"] = logFormat
        return flags
    }
}

/// The flags of the section `history`: how much of the past is kept.
struct HistoryOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Log entries that become one segment. (default: 768)", valueName: "count"))
    var historySealEntries: String?

    @Option(help: ArgumentHelp("Bytes that fill a segment sooner. (default: 262144)", valueName: "bytes"))
    var historySealBytes: String?

    @Option(
        help: ArgumentHelp(
            "Bytes of new changes that renew what fresh clients begin with. (default: 4194304)",
            valueName: "bytes"))
    var historyGenerationBytes: String?

    @Option(
        help: ArgumentHelp(
            "How many times the size of the state these must have, too. (default: 2)", valueName: "ratio"))
    var historyGenerationRatio: String?

    @Option(
        help: ArgumentHelp(
            "Days away after which a client that keeps old changes is reset. (default: 60)", valueName: "days"))
    var historyOfflineDays: String?

    @Option(
        help: ArgumentHelp("Bytes it may keep; beyond, a day away is enough. (default: 1073741824)", valueName: "bytes")
    )
    var historyPinnedBytes: String?

    @Option(
        help: ArgumentHelp("Days away, if it never finished its first download. (default: 7)", valueName: "days"))
    var historyBootstrapDays: String?

    @Option(
        help: ArgumentHelp(
            "Days for which changesets are kept as received, to explain merges. (default: 30)", valueName: "days"))
    var historyExplainDays: String?

    @Option(help: "Drop what nobody needs any more, or archive it. (default: drop)")
    var historyKeep: String?

    fileprivate var flags: [String: String] {
        var flags: [String: String] = [:]
        flags["history-seal-entries"] = historySealEntries
        flags["history-seal-bytes"] = historySealBytes
        flags["history-generation-bytes"] = historyGenerationBytes
        flags["history-generation-ratio"] = historyGenerationRatio
        flags["history-offline-days"] = historyOfflineDays
        flags["history-pinned-bytes"] = historyPinnedBytes
        flags["history-bootstrap-days"] = historyBootstrapDays
        flags["history-explain-days"] = historyExplainDays
        flags["history-keep"] = historyKeep
        return flags
    }
}
