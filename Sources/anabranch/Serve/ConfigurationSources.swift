import AnabranchServer
import CommandSupport
import Yams

/// The mistakes in a configuration, a line for each.
struct ConfigurationError: Error, CustomStringConvertible {
    let problems: [String]

    var description: String { problems.joined(separator: "\n") }
}

extension Configuration {
    /// The settings of all sources, if they do not contradict each other.
    /// - Parameters:
    ///   - file: the path of the YAML file, if there is one.
    ///   - flags: the flags that were given, by name.
    /// - Throws: `ConfigurationError` with every mistake.
    init(file: String?, environment: [String: String], flags: [String: String]) throws {
        try self.init(ConfigurationSources(file: file, environment: environment, flags: flags))
    }

    /// - Throws: `ConfigurationError` with every mistake.
    init(_ sources: ConfigurationSources) throws {
        let problems = sources.problems + sources.configuration.contradictions
        guard problems.isEmpty else { throw ConfigurationError(problems: problems) }
        self = sources.configuration
    }

    /// The settings that exclude each other, or that must be allowed explicitly.
    var contradictions: [String] {
        var problems: [String] = []
        if isDevelopment, !listen.isLoopback {
            problems.append("dev: \(listen.host) is not a loopback address, and everybody is let in")
        }
        if allowsDestructiveSchema, !isDevelopment {
            problems.append(
                "allow-destructive-schema: only with dev; an app has destructive-schema: allow of its own")
        }
        if database != nil, storeBytesMax != nil {
            problems.append("store-bytes: not with store, since PostgreSQL does not say what the files occupy")
        }
        if isShared { problems += contradictionsOfSharing }
        if usesProxyProtocol, trustedProxies == .none {
            problems.append("proxy-protocol: only with trusted-proxies, since others may write what they like")
        }
        if (tlsCertificate == nil) != (tlsKey == nil) {
            problems.append("tls-certificate and tls-key need each other")
        }
        if !listen.isLoopback, userWithoutToken != nil, !isInsecure {
            problems.append(
                "user-without-token: \(listen.host) is not a loopback address, and everybody is let in: pass "
                    + "--insecure if that is meant")
        }
        for (name, address) in [("listen", listen), ("admin-listen", adminListen)] {
            guard let address, !address.isLoopback, tlsCertificate == nil, !isInsecure else { continue }
            problems.append(
                "\(name): \(address.host) is not a loopback address, and tokens and passwords would travel in "
                    + "the open: give a certificate, or pass --insecure if they may")
        }
        let hosts = [listen.host, adminListen?.host ?? ""]
        if listen.port != 0, listen.port == adminListen?.port,
            hosts[0] == hosts[1] || hosts.contains("0.0.0.0") || hosts.contains("::")
        {
            problems.append("listen and admin-listen: both are port \(listen.port): give each its own")
        }
        for (app, settings) in emails.sorted(by: { $0.key < $1.key }) {
            guard case .smtp(let server) = settings.way, server.user != nil else { continue }
            guard server.passwordFile == nil, smtpPassword == nil else { continue }
            problems.append("apps: \(app): email: user needs a password-file, or the setting smtp-password")
        }
        return problems
    }

    /// The settings that several servers over one store do not have (`Spec/Nodes.md`, section 6).
    private var contradictionsOfSharing: [String] {
        let sessions = overTheAir.keys.map { app in
            """
            apps: \(app): property-list is for a server that has its store for itself, since each session of a device \
            is in the memory of one server: leave shared away
            """
        }
        let contents = files.keys.map { app in
            """
            apps: \(app): files is for a server that has its store for itself, since the contents are in its data \
            directory: leave shared away
            """
        }
        return (database == nil ? ["shared: only with store, the PostgreSQL database that the servers share"] : [])
            + (sessions + contents).sorted()
    }

    /// Notices that nobody can log in, or that rules decide nothing, which may be meant.
    var notices: [String] {
        let empty = apps.filter { $0.value.providers.isEmpty && $0.value.forks.isEmpty }.keys.sorted()
        var notices = isClosed ? ["no apps are configured, so nobody is let in"] : []
        if case .file = rules, !isClosed, !hasPartitions {
            notices.append("rules: no app has partitions, so they decide nothing")
        }
        return notices + empty.map { "apps: \($0): there are no providers, so nobody can log in" }
    }

    private var hasPartitions: Bool {
        isDevelopment || userWithoutToken != nil || apps.values.contains { !$0.isFlexible }
    }

    /// The permissions that nobody has set: a line for all partitions, and one for each app of flexible sync.
    /// Development needs none.
    var missingPermissions: [String] {
        guard !isDevelopment else { return [] }
        let partitions = """
            rules: not set, so every user may read and write every partition: name a file that says who may do what, \
            or write rules: everybody if that is meant
            """
        let open = apps.filter { $0.value.isFlexible && $0.value.exportPath == nil }.keys.sorted()
        return (rules == nil && hasPartitions ? [partitions] : [])
            + open.map { app in
                """
                apps: \(app): app-config is not set, so every user may read and write every object: name the folder of \
                the exported app, or write app-config: everybody if that is meant
                """
            }
    }
}

