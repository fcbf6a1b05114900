import AnabranchCore

/// Reads the files of an export into its parts (`Spec/FlexibleRules.md`, section 8).
struct AppReader {
    /// The parts of an export that are about one collection.
    struct Collection {
        let database: String
        let name: String
        var rules: JSONNode?
        var schema: JSONNode?
        var relationships: JSONNode?

        /// The class of its objects, as clients know it.
        func className() throws(RuleError) -> String { try schema?["title"]?.string() ?? name }
    }

    let notices = NoticeList()
    private let files: [AppFile]
    private(set) var appID: String?
    private(set) var sync = SyncConfiguration()
    /// True if there is a configuration of flexible sync.
    private(set) var isFlexible = false
    private(set) var providers: Set<String>?
    private var collections: [ExactString: Collection] = [:]
    /// The databases of collections that are not synced.
    private(set) var otherDatabases: Set<String> = []
    private var defaultRule: JSONNode?
    /// The roles in the place where the older form of sync has them.
    private var syncRoles: JSONNode?
    private var values: [String: JSONValue] = [:]
    private var environments: [String: JSONNode] = [:]
    private var environment = ""

    /// True if there are roles, or files of roles that have none.
    var hasRules: Bool { defaultRule != nil || syncRoles != nil || collections.values.contains { $0.rules != nil } }

    init(_ files: [AppFile]) { self.files = files.sorted { $0.path < $1.path } }

    // MARK: Files

    mutating func read() throws(RuleError) {
        for file in files { try read(file, file.path.split(separator: "/").map(String.init)) }
        dropOtherDatabases()
    }

    private mutating func read(_ file: AppFile, _ parts: [String]) throws(RuleError) {
        switch (parts.first, parts.count) {
        case ("realm_config.json", 1), ("root_config.json", 1), ("app.json", 1), ("config.json", 1), ("stitch.json", 1):
            try readRoot(try JSONNode(parsing: file))
        case ("sync.json", 1): try readSync(try JSONNode(parsing: file))
        case ("sync", 2) where parts[1] == "config.json": try readSync(try JSONNode(parsing: file))
        case ("data_sources", 3...5), ("services", 3...5): try readDataSource(file, parts)
        case ("auth", 2) where parts[1] == "providers.json": try readProviders(try JSONNode(parsing: file))
        case ("auth", 2) where parts[1] == "custom_user_data.json": try readCustomData(try JSONNode(parsing: file))
        case ("auth_providers", 2): try readProvider(try JSONNode(parsing: file))
        case ("values", 2): try readValue(try JSONNode(parsing: file))
        case ("environments", 2):
            environments[String(parts[1].dropLast(5))] = try JSONNode(parsing: file)
        default: reportOther(file, parts)
        }
    }

    /// The other content that an export can have, by its first folder.
    private static let others = [
        "functions": "functions", "triggers": "triggers", "http_endpoints": "HTTPS endpoints",
        "https_endpoints": "HTTPS endpoints", "endpoints": "HTTPS endpoints", "graphql": "GraphQL",
        "hosting": "hosting of files", "log_forwarders": "log forwarders", "secrets.json": "secrets",
        "services": "services", "data_sources": "other data sources", "push": "push messages",
    ]

    private func reportOther(_ file: AppFile, _ parts: [String]) {
        // The default content of these files asks for nothing.
        let isEmpty = ["", "{}", "[]"].contains(String(decoding: file.bytes.filter { $0 > 0x20 }, as: UTF8.self))
        if let name = parts.first.flatMap({ Self.others[$0] }) {
            if file.path.hasSuffix(".json"), isEmpty { return }
            notices.add(.notHere, file.path, "\(name) are not here: this has no effect")
        } else {
            notices.add(.unknown, file.path, "this file is not known and has no effect")
        }
    }

    private mutating func readRoot(_ node: JSONNode) throws(RuleError) {
        try node.reportUnknown(
            [
                "app_id", "client_app_id", "name", "config_version", "location", "provider_region", "deployment_model",
                "environment", "security", "hosting", "custom_user_data_config", "sync", "data_api_config",
            ], in: notices)
        appID = try (node["client_app_id"] ?? node["app_id"])?.string() ?? appID
        environment = try node["environment"]?.string() ?? environment
        if let data = node["custom_user_data_config"] { try readCustomData(data) }
        if let sync = node["sync"], sync["state"] != nil || sync["type"] != nil { try readSync(sync) }
    }

