import AnabranchCore
import AnabranchQuery
import AnabranchRules
import Foundation
import Testing

/// An exported app: what is read, what is noted, and what is refused.
@Suite struct ExportTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Export")

    private static func export() throws -> AppExport { try AppExport(directory: folder.path) }

    /// An app of files with their texts.
    private static func export(_ files: [String: String]) throws -> AppExport {
        try AppExport(files: files.map { AppFile(path: $0, bytes: $1.utf8) })
    }

    @Test func theConfigurationIsRead() throws {
        let app = try Self.export()
        #expect(app.appID == "household-abcde")
        #expect(app.providers == ["anon-user", "local-userpass"])
        #expect(app.sync.isInDevelopmentMode)
        #expect(!app.sync.isRecoveryDisabled)
        #expect(app.sync.databaseName == "household")
        #expect(app.sync.offlineDaysOfClient == 30)
        #expect(app.sync.asymmetricClasses == ["Log"])
        #expect(app.sync.queryableFields.names(ofClass: "Item") == ["owner_id", "priority", "tags"])
        #expect(app.sync.queryableFields.names(ofClass: "Human") == ["owner_id"])
    }

    @Test func theClassesAreAdded() throws {
        let app = try Self.export()
        #expect(app.schema.classes.map(\.name) == ["Human", "Item", "Item_extra", "Log", "Place"])
        var state = ObjectGraph()
        _ = try state.write(as: 2) { transaction in
            try app.schema.add(to: transaction)
            try app.schema.add(to: transaction)
        }
        let item = try #require(state.schema(ofClass: Array("Item".utf8)))
        #expect(item.kind == .topLevel)
        #expect(item.key?.type == .objectID)
        func column(_ name: String) throws -> String {
            let property = try #require(item.property(named: Array(name.utf8)))
            let target = property.target.flatMap { state.schema(of: $0) }
            let name = target.map { " " + String(decoding: $0.name, as: UTF8.self) } ?? ""
            let kind = property.isEmbedded ? "embedded" : "\(property.type)"
            return "\(property.collection) \(kind)".lowercased() + name + (property.isNullable ? "?" : "")
        }
        let expected = [
            "owner_id": "single string?", "summary": "single string", "done": "single bool", "priority": "single int?",
            "due": "single timestamp?", "weight": "single float?", "anything": "single null?", "tags": "list string",
            "codes": "set int", "counts": "dictionary int", "assignee": "single link Human?",
            "watchers": "list link Human", "place": "single embedded Place?", "places": "list embedded Place",
            "extra": "single embedded Item_extra?",
        ]
        #expect(item.properties.count == expected.count)
        for (name, form) in expected {
            let found = try column(name)
            #expect(found == form, "\(name): \(found)")
        }
        #expect(state.schema(ofClass: Array("Log".utf8))?.kind == .topLevelAsymmetric)
        #expect(state.schema(ofClass: Array("Place".utf8))?.kind == .embedded)
    }

    @Test func theRulesAreThoseOfTheFiles() throws {
        let app = try Self.export()
        var state = ObjectGraph()
        _ = try state.write(as: 2) { try app.schema.add(to: $0) }
        let item = try #require(state.schema(ofClass: Array("Item".utf8)))
        let human = try #require(state.schema(ofClass: Array("Human".utf8)))
        func texts(_ id: String, _ schema: ClassSchema) throws -> [String] {
            let role = app.rules.rules(for: try RuleUser(id: id)).role(for: schema, of: state)
            return [role.read, role.write].map(\.canonicalText)
        }
        #expect(try texts("ada", item) == ["TRUEPREDICATE", "TRUEPREDICATE"])
        #expect(
            try texts("bob", item) == [
                #"(owner_id IN {"bob"} or priority $gte {2} or tags IN {"public"})"#, #"owner_id IN {"bob"}"#,
            ])
        #expect(try texts("ada", human) == [#"owner_id IN {"ada"}"#, #"owner_id IN {"ada"}"#])
    }

    @Test func whatIsNotHereIsNoted() throws {
        #expect(
            try Self.export().notices.map(\.description).sorted() == [
                "NOTES.md: this file is not known and has no effect",
                #"auth/custom_user_data.json: custom user data are not read from the collection "UserData": "#
                    + "those of the server's users count",
                "auth/providers.json: oauth2-google.type: users cannot log in with oauth2-google here",
                #"data_sources/mongodb-atlas/other/Old/schema.json: only the database "household" is synced: "#
                    + "this collection is not",
                "functions/config.json: functions are not here: this has no effect",
                "functions/hello.js: functions are not here: this has no effect",
                "sync/config.json: flavour: this key is not known and has no effect",
                "triggers/nightly.json: triggers are not here: this has no effect",
                "values/token.json: secrets are not exported: no rule can use the value token",
            ])
    }

    @Test func subscriptionsAskForQueryableFields() throws {
        let app = try Self.export()
        var state = ObjectGraph()
        _ = try state.write(as: 2) { try app.schema.add(to: $0) }
        let fields = app.sync.queryableFields
        for text in ["owner_id == 'ada' and priority > 1", "ANY tags == 'x'", "_id == oid(000000000000000000000000)"] {
            #expect(throws: Never.self) { try fields.query(subscribingTo: "Item", where: text, of: state) }
        }
        for (name, field) in [("Item", "done"), ("Human", "priority")] {
            let error = #expect(throws: QueryError.self) {
                try fields.query(subscribingTo: name, where: "\(field) == true", of: state)
            }
            #expect(error?.kind == (name == "Item" ? .refused : .query))
        }
        let error = #expect(throws: QueryError.self) {
            try fields.query(subscribingTo: "Item", where: "done == true", of: state)
        }
        #expect(error?.reason == #"Invalid query: "Item": key "done" is not a queryable field"#)
        #expect(throws: Never.self) {
            try QueryableFields().query(subscribingTo: "Item", where: "done == true", of: state)
        }
        #expect(QueryableFields(names: []).names(ofClass: "A") == [])
        #expect(QueryableFields(namesByClass: ["A": ["x"]]).names(ofClass: "B") == [])
    }

    /// To a `String`, "é" is "e\u{301}": one of them would have no rules of its own, and no schema.
    @Test func collectionsThatLookAlikeAreTwo() throws {
        let names = ["\u{e9}", "e\u{301}"]
        let files = names.enumerated().flatMap { number, name in
            let filters = #"{"read": {"_id": \#(number)}}"#
            let role = #"{"name": "r", "applyWhen": {}, "document_filters": \#(filters), "read": true}"#
            return [
                AppFile(path: "data_sources/m/db/\(name)/rules.json", bytes: #"{"roles": [\#(role)]}"#.utf8),
                AppFile(
                    path: "data_sources/m/db/\(name)/schema.json",
                    bytes: #"{"properties": {"_id": {"bsonType": "int"}}}"#.utf8),
            ]
        }
        let app = try AppExport(files: files)
        #expect(Set(app.schema.classes.map { Array($0.name.utf8) }) == Set(names.map { Array($0.utf8) }))
        var state = ObjectGraph()
        _ = try state.write(as: 2) { try app.schema.add(to: $0) }
        let rules = app.rules.rules(for: try RuleUser(id: "ada"))
        for (number, name) in names.enumerated() {
            let schema = try #require(state.schema(ofClass: Array(name.utf8)))
            #expect(rules.role(for: schema, of: state).read.canonicalText == "_id IN {\(number)}")
        }
    }

    // MARK: Other forms

    private static let role = #"{"name": "r", "applyWhen": {}, "read": {"n": 1}, "write": {"n": 2}}"#
    private static let oldSchema =
        #"{"title": "A", "properties": {"_id": {"bsonType": "int"}, "n": {"bsonType": "int"}}}"#

    /// `services` with rules and schema in one file, `flexible_sync` in the data source, roles there.
    @Test func olderFormsAreRead() throws {
        let app = try Self.export([
            "config.json": #"{"app_id": "old-1", "name": "old"}"#,
            "services/mongodb-atlas/config.json": #"""
            {"name": "m", "config": {"flexible_sync": {"state": "enabled",
                "permissions": {"rules": {"A": [\#(Self.role)]}, "defaultRoles": []}}}}
            """#,
            "services/mongodb-atlas/rules/db.A.json":
                #"{"database": "db", "collection": "A", "schema": \#(Self.oldSchema)}"#,
            "auth_providers/anon-user.json": #"{"name": "anon-user", "type": "anon-user", "disabled": false}"#,
        ])
        #expect(app.appID == "old-1")
        #expect(app.providers == ["anon-user"])
        #expect(app.notices.isEmpty)
        var state = ObjectGraph()
        _ = try state.write(as: 2) { try app.schema.add(to: $0) }
        let schema = try #require(state.schema(ofClass: [0x41]))
        let role = app.rules.rules(for: try RuleUser(id: "ada")).role(for: schema, of: state)
        #expect(role.read.canonicalText == "(n IN {1} or n IN {2})")
        #expect([role.write, role.insert, role.delete].allSatisfy { $0.canonicalText == "n IN {2}" })
    }

    @Test func partitionsAreNoted() throws {
        let app = try Self.export(["sync/config.json": #"{"type": "partition", "partition": {"key": "p"}}"#])
        #expect(app.notices.map(\.kind) == [.notHere])
    }

    @Test func anAppOfNothingHasNothing() throws {
        let app = try Self.export([:])
        #expect(app.notices.isEmpty)
        #expect(app.schema.classes.isEmpty)
        #expect(app.providers == nil)
        #expect(app.sync == SyncConfiguration())
    }

    // MARK: Errors

    private static let folderOfA = "data_sources/m/db/A"

    private static func schema(_ properties: String) -> [String: String] {
        ["\(folderOfA)/schema.json": #"{"properties": \#(properties)}"#]
    }

    @Test(
        arguments: [
            (
                ["sync/config.json": "{\"type\":\n"], "sync/config.json", "line 2, column 1",
                "not JSON: a value is missing"
            ),
            (["sync.json": #"{"type": "other"}"#], "sync.json", "type", #""flexible" or "partition" is expected"#),
            (
                ["sync.json": #"{"queryable_fields_names": [1]}"#], "sync.json", "queryable_fields_names[0]",
                "a string is expected"
            ),
            (
                ["sync.json": #"{"client_max_offline_days": -1}"#], "sync.json", "client_max_offline_days",
                "a number of days is expected"
            ),
            (
                schema(#"{"n": {"bsonType": "int"}}"#), "\(folderOfA)/schema.json", "",
                #"the class A has no field "_id", which is its primary key"#
            ),
            (
                schema(#"{"_id": {"bsonType": "bool"}}"#), "\(folderOfA)/schema.json", "",
                "a primary key is of the type int, long, string, objectId or uuid"
            ),
            (
                schema(#"{"_id": {"bsonType": "int"}, "a": {"bsonType": "array"}}"#), "\(folderOfA)/schema.json",
                "properties.a", #"the array has no "items""#
            ),
            (
                [
                    "\(folderOfA)/schema.json": oldSchema,
                    "\(folderOfA)/relationships.json": ##"{"n": {"ref": "#/relationship/m/db/B"}}"##,
                ],
                "\(folderOfA)/relationships.json", "n.ref", "there is no schema of db/B"
            ),
            (
                ["\(folderOfA)/schema.json": oldSchema, "data_sources/m/db/B/schema.json": oldSchema],
                "data_sources/m/db/B/schema.json", "", "there is another class A"
            ),
            (
                [
                    "data_sources/m/default_rule.json": #"{"roles": []}"#,
                    "data_sources/n/default_rule.json": #"{"roles": []}"#,
                ],
                "data_sources/n/default_rule.json", "",
                "there is another default rule: data_sources/m/default_rule.json"
            ),
            (
                ["sync.json": #"{"queryable_fields_names": ["x"], "permissions": {"rules": {"A": [\#(role)]}}}"#],
                "sync.json",
                "permissions.rules.A", #"role "r": key "n" is not a queryable field"#
            ),
        ] as [([String: String], String, String, String)])
    func whatIsBrokenIsNamed(files: [String: String], file: String, place: String, reason: String) throws {
        let error = #expect(throws: RuleError.self) { try Self.export(files) }
        #expect(error?.file == file)
        #expect(error?.place == place)
        #expect(error?.reason == reason)
    }

    @Test func aFolderThatIsNotThereIsAnError() {
        let error = #expect(throws: RuleError.self) { try AppExport(directory: Self.folder.path + "/nosuch") }
        #expect(error?.reason == "this is not a folder that can be read")
    }
}
