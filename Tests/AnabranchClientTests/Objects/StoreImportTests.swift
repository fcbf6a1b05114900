@testable import AnabranchClient
import AnabranchCore
import AnabranchReplica
import AnabranchTesting
import Foundation
import Testing

/// `SyncedStore(_:importing:)`, with files that the reference wrote.
@Suite struct StoreImportTests {
    private struct Dog: SyncedObject, Hashable {
        enum CodingKeys: String, CodingKey {
            case id = "_id"
            case age
        }

        var id: String
        var age = 0
    }

    private static let vectors = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("Vectors/RealmFiles").path

    private static func lines(_ name: String) throws -> [String] {
        String(decoding: try GzipFile.contents(of: "\(vectors)/\(name).jsonl.gz"), as: UTF8.self)
            .split(separator: "\n").map(String.init)
    }

    private static func copy(_ name: String, to path: String) throws {
        try GzipFile.contents(of: "\(vectors)/\(name).realm.gz").write(to: URL(fileURLWithPath: path))
    }

    private static func lines(of store: SyncedStore) throws -> [String] {
        try store.replica.reading { stored in
            var lines: [String] = []
            try stored.graph.forEachExportLine { lines.append(String(decoding: $0, as: UTF8.self)) }
            return lines
        }
    }

    private static func names(beside path: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: (path as NSString).deletingLastPathComponent)
            .filter { $0.contains("import") }
    }

    @Test(arguments: [
        "04-values-of-each", "14-links", "15-embedded", "20-nested", "21-many", "28-asymmetric",
        "40-synced-never-connected", "44-synced-merged-and-pending", "50-format-22-types",
    ])
    func aStoreHasWhatTheRealmFileHas(_ name: String) async throws {
        try await withFolder { path in
            try Self.copy(name, to: path("default.realm"))
            let store = try await SyncedStore(path("store"), importing: path("default.realm"))
            #expect(try Self.lines(of: store) == Self.lines(name))
            #expect(await store.replica.unacknowledged.changesets > 1)
            #expect(try Self.names(beside: path("store")).isEmpty)
            try await store.close()
        }
    }

    @Test func aSecondOpeningImportsNothing() async throws {
        try await withFolder { path in
            try Self.copy("44-synced-merged-and-pending", to: path("default.realm"))
            let store = try await SyncedStore(path("store"), importing: path("default.realm"), Dog.self)
            #expect(try store.get(Dog.self, "dog 0") == Dog(id: "dog 0", age: 20))
            try await store.write { tx in try tx.edit(Dog.self, "dog 0") { $0.age = 21 } }
            try await store.close()
            for _ in 1...2 {
                let again = try await SyncedStore(path("store"), importing: path("default.realm"), Dog.self)
                #expect(try again.get(Dog.self, "dog 0").age == 21)
                try await again.close()
                try FileManager.default.removeItem(atPath: path("default.realm"))
                try Data("no Realm file any more".utf8).write(to: URL(fileURLWithPath: path("default.realm")))
            }
        }
    }

    /// A process that ends within an import leaves the file that it was writing.
    @Test func anInterruptedImportBeginsAnew() async throws {
        try await withFolder { path in
            try Self.copy("21-many", to: path("default.realm"))
            let left = try await SyncedStore(path("store.importing"), Dog.self)
            try await left.write { tx in try tx.insert(Dog(id: "half")) }
            try await left.close()
            let store = try await SyncedStore(path("store"), importing: path("default.realm"))
            #expect(try Self.lines(of: store) == Self.lines("21-many"))
            try await store.close()
            #expect(try Self.names(beside: path("store")).isEmpty)
        }
    }

    /// A process that is killed leaves the files as they are at that moment: whatever it was, there is no store or a
    /// whole one, and the next process has all.
    @Test func aKilledImportLeavesAllOrNothing() async throws {
        try await withFolder { path in
            try FileManager.default.createDirectory(atPath: path("0"), withIntermediateDirectories: false)
            try Self.copy("21-many", to: path("0/default.realm"))
            // Before the calls 1, 2, 4, 8 and so on.
            let observed = try ObservedFiles(in: path("0")) { number in
                guard number & (number - 1) == 0 else { return 0 }
                do {
                    try FileManager.default.copyItem(atPath: path("0"), toPath: path("\(number)"))
                } catch {
                    Issue.record(error)
                }
                return 0
            }
            let whole = try await SyncedStore(path("0/store"), importing: path("0/default.realm"))
            try await whole.close()
            withExtendedLifetime(observed) {}
            let moments = try FileManager.default.contentsOfDirectory(atPath: path("")).filter { $0 != "0" }
            let unfinished = moments.filter { !FileManager.default.fileExists(atPath: path("\($0)/store")) }
            #expect(unfinished.count > 5, "\(moments)")
            for moment in moments {
                let store = path("\(moment)/store")
                let next = try await SyncedStore(store, importing: path("\(moment)/default.realm"))
                #expect(try Self.lines(of: next) == Self.lines("21-many"), "before call \(moment)")
                try await next.close()
                #expect(try Self.names(beside: store).isEmpty)
            }
        }
    }

    @Test(arguments: [1, 4, 16, 64]) func aFullDiskLeavesNoStore(callsBefore: Int) async throws {
        try await withFolder { path in
            try Self.copy("21-many", to: path("default.realm"))
            do {
                let observed = try ObservedFiles(in: path("")) { number in
                    number > callsBefore ? ObservedFiles.isFull : 0
                }
                await #expect(throws: (any Error).self) {
                    _ = try await SyncedStore(path("store"), importing: path("default.realm"))
                }
                withExtendedLifetime(observed) {}
            }
            #expect(!FileManager.default.fileExists(atPath: path("store")))
            let store = try await SyncedStore(path("store"), importing: path("default.realm"))
            #expect(try Self.lines(of: store) == Self.lines("21-many"))
            try await store.close()
            #expect(try Self.names(beside: path("store")).isEmpty)
        }
    }

    @Test func whatCannotBeReadLeavesNoStore() async throws {
        try await withFolder { path in
            try Self.copy("21-many", to: path("default.realm"))
            var bytes = try Data(contentsOf: URL(fileURLWithPath: path("default.realm")))
            bytes.removeLast(bytes.count / 2)
            try bytes.write(to: URL(fileURLWithPath: path("cut.realm")))
            await #expect(throws: (any Error).self) {
                _ = try await SyncedStore(path("store"), importing: path("cut.realm"))
            }
            #expect(!FileManager.default.fileExists(atPath: path("store")))
            #expect(!FileManager.default.fileExists(atPath: path("store.importing")))
            let store = try await SyncedStore(path("store"), importing: path("default.realm"))
            #expect(try Self.lines(of: store).count == Self.lines("21-many").count)
            try await store.close()
        }
    }

    // MARK: A server that has the objects already

    @Test func valuesOfTheFileReplaceOlderOnesOfTheServer() async throws {
        try await Self.withServersObjects("03-one-of-each") { writeElsewhere, importIt in
            try await writeElsewhere(-3_600) { tx in
                for object in try tx.objects("All") {
                    try object.set("int", to: 7)
                    try object.set("string", to: "older")
                }
            }
            try await importIt()
            try await writeElsewhere(3_600) { tx in try tx.objects("All")[1].set("stringN", to: "newer") }
        } check: { tx in
            let objects = try tx.objects("All")
            // The first one has 0 and an empty text in the file, which are not written.
            #expect(try objects.map { try $0.value("int") } == [7, 127])
            #expect(try objects.map { try $0.value("string") } == ["older", "pwdkryfmtahovcj"])
            #expect(try objects[1].value("stringN") == "newer")
        }
    }

    @Test func elementsOfListsAreThereTwice() async throws {
        try await Self.withServersObjects("16-lists") { writeElsewhere, importIt in
            try await writeElsewhere(0) { _ in }
            try await importIt()
        } check: { tx throws in
            #expect(try tx.objects("L").prefix(4).map { try $0.list("bool").count } == [0, 2, 8, 18])
        }
    }

    private typealias Write = (Double, @Sendable (WriteTransaction) throws -> Void) async throws -> Void

    /// Two devices take the same file along: one that has its objects on the server, and the one that is looked at.
    ///
    /// - Parameters:
    ///   - body: gets what writes on the first one, whose clock is ahead by some seconds, and uploads it; and what
    ///     imports the file on the other one.
    ///   - check: looks at the other one once it is synchronized.
    private static func withServersObjects(
        _ name: String, _ body: (Write, () async throws -> Void) async throws -> Void,
        check: @Sendable (WriteTransaction) throws -> Void
    ) async throws {
        try await withServer { _, port async throws in
            try await withFolder { path async throws in
                try copy(name, to: path("default.realm"))
                func open(_ name: String) async throws -> SyncedStore {
                    try await SyncedStore(path(name), importing: path("default.realm"))
                }
                try await open("first").close()
                try await body { seconds, change in
                    let first = try Device(path("first"), port: port) {
                        ChangesetTime(secondsSince1970: Date.now.timeIntervalSince1970 + seconds)
                    }
                    try await first.connect()
                    try await first.replica.write(change)
                    try await first.settle()
                    try await first.close()
                } _: {
                    try await open("other").close()
                }
                let other = try Device(path("other"), port: port)
                try await other.connect()
                try await other.settle()
                try await other.replica.read(check)
                try await other.close()
            }
        }
    }

    @Test func anEncryptedFileNeedsItsKey() async throws {
        try await withFolder { path in
            try Self.copy("35-encrypted", to: path("default.realm"))
            await #expect(throws: (any Error).self) {
                _ = try await SyncedStore(path("store"), importing: path("default.realm"))
            }
            let key = Array("0123456789abcdefghijklmnopqrstuvABCDEFGHIJKLMNOPQRSTUVWXYZ012345".utf8)
            let store = try await SyncedStore(path("store"), importing: path("default.realm"), key: key)
            #expect(try Self.lines(of: store) == Self.lines("35-encrypted"))
            try await store.close()
        }
    }

    @Test func withoutARealmFileTheStoreIsEmpty() async throws {
        try await withFolder { path in
            let store = try await SyncedStore(path("store"), importing: path("default.realm"), Dog.self)
            #expect(try store.count(Dog.all) == 0)
            try await store.close()
        }
    }
}
