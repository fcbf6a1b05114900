import AnabranchCore
package import AnabranchQuery

/// The settings of an app's sync: `sync/config.json` of an export (`Spec/FlexibleRules.md`, section 6).
package struct SyncConfiguration: Hashable, Sendable {
    /// The fields that subscriptions may ask for.
    package var queryableFields = QueryableFields()
    /// True if clients may add classes and properties.
    package var isInDevelopmentMode = false
    /// True if a client reset must not recover changes that the client has not uploaded.
    package var isRecoveryDisabled = false
    /// The database whose collections are synced; nil for all.
    package var databaseName: String?
    /// The days offline after which a client is reset; nil if not stated.
    package var offlineDaysOfClient: Int?
    /// The asymmetric classes: clients write to them and never read.
    package var asymmetricClasses: Set<String> = []

    /// An empty configuration: every field is queryable.
    package init() {}
}

/// The fields that subscriptions may ask for (`Spec/FlexibleRules.md`, section 5).
package struct QueryableFields: Hashable, Sendable {
    /// The names that are queryable in every class that has them.
    package var names: Set<String>?
    /// The names by class, in addition to those of every class.
    package var namesByClass: [String: Set<String>]

    /// Without any names every field is queryable.
    package init(names: Set<String>? = nil, namesByClass: [String: Set<String>] = [:]) {
        self.names = names
        self.namesByClass = namesByClass
    }

    /// The queryable fields of a class, apart from its primary key, which always is; nil for all.
    package func names(ofClass name: String) -> Set<String>? {
        names == nil && namesByClass.isEmpty ? nil : (names ?? []).union(namesByClass[name] ?? [])
    }

    /// Reads the query of a subscription.
    ///
    /// - Throws: `QueryError`; its reason is the text for clients.
    package func query(
        subscribingTo className: String, where text: String, of source: some ObjectSource
    ) throws(QueryError) -> Query {
        try Query(
            subscribingTo: className, where: text, of: source, queryableFields: names(ofClass: className))
    }
}

// MARK: Reading

extension SyncConfiguration {
    private static let known: Set = [
        "type", "state", "development_mode_enabled", "service_name", "database_name", "client_max_offline_days",
        "is_recovery_mode_disabled", "permissions", "queryable_fields_names", "collection_queryable_fields_names",
        "indexed_queryable_fields_names", "asymmetric_tables", "partition", "last_disabled",
    ]

    /// True if `sync/config.json` is about flexible sync; any other configuration belongs to partitions.
    static func isFlexible(_ node: JSONNode) throws(RuleError) -> Bool {
        guard let type = node["type"] else { return node["partition"] == nil }
        switch try type.string() {
        case "flexible": return true
        case "partition": return false
        default: throw type.error("\"flexible\" or \"partition\" is expected")
        }
    }

    init(_ node: JSONNode, _ notices: NoticeList) throws(RuleError) {
        try node.reportUnknown(Self.known, in: notices)
        isInDevelopmentMode = try node["development_mode_enabled"]?.bool() ?? false
        isRecoveryDisabled = try node["is_recovery_mode_disabled"]?.bool() ?? false
        databaseName = try node["database_name"]?.string()
        if let days = node["client_max_offline_days"] {
            let number = try days.integer()
            // App Services writes 0 where clients never expire.
            guard (0...36_500).contains(number) else { throw days.error("a number of days is expected") }
            offlineDaysOfClient = number == 0 ? nil : Int(number)
        }
        asymmetricClasses = Set(try node["asymmetric_tables"]?.strings() ?? [])
        queryableFields.names = try node["queryable_fields_names"].map { node throws(RuleError) in
            Set(try node.strings())
        }
        if let indexed = try node["indexed_queryable_fields_names"]?.strings() {
            queryableFields.names = (queryableFields.names ?? []).union(indexed)
        }
        for (name, node) in try node["collection_queryable_fields_names"]?.members() ?? [] {
            queryableFields.namesByClass[name] = Set(try node.strings())
        }
        if let state = try node["state"]?.string(), state != "enabled" {
            notices.add(.notHere, node.file, "sync is not enabled in this app; here it is")
        }
    }
}