    private mutating func readSync(_ node: JSONNode) throws(RuleError) {
        guard try SyncConfiguration.isFlexible(node) else {
            notices.add(.notHere, node.file, "sync by partitions has no rules here: see the server's `rules`")
            return
        }
        sync = try SyncConfiguration(node, notices)
        isFlexible = true
        if let permissions = node["permissions"] {
            try permissions.reportUnknown(["rules", "defaultRoles"], in: notices)
            syncRoles = permissions
        }
    }

    // MARK: Data sources

    private mutating func readDataSource(_ file: AppFile, _ parts: [String]) throws(RuleError) {
        switch (parts.count, parts.last) {
        case (3, "config.json"):
            let node = try JSONNode(parsing: file)
            if let type = try node["type"]?.string(), !type.hasPrefix("mongodb") { return reportOther(file, parts) }
            try node.reportUnknown(["name", "type", "config", "secret_config", "version"], in: notices)
            try node["config"]?.reportUnknown(
                ["clusterName", "readPreference", "wireProtocolEnabled", "sync", "flexible_sync", "clusterType"],
                in: notices)
            if let flexible = node["config"]?["flexible_sync"] { try readSync(flexible) }
            if let partitions = node["config"]?["sync"], partitions.value != [:] {
                notices.add(.notHere, file.path, "sync by partitions has no rules here: see the server's `rules`")
            }
        case (3, "default_rule.json"):
            let node = try JSONNode(parsing: file)
            if let defaultRule { throw node.error("there is another default rule: \(defaultRule.file)") }
            try reportUnknownOfRules(node)
            defaultRule = node
        case (4, _) where parts[2] == "rules" && file.path.hasSuffix(".json"):
            try readOldRules(try JSONNode(parsing: file), String(parts[3].dropLast(5)))
        case (5, "rules.json"):
            let node = try JSONNode(parsing: file)
            try reportUnknownOfRules(node)
            change(parts[2], parts[3]) { $0.rules = node }
        case (5, "schema.json"):
            let node = try JSONNode(parsing: file)
            change(parts[2], parts[3]) { $0.schema = node }
        case (5, "relationships.json"):
            let node = try JSONNode(parsing: file)
            change(parts[2], parts[3]) { $0.relationships = node }
        default: reportOther(file, parts)
        }
    }

    private mutating func change(_ database: String, _ name: String, _ body: (inout Collection) -> Void) {
        body(&collections[SchemaReader.key(database, name), default: Collection(database: database, name: name)])
    }

    private func reportUnknownOfRules(_ node: JSONNode) throws(RuleError) {
        try node.reportUnknown(
            ["id", "_id", "database", "collection", "roles", "filters", "schema", "relationships"], in: notices)
    }

    /// A file that holds rules, schema and relationships together, as `services/NAME/rules/DATABASE.COLLECTION.json`.
    private mutating func readOldRules(_ node: JSONNode, _ name: String) throws(RuleError) {
        try reportUnknownOfRules(node)
        let parts = name.split(separator: ".", maxSplits: 1).map(String.init)
        guard let database = try node["database"]?.string() ?? parts.first,
            let collection = try node["collection"]?.string() ?? parts.dropFirst().first
        else { throw node.error("\"database\" and \"collection\" are missing") }
        change(database, collection) {
            if node["roles"] != nil { $0.rules = node }
            $0.schema = node["schema"] ?? $0.schema
            $0.relationships = node["relationships"] ?? $0.relationships
        }
    }

    private mutating func dropOtherDatabases() {
        guard let name = sync.databaseName else { return }
        for (key, collection) in collections.sorted(by: { $0.key < $1.key }) where collection.database != name {
            collections[key] = nil
            otherDatabases.insert(collection.database)
            let file = (collection.rules ?? collection.schema ?? collection.relationships)?.file ?? key.text
            notices.add(.notHere, file, "only the database \"\(name)\" is synced: this collection is not")
        }
    }

    // MARK: Users and values

    private static let knownProviders: Set = ["anon-user", "local-userpass", "api-key", "custom-token"]

    private mutating func readProviders(_ node: JSONNode) throws(RuleError) {
        for (_, provider) in try node.members() { try readProvider(provider) }
    }

    private mutating func readProvider(_ node: JSONNode) throws(RuleError) {
        guard let type = node["type"] ?? node["name"] else { throw node.error("\"type\" is missing") }
        let name = try type.string()
        providers = providers ?? []
        if try node["disabled"]?.bool() == true { return }
        if Self.knownProviders.contains(name) {
            providers?.insert(name)
        } else {
            notices.add(.notHere, node.file, "\(type.path): users cannot log in with \(name) here")
        }
    }

