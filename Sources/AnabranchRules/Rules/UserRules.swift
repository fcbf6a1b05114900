package import AnabranchCore
package import AnabranchQuery

/// The permissions of one user, with the user's data in them: they depend on nothing but the object in question.
///
/// The rules of two users, or of one user before and after a change, are equal if they say the same in the same words:
/// then every result that was found with the one is right for the other.
package struct UserRules: Hashable, Sendable {
    /// The permissions for the classes whose rules differ from those of the others.
    let classes: [ExactString: Access]
    let others: Access

    init(classes: [ExactString: Access], others: Access) {
        self.classes = classes.filter { $0.value != others }
        self.others = others
    }

    /// Nobody may do anything.
    package static let nothing = UserRules(classes: [:], others: .none)

    /// Everybody may do everything.
    package static let everything = UserRules(classes: [:], others: .all)

    package func access(ofClass name: String) -> Access { classes[ExactString(name)] ?? others }

    /// These rules as far as the classes of a state have the fields that they name; on the other classes they give
    /// nothing. So their effect changes with the schema, and not with the binding of a query.
    package func usable(in state: ObjectGraph) -> UserRules {
        var usable = classes.mapValues { $0.isConstant ? $0 : .none }
        for schema in state.classes where schema.kind != .embedded {
            let name = String(decoding: schema.name, as: UTF8.self), access = access(ofClass: name)
            usable[ExactString(name)] = Role(access, on: schema, of: state).problem == nil ? access : .none
        }
        return UserRules(classes: usable, others: others.isConstant ? others : .none)
    }

    /// The role for a class.
    package func role(for schema: ClassSchema, of source: some ObjectSource) -> Role {
        Role(access(ofClass: String(decoding: schema.name, as: UTF8.self)), on: schema, of: source)
    }

    /// The reason why the user may do nothing with the objects of a class: the rules name a field that the class lacks.
    /// Nil if there is none.
    package func problem(for schema: ClassSchema, of source: some ObjectSource) -> String? {
        role(for: schema, of: source).problem?.reason
    }

    /// True if these rules and others say the same about a class, whatever their roles are called.
    package func agree(with other: UserRules, onClass name: String) -> Bool {
        access(ofClass: name).unnamed == other.access(ofClass: name).unnamed
    }

    /// The same permissions for the classes of which the user may read all objects, and none for the others.
    package var ofWholeClasses: UserRules {
        func limited(_ access: Access) -> Access { access.read == .always(true) ? access : .none }
        return UserRules(classes: classes.mapValues(limited), others: limited(others))
    }

    // MARK: Text

    /// The permissions for a class as JSON: the conditions of a role, with the user's data in them.
    package func json(ofClass name: String) -> JSONValue { access(ofClass: name).json }

    /// JSON that reads as these rules again: equal rules have equal texts.
    package var text: String {
        JSONValue.object(["classes": .object(classes.mapValues(\.json)), "others": others.json]).encoded
    }

    /// Reads a text that `text` has written.
    ///
    /// - Throws: `RuleError` for any other text.
    package init(text: String) throws(RuleError) {
        let node = try JSONNode(parsing: AppFile(path: "stored rules", bytes: text.utf8))
        guard let classes = node["classes"], let others = node["others"] else {
            throw node.error("these are no rules of a user")
        }
        var lists: [ExactString: Access] = [:]
        for (name, node) in try classes.members() { lists[ExactString(name)] = try Access(node) }
        self.init(classes: lists, others: try Access(others))
    }
}

extension Access {
    fileprivate var json: JSONValue {
        var members: [String: JSONValue] = [
            "read": read.json, "write": write.json, "insert": insert.json, "delete": delete.json,
        ]
        members["role"] = role.map { .string($0) }
        return .object(members)
    }

    fileprivate init(_ node: JSONNode) throws(RuleError) {
        func filter(_ key: String) throws(RuleError) -> Filter {
            guard let node = node[key] else { throw node.error("\"\(key)\" is missing") }
            return try ExpressionReader(about: .stored).expression(node).filter(for: .nobody)
        }
        self.init(
            role: try node["role"]?.string(), read: try filter("read"), write: try filter("write"),
            insert: try filter("insert"), delete: try filter("delete"))
    }
}

/// The permissions of a user for the objects of one class, as queries (`Spec/FlexibleRules.md`, section 2).
package struct Role: Sendable {
    /// Matches the objects that the user may see.
    package let read: Query
    /// Matches the objects that the user may change: it has to match before and after the change.
    package let write: Query
    /// Matches the objects that the user may create; evaluated on the new object.
    package let insert: Query
    /// Matches the objects that the user may delete.
    package let delete: Query
    /// The reason why the user may do nothing, if the rules name a field that the class lacks.
    package let problem: QueryError?

    /// True if the user may change an object as it is, and delete it.
    package func rights(
        on object: StateObject, in source: some ObjectSource
    ) throws(QueryError) -> (change: Bool, delete: Bool) {
        (try write.matches(object, in: source), try delete.matches(object, in: source))
    }

    init(_ access: Access, on schema: ClassSchema, of source: some ObjectSource) {
        var problem: QueryError?
        func query(_ filter: Filter) -> Query? {
            do throws(QueryError) {
                return try Query(filter, on: schema, of: source)
            } catch {
                problem = error
                return nil
            }
        }
        let queries = [access.read, access.write, access.insert, access.delete].compactMap(query)
        let isWhole = queries.count == 4
        let nothing = Query(always: false, on: schema)
        read = isWhole ? queries[0] : nothing
        write = isWhole ? queries[1] : nothing
        insert = isWhole ? queries[2] : nothing
        delete = isWhole ? queries[3] : nothing
        self.problem = problem
    }
}
