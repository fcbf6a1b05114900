import AnabranchCore
import AnabranchQuery
import AnabranchRules

/// A state with tasks, and rules for them.
enum RuleWorld {
    static func state() throws -> ObjectGraph {
        var graph = ObjectGraph()
        _ = try graph.write(as: 2) { transaction in
            try transaction.addClass("Task", key: "_id", .int)
            try transaction.addColumn("owner", .string, isNullable: true, to: "Task")
            try transaction.addColumn("team", .objectID, isNullable: true, to: "Task")
            try transaction.addColumn("level", .int, isNullable: true, to: "Task")
            try transaction.addColumn("shared", .string, collection: .list, to: "Task")
            try transaction.addClass("Note", key: "_id", .int)
            try task(1, owner: "ada", level: 1, shared: [], in: transaction)
            try task(2, owner: "bob", level: 2, shared: ["ada"], in: transaction)
            try task(3, owner: "bob", level: 3, shared: [], in: transaction)
            try task(4, owner: nil, level: nil, shared: ["eve", "ada"], in: transaction)
        }
        return graph
    }

    private static func task(
        _ key: Int64, owner: String?, level: Int64?, shared: [String], in transaction: WriteTransaction
    ) throws {
        let task = try transaction.create("Task", key: .int(key))
        if let owner { try task.set("owner", to: .string(Array(owner.utf8))) }
        if let level { try task.set("level", to: .int(level)) }
        for name in shared { try task.list("shared").append(.string(Array(name.utf8))) }
        if key == 3, let team = ObjectID([UInt8](repeating: 7, count: 12)) { try task.set("team", to: .objectID(team)) }
    }

    static func file(_ json: String) -> AppFile { AppFile(path: "rules.json", bytes: json.utf8) }

    /// Rules of Task with one role for everybody.
    static func rules(read: String, write: String = "false", applyWhen: String = "{}") throws -> Rules {
        try Rules(classes: [
            "Task": file(
                """
                {"roles": [{"name": "r", "apply_when": \(applyWhen), "read": true, "write": true, "insert": true,
                "delete": true, "document_filters": {"read": \(read), "write": \(write)}}]}
                """)
        ])
    }

    static func ada(_ customData: String = "{}") throws -> RuleUser {
        try RuleUser(id: "ada", customData: customData, providers: ["anon-user", "api-key"])
    }

    /// The keys of the tasks that fulfil a query of a role.
    static func tasks(_ query: KeyPath<Role, Query>, _ rules: Rules, _ user: RuleUser) throws -> [Int64] {
        let state = try state()
        guard let schema = state.schema(ofClass: Array("Task".utf8)) else { return [] }
        return try rules.rules(for: user).role(for: schema, of: state)[keyPath: query].objects(in: state)
            .compactMap { if case .int(let key)? = $0.key { key } else { nil } }
    }
}
