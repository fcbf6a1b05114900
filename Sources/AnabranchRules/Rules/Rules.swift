import AnabranchCore
import AnabranchQuery

/// The permissions of all users for the objects of each class (`Spec/FlexibleRules.md`, section 2).
///
///     let rules = try Rules(classes: ["Task": file])
///     let mine = rules.rules(for: try RuleUser(id: "7"))
///     let role = mine.role(for: schema, of: graph)
///     if try role.write.matches(object, in: graph) { … }
package struct Rules: Sendable {
    let classes: [ExactString: RoleList]
    let defaultRoles: RoleList
    /// The notices for the author of the rules.
    package let notices: [AppNotice]

    init(classes: [ExactString: RoleList], defaultRoles: RoleList, notices: [AppNotice]) {
        self.classes = classes
        self.defaultRoles = defaultRoles
        self.notices = notices
    }

    /// Reads files of rules: `{"roles": […]}` each.
    ///
    /// - Parameters:
    ///   - classes: the files by the names of the classes.
    ///   - defaultRule: for the classes without a file; without it nobody may do anything with their objects.
    ///   - values: the meaning of `%%values.…`: a JSON object.
    /// - Throws: `RuleError` for anything that is wrong or unknown, with its place.
    package init(classes: [String: AppFile], defaultRule: AppFile? = nil, values: AppFile? = nil) throws(RuleError) {
        let notices = NoticeList()
        let values = try values.map { file throws(RuleError) in try JSONNode(parsing: file).value }
        func roles(_ file: AppFile, ofClass name: String?) throws(RuleError) -> RoleList {
            let reader = RoleReader(
                constants: ["values": values ?? [:]], notices: notices, className: name, classes: ObjectGraph())
            return try reader.roles(try JSONNode(parsing: file))
        }
        var lists: [ExactString: RoleList] = [:]
        for (name, file) in classes.sorted(by: { $0.key < $1.key }) {
            lists[ExactString(name)] = try roles(file, ofClass: name)
        }
        let defaultRoles = try defaultRule.map { file throws(RuleError) in try roles(file, ofClass: nil) }
        self.init(classes: lists, defaultRoles: defaultRoles ?? RoleList(roles: []), notices: notices.notices)
    }

    /// The roles as sentences, by class, in the order in which they are tried.
    package var words: [String] {
        let lists = classes.sorted { $0.key < $1.key }.map { ("class \($0.key.text)", $0.value) }
        return (lists + [("all other classes", defaultRoles)]).flatMap { name, list in
            list.roles.map { "\(name): \($0.words)" } + (list.roles.isEmpty ? ["\(name): nobody may do anything"] : [])
        }
    }

    /// The permissions of one user: for each class those of the first role that applies.
    package func rules(for user: RuleUser) -> UserRules {
        UserRules(classes: classes.mapValues { $0.access(of: user) }, others: defaultRoles.access(of: user))
    }

    /// The name of the role of a class that applies to a user; nil if none does.
    package func roleName(ofClass name: String, for user: RuleUser) -> String? {
        (classes[ExactString(name)] ?? defaultRoles).role(of: user)?.name
    }

    /// A role that was tried for a user.
    package struct TriedRole: Equatable, Sendable {
        package let name: String
        /// The role as the file has it, as JSON.
        package let source: String
        package let applies: Bool
    }

    /// The roles of a class that are tried for a user, in order: those that do not apply, and the first one that does.
    package func triedRoles(ofClass name: String, for user: RuleUser) -> [TriedRole] {
        let roles = (classes[ExactString(name)] ?? defaultRoles).roles
        let count = roles.firstIndex { $0.applies(to: user) }.map { $0 + 1 } ?? roles.count
        return roles.prefix(count).map { role in
            TriedRole(name: role.name, source: role.source, applies: role.applies(to: user))
        }
    }

    /// True if a class has roles of its own, and not those of the default rule.
    package func hasOwnRoles(ofClass name: String) -> Bool { classes[ExactString(name)] != nil }

    /// The fields that the rules of a class name.
    package func fields(ofClass name: String) -> Set<String> {
        (classes[ExactString(name)] ?? defaultRoles).roles.reduce(into: []) { $0.formUnion($1.fields) }
    }
}
