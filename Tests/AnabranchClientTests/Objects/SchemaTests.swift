import AnabranchCore
import Foundation
import Testing

@testable import AnabranchClient

/// The declarations of a type, and the store's answers to them.
@Suite struct SchemaTests {
    @Test func theClassesOfTypesAreAdded() async throws {
        try await withStore { store async throws in
            let classes = try await store.classes
            #expect(Set(classes.keys) == ["Chore", "Person", "Step"])
            #expect(classes["Person"] == ["id": "Int", "name": "String", "age": "Int?"])
            #expect(classes["Step"] == ["title": "String", "isDone": "Bool", "substeps": "[Link]"])
            #expect(classes["Chore"]?["owner"] == "Link?")
            #expect(classes["Chore"]?["named"] == "{Link?}")
            #expect(classes["Chore"]?["labels"] == "<String>")
            #expect(classes["Chore"]?["likes"] == "Int")
            #expect(classes["Chore"]?["extra"] == "Null?")
            #expect(classes["Chore"]?["place"] == "String?")
            #expect(classes["Chore"]?.count == 23)
        }
    }

    /// A newer version of an application has a property more, an older one has it less.
    @Test func propertiesAreAddedAndNeverRemoved() async throws {
        struct Old: SyncedObject {
            static let className = "Thing"
            var id: String
            var a = 1
        }
        struct New: SyncedObject {
            static let className = "Thing"
            var id: String
            var b: [Double] = []
            var c = Priority.high
            static var indexed: [PartialKeyPath<New>] { [\.c] }
        }
        try await withFolder { path in
            let old = try await SyncedStore(path("s"), Old.self)
            try await old.write { try $0.insert(Old(id: "x", a: 5)) }
            try await old.close()
            let new = try await SyncedStore(path("s"), New.self)
            // What an object never had is the first value of its type.
            #expect(try new.read { try $0.get(New.self, "x") }.c == .low)
            #expect(try new.read { try $0.objects(New.where { $0.c == .low }) }.isEmpty)
            try await new.write { tx in try tx.edit(New.self, "x") { $0.b = [1.5] } }
            try await new.close()
            let again = try await SyncedStore(path("s"), Old.self)
            #expect(try again.read { try $0.get(Old.self, "x") }.a == 5)
            try await again.close()
        }
    }

    /// Objects that are there get the declared values of properties that are added, which give way to those that
    /// others set meanwhile.
    @Test func addedPropertiesHaveDeclaredDefaults() async throws {
        struct Old: SyncedObject {
            static let className = "Thing"
            var id: Int
        }
        struct New: SyncedObject {
            static let className = "Thing"
            static var defaults: New? { New(id: 0) }
            var id: Int
            var estimate = 5
            var level = Priority.high
            var note: String? = "none"
            var likes: Counter = 3
            var tags = ["a"]
            var zero = 0
        }
        try await withServer { _, port async throws in
            try await withFolder { path async throws in
                func newClient() -> SyncClient {
                    SyncClient(SyncConfiguration(FixedRoute(server: "ws://127.0.0.1:\(port)", app: "parts")))
                }
                var old: [SyncedStore] = [], clients: [SyncClient] = []
                for name in ["one", "two"] {
                    let store = try await SyncedStore(path(name), Old.self), client = newClient()
                    if name == "one" { try await store.write { tx in for id in 1...2 { try tx.insert(Old(id: id)) } } }
                    try await client.add(store, partition: "things")
                    try await store.wait(for: .idle)
                    old.append(store)
                    clients.append(client)
                }
                for (store, client) in zip(old, clients) {
                    await client.stop()
                    try await store.close()
                }
                // Both add it offline, and the first one has set a value before the second one's default.
                let one = try await SyncedStore(path("one"), New.self)
                #expect(one.possibleRenames.isEmpty)
                try await one.write { tx in
                    try tx.edit(New.self, 1) { thing in
                        thing.estimate = 0
                        thing.likes += 1
                    }
                    try tx.insert(New(id: 3, estimate: 1))
                }
                let two = try await SyncedStore(path("two"), New.self)
                for store in [one, two, one] {
                    let client = newClient()
                    try await client.add(store, partition: "things")
                    try await store.wait(for: .idle)
                    await client.stop()
                }
                for store in [one, two] {
                    let things = try store.objects(New.all.sorted(by: \.id))
                    #expect(things.map(\.estimate) == [0, 5, 1])
                    #expect(things.map(\.level) == [.high, .high, .high])
                    #expect(things.map(\.note) == ["none", "none", "none"])
                    #expect(things.map(\.likes.value) == [4, 3, 3])
                    #expect(things.map(\.tags) == [[], [], ["a"]])
                    try await store.close()
                }
                // What was there stays as it is at the next opening.
                let again = try await SyncedStore(path("one"), New.self)
                #expect(again.status.pendingTransactions == 0)
                try await again.close()
            }
        }
    }

