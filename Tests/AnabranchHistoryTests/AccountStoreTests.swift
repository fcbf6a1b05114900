import AnabranchHistory
import AnabranchPostgres
import AnabranchSQLite
import Foundation
import GRDB
import Testing

/// The promises of every account store.
@Suite struct AccountStoreTests {
    enum Kind: CaseIterable {
        case inMemory, sqlite, postgres
    }

    /// Runs a body over an empty store of the kind.
    private static func with(_ kind: Kind, _ body: (any AccountStore) throws -> Void) throws {
        switch kind {
        case .inMemory:
            try body(InMemoryAccountStore())
        case .sqlite:
            let folder = FileManager.default.temporaryDirectory.appendingPathComponent("accounts-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            let store = try SQLiteAccountStore(directory: folder.path)
            try body(store)
            try store.close()
        case .postgres:
            let database = try TestDatabase(), store = PostgresAccountStore(try PostgresStore(database))
            try body(store)
            store.close()
        }
    }

    private static func user(_ ident: String, app: String = "a", _ name: String, provider: String = "p") -> User {
        User(
            ident: ident, app: app,
            identities: [Identity(ident: "i" + ident, provider: provider, name: name, secret: "s")], createdAt: 5)
    }

    private static func session(_ ident: String, of user: String, from: UInt64 = 10, to: UInt64 = 20) -> LoginSession {
        LoginSession(ident: ident, user: user, provider: "p", createdAt: from, expiresAt: to)
    }

    @Test(arguments: Kind.allCases) func usersAreFoundByIdentAndByName(_ kind: Kind) throws {
        try Self.with(kind) { store in
            let ann = Self.user("1", "ann"), other = Self.user("2", app: "b", "ann")
            try store.add(ann)
            try store.add(other)
            #expect(try store.user("1") == ann)
            #expect(try store.user(of: "b", provider: "p", name: "ann") == other)
            #expect(try store.user(of: "a", provider: "q", name: "ann") == nil)
            #expect(try store.user("3") == nil)
            #expect(try store.users(after: "", countMax: 1) == [ann])
            #expect(try store.users(after: "1", countMax: 9) == [other])
            #expect(try store.users(of: "a", after: "", countMax: 9) == [ann])
            #expect(try store.users(of: "b", after: "", countMax: 9) == [other])
            #expect(try store.users(of: "b", after: "2", countMax: 9).isEmpty)
            #expect(try store.users(of: "b", after: "", countMax: 0).isEmpty)
        }
    }

    @Test(arguments: Kind.allCases) func aNameIsTakenOnce(_ kind: Kind) throws {
        try Self.with(kind) { store in
            try store.add(Self.user("1", "ann"))
            #expect(throws: AccountError(.nameTaken, "")) { try store.add(Self.user("2", "ann")) }
            #expect(try store.user("2") == nil)
            #expect(throws: AccountError(.nameTaken, "")) { try store.add(Self.user("1", "bob")) }
            #expect(try store.user("1")?.identities.map(\.name) == ["ann"])
            #expect(try store.user(of: "a", provider: "p", name: "bob") == nil)
            try store.add(Self.user("3", "ann", provider: "q"))
            let ann = Identity(ident: "x", provider: "p", name: "ann")
            #expect(throws: AccountError(.nameTaken, "")) { try store.add(ann, to: "3") }
        }
    }

    @Test(arguments: Kind.allCases) func aNameDoesNotEndAtANUL(_ kind: Kind) throws {
        try Self.with(kind) { store in
            try store.add(Self.user("1", "ann"))
            try store.add(Self.user("2", "bob@example.com", provider: "local-userpass"))
            #expect(try store.user(of: "a", provider: "p", name: "ann\0") == nil)
            #expect(try store.user(of: "a", provider: "local-userpass", name: "Bob@example.com\0x") == nil)
        }
    }

    /// "é" is one character in two ways, and two names.
    @Test(arguments: Kind.allCases) func namesAreComparedByteByByte(_ kind: Kind) throws {
        try Self.with(kind) { store in
            try store.add(Self.user("1", "caf\u{e9}"))
            try store.add(Self.user("2", "cafe\u{301}"))
            #expect(try store.user(of: "a", provider: "p", name: "cafe\u{301}")?.ident == "2")
            #expect(try store.user(of: "a", provider: "p", name: "CAF\u{e9}") == nil)
        }
    }

    @Test(arguments: Kind.allCases) func anEmailAddressIsTheSameInCapitalLetters(_ kind: Kind) throws {
        try Self.with(kind) { store in
            func user(_ name: String, app: String = "a") throws -> String? {
                try store.user(of: app, provider: "local-userpass", name: name)?.ident
            }
            try store.add(Self.user("1", "Ann@x.org", provider: "local-userpass"))
            try store.add(Self.user("2", "bob@x.org", provider: "local-userpass"))
            for name in ["Ann@x.org", "ann@x.org", "ANN@X.ORG"] { #expect(try user(name) == "1") }
            #expect(try user("BOB@x.org") == "2")
            for name in ["ann@x_org", "ann@x.or%", "ann", ""] { #expect(try user(name) == nil) }
            #expect(try user("ann@x.org", app: "b") == nil)
            #expect(throws: AccountError(.nameTaken, "")) {
                try store.add(Self.user("3", "aNN@x.org", provider: "local-userpass"))
            }
            let other = Identity(ident: "x", provider: "local-userpass", name: "BOB@X.org")
            #expect(throws: AccountError(.nameTaken, "")) { try store.add(other, to: "1") }
            #expect(try store.user("1")?.identities.first?.name == "Ann@x.org", "as it was registered")
            let twice = User(
                ident: "4", app: "a",
                identities: ["cat@x.org", "CAT@x.org"].map {
                    Identity(ident: $0, provider: "local-userpass", name: $0)
                }, createdAt: 1)
            #expect(throws: AccountError(.nameTaken, "")) { try store.add(twice) }
            // Only letters from A to Z, of which SQLite knows.
            try store.add(Self.user("5", "\u{e9}va@x.org", provider: "local-userpass"))
            #expect(try user("\u{c9}va@x.org") == nil)
            try store.move("i2", from: "2", to: "1")
            #expect(try user("Bob@X.org") == "1")
            try store.removeUser("1")
            #expect(try user("ann@x.org") == nil)
            try store.add(Self.user("6", "ANN@x.org", provider: "local-userpass"))
            #expect(try user("ann@x.org") == "6")
        }
    }

    /// Two addresses that an older version has taken for different ones.
    @Test func namesThatDifferInCaseAloneAreFoundAsTheyAreWritten() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("accounts-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let store = try SQLiteAccountStore(directory: folder.path)
        for (ident, name) in [("1", "ann@x.org"), ("2", "bob@x.org"), ("3", "cat@x.org")] {
            try store.add(Self.user(ident, name, provider: "local-userpass"))
        }
        try store.close()
        let queue = try DatabaseQueue(path: folder.appendingPathComponent("accounts.sqlite").path)
        try queue.write { db in
            try db.execute(
                sql: """
                    UPDATE identity SET name = 'Ann@x.org' WHERE user = '2';
                    DROP INDEX identity_by_caseless_name
                    """)
        }
        try queue.close()
        let again = try SQLiteAccountStore(directory: folder.path)
        func user(_ name: String) throws -> String? {
            try again.user(of: "a", provider: "local-userpass", name: name)?.ident
        }
        #expect(try [user("ann@x.org"), user("Ann@x.org"), user("ANN@x.org")] == ["1", "2", nil])
        #expect(throws: AccountError(.nameTaken, "")) {
            try again.add(Self.user("4", "ANN@x.org", provider: "local-userpass"))
        }
        try again.move("i2", from: "2", to: "3")
        #expect(try [user("ann@x.org"), user("Ann@x.org")] == ["1", "3"])
        try again.removeUser("1")
        #expect(try user("ANN@x.org") == "3", "it is the only one now")
        try again.close()
    }

    @Test(arguments: Kind.allCases) func anUnusedUsersIdentityCanBeMoved(_ kind: Kind) throws {
        try Self.with(kind) { store in
            for (ident, name) in [("1", "ann"), ("2", "bob"), ("3", "cat")] { try store.add(Self.user(ident, name)) }
            try store.add(Self.session("s", of: "3"), by: nil)
            try store.move("i2", from: "2", to: "1")
            #expect(try store.user("2") == nil)
            #expect(try store.user(of: "a", provider: "p", name: "bob")?.ident == "1")
            #expect(try store.user("1")?.identities.map(\.ident) == ["i1", "i2"])
            #expect(throws: AccountError(.nameTaken, "")) { try store.move("i3", from: "3", to: "1") }
            #expect(throws: AccountError(.noSuchUser, "")) { try store.move("i3", from: "9", to: "1") }
        }
    }

    @Test(arguments: Kind.allCases) func changesNeedAUser(_ kind: Kind) throws {
        try Self.with(kind) { store in
            let none = AccountError(.noSuchUser, "")
            #expect(throws: none) { try store.setDisabled(true, user: "1") }
            #expect(throws: none) { try store.setCustomData("{}", user: "1") }
            #expect(throws: none) { try store.setSecret("x", of: "i1", user: "1") }
            #expect(throws: none) { try store.add(Self.session("s", of: "1"), by: nil) }
            #expect(throws: none) { try store.add(APIKey(ident: "k", user: "1", name: "n", digest: [1]), countMax: 9) }
            try store.add(Self.user("1", "ann"))
            try store.setDisabled(true, user: "1")
            try store.setCustomData(#"{"team":1}"#, user: "1")
            try store.setSecret("x", of: "i1", user: "1")
            let user = try #require(try store.user("1"))
            #expect(user.isDisabled && user.customData == #"{"team":1}"# && user.identities[0].secret == "x")
        }
    }

    @Test(arguments: Kind.allCases) func sessionsEnd(_ kind: Kind) throws {
        try Self.with(kind) { store in
            try store.add(Self.user("1", "ann"))
            for (ident, end) in [("s", 20), ("t", 30), ("u", 90)] as [(String, UInt64)] {
                try store.add(Self.session(ident, of: "1", to: end), by: nil)
            }
            #expect(try store.session("s")?.session == Self.session("s", of: "1"))
            #expect(try store.session("s")?.user.ident == "1")
            try store.add(Self.session("v", of: "1", from: 30, to: 99), by: nil)
            #expect(try store.session("t") == nil, "it was over when another began")
            try store.removeSession("u")
            #expect(try store.session("u") == nil)
            try store.removeSessions(of: "1")
            #expect(try store.session("v") == nil)
        }
    }

    @Test(arguments: Kind.allCases) func keysBelongToTheirUser(_ kind: Kind) throws {
        try Self.with(kind) { store in
            try store.add(Self.user("1", "ann"))
            try store.add(Self.user("2", "bob"))
            let key = APIKey(ident: "k", user: "1", name: "n", digest: [1, 2])
            try store.add(key, countMax: 9)
            #expect(throws: AccountError(.nameTaken, "")) {
                try store.add(APIKey(ident: "l", user: "1", name: "n", digest: [3]), countMax: 9)
            }
            #expect(try store.apiKey(digest: [1, 2]) == key)
            #expect(try store.apiKeys(of: "1") == [key])
            #expect(try store.apiKeys(of: "2") == [])
            #expect(try !store.setDisabled(true, apiKey: "k", of: "2"))
            #expect(try store.setDisabled(true, apiKey: "k", of: "1"))
            #expect(try store.apiKey(digest: [1, 2])?.isDisabled == true)
            #expect(try !store.removeAPIKey("k", of: "2"))
            #expect(try store.removeAPIKey("k", of: "1"))
            #expect(try store.apiKey(digest: [1, 2]) == nil)
        }
    }

    @Test(arguments: Kind.allCases) func aUserHasSoManyKeys(_ kind: Kind) throws {
        try Self.with(kind) { store in
            for ident in ["1", "2"] { try store.add(Self.user(ident, ident)) }
            func add(_ ident: String, of user: String, countMax: Int) throws {
                let key = APIKey(ident: ident, user: user, name: ident, digest: Array(ident.utf8))
                try store.add(key, countMax: countMax)
            }
            #expect(throws: AccountError(.tooManyKeys, "")) { try add("a", of: "1", countMax: 0) }
            for ident in ["a", "b"] { try add(ident, of: "1", countMax: 2) }
            #expect(throws: AccountError(.tooManyKeys, "")) { try add("c", of: "1", countMax: 2) }
            try add("d", of: "2", countMax: 1)
            #expect(try store.apiKeys(of: "1").map(\.ident) == ["a", "b"])
        }
    }

    @Test(arguments: Kind.allCases) func sessionsBeginAndEndWithTheirSecret(_ kind: Kind) throws {
        try Self.with(kind) { store in
            try store.add(Self.user("1", "ann"))
            try store.add(Self.user("2", "bob"))
            try store.add(Self.session("s", of: "1"), by: "s")
            try store.add(Self.session("t", of: "2"), by: nil)
            try store.setSecret("x", of: "i1", user: "1")
            #expect(try store.session("s") == nil)
            #expect(try store.session("t") != nil)
            #expect(throws: AccountError(.secretReplaced, "")) { try store.add(Self.session("u", of: "1"), by: "s") }
            #expect(try store.session("u") == nil)
            try store.add(Self.session("v", of: "1"), by: "x")
            #expect(try store.session("v") != nil)
        }
    }

    @Test(arguments: Kind.allCases) func aPendingIdentityIsConfirmedByItselfOrWithItsSecret(_ kind: Kind) throws {
        try Self.with(kind) { store in
            for ident in ["1", "2", "3"] {
                var user = Self.user(ident, ident)
                user.identities[0].isPending = ident != "3"
                try store.add(user)
            }
            func isPending(_ user: String) throws -> Bool? { try store.user(user)?.identities.first?.isPending }
            #expect(try [isPending("1"), isPending("2"), isPending("3")] == [true, true, false])
            #expect(try store.confirm("i1", of: "1"))
            #expect(try !store.confirm("i1", of: "1"))
            #expect(try !store.confirm("i3", of: "3"))
            try store.setSecret("x", of: "i2", user: "2")
            #expect(try [isPending("1"), isPending("2")] == [false, false])
            #expect(throws: AccountError(.noSuchUser, "")) { try store.confirm("i1", of: "2") }
            #expect(throws: AccountError(.noSuchUser, "")) {
                try store.setSecret("x", of: "i1", user: "2", replacing: "x")
            }
        }
    }

