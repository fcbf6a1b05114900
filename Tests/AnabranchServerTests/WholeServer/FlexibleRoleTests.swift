import AnabranchCore
import AnabranchHistory
import AnabranchRules
import AnabranchSimulation
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchProtocol
@testable import AnabranchServer

/// The objects that users of flexible sync may see and write, by an exported app (`Spec/FlexibleRules.md`), at a whole
/// server.
@Suite(.timeLimit(.minutes(30))) struct FlexibleRoleTests {
    /// A user who keeps a dog, whose name is the keeper's, may do everything with it; a vet may see all dogs.
    private static let keepers = """
        {"roles": [
            {"name": "vet", "apply_when": {"%%user.id": "vet"}, "document_filters": {"read": true, "write": false},
             "read": true, "write": false, "insert": false, "delete": false},
            {"name": "keeper", "apply_when": {"%%user.id": {"$ne": "guest"}},
             "document_filters": {"read": {"name": "%%user.id"}, "write": {"name": "%%user.id"}},
             "read": true, "write": true, "insert": true, "delete": {"age": {"$lt": 10}}}]}
        """

    private static func everybody(_ read: String) -> String {
        """
        {"roles": [{"name": "all", "apply_when": {}, "document_filters": {"read": \(read), "write": \(read)},
        "read": true, "write": true, "insert": true, "delete": true}]}
        """
    }

    /// A folder with an exported app.
    private struct Folder {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("app-\(UUID().uuidString)").path

        init(rules: String, sync: String = #"{"type": "flexible", "development_mode_enabled": true}"#) throws {
            try set("data_sources/db/shop/Dog/rules.json", rules)
            try set("sync/config.json", sync)
        }

        func set(_ name: String, _ text: String) throws {
            let url = URL(fileURLWithPath: path).appendingPathComponent(name)
            try FileManager.default.createDirectory(
                at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
            try Data(text.utf8).write(to: url, options: .atomic)
        }

        func setRules(_ text: String) throws { try set("data_sources/db/shop/Dog/rules.json", text) }
    }

    private static func serve(_ folder: Folder, _ body: (RunningServer) async throws -> Void) async throws {
        var settings = ServerSettings.small
        settings.flexibleApps = ["pets"]
        let exports = try await AppExports(directories: ["pets": folder.path], logger: .quiet)
        defer { try? FileManager.default.removeItem(atPath: folder.path) }
        try await withServer(settings: settings, authenticator: UserByToken(), exports: exports, body)
    }

    /// With a set of all dogs.
    private static func device(_ user: String, at server: RunningServer) async throws -> FlexibleDevice {
        var device = FlexibleDevice(user: user)
        try await device.connect(port: server.port)
        try await device.settle()
        try device.client.write(at: 1) { try $0.addDogs() }
        _ = try device.client.subscribe(#"{"Dog":"(TRUEPREDICATE)"}"#)
        try await device.settle()
        return device
    }

    private static func addDogs(of users: [String], at server: RunningServer) async throws {
        try await server.server.write(to: VirtualPath("pets")) { transaction in
            for (number, user) in users.enumerated() { try transaction.addDog(Int64(number), user, age: 5) }
        }
    }

    @Test func ownersReadersAndOthersHaveWhatTheirRolesGive() async throws {
        try await Self.serve(try Folder(rules: Self.keepers)) { server in
            var ada = try await Self.device("ada", at: server), vet = try await Self.device("vet", at: server)
            var guest = try await Self.device("guest", at: server)
            try await Self.addDogs(of: ["ada", "bob"], at: server)
            try await ada.settle()
            try await vet.settle()
            try await guest.settle()
            #expect(try ada.dogs == ["ada"])
            #expect(try vet.dogs == ["ada", "bob"])
            #expect(try guest.dogs == [])

            try ada.client.write(at: 3) { transaction in
                try transaction.addDog(7, "ada", age: 12)
                try transaction.addDog(8, "bob", age: 1)
            }
            try vet.client.write(at: 3) { try $0.object("Dog", key: 0)?.set("age", to: .int(6)) }
            try guest.client.write(at: 3) { try $0.addDog(9, "guest", age: 1) }
            try await Self.settle(&ada, &vet, &guest)
            #expect(try ada.dogs == ["ada", "ada"])
            #expect(ada.refusals.map(\.key) == [8] && vet.refusals.map(\.key) == [0])
            #expect(guest.refusals.map(\.key) == [9])
            #expect(vet.refusals.allSatisfy { $0.reason == #"write to 0 in table "Dog" not allowed"# })
            #expect(try vet.client.file?.state.read { try $0.object("Dog", key: 0)?.value("age") } == .int(5))
            let refusal = try #require(server.server.refusals.last(10, of: "vet").last)
            #expect(refusal.code == "231" && refusal.path == "pets")
            #expect(refusal.reason.hasPrefix("undone in version "), "\(refusal.reason)")
            #expect(refusal.reason.hasSuffix(#"`anabranch explain` explains: write to 0 in table "Dog" not allowed"#))

            // One may be deleted, and the other is too old.
            try ada.client.write(at: 4) { transaction in
                for key in [PrimaryKey.int(0), .int(7)] {
                    if let dog = try transaction.object("Dog", key: key) { try transaction.delete(dog) }
                }
            }
            try await Self.settle(&ada, &vet, &guest)
            #expect(try ada.dogs == ["ada"])
            #expect(ada.refusals.map(\.key) == [8, 7])
            #expect(try vet.dogs == ["ada", "bob"].sorted().reversed())
        }
    }

    private static func settle(
        _ one: inout FlexibleDevice, _ two: inout FlexibleDevice, _ three: inout FlexibleDevice
    ) async throws {
        for _ in 0..<2 {
            try await one.settle()
            try await two.settle()
            try await three.settle()
        }
    }

    /// A schema is not a write: who may write later has it on the server already.
    @Test func aReaderWhoMayWriteLaterWritesWhatOnlyItsAppKnows() async throws {
        let mayRead = """
            {"roles": [{"name": "all", "apply_when": {}, "document_filters": {"read": {"name": "%%user.id"},
            "write": false}, "read": true, "write": false, "insert": false, "delete": false}]}
            """
        let folder = try Folder(rules: mayRead)
        try await Self.serve(folder) { server in
            var reader = try await Self.device("bob", at: server)
            try await Self.addDogs(of: ["ada", "bob"], at: server)
            try reader.client.write(at: 2) { try $0.addColumn("more", .int, to: "Dog") }
            try await reader.settle()
            try folder.setRules(Self.everybody("true"))
            await server.server.refreshExports()
            try await reader.wait { $0 == ["ada", "bob"] }
            try reader.client.write(at: 3) { try $0.object("Dog", key: 0)?.set("more", to: .int(8)) }
            try await reader.settle()
            #expect(reader.refusals.isEmpty && reader.client.lastError == nil)
            let more = try await server.server.read(VirtualPath("pets")) { try $0.object("Dog", key: 0)?.value("more") }
            #expect(more == .int(8))
        }
    }

    @Test func clientsFollowRulesThatChangeWhileTheyAreThereAndWhileTheyAreAway() async throws {
        let folder = try Folder(rules: Self.everybody("true"))
        try await Self.serve(folder) { server in
            var here = try await Self.device("ada", at: server), away = try await Self.device("ada", at: server)
            try await Self.addDogs(of: ["ada", "bob"], at: server)
            try await here.settle()
            try await away.settle()
            away.disconnect()
            try away.client.write(at: 4) { try $0.object("Dog", key: 1)?.set("age", to: .int(8)) }

            try folder.setRules(Self.everybody(#"{"name": "%%user.id"}"#))
            await server.server.refreshExports()
            try await here.wait { $0 == ["ada"] }
            // What it has written meanwhile to an object that it may not see any more goes with that.
            try await away.connect(port: server.port)
            try await away.settle()
            #expect(try away.dogs == ["ada"])

            // A mistake changes nothing.
            try folder.setRules(#"{"roles": [{"name": "all"}]}"#)
            await server.server.refreshExports()
            try await here.settle()
            #expect(try here.dogs == ["ada"])
            try folder.setRules(Self.everybody(#"{"age": {"$lte": 5}}"#))
            await server.server.refreshExports()
            try await here.wait { $0 == ["ada", "bob"] }
            try await away.wait { $0 == ["ada", "bob"] }
        }
    }

    @Test func aRuleHoldsAsSoonAsItsFieldIsThere() async throws {
        try await Self.serve(try Folder(rules: Self.everybody(#"{"kind": null}"#))) { server in
            var ada = try await Self.device("ada", at: server)
            try await Self.addDogs(of: ["ada"], at: server)
            try await ada.settle()
            #expect(try ada.dogs == [])
            try ada.client.write(at: 3) { transaction in
                try transaction.addColumn("kind", .string, isNullable: true, to: "Dog")
                try transaction.addDog(5, "new", age: 1)
            }
            try await ada.settle()
            #expect(try ada.dogs == ["ada", "new"])
            #expect(ada.refusals.isEmpty)
        }
    }

    @Test func withoutDevelopmentModeTheSchemaIsThatOfTheExport() async throws {
        let folder = try Folder(
            rules: Self.everybody("true"),
            sync: #"{"type": "flexible", "queryable_fields_names": ["age"], "is_recovery_mode_disabled": true}"#)
        try folder.set(
            "data_sources/db/shop/Dog/schema.json",
            """
            {"title": "Dog", "required": ["_id", "name", "age"], "properties": {"_id": {"bsonType": "long"},
            "name": {"bsonType": "string"}, "age": {"bsonType": "long"}}}
            """)
        try await Self.serve(folder) { server in
            // The client has the same classes, which adds nothing.
            var ada = try await Self.device("ada", at: server)
            let refused = try ada.client.subscribe(#"{"Dog":"(name == \"ada\")"}"#)
            try await ada.settle()
            let state = try #require(ada.client.subscriptions.state(of: refused))
            #expect("\(state)".contains("is not a queryable field"))
            try ada.client.write(at: 3) { try $0.addColumn("color", .string, to: "Dog") }
            try await ada.settle()
            let error = try #require(ada.client.lastError)
            #expect(error.code == .invalidSchemaChange)
            #expect(error.message.contains(#"adding "color" in schema "Dog""#))
        }
    }

    /// It may be being written, or be another one.
    @Test(arguments: ["sync/config.json", "data_sources/db/shop/Dog/rules.json"])
    func aFolderThatIsNoAppChangesNothing(missing name: String) async throws {
        let folder = try Folder(rules: Self.keepers)
        defer { try? FileManager.default.removeItem(atPath: folder.path) }
        let exports = try await AppExports(directories: ["pets": folder.path], logger: .quiet)
        try FileManager.default.removeItem(atPath: "\(folder.path)/\(name)")
        #expect(await exports.refresh() == [])
        #expect(exports.export(of: "pets")?.sync.isInDevelopmentMode == true)
        await #expect(throws: FileError.self) {
            _ = try await AppExports(directories: ["pets": folder.path], logger: .quiet)
        }
    }

    @Test(arguments: [
        ("data_sources/db/shop/Dog/rules.json", #"{"roles": [{"name": "r", "apply_when": {"age": 1}}]}"#, "apply_when"),
        ("data_sources/db/shop/Dog/rules.json", #"{"roles": "#, "rules.json"),
        ("sync/config.json", #"{"type": "flexible", "development_mode_enabled": 1}"#, "development_mode_enabled"),
    ])
    func aMistakeIsNamedWithItsFileAndPlace(name: String, text: String, place: String) async throws {
        let folder = try Folder(rules: Self.keepers)
        defer { try? FileManager.default.removeItem(atPath: folder.path) }
        try folder.set(name, text)
        do {
            _ = try await AppExports(directories: ["pets": folder.path], logger: .quiet)
            Issue.record("accepted: \(text)")
        } catch {
            #expect("\(error)".hasPrefix("\(folder.path)/\(name): ") && "\(error)".contains(place), "\(error)")
        }
        await #expect(throws: FileError.self) {
            _ = try await AppExports(directories: ["pets": folder.path + "-"], logger: .quiet)
        }
    }
}