    private func readCustomData(_ node: JSONNode) throws(RuleError) {
        try node.reportUnknown(
            [
                "enabled", "mongo_service_name", "mongo_service_id", "database_name", "collection_name",
                "user_id_field", "on_user_creation_function_name", "on_user_creation_function_id",
            ], in: notices)
        guard try node["enabled"]?.bool() == true else { return }
        if let collection = try node["collection_name"]?.string() {
            let reason = "those of the server's users count"
            notices.add(
                .notHere, node.file, "custom user data are not read from the collection \"\(collection)\": \(reason)")
        }
        if let function = try node["on_user_creation_function_name"]?.string(), !function.isEmpty {
            notices.add(
                .notHere, node.file, "the function \(function) is not called for new users: functions are not here")
        }
    }

    private mutating func readValue(_ node: JSONNode) throws(RuleError) {
        try node.reportUnknown(["id", "_id", "name", "value", "from_secret", "private"], in: notices)
        guard let name = try node["name"]?.string() else { throw node.error("\"name\" is missing") }
        if try node["from_secret"]?.bool() == true {
            notices.add(.notHere, node.file, "secrets are not exported: no rule can use the value \(name)")
        } else {
            values[name] = node["value"]?.value ?? .null
        }
    }

    private var constants: JSONValue {
        let chosen = environments[environment.isEmpty ? "no-environment" : environment]
        return [
            "values": .object(values),
            "environment": ["tag": .string(environment), "values": chosen?["values"]?.value ?? [:]],
        ]
    }

    // MARK: Results

    private var ordered: [Collection] { collections.sorted { $0.key < $1.key }.map(\.value) }

    func schema() throws(RuleError) -> AppSchema {
        var names: [ExactString: String] = [:]
        for (key, collection) in collections where collection.schema != nil { names[key] = try collection.className() }
        var reader = SchemaReader(classNames: names, notices: notices)
        for collection in ordered {
            // A collection of which only the rules are known has an empty schema.
            guard let node = collection.schema, node.value != [:] else { continue }
            let name = try collection.className()
            try reader.readClass(
                node, named: name, relationships: collection.relationships,
                isAsymmetric: sync.asymmetricClasses.contains(name))
        }
        var schema = AppSchema()
        schema.classes = reader.classes.sorted { $0.name < $1.name }
        return schema
    }

    /// - Parameter schema: the classes that are known.
    func rules(on schema: AppSchema) throws(RuleError) -> Rules {
        let classes = schema.state
        func reader(ofClass name: String?) -> RoleReader {
            RoleReader(constants: constants, notices: notices, className: name, classes: classes)
        }
        var lists: [ExactString: RoleList] = [:]
        func add(_ list: RoleList, _ name: String, _ node: JSONNode) throws(RuleError) {
            guard lists[ExactString(name)] == nil else {
                throw node.error("there are other rules of the class \(name)")
            }
            try checkFields(of: list, sync.queryableFields.names(ofClass: name), node)
            if list.roles.isEmpty {
                let other = "without this file the default rule counts"
                notices.add(.incomplete, node.file, "without roles nobody may use \(name); \(other)")
            }
            lists[ExactString(name)] = list
        }
        for collection in ordered {
            guard let node = collection.rules else { continue }
            let name = try collection.className()
            try add(try reader(ofClass: name).roles(node), name, node)
        }
        for (name, node) in try syncRoles?["rules"]?.members() ?? [] {
            try add(try documentRoles(node, reader(ofClass: name)), name, node)
        }
        var others = try defaultRule.map { node throws(RuleError) in try reader(ofClass: nil).roles(node) }
        if let node = syncRoles?["defaultRoles"], node.value != [] {
            if let defaultRule { throw node.error("there is another default rule: \(defaultRule.file)") }
            others = try documentRoles(node, reader(ofClass: nil))
        }
        let node = defaultRule ?? syncRoles
        if let others, let node { try checkFields(of: others, sync.queryableFields.names(ofClass: ""), node) }
        return Rules(classes: lists, defaultRoles: others ?? RoleList(roles: []), notices: notices.notices)
    }

    private func documentRoles(_ node: JSONNode, _ reader: RoleReader) throws(RuleError) -> RoleList {
        var list = RoleList(roles: [])
        for element in try node.elements() { list.roles.append(try reader.documentRole(element)) }
        return list
    }

    /// Rules may ask only for the fields that subscriptions may ask for.
    private func checkFields(
        of list: RoleList, _ names: Set<String>?, _ node: JSONNode
    ) throws(RuleError) {
        guard let names else { return }
        for role in list.roles {
            if let field = role.fields.subtracting(names).subtracting(["_id"]).min() {
                throw node.error("role \"\(role.name)\": key \"\(field)\" is not a queryable field")
            }
        }
    }
}