    @Test(arguments: Kind.allCases) func ofSeveralWhoReplaceASecretTheFirstDoes(_ kind: Kind) throws {
        try Self.with(kind) { store in
            try store.add(Self.user("1", "ann"))
            try store.add(
                User(
                    ident: "2", app: "a", identities: [Identity(ident: "i2", provider: "p", name: "bob")], createdAt: 1)
            )
            try store.add(Self.session("s", of: "1"), by: nil)
            #expect(try !store.setSecret("x", of: "i1", user: "1", replacing: "another"))
            #expect(try !store.setSecret("x", of: "i1", user: "1", replacing: nil))
            #expect(try store.session("s") != nil, "nothing has changed")
            for (ident, old) in [("1", "s"), ("2", nil)] as [(String, String?)] {
                let isFirst = try (1...3).map {
                    try store.setSecret("x\($0)", of: "i\(ident)", user: ident, replacing: old)
                }
                #expect(isFirst == [true, false, false])
                #expect(try store.user(ident)?.identities[0].secret == "x1")
            }
            #expect(try store.session("s") == nil)
        }
    }

    /// What version 1 of the tables holds is there, and nobody in it has to confirm an address.
    @Test func accountsOfTheFirstFormatAreRead() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("accounts-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let store = try SQLiteAccountStore(directory: folder.path)
        try store.add(Self.user("1", "ann"))
        try store.add(Self.session("s", of: "1"), by: nil)
        try store.close()
        let queue = try DatabaseQueue(path: folder.appendingPathComponent("accounts.sqlite").path)
        try queue.write { db in
            try db.execute(
                sql: """
                    ALTER TABLE identity DROP COLUMN is_pending;
                    DELETE FROM grdb_migrations WHERE identifier LIKE '2:%';
                    PRAGMA user_version = 1
                    """)
        }
        try queue.close()
        let again = try SQLiteAccountStore(directory: folder.path)
        #expect(try again.user("1") == Self.user("1", "ann"))
        #expect(try again.session("s") != nil)
        try again.setSecret("x", of: "i1", user: "1")
    }

