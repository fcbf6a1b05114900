import AnabranchCore
package import AnabranchQuery

/// A role as it is written (`Spec/FlexibleRules.md`, section 2).
struct RoleDefinition: Hashable, Sendable {
    let name: String
    /// The condition under which the role applies, about the user alone.
    let applyWhen: RuleExpression
    let read: RuleExpression
    let write: RuleExpression
    let insert: RuleExpression
    let delete: RuleExpression
    /// The role as the file has it, as JSON.
    let source: String
    /// The role as a sentence.
    let words: String

    /// The fields of documents that it names.
    var fields: Set<String> { [read, write, insert, delete].reduce(into: []) { $0.formUnion($1.fields) } }

    func applies(to user: RuleUser) -> Bool { applyWhen.filter(for: user) == .always(true) }

    /// The permissions that it gives a user to whom it applies.
    func access(of user: RuleUser) -> Access {
        Access(
            role: name, read: read.filter(for: user), write: write.filter(for: user),
            insert: insert.filter(for: user), delete: delete.filter(for: user))
    }
}

/// The roles of a class in the order in which they are tried.
struct RoleList: Hashable, Sendable {
    var roles: [RoleDefinition]

    /// The permissions from the first role that applies to the user; none if no role does.
    func access(of user: RuleUser) -> Access { role(of: user)?.access(of: user) ?? .none }

    func role(of user: RuleUser) -> RoleDefinition? { roles.first { $0.applies(to: user) } }
}

/// The permissions of a user for the objects of a class.
package struct Access: Hashable, Sendable {
    /// The name of the role that gives them; nil if no role does.
    package let role: String?
    package let read: Filter
    package let write: Filter
    package let insert: Filter
    package let delete: Filter

    static let none = Access(always: false), all = Access(always: true)

    init(role: String?, read: Filter, write: Filter, insert: Filter, delete: Filter) {
        self.role = role
        self.read = read
        self.write = write
        self.insert = insert
        self.delete = delete
    }

    private init(always isTrue: Bool) {
        let filter = Filter.always(isTrue)
        self.init(role: nil, read: filter, write: filter, insert: filter, delete: filter)
    }

    /// The same permissions of no role.
    var unnamed: Access { Access(role: nil, read: read, write: write, insert: insert, delete: delete) }

    /// True if it is the same for all objects, so that it names no field.
    var isConstant: Bool {
        [read, write, insert, delete].allSatisfy { if case .always = $0 { true } else { false } }
    }
}

// MARK: Reading

/// Reads the roles of a file of rules.
struct RoleReader {
    /// `%%values` and `%%environment`.
    let constants: JSONValue
    let notices: NoticeList
    /// The class that the roles belong to; nil for the default rule.
    let className: String?
    /// The classes of the app that are known.
    let classes: ObjectGraph

    private static let known: Set = [
        "name", "apply_when", "applyWhen", "document_filters", "read", "write", "insert", "delete", "search", "fields",
        "additional_fields", "write_implies_read",
    ]

    /// The roles of a file: `{"roles": […]}`.
    func roles(_ node: JSONNode) throws(RuleError) -> RoleList {
        guard let roles = node["roles"] else { throw node.error("\"roles\" is missing: without any write []") }
        if let filters = node["filters"], filters.value != [] {
            throw filters.error("filters are not here: give the roles document_filters")
        }
        var list = RoleList(roles: [])
        for element in try roles.elements() { list.roles.append(try role(element)) }
        return list
    }

    func role(_ node: JSONNode) throws(RuleError) -> RoleDefinition {
        try node.reportUnknown(Self.known, in: notices)
        guard let name = try node["name"]?.string() else { throw node.error("the role has no name") }
        guard let applyWhen = node["apply_when"] ?? node["applyWhen"] else {
            throw node.error("\"apply_when\" is missing: for all users write {}")
        }
        let whole = try permissionsOfFields(node)
        let filters = node["document_filters"]
        try filters?.reportUnknown(["read", "write"], in: notices)
        let mayRead = try condition("read", of: filters, "document_filters.read", node)
        let mayWrite = try condition("write", of: filters, "document_filters.write", node)
        let writes = if let known = whole.write { known } else { try condition("write", of: node, "write", node) }
        let reads = if let known = whole.read { known } else { try condition("read", of: node, "read", node) }
        let read = RuleExpression.and([mayRead, reads]), write = RuleExpression.and([mayWrite, writes])
        let isReadToo = try node["write_implies_read"]?.bool() ?? true
        let others = node["additional_fields"]
        let writing = [filters?["write"], node["write"] ?? others?["write"]]
        return RoleDefinition(
            name: name,
            applyWhen: try ExpressionReader(about: .user, constants: constants).expression(applyWhen),
            read: isReadToo ? .or([read, write]) : read, write: write,
            insert: .and([write, try condition("insert", of: node, "insert", node)]),
            delete: .and([mayWrite, try condition("delete", of: node, "delete", node)]), source: node.value.encoded,
            words: words(
                name, applyWhen,
                [
                    ("read", [filters?["read"], node["read"] ?? others?["read"]]), ("change", writing),
                    ("create", writing + [node["insert"]]), ("delete", [filters?["write"], node["delete"]]),
                ], isReadToo: isReadToo))
    }

