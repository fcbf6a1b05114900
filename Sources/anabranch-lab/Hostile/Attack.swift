/// Something that one user, or a few, can do to a server, and what it may cost all others.
struct Attack: Sendable {
    /// The measurements and bounds of an attack; the defaults hold unless the attack says otherwise.
    struct Plan: Sendable {
        /// True if there are neighbours. Nobody can write to a store that counts as full, or to a server that ends.
        var hasBystanders = true
        /// The files of bystanders that are attacked, if any are; all others are neighbours.
        var attackedPlaces: Set = [AttackedApp.flexible.rawValue]
        /// True if the general bounds count: how long others wait, and how soon the server ends. The bounds that the
        /// attack itself sets count in any case.
        var isJudgedByWaits = true
        /// True if a small commit of another user is measured afterwards, while the attacker is still there.
        var measuresLaterCommit = true
        /// The growth allowed to the server's memory, in MiB.
        var memoryGrowthBound = 100.0
        /// The time after which the attacker is cut off, in seconds.
        var cutOffSeconds = 90.0
        var server = AttackedServer()
    }

    var name: String
    /// The attacker's actions, in words that begin in lower case.
    var summary: String
    /// The numbers of the attack, by name; each can be replaced by an option.
    var counts: [String: Int] = [:]
    var plan = Plan()
    var body: @Sendable (AttackRun) async throws -> Void

    /// All attacks, in the order of their severity.
    static let all: [Attack] =
        viewAttacks + mergeAttacks + refusalAttacks + queryAttacks + stormAttacks + roleAttacks + storageAttacks
        + doorAttacks + simperiumAttacks

    /// The attack of this name, one of `all`.
    static func named(_ name: String) -> Attack? { all.first { $0.name == name } }
}

/// The apps of an attacked server.
enum AttackedApp: String, CaseIterable, Sendable {
    /// Apps of flexible sync: the one that is attacked, and another one.
    case flexible = "flexa", otherFlexible = "flexb"
    case partitions = "part"

    var isFlexible: Bool { self != .partitions }
}

/// The setup of an attacked server.
struct AttackedServer: Sendable {
    /// The settings that differ from the defaults, in YAML.
    var settings = manyClients
    /// The settings for many clients, all of which come from one address.
    static let manyClients = "logins-per-minute: 1000000\nconnections-per-address: 1000000"
    /// True if the app with partitions serves Simperium's clients, too.
    var servesSimperium = false
    /// The rules of the attacked class of the attacked app; nil if everybody may do everything.
    var rules: String?
    /// The objects in the attacked app before the attack.
    var objects: AttackedObjects?

    /// The folder of the app's export, next to the configuration.
    static let exportName = "export"
    /// The rules of the attacked class within it.
    static let rulesPath = "data_sources/db/shop/\(AttackedObjects.className)/rules.json"

    var configuration: String {
        let export = rules == nil ? "everybody" : Self.exportName
        let simperium = servesSimperium ? ", simperium: {}" : ""
        return """
            rules: everybody
            apps:
              \(AttackedApp.flexible.rawValue): {providers: [anon-user], sync: flexible, app-config: \(export)}
              \(AttackedApp.otherFlexible.rawValue): {providers: [anon-user], sync: flexible, app-config: everybody}
              \(AttackedApp.partitions.rawValue): {providers: [anon-user, local-userpass]\(simperium)}
            \(settings)

            """
    }

    /// The rules of a class in which everybody may do everything with the objects that match the filter `read`.
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
