/// Something that one user, or a few, can do to a server, and what it may cost all others.
struct Attack: Sendable {
    /// What is measured of each attack unless it says something else.
    struct Plan: Sendable {
        /// Whether there are neighbours. Nobody can write to a store that counts as full, or to a server that ends.
        var hasBystanders = true
        /// The files of bystanders that are attacked; all others are neighbours.
        var attackedPlaces: Set = [AttackedApp.flexible.rawValue]
        /// Whether the general bounds count: how long others wait, and how soon the server ends. What is written for
        /// the attack counts in any case.
        var isJudgedByWaits = true
        /// Whether a small commit of another user is measured afterwards, while the attacker is still there.
        var measuresLaterCommit = true
        /// What the server's memory may grow by, in MiB.
        var memoryGrowthBound = 100.0
        /// After so many seconds the attacker is cut off.
        var cutOffSeconds = 90.0
        var server = AttackedServer()
    }

    var name: String
    /// What the attacker does, in words that begin small.
    var summary: String
    /// How much of it, by name; each can be told to be another number.
    var counts: [String: Int] = [:]
    var plan = Plan()
    var body: @Sendable (AttackRun) async throws -> Void

    /// In the order of their severity.
    static let all: [Attack] =
        viewAttacks + mergeAttacks + refusalAttacks + queryAttacks + stormAttacks + roleAttacks + storageAttacks
        + doorAttacks

    /// One of `all`.
    static func named(_ name: String) -> Attack? { all.first { $0.name == name } }
}

/// The apps of a server that is attacked.
enum AttackedApp: String, CaseIterable, Sendable {
    /// Of flexible sync: the one that is attacked, and another one.
    case flexible = "flexa", otherFlexible = "flexb"
    case partitions = "part"

    var isFlexible: Bool { self != .partitions }
}

/// How a server is set up that is attacked.
struct AttackedServer: Sendable {
    /// What of its settings differs from the defaults, in YAML.
    var settings = manyClients
    /// All clients come from one address.
    static let manyClients = "logins-per-minute: 1000000\nconnections-per-address: 1000000"
    /// The rules of the attacked class of the attacked app; nil if everybody may do everything.
    var rules: String?
    /// The objects that are there, in the attacked app.
    var objects: AttackedObjects?

    /// The folder of the app's export, beside the configuration.
    static let exportName = "export"
    /// The rules of the attacked class within it.
    static let rulesPath = "data_sources/db/shop/\(AttackedObjects.className)/rules.json"

    var configuration: String {
        let export = rules == nil ? "" : ", app-config: \(Self.exportName)"
        return """
            rules: everybody
            apps:
              \(AttackedApp.flexible.rawValue): {providers: [anon-user], sync: flexible\(export)}
              \(AttackedApp.otherFlexible.rawValue): {providers: [anon-user], sync: flexible}
              \(AttackedApp.partitions.rawValue): {providers: [anon-user, local-userpass]}
            \(settings)

            """
    }

    /// A class whose objects everybody may do everything with, if this is so.
    static func rules(read: String) -> String {
        """
        {"roles": [{"name": "all", "apply_when": {}, "document_filters": {"read": \(read), "write": \(read)}, \
        "read": true, "write": true, "insert": true, "delete": true}]}
        """
    }

    /// The files of the export of the attacked app, by their paths.
    func exportFiles() -> [String: String] {
        guard let rules else { return [:] }
        return [
            Self.rulesPath: rules,
            "data_sources/db/default_rule.json": Self.rules(read: "true"),
            "sync/config.json": #"{"type": "flexible", "development_mode_enabled": true}"#,
        ]
    }
}
