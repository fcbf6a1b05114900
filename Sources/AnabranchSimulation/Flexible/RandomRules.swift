import AnabranchRules
import AnabranchTesting

/// The rules for the users of a run, which change now and then. Some name fields that nobody has added yet.
struct RandomRules {
    private var rules: Rules
    private var users: [RuleUser] = []

    init(_ random: inout SeededRandom) throws {
        rules = try Self.rules(&random)
        try changeUsers(&random)
    }

    /// Replaces the rules, or the data of the users.
    mutating func change(_ random: inout SeededRandom) throws {
        if random.isOne(in: 3) { try changeUsers(&random) } else { rules = try Self.rules(&random) }
    }

    func rules(of index: Int) -> UserRules { rules.rules(for: users[index % users.count]) }

    private mutating func changeUsers(_ random: inout SeededRandom) throws {
        users = try (0..<4).map { number in
            let isBoss = random.isOne(in: 2)
            return try RuleUser(
                id: random.pick(["a", "b"]), customData: #"{"boss": \#(isBoss), "level": \#(number)}"#)
        }
    }

    private static func rules(_ random: inout SeededRandom) throws -> Rules {
        var classes: [String: AppFile] = [:]
        for name in ["Task", "Note", "Passing"] where random.isOne(in: 2) {
            classes[name] = file(name, &random)
        }
        return try Rules(classes: classes, defaultRule: random.isOne(in: 4) ? file("", &random) : file(role("{}")))
    }

    private static func file(_ className: String, _ random: inout SeededRandom) -> AppFile {
        let mine = role(
            #"{"%%user.custom_data.boss": true}"#, read: condition(className, &random),
            write: condition(className, &random), insert: !random.isOne(in: 4), delete: !random.isOne(in: 3),
            isReadToo: !random.isOne(in: 3))
        let others = role(
            "{}", read: condition(className, &random), write: random.isOne(in: 2) ? "true" : "false",
            insert: random.isOne(in: 2), delete: random.isOne(in: 2))
        return file(random.isOne(in: 4) ? mine : mine + ", " + others)
    }

    private static func file(_ roles: String) -> AppFile {
        AppFile(path: "rules.json", bytes: #"{"roles": [\#(roles)]}"#.utf8)
    }

    private static func role(
        _ applyWhen: String, read: String = "true", write: String = "true", insert: Bool = true, delete: Bool = true,
        isReadToo: Bool = true
    ) -> String {
        """
        {"name": "r", "apply_when": \(applyWhen), "document_filters": {"read": \(read), "write": \(write)}, \
        "read": true, "write": true, "insert": \(insert), "delete": \(delete), \
        "write_implies_read": \(isReadToo)}
        """
    }

    private static func condition(_ className: String, _ random: inout SeededRandom) -> String {
        guard className == "Task" else {
            return random.pick(["true", "true", "false", #"{"_id": {"$exists": true}}"#, #"{"name": {"$ne": "a"}}"#])
        }
        return random.pick([
            "true", "false", #"{"title": "%%user.id"}"#, #"{"counter": {"$lt": "%%user.custom_data.level"}}"#,
            #"{"$or": [{"counter": {"$gt": 1}}, {"title": null}]}"#, #"{"tags": "a"}"#, #"{"passingInt": 0}"#,
            #"{"passingInt": {"$lt": 2}, "counter": {"$ne": 2}}"#, #"{"passingList": {"$nin": [1]}}"#,
            #"{"note": {"$exists": true}}"#, #"{"%query": "title == $user.id or ANY tags == 'a'"}"#,
            #"{"$not": {"%query": "title BEGINSWITH 'a'"}}"#, #"{"%query": "part.x > 0 or parts.@count > 1"}"#,
            #"{"%query": "NONE ints > 1 and counter + passingInt > 1"}"#,
            #"{"%query": "counter == tags.@count", "title": {"$ne": null}}"#,
        ])
    }
}
