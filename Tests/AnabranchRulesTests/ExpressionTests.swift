import AnabranchRules
import Testing

/// The meaning of conditions: the operators, what stands for a value, and constants.
@Suite struct ExpressionTests {
    private static let customData =
        """
        {"name": "ada", "age": 2, "teams": [{"$oid": "070707070707070707070707"}], "team": "070707070707070707070707",
        "friends": ["bob", "eve"], "none": null, "address": {"city": "Bonn"}, "percent": "%%user.id", "empty": []}
        """

    private static func tasks(_ condition: String) throws -> [Int64] {
        try RuleWorld.tasks(\.read, try RuleWorld.rules(read: condition), try RuleWorld.ada(customData))
    }

    @Test(arguments: [
        ("{}", [1, 2, 3, 4]), ("true", [1, 2, 3, 4]), ("false", []), (#"{"owner": "bob"}"#, [2, 3]),
        (#"{"owner": "%%user.id"}"#, [1]), (#"{"owner": null}"#, [4]), (#"{"owner": {"$ne": "bob"}}"#, [1, 4]),
        (#"{"level": {"$gt": 1, "$lt": 3}}"#, [2]), (#"{"level": {"$gte": 2}}"#, [2, 3]),
        (#"{"level": {"$lte": 2}}"#, [1, 2]), (#"{"level": {"$not": {"$gt": 1}}}"#, [1, 4]),
        (#"{"level": {"$in": [1, 3.0, "x"]}}"#, [1, 3]), (#"{"level": {"$nin": [1, 3]}}"#, [2, 4]),
        (#"{"level": {"$in": []}}"#, []), (#"{"level": {"$nin": []}}"#, [1, 2, 3, 4]),
        (#"{"level": {"$exists": true}}"#, [1, 2, 3]), (#"{"level": {"$exists": false}}"#, [4]),
        (#"{"shared": "ada"}"#, [2, 4]), (#"{"shared": {"$ne": "ada"}}"#, [1, 3]),
        (#"{"shared": "%%user.id", "level": 2}"#, [2]),
        (#"{"$or": [{"owner": "%%user.id"}, {"shared": "%%user.id"}]}"#, [1, 2, 4]),
        (#"{"$and": [{"owner": "bob"}, {"level": 3}]}"#, [3]), (#"{"$nor": [{"owner": "bob"}, {"level": 1}]}"#, [4]),
        (#"{"$not": {"owner": "bob"}}"#, [1, 4]), (#"{"%or": [{"level": {"%eq": 1}}, {"level": 2}]}"#, [1, 2]),
        (#"{"level": "%%user.custom_data.age"}"#, [2]),
        (#"{"owner": {"$in": "%%user.custom_data.friends"}}"#, [2, 3]),
        (#"{"owner": {"$in": ["%%user.custom_data.name", "x"]}}"#, [1]),
        (#"{"team": {"$in": "%%user.custom_data.teams"}}"#, [3]),
        (#"{"team": {"%stringToOid": "%%user.custom_data.team"}}"#, [3]),
        (#"{"team": {"%stringToOid": "070707070707070707070707"}}"#, [3]),
        (#"{"team": {"$oid": "070707070707070707070707"}}"#, [3]), (#"{"team": "070707070707070707070707"}"#, []),
        (#"{"level": {"$numberLong": "2"}}"#, [2]), (#"{"level": {"$numberDouble": "2.0"}}"#, [2]),
        (#"{"level": {"$numberDecimal": "2"}}"#, [2]), (#"{"level": {"$numberInt": "3"}}"#, [3]),
        (#"{"%%true": true, "level": 1}"#, [1]), (#"{"%%true": "%%false"}"#, []), (#"{"level": "2"}"#, []),
        (#"{"%%user.custom_data.age": {"$gt": 1}, "level": 1}"#, [1]), (#"{"owner": {"$literal": "%%user.id"}}"#, []),
    ])
    func conditionsSelectDocuments(condition: String, keys: [Int64]) throws {
        #expect(try Self.tasks(condition) == keys)
    }

    /// A value that a user does not have permits nothing, also where the opposite is asked for.
    @Test(arguments: [
        #"{"owner": "%%user.custom_data.nosuch"}"#, #"{"owner": {"$ne": "%%user.custom_data.nosuch"}}"#,
        #"{"$nor": [{"owner": "%%user.custom_data.nosuch"}]}"#, #"{"owner": {"$in": "%%user.custom_data.name"}}"#,
        #"{"owner": {"$nin": "%%user.custom_data.nosuch"}}"#, #"{"owner": {"$nin": ["bob", "%%user.data.email"]}}"#,
        #"{"level": {"$gt": "%%user.custom_data.nosuch"}}"#, #"{"owner": "%%user.custom_data.friends"}"#,
        #"{"level": {"$not": {"$gt": "%%user.custom_data.nosuch"}}}"#, #"{"owner": "%%user.custom_data.address"}"#,
        #"{"team": {"%stringToOid": "%%user.custom_data.name"}}"#,
        #"{"team": {"$ne": {"%stringToOid": "%%user.custom_data.name"}}}"#,
        #"{"owner": {"$in": "%%user.custom_data.empty"}}"#,
    ])
    func missingDataGiveNothing(condition: String) throws { #expect(try Self.tasks(condition) == []) }

    @Test(arguments: [
        ("{}", true), (#"{"%%user.id": "ada"}"#, true), (#"{"%%user.id": {"$in": ["x", "bob"]}}"#, false),
        (#"{"%%user.custom_data.age": {"$gte": 2}}"#, true), (#"{"%%user.custom_data.age": "2"}"#, false),
        (#"{"%%user.custom_data.friends": "eve"}"#, true), (#"{"%%user.custom_data.friends": {"$ne": "eve"}}"#, false),
        (#"{"%%user.custom_data.nosuch": {"$exists": false}}"#, true), (#"{"%%user.custom_data.nosuch": null}"#, true),
        (#"{"%%user.custom_data.none": {"$exists": true}}"#, true), (#"{"%%user.custom_data.nosuch": "x"}"#, false),
        (#"{"%%user.custom_data.nosuch": {"$ne": "x"}}"#, true),
        (#"{"%%user.custom_data.address.city": "Bonn"}"#, true),
        (#"{"%%user.custom_data.address": {"$exists": true}}"#, true),
        (#"{"%%user.custom_data.address": "Bonn"}"#, false),
        (#"{"%%user.identities.provider_type": "api-key"}"#, true), (#"{"%%user.type": "normal"}"#, true),
        (#"{"%%user.id": "%%user.custom_data.name"}"#, true), ("true", true), ("false", false),
        (#"{"$or": [{"%%user.id": "x"}, {"%%user.custom_data.age": {"$lt": 3}}]}"#, true),
        (#"{"%%user.custom_data.percent": {"$literal": "%%user.id"}}"#, true),
        (#"{"%%user.custom_data.empty": {"$exists": true}}"#, true), (#"{"%%user.custom_data.empty": null}"#, false),
    ])
    func rolesApplyByTheUserAlone(condition: String, applies: Bool) throws {
        let rules = try RuleWorld.rules(read: "true", applyWhen: condition)
        let tasks = try RuleWorld.tasks(\.read, rules, try RuleWorld.ada(Self.customData))
        #expect(tasks.isEmpty != applies)
    }

    @Test func valuesAreConstantsOfTheApp() throws {
        let role = """
            {"roles": [{"name": "r", "apply_when": {"%%values.admins": "%%user.id"}, "insert": true, "delete": true,
            "document_filters": {"read": {"level": {"$in": "%%values.levels"}}, "write": false}, "read": true,
            "write": true}]}
            """
        let values = #"{"admins": ["ada"], "levels": [1, 3]}"#
        let rules = try Rules(classes: ["Task": RuleWorld.file(role)], values: RuleWorld.file(values))
        #expect(try RuleWorld.tasks(\.read, rules, try RuleWorld.ada()) == [1, 3])
        #expect(try RuleWorld.tasks(\.read, rules, try RuleUser(id: "bob")) == [])
    }

    // MARK: Errors

    @Test(arguments: [
        (#"{"level": {"$regex": "x"}}"#, "level.$regex", "flexible sync does not have $regex in rules"),
        (#"{"level": {"$foo": 1}}"#, "level.$foo", "the operator $foo is not known"),
        (#"{"$where": "x"}"#, "$where", "this would have to run code for each document"),
        (#"{"%function": {"name": "f"}}"#, "%function", "functions are not here, and their result could change"),
        (#"{"%%true": {"%function": {"name": "f"}}}"#, "%%true.%function", "functions are not here"),
        (#"{"a.b": 1}"#, "a.b", "only fields of the document itself"),
        (#"{"owner": {"a": 1}}"#, "owner", "a field cannot be compared with a document"),
        (#"{"owner": {}}"#, "owner", "a field cannot be compared with a document"),
        (#"{"owner": [1]}"#, "owner", "a whole list cannot be compared"),
        (#"{"owner": "%%user.nosuch"}"#, "owner", "%%user.nosuch: of %%user there are custom_data, data, id,"),
        (#"{"owner": "%%partition"}"#, "owner", "%%partition: flexible sync has no partitions"),
        (#"{"owner": "%%prevRoot.owner"}"#, "owner", "%%prevRoot.owner: name a field by itself"),
        (#"{"level": {"$lt": "%%now"}}"#, "level.$lt", "%%now: what a user may do must not depend on the time"),
        (#"{"owner": "%%request.remoteIPAddress"}"#, "owner", "a session belongs to no request"),
        (#"{"owner": "%%values.x"}"#, "owner", "the app has no such value"),
        (#"{"owner": "%%foo"}"#, "owner", "%%foo is not known"),
        (#"{"team": {"$oid": "07"}}"#, "team", "this is not a constant"),
        (#"{"team": {"%stringToOid": "07"}}"#, "team.%stringToOid", "%stringToOid cannot convert this"),
        (#"{"owner": {"$in": "x"}}"#, "owner.$in", "an array is expected"),
        (#"{"$or": []}"#, "$or", "at least one condition"), (#"{"$or": {"owner": 1}}"#, "$or", "an array is expected"),
        ("1", "", "a condition is true, false or an object"),
        (#"{"level": {"$gt": {"$binary": {"base64": "AA==", "subType": "00"}}}}"#, "level.$gt", "binaries have no"),
        (#"{"level": {"$exists": 1}}"#, "level.$exists", "true or false is expected"),
    ])
    func whatIsNotKnownIsNamed(condition: String, place: String, reason: String) throws {
        let error = #expect(throws: RuleError.self) { try RuleWorld.rules(read: condition) }
        let start = "roles[0].document_filters.read"
        #expect(error?.file == "rules.json")
        #expect(error?.place == (place.isEmpty ? start : "\(start).\(place)"))
        #expect(error?.reason.contains(reason) == true, "\(error?.reason ?? "")")
    }

    @Test func applyWhenNamesNoField() throws {
        let error = #expect(throws: RuleError.self) {
            try RuleWorld.rules(read: "true", applyWhen: #"{"owner": "ada"}"#)
        }
        #expect(error?.place == "roles[0].apply_when.owner")
        #expect(error?.reason.contains("before any document") == true)
    }

    @Test func depthIsBounded() throws {
        func condition(_ depth: Int) -> String {
            (1..<depth).reduce(#"{"level": 1}"#) { inner, _ in #"{"level": 1, "$or": [\#(inner), {"level": 2}]}"# }
        }
        #expect(try Self.tasks(condition(RuleLimits.depthMax)) == [1])
        let rules = try RuleWorld.rules(read: condition(RuleLimits.depthMax), write: condition(RuleLimits.depthMax))
        let mine = rules.rules(for: try RuleWorld.ada())
        #expect(try UserRules(text: mine.text) == mine)
        let error = #expect(throws: RuleError.self) { try Self.tasks(condition(RuleLimits.depthMax + 1)) }
        #expect(error?.reason == "conditions are nested deeper than 10")
    }
}