    /// A role as a sentence.
    /// - Parameters:
    ///   - permissions: the conditions of each, all of which have to be met.
    ///   - isReadToo: true if objects that may be changed may be read, whatever the conditions of reading are.
    private func words(
        _ name: String, _ applyWhen: JSONNode, _ permissions: [(verb: String, conditions: [JSONNode?])], isReadToo: Bool
    ) -> String {
        var groups: [(verbs: [String], objects: String)] = []
        for (verb, conditions) in permissions {
            let values = conditions.map { $0?.value ?? false }, limits = values.filter { $0 != true && $0 != [:] }
            let all = limits.isEmpty ? "all objects" : limits.map(\.encoded).joined(separator: " and ")
            let objects = values.contains(false) ? "nothing" : all
            if let known = groups.firstIndex(where: { $0.objects == objects }) {
                groups[known].verbs.append(verb)
            } else {
                groups.append(([verb], objects))
            }
        }
        let canChange = groups.contains { $0.verbs[0] == "change" && $0.objects != "nothing" }
        if isReadToo, groups[0].objects != "all objects", canChange {
            groups[0].objects += ", and what they may change"
        }
        let who = applyWhen.value == [:] ? "everybody" : "users with \(applyWhen.value.encoded)"
        let rights = groups.map { "\($0.verbs.joined(separator: ", ")) \($0.objects)" }
        return "role \(name), for \(who): \(rights.joined(separator: "; "))"
    }

    /// A permission of a role. Without it the role gives nothing, which its author may not expect.
    private func condition(
        _ key: String, of holder: JSONNode?, _ name: String, _ role: JSONNode
    ) throws(RuleError) -> RuleExpression {
        guard let node = holder?[key] else {
            notices.add(
                .incomplete, role.file, "\(role.path): the role has no \"\(name)\", which counts as false")
            return .always(false)
        }
        let queries = RuleQueryReader(role: role["name"]?.value.string ?? "", className: className, classes: classes)
        return try ExpressionReader(about: .documents(queries), constants: constants).expression(node)
    }

    // MARK: Fields

    /// The permissions that `additional_fields` states in place of a role's `read` and `write`. Fields that have a
    /// permission of their own are refused: seeing or changing an object is allowed for the object as a whole.
    private func permissionsOfFields(
        _ role: JSONNode
    ) throws(RuleError) -> (read: RuleExpression?, write: RuleExpression?) {
        let others = role["additional_fields"]
        try others?.reportUnknown(["read", "write"], in: notices)
        let isRead = try others?["read"]?.bool()
        let isWritten = try others?["write"]?.bool()
        let read = role["read"] == nil ? isRead.map(RuleExpression.always) : nil
        let write = role["write"] == nil ? isWritten.map(RuleExpression.always) : nil
        if let others {
            for (key, permission) in [("read", isRead), ("write", isWritten)] where permission == false {
                guard role[key]?.value == true else { continue }
                throw others.error("this takes back what the role's \"\(key)\" gives: fields have no permissions here")
            }
        }
        for (_, field) in try role["fields"]?.members() ?? [] {
            for (_, permission) in try field.members() where permission.value != true {
                throw permission.error(
                    "permissions of single fields are not here: an object is read and written as a whole")
            }
        }
        return (read, write)
    }

    // MARK: The older form

    /// A role of the older `sync` form: `read` and `write` are document permissions, and a user who may write may
    /// create and delete.
    func documentRole(_ node: JSONNode) throws(RuleError) -> RoleDefinition {
        try node.reportUnknown(["name", "applyWhen", "apply_when", "read", "write"], in: notices)
        guard let name = try node["name"]?.string() else { throw node.error("the role has no name") }
        guard let applyWhen = node["applyWhen"] ?? node["apply_when"] else {
            throw node.error("\"applyWhen\" is missing: for all users write {}")
        }
        let write = try condition("write", of: node, "write", node)
        return RoleDefinition(
            name: name,
            applyWhen: try ExpressionReader(about: .user, constants: constants).expression(applyWhen),
            read: .or([try condition("read", of: node, "read", node), write]), write: write, insert: write,
            delete: write, source: node.value.encoded,
            words: words(
                name, applyWhen,
                [("read", [node["read"]])] + ["change", "create", "delete"].map { ($0, [node["write"]]) },
                isReadToo: true))
    }
}
