import AnabranchHistory
import AnabranchProtocol
import Foundation
import Logging
import Testing

@testable import AnabranchServer
@testable import anabranch

/// Settings that are allowed and probably not meant, and mistakes in files that a configuration names.
extension ConfigurationTests {
    /// Before a server runs, too, one hears what an exported app asks for in vain.
    @Test func whatAnExportedAppAsksForInVainIsTold() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("app-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        for (name, text) in [
            ("sync/config.json", #"{"type": "flexible"}"#), ("functions/config.json", #"[{"name": "welcome"}]"#),
            ("data_sources/db/shop/Dog/rules.json", #"{"roles": []}"#),
        ] {
            let file = folder.appendingPathComponent(name)
            try FileManager.default.createDirectory(
                at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
            try Data(text.utf8).write(to: file)
        }
        let app = "apps: {pets: {providers: [anon-user], sync: flexible, app-config: '\(folder.path)'}}"
        let found = await NamedFiles.check(try Self.configuration(app))
        #expect(found.problems == [])
        #expect(found.notices.contains { $0.hasPrefix("apps: pets: functions/config.json: functions are not here") })
        try FileManager.default.removeItem(at: folder.appendingPathComponent("sync"))
        let broken = await NamedFiles.check(try Self.configuration(app))
        #expect(broken.problems.count == 1 && broken.problems.first?.contains("sync/config.json") == true)
    }

    /// A folder with files, which are gone afterwards.
    private static func withFolder(
        _ files: [String: String], _ body: (_ path: String) async throws -> Void
    ) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("check-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        for (name, text) in files {
            let file = folder.appendingPathComponent(name)
            try FileManager.default.createDirectory(
                at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
            try Data(text.utf8).write(to: file)
        }
        try await body(folder.path)
    }

    @Test func whatIsAllowedAndProbablyNotMeantIsNoted() async throws {
        let files = [
            "rules.yaml": """
            rules:
              - {path: '"a"', app: my-ap, right: read}
              - {path: '"b"', users: [ann@example.com], right: read}
            """,
            "app/sync/config.json": #"{"type": "flexible"}"#, "app/realm_config.json": #"{"app_id": "tasks-abcde"}"#,
            "app/data_sources/db/chores/Task/rules.json": #"{"roles": []}"#,
        ]
        try await Self.withFolder(files) { folder in
            let found = await NamedFiles.check(
                try Self.configuration(
                    """
                    data: \(folder)/new/data
                    rules: \(folder)/rules.yaml
                    apps:
                      my-app: {providers: [anon-user]}
                      tasks: {providers: [anon-user], sync: flexible, app-config: \(folder)/app}
                    """))
            #expect(found.problems == [])
            for words in [
                "rules: rule 1: app: there is no app 'my-ap'; did you mean 'my-app'? allowed: my-app, tasks",
                "rules: rule 2: users: 'ann@example.com' is no ident, as `anabranch admin users` prints them, "
                    + "so nobody is meant",
                "apps: tasks: app-config: it is of the app 'tasks-abcde': clients have to ask for 'tasks'",
            ] { #expect(found.notices.contains(words), "\(words) is not in \(found.notices)") }
            #expect(found.rules.contains("tasks: class Task: nobody may do anything"))
            let other = await NamedFiles.check(try Self.configuration("data: \(folder)/rules.yaml/data"))
            #expect(other.problems == ["data: \(folder)/rules.yaml: is not a folder"])
        }
    }

    @Test func rolesOfAnotherDatabaseAreNamed() async throws {
        let files = [
            "sync/config.json": #"{"type": "flexible", "database_name": "chorez"}"#,
            "data_sources/db/chores/Task/rules.json": #"{"roles": []}"#,
        ]
        try await Self.withFolder(files) { folder in
            let yaml = "apps: {a: {providers: [anon-user], sync: flexible, app-config: '\(folder)'}}"
            let problems = await NamedFiles.check(try Self.configuration(yaml)).problems
            let reason = "no roles for database 'chorez' of sync/config.json: data_sources has only 'chores'"
            #expect(problems == ["apps: a: app-config: \(folder): \(reason)"])
        }
    }

    @Test func bothListenersNeedAPlaceOfTheirOwn() {
        func complaint(_ admin: String) -> String {
            Self.complaint(flags: ["listen": "127.0.0.1:9090", "admin-listen": admin, "insecure": "true"])
        }
        #expect(complaint("127.0.0.1:9090").hasPrefix("listen and admin-listen: both are port 9090"))
        #expect(complaint("0.0.0.0:9090").hasPrefix("listen and admin-listen: both are port 9090"))
        #expect(complaint("127.0.0.2:9090") == "" && complaint("127.0.0.1:9091") == "")
    }

    // MARK: What must not be by accident

    /// Nothing else says who may write what.
    @Test func aServerStartsOnlyWithAWordOnPermissions() throws {
        func missing(_ yaml: String) throws -> [String] {
            try Self.configuration(yaml).missingPermissions.map { String($0.prefix { $0 != "," }) }
        }
        let partitions = "a: {providers: [anon-user]}", flexible = "b: {providers: [anon-user], sync: flexible"
        #expect(try missing("apps: {\(partitions)}") == ["rules: not set"])
        #expect(try missing("user-without-token: x") == ["rules: not set"])
        #expect(try missing("") == [], "nobody is let in")
        #expect(try missing("{rules: everybody, apps: {\(partitions)}}") == [])
        #expect(try Self.configuration("rules: everybody").rules == .everybody)
        #expect(try Self.configuration("rules: /rules.yaml").rules == .file("/rules.yaml"))
        #expect(try missing("apps: {\(flexible)}}") == ["apps: b: app-config is not set"])
        #expect(
            try missing("apps: {\(partitions), \(flexible)}}") == ["rules: not set", "apps: b: app-config is not set"])
        #expect(try missing("apps: {\(flexible), app-config: everybody}}") == [])
        #expect(try Self.configuration("apps: {\(flexible), app-config: everybody}}").exportPaths == [:])
        #expect(try missing("apps: {\(flexible), app-config: /exported}}") == [])
        #expect(try missing("{dev: true, apps: {\(partitions), \(flexible)}}}") == [])
    }

    @Test func rulesThatDecideNothingAreNoted() throws {
        let note = "rules: no app has partitions, so they decide nothing"
        let flexible = "apps: {a: {providers: [anon-user], sync: flexible, app-config: everybody}}"
        #expect(try Self.configuration("{rules: r.yaml, \(flexible)}").notices == [note])
        #expect(try Self.configuration("{rules: everybody, \(flexible)}").notices == [])
        #expect(try Self.configuration("{rules: r.yaml, dev: true, \(flexible)}").notices == [])
        #expect(try Self.configuration("{rules: r.yaml, apps: {a: {providers: [anon-user]}}}").notices == [])
    }
}