    @Test func aPropertyThatMayHaveBeenRenamedIsTold() async throws {
        struct Old: SyncedObject {
            static let className = "Thing"
            var id: String
            var title = ""
            var count = 1
        }
        struct Renamed: SyncedObject {
            static let className = "Thing"
            var id: String
            var name = ""
            var size = 2.5
        }
        try await withFolder { path in
            let old = try await SyncedStore(path("s"), Old.self)
            #expect(old.possibleRenames.isEmpty)
            try await old.close()
            let new = try await SyncedStore(path("s"), Renamed.self)
            #expect(new.possibleRenames == [PossibleRename(className: "Thing", stored: "title", added: "name")])
            #expect(new.possibleRenames.first?.description.contains(#"case name = "title""#) == true)
            try await new.close()
            // It is told once.
            let again = try await SyncedStore(path("s"), Renamed.self)
            #expect(again.possibleRenames.isEmpty)
            try await again.close()
        }
    }

    /// Nothing was declared: the class comes with its first object.
    @Test func aClassIsAddedWithItsFirstObject() async throws {
        try await withStore([]) { store async throws in
            #expect(try store.read { try $0.all(Chore.self) }.isEmpty)
            #expect(try store.read { try $0.find(Chore.self, 1) } == nil)
            #expect(try store.read { try $0.values(of: \Chore.title) }.isEmpty)
            try await store.write { tx in
                #expect(try tx.delete(Chore.self, 1) == false)
                try tx.insert(Chore.full(1))
            }
            #expect(try store.read { try $0.get(Chore.self, 1) } == .full(1))
        }
    }

    @Test func namesCanBeOthers() async throws {
        struct Renamed: SyncedObject {
            static let className = "Entry"
            var id: ObjectID
            var text = ""
            var cached = 3
            enum CodingKeys: String, CodingKey {
                case id = "_id"
                case text = "body text"
            }
        }
        struct Keyed: SyncedObject {
            var code: String
            var id: String { code }
        }
        try await withStore([Renamed.self, Keyed.self]) { store async throws in
            let key = ObjectID()
            try await store.write { tx in
                try tx.insert(Renamed(id: key, text: "a", cached: 7))
                try tx.insert(Keyed(code: "k"))
            }
            #expect(try await store.classes["Entry"] == ["_id": "ObjectId", "body text": "String"])
            let found = try store.read { try $0.objects(Renamed.where { $0.text == "a" && $0.id == key }) }
            #expect(found.map(\.cached) == [3])
            #expect(try store.read { try $0.get(Keyed.self, "k") }.code == "k")
            #expect(try store.read { try $0.objects(Keyed.where { $0.id == "k" }) }.count == 1)
        }
    }

    // MARK: What cannot be synchronized

    private struct Plain: Codable, Sendable { var x = 1 }
    private struct WithPlain: SyncedObject {
        var id: Int
        var plain = Plain()
    }
    private struct WithObject: SyncedObject {
        var id: Int
        var owner: Person?
    }
    private struct WithObjects: SyncedObject {
        var id: Int
        var owners: [Person] = []
    }
    private struct WithBareLink: SyncedObject {
        var id: Int
        var owner = Link<Person>(id: 1)
    }
    private struct WithBareObject: SyncedObject {
        var id: Int
        var step = Step()
    }
    private struct WithOptionalList: SyncedObject {
        var id: Int
        var list: [Int]?
    }
    private struct WithNestedList: SyncedObject {
        var id: Int
        var list: [[Int]] = []
    }
    private struct WithObjectSet: SyncedObject {
        var id: Int
        var set: Set<Step> = []
    }
    private struct WithBareEncoded: SyncedObject {
        var id: Int
        var place: Encoded<Place>
    }
    private struct WithUnsigned: SyncedObject {
        var id: Int
        var number: UInt8 = 0
    }
    private struct WithIndexedList: SyncedObject {
        var id: Int
        var list: [Int] = []
        static var indexed: [PartialKeyPath<Self>] { [\.list] }
    }
    private struct SameName: SyncedObject {
        static let className = "Person"
        var id: Int
    }