/// Reads the settings from file, environment and flags, and collects all mistakes.
struct ConfigurationSources {
    private(set) var configuration = Configuration()
    /// The settings that some source has set.
    private(set) var names: Set<String> = []
    private(set) var problems: [String] = []
    /// The settings of the file that the environment overrides, which may have been forgotten there: a line for each.
    private(set) var overridden: [String] = []
    /// The environment variables that are nearly those of settings: a line for each.
    private(set) var misspelt: [String] = []

    init(file: String?, environment: [String: String], flags: [String: String]) {
        let settings = Setting.all
        if let file { read(file, settings) }
        let variables = Dictionary(settings.map { ($0.variable, $0) }) { first, _ in first }
        for (name, value) in environment.sorted(by: { $0.key < $1.key }) where name.hasPrefix("ANABRANCH_") {
            guard let setting = variables[name] else {
                // Scripts use the prefix for variables of their own.
                let meant = Setting.meant(byVariable: name).map { "\(name) is not read; did you mean \($0)?" }
                misspelt += meant.map { [$0] } ?? []
                continue
            }
            let old = names.contains(setting.name) ? setting.get(configuration) : nil
            set(setting, value, source: "environment variable \(name)")
            if let file, let old, let new = setting.get(configuration), new != old, flags[setting.name] == nil {
                overridden.append("\(setting.name): \(new) of \(name) counts, not \(old) of \(file)")
            }
        }
        for setting in settings {
            if let value = flags[setting.name] { set(setting, value, source: "--\(setting.name)") }
        }
    }

    private mutating func set(_ setting: Setting, _ value: String, source: String) {
        guard setting.isSecret || !ConfiguredPaths.isForShells(value) else {
            return problems.append("\(source): '\(value)': only shells know ~; write the whole path of the folder")
        }
        if setting.set(&configuration, value) {
            names.insert(setting.name)
            return
        }
        let found = setting.isSecret ? "this" : "'\(value)'"
        problems.append("\(source): cannot be \(found); allowed: \(setting.allowed)")
    }

    private mutating func read(_ path: String, _ settings: [Setting]) {
        let root: Node?
        do {
            let text = try TextInput.text(ofFile: path)
            if let line = Self.lineWithTab(text) {
                return problems.append("\(path): line \(line) begins with a tab: YAML is indented with blanks alone")
            }
            root = try Yams.compose(yaml: text)
        } catch let error as InputError {
            return problems.append(error.description)
        } catch YamlError.duplicatedKeysInMapping(let duplicates, _) {
            let names = Set(duplicates).sorted().joined(separator: ", ")
            return problems.append("\(path): \(names): is there more than once; allowed: once")
        } catch {
            return problems.append("\(path): \(YAMLMistake.line(error))")
        }
        guard let root else { return }
        guard let mapping = ConfiguredPaths(ofFile: path).resolved(root).mapping else {
            return problems.append("\(path): no settings; allowed: a line for each, like listen: 127.0.0.1:9090")
        }
        for (key, value) in mapping {
            let name = key.scalar?.string ?? ""
            if name == "apps" {
                var section = AppsSection(place: "\(path): apps")
                section.read(value)
                configuration.apps = section.apps
                configuration.emails = section.emails
                configuration.simperium = section.simperium
                configuration.overTheAir = section.overTheAir
                configuration.files = section.files
                problems += section.problems
            } else if name == Setting.historySection {
                readHistory(value, place: "\(path): \(name)", settings)
            } else if let setting = settings.first(where: { $0.name == name && $0.nameInSection == nil }) {
                set(setting, value, place: "\(path): \(name)")
            } else if settings.contains(where: { $0.nameInSection == name }) {
                let section = Setting.historySection
                problems.append("\(path): \(name) belongs to \(section), as in \(section): {\(name): …}")
            } else {
                let names = settings.filter { $0.nameInSection == nil }.map(\.name)
                problems.append(
                    "\(path): " + KnownWords.unknown("setting", name, of: names + ["apps", Setting.historySection]))
            }
        }
    }

    /// The number of the first line whose indentation has a tab, which YAML does not allow; nil if there is none.
    private static func lineWithTab(_ text: String) -> Int? {
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        return lines.firstIndex { line in
            line.prefix { $0 == " " || $0 == "\t" }.contains("\t") && !line.allSatisfy(\.isWhitespace)
        }.map { $0 + 1 }
    }

    private mutating func readHistory(_ node: Node, place: String, _ settings: [Setting]) {
        let settings = settings.filter { $0.nameInSection != nil }
        guard let mapping = node.mapping else {
            return problems.append("\(place): no settings; allowed: {offline-days: 60}")
        }
        for (key, value) in mapping {
            let name = key.scalar?.string ?? ""
            if let setting = settings.first(where: { $0.nameInSection == name }) {
                set(setting, value, place: "\(place): \(name)")
            } else {
                let names = settings.compactMap(\.nameInSection)
                problems.append("\(place): " + KnownWords.unknown("setting", name, of: names))
            }
        }
    }

    private mutating func set(_ setting: Setting, _ value: Node, place: String) {
        guard let text = value.scalar?.string else {
            return problems.append("\(place) has to be one word; allowed: \(setting.allowed)")
        }
        set(setting, text, source: place)
    }
}