    @Test(arguments: Kind.allCases) func everythingOfAUserEndsWithTheUser(_ kind: Kind) throws {
        try Self.with(kind) { store in
            try store.add(Self.user("1", "ann"))
            try store.add(Self.session("s", of: "1"), by: nil)
            try store.add(APIKey(ident: "k", user: "1", name: "n", digest: [1]), countMax: 9)
            try store.removeUser("1")
            try store.removeUser("1")
            #expect(try store.session("s") == nil)
            #expect(try store.apiKey(digest: [1]) == nil)
            try store.add(Self.user("2", "ann"))
        }
    }

    @Test func theDatabaseIsTheOwnersAloneAndLasts() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("accounts-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let store = try SQLiteAccountStore(directory: folder.path)
        try store.add(Self.user("1", "ann"))
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) {
            let path = folder.appendingPathComponent(name).path
            #expect(
                try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int == 0o600, "\(name)")
        }
        try store.close()
        #expect(try SQLiteAccountStore(directory: folder.path).user("1") == Self.user("1", "ann"))
    }

    @Test func somebodyElsesDatabaseIsRefused() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("accounts-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        try SQLiteStore(directory: folder.path).close()
        let others = folder.appendingPathComponent("shard-00.sqlite")
        try FileManager.default.copyItem(at: others, to: folder.appendingPathComponent("accounts.sqlite"))
        #expect(throws: AccountError(.storeFailed, "")) { try SQLiteAccountStore(directory: folder.path) }
    }
}