    @Test(arguments: [
        (WithPlain.self as any SyncedObject.Type, ["WithPlain.plain", "Plain", "EmbeddedObject", "Encoded"]),
        (WithObject.self, ["WithObject.owner", "Link<Person>?"]),
        (WithObjects.self, ["WithObjects.owners", "[Link<Person>]"]),
        (WithBareLink.self, ["WithBareLink.owner", "optional", "erased"]),
        (WithBareObject.self, ["WithBareObject.step", "optional"]),
        (WithOptionalList.self, ["WithOptionalList.list", "a collection cannot be null"]),
        (WithNestedList.self, ["WithNestedList.list", "AnyValue"]),
        (WithObjectSet.self, ["WithObjectSet.set", "cannot be in a set"]),
        (WithBareEncoded.self, ["WithBareEncoded.place", "optional"]),
        (WithUnsigned.self, ["WithUnsigned.number", "UInt8"]),
        (WithIndexedList.self, ["WithIndexedList.list", "cannot be indexed", "[Int]"]),
    ])
    func aTypeThatCannotBeSynchronizedIsToldWhy(_ type: any SyncedObject.Type, _ words: [String]) async throws {
        await withKnownPath { path in
            do {
                _ = try await SyncedStore(try SyncedReplica(path: path), [type])
                Issue.record("nothing was thrown")
            } catch let error as ObjectError {
                #expect(error.code == .badClass)
                for word in words { #expect(error.reason.contains(word), "\(error.reason)") }
            } catch {
                Issue.record(error)
            }
        }
    }

    @Test func twoTypesOfOneClassAreToldApart() async throws {
        #expect(
            await objectError(.badClass, "SameName", "Person") {
                try await withStore([Chore.self, SameName.self]) { _ in }
            } == nil)
    }

    /// Somebody else has declared the class otherwise.
    @Test(arguments: [
        ("name", "Int"), ("age", "optional"), ("key", "key"), ("kind", "embedded"),
    ]) func aClassOfAnotherKindIsAnError(_ what: String, _ word: String) async throws {
        try await withFolder { path in
            let replica = try SyncedReplica(path: path("s"))
            try await replica.write { tx in
                if what == "kind" { return try tx.addEmbeddedClass("Person") }
                try tx.addClass("Person", key: what == "key" ? "other" : "id", .int)
                if what == "name" { try tx.addColumn("name", .int, to: "Person") }
                if what == "age" { try tx.addColumn("age", .int, to: "Person") }
                if what == "key" { try tx.addColumn("id", .int, to: "Person") }
            }
            #expect(
                await objectError(.mismatch, "Person", what == "kind" ? "embedded" : "in the store") {
                    _ = try await SyncedStore(replica, [Person.self])
                } == nil)
            try await replica.close()
        }
    }

    /// A newer version of the application has written a value that this one does not know.
    @Test func anUnknownCaseIsAnErrorUnlessThereIsOneForIt() async throws {
        struct Lenient: SyncedObject {
            enum Level: String, SyncedEnum {
                case low, other
                static func unknown(_ rawValue: String) -> Level? { .other }
            }
            static let className = "Chore"
            var id: Int
            var priority = Level.low
            var title = ""
        }
        try await withStore { store async throws in
            try await store.write { tx in
                try tx.insert(Chore(id: 1))
                try tx.dynamic.object("Chore", key: 1)?["priority"] = "urgent"
            }
            #expect(
                await objectError(.badValue, "Chore 1", "priority", "urgent") {
                    _ = try store.read { try $0.get(Chore.self, 1) }
                } == nil)
            #expect(try store.read { try $0.get(Lenient.self, 1) }.priority == .other)
            try await store.write { tx in try tx.edit(Lenient.self, 1) { $0.title = "x" } }
            let kept = try store.read { try $0.dynamic { try $0.object("Chore", key: 1)?.value("priority") } }
            #expect(kept == "urgent")
        }
    }

    @Test func asymmetricObjectsAreSentAndNotKept() async throws {
        struct Event: SyncedObject {
            static var isAsymmetric: Bool { true }
            var id: UUID = UUID()
            var name = ""
        }
        try await withStore([Event.self]) { store async throws in
            let before = await store.replica.unacknowledged.changesets
            try await store.write { try $0.insert(Event(name: "start")) }
            #expect(await store.replica.unacknowledged.changesets == before + 1)
            #expect(await objectError(.notAllowed, "Event") { _ = try store.read { try $0.all(Event.self) } } == nil)
        }
    }
}

extension SyncedStore {
    /// The properties of all classes, in short.
    fileprivate var classes: [String: [String: String]] {
        get async throws {
            let classes = try await replica.snapshot().state.classes
            return Dictionary(
                uniqueKeysWithValues: classes.map { schema in
                    let properties = [schema.key].compactMap { $0 } + schema.properties
                    return (
                        String(decoding: schema.name, as: UTF8.self),
                        Dictionary(
                            uniqueKeysWithValues: properties.map {
                                (String(decoding: $0.name, as: UTF8.self), $0.short)
                            })
                    )
                })
        }
    }
}

extension Property {
    fileprivate var short: String {
        let element = "\(type)" + (isNullable ? "?" : "")
        return switch collection {
        case .single: element
        case .list: "[\(element)]"
        case .set: "<\(element)>"
        case .dictionary: "{\(element)}"
        }
    }
}

/// A path for a store, in a folder that goes.
private func withKnownPath(_ body: (String) async -> Void) async {
    let folder = FileManager.default.temporaryDirectory.appending(path: "schema-\(UUID().uuidString)")
    try? FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    await body(folder.appending(path: "store").path)
    try? FileManager.default.removeItem(at: folder)
}
