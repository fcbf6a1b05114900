import AnabranchClient
import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchServer
import Foundation
import GRDB
import NIOCore
import Testing

/// The statements of the page of GRDB and of Anabranch.
@Suite struct FromRealmSwiftTests {
    @Test(.timeLimit(.minutes(30))) func theTasksAreDone() async throws {
        let files = FileManager.default
        let folder = files.temporaryDirectory.appendingPathComponent("tasks-\(UUID().uuidString)").path
        try files.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? files.removeItem(atPath: folder) }
        var settings = ServerSettings(cores: 2)
        settings.host = "127.0.0.1"
        settings.port = 0
        settings.flexibleApps = ["team"]
        let syncServer = SyncServer(settings: settings, store: InMemoryStore(), authenticator: AllowAllAuthenticator())
        let run = Task { try await syncServer.run() }
        let server = "ws://127.0.0.1:\(try await syncServer.listening().port ?? 0)"

        // Begin of AnabranchClient/FromRealmSwift.md
        struct PersonRecord: Codable, Identifiable, FetchableRecord, PersistableRecord {
            static let databaseTableName = "person"
            var id = UUID()
            var name = ""
        }

        struct ItemRecord: Codable, Identifiable, FetchableRecord, PersistableRecord {
            static let databaseTableName = "item"
            static let owner = belongsTo(PersonRecord.self)
            var id = UUID()
            var title = ""
            var isDone = false
            var due: Date?
            var tags: [String] = []
            var ownerId: UUID?
        }

        struct Person: SyncedObject {
            var id = UUID()
            var name = ""
        }

        struct Item: SyncedObject {
            var id = UUID()
            var title = ""
            var isDone = false
            var due: Date?
            var tags: [String] = []
            var owner: Link<Person>?
        }

        var migrator = DatabaseMigrator()
        migrator.registerMigration("v1") { db in
            try db.create(table: "person") { t in
                t.primaryKey("id", .blob)
                t.column("name", .text).notNull()
            }
            try db.create(table: "item") { t in
                t.primaryKey("id", .blob)
                t.column("title", .text).notNull()
                t.column("isDone", .boolean).notNull()
                t.column("due", .datetime)
                t.column("tags", .jsonText).notNull()
                t.belongsTo("owner", inTable: "person", onDelete: .setNull)
            }
        }
        let queue = try DatabaseQueue(path: "\(folder)/items.sqlite")
        try migrator.migrate(queue)

        let store = try await SyncedStore("\(folder)/items.store", Item.self)

        let annRecord = PersonRecord(name: "Ann")
        let milkRecord = ItemRecord(title: "Milk", due: .now, tags: ["shop"], ownerId: annRecord.id)
        let cakeRecord = ItemRecord(title: "Cake")
        try await queue.write { db in
            try annRecord.insert(db)
            try milkRecord.insert(db)
            try cakeRecord.insert(db)
        }

        let ann = Person(name: "Ann")
        let milk = Item(title: "Milk", due: .now, tags: ["shop"], owner: Link(ann))
        let cake = Item(title: "Cake")
        try await store.write { tx in
            try tx.insert(ann)
            try tx.insert(milk)
            try tx.insert(cake)
        }

        try await queue.write { db in
            var record = try ItemRecord.find(db, id: milkRecord.id)
            try record.updateChanges(db) { $0.title = "Oat milk" }
        }

        try await store.write { try $0.edit(milk) { $0.title = "Oat milk" } }

        _ = try await queue.write { db in try cakeRecord.delete(db) }

        try await store.write { try $0.delete(cake) }

        let openRecords =
            ItemRecord
            .filter(Column("isDone") == false)
            .joining(required: ItemRecord.owner.filter(Column("name") == "Ann"))
            .order(Column("due"))
        let records = try await queue.read { db in try openRecords.fetchAll(db) }

        let openItems = Item.where { !$0.isDone && $0.owner.name == "Ann" }.sorted(by: \.due)
        let items = try store.objects(openItems)

        let watchingRecords = Task {
            var titles: [String] = []
            let observation = ValueObservation.tracking { db in try openRecords.fetchAll(db) }
            for try await records in observation.values(in: queue) {
                for change in records.map(\.title).difference(from: titles) {
                    switch change {
                    case .remove(let index, _, _): titles.remove(at: index)
                    case .insert(let index, let title, _): titles.insert(title, at: index)
                    }
                }
                if titles.contains("Bread") { break }
            }
            return titles
        }

        let watching = Task {
            var titles: [String] = []
            for try await change in store.changes(of: openItems) {
                for index in change.deletions.reversed() { titles.remove(at: index) }
                for index in change.insertions { titles.insert(change.results[index].title, at: index) }
                for (_, index) in change.modifications { titles[index] = change.results[index].title }
                if titles.contains("Bread") { break }
            }
            return titles
        }

        let addingRecord = Task.detached {
            try await queue.write { db in
                try ItemRecord(title: "Bread", due: .distantFuture, ownerId: annRecord.id).insert(db)
            }
        }
        try await addingRecord.value

        let adding = Task.detached {
            try await store.write { try $0.insert(Item(title: "Bread", due: .distantFuture, owner: Link(ann))) }
        }
        try await adding.value

        let route = FixedRoute(server: server, app: "tasks")
        let client = SyncClient(SyncConfiguration(route))
        try await client.add(store, partition: "list")
        try await store.wait(for: .firstSync)

        let team = try await SyncedStore("\(folder)/team.store", Item.self)
        try await team.subscriptions.update { try $0.add("open", Item.where { !$0.isDone }) }
        let teamRoute = FixedRoute(server: server, app: "team")
        let teamClient = SyncClient(SyncConfiguration(teamRoute, mode: .flexible))
        try await teamClient.add(team)
        try await team.wait(for: .subscriptions)

        migrator.registerMigration("v2") { db in
            try db.alter(table: "item") { t in
                t.add(column: "note", .text).notNull().defaults(to: "")
            }
        }
        try migrator.migrate(queue)

        struct NotedItem: SyncedObject {
            static let className = "Item"
            var id = UUID()
            var title = ""
            var note = ""
        }

        try await store.write { try $0.edit(NotedItem.self, milk.id) { $0.note = "Two litres" } }
        // End of the page

        #expect(records.map(\.title) == ["Oat milk"] && items.map(\.title) == ["Oat milk"])
        let observedRecords = try await watchingRecords.value, observed = try await watching.value
        #expect(observedRecords == ["Oat milk", "Bread"] && observed == observedRecords)
        let note = try await queue.read { db in try String.fetchOne(db, sql: "SELECT note FROM item") }
        #expect(note?.isEmpty == true)
        let noted = try store.read { try $0.get(NotedItem.self, milk.id) }
        #expect(noted.title == "Oat milk" && noted.note == "Two litres")
        let subscriptions = await team.subscriptions.current
        #expect(store.completedFirstSync && subscriptions.state == .complete)

        for (client, store) in [(client, store), (teamClient, team)] {
            await client.stop()
            try await store.close()
        }
        run.cancel()
        try await run.value
    }
}
