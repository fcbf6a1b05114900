import AnabranchClient
import AnabranchCore
import AnabranchHistory
import AnabranchServer
import Foundation
import NIOCore
import Testing

@Suite struct SyncATaskListTests {
    @Test(.timeLimit(.minutes(30))) func theTutorialIsTrue() async throws {
        let files = FileManager.default
        let folder = files.temporaryDirectory.appendingPathComponent("tutorial-\(UUID().uuidString)").path
        try files.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? files.removeItem(atPath: folder) }
        var settings = ServerSettings(cores: 2)
        settings.host = "127.0.0.1"
        settings.port = 0
        settings.flexibleApps = ["team"]
        let syncServer = SyncServer(settings: settings, store: InMemoryStore(), authenticator: AllowAllAuthenticator())
        let run = Task { try await syncServer.run() }
        let server = "ws://127.0.0.1:\(try await syncServer.listening().port ?? 0)"

        // Begin of AnabranchClient/SyncATaskList.md
        enum Priority: String, SyncedEnum {
            case normal, high
        }

        struct Person: SyncedObject {
            var id = UUID()
            var name = ""
        }

        struct Step: EmbeddedObject {
            var title = ""
            var isDone = false
        }

        struct Item: SyncedObject {
            static let className = "Task"

            var id = UUID()
            var title = ""
            var isDone = false
            var priority = Priority.normal
            var due: Date?
            var tags: [String] = []
            var steps: [Step] = []
            var owner: Link<Person>?

            static var indexed: [PartialKeyPath<Item>] { [\.due] }
        }

        let store = try await SyncedStore("\(folder)/tasks.store", Item.self)

        let ann = Person(name: "Ann")
        let milk = Item(title: "Milk", tags: ["shop"], owner: Link(ann))
        let plants = Item(title: "Water the plants", steps: [Step(title: "Fill the can")])

        try await store.write { tx in
            try tx.insert(ann)
            try tx.insert(milk)
            try tx.insert(plants)
        }

        try await store.write { tx in
            try tx.edit(Item.self, milk.id) { item in
                item.priority = .high
                item.due = Date(timeIntervalSince1970: 1_800_000_000)
                item.tags.append("today")
            }
        }

        let shown = try store.read { try $0.get(Item.self, plants.id) }
        var filled = shown
        filled.title = "Water the roses"
        try await store.write { [filled] tx in try tx.save(filled, changedFrom: shown) }

        var complaint = ""
        do {
            try await store.write { tx in try tx.insert(milk) }
        } catch let error as ObjectError {
            complaint = error.reason  // there is a Task with the key … already
        }

        let slip = Item(title: "Mlik")
        try await store.write { try $0.insert(slip) }
        try await store.write { try $0.delete(slip) }

        let (item, owner) = try store.read { objects in
            let item = try objects.get(Item.self, milk.id)
            let owner = try objects.find(item.owner)
            return (item, owner)
        }
        // item.tags is ["shop", "today"], and owner?.name is "Ann".

        let openItems = Item.where { !$0.isDone }.sorted(by: \.title)
        let ofAnn = Item.where { $0.owner.name == "Ann" && $0.tags.contains("shop") }
        let soon = Item.where("due != null AND title CONTAINS[c] $0", "milk").sorted(by: \.due).limit(10)

        let titles = try store.read { try $0.objects(openItems).map(\.title) }
        let counts = try store.read { (try $0.count(ofAnn), try $0.count(soon)) }
        // titles is ["Milk", "Water the roses"], and counts is (1, 1).

        let watching = Task {
            var rows: [String] = []
            for try await change in store.changes(of: openItems) {
                for index in change.deletions.reversed() { rows.remove(at: index) }
                for index in change.insertions { rows.insert(change.results[index].title, at: index) }
                for (_, index) in change.modifications { rows[index] = change.results[index].title }
                if rows.contains("Bread") { break }
            }
            return rows
        }

        try await store.write { try $0.insert(Item(title: "Bread")) }
        let rows = try await watching.value
        // rows is ["Bread", "Milk", "Water the roses"].

        let openList = await ObservedObjects(openItems, in: store)
        let sync = await ObservedStatus(of: store)

        let route = FixedRoute(server: server, app: "tasks")
        let client = SyncClient(SyncConfiguration(route))
        try await client.add(store, partition: "list")
        try await store.wait(for: .upload)

        let phone = SyncClient(SyncConfiguration(route))
        let second = try await SyncedStore("\(folder)/second.store", Item.self)
        try await phone.add(second, partition: "list")
        try await second.wait(for: .firstSync)
        let copies = try second.read { try $0.objects(openItems).map(\.title) }
        // copies is ["Bread", "Milk", "Water the roses"].

        await phone.pause()
        try await second.write { tx in try tx.edit(Item.self, milk.id) { $0.title = "Oat milk" } }
        try await store.write { tx in try tx.edit(Item.self, milk.id) { $0.isDone = true } }
        try await store.wait(for: .upload)

        await phone.resume()
        try await second.wait(for: .idle)
        try await store.wait(for: .download)
        let merged = try store.read { try $0.get(Item.self, milk.id) }
        // merged.title is "Oat milk", and merged.isDone is true, on both devices.

        var uploaded = 0.0
        for await status in store.statusUpdates {
            uploaded = status.upload.fraction
            if status.isOnline, status.isIdle { break }
        }
        let milkStatus = try await store.status(of: Item.self, milk.id)
        // uploaded is 1, and milkStatus.isPending is false: the server has the object as it is here.
        let waiting = try await store.unsynced()
        // waiting is empty. It names the objects whose changes the server does not have yet, and since when they wait.
        let lastSynced = store.lastSynced
        // lastSynced is the time when the store and the server last had the same; it is kept in the file.

        let refused = store.status.issue.map { !$0.isRetrying } ?? false
        if refused { try await client.discard(try await store.unsynced(), of: store) }

        struct EstimatedItem: SyncedObject {
            static let className = "Task"
            static var defaults: EstimatedItem? { EstimatedItem() }

            var id = UUID()
            var title = ""
            var estimate = 5
        }

        try await store.write { tx in try tx.edit(EstimatedItem.self, plants.id) { $0.estimate = 8 } }
        let estimates = try store.objects(EstimatedItem.all.sorted(by: \.title)).map(\.estimate)
        // estimates is [5, 5, 8].

        struct RenamedItem: SyncedObject {
            static let className = "Task"

            enum CodingKeys: String, CodingKey {
                case id
                case headline = "title"
            }

            var id = UUID()
            var headline = ""
        }

        let renamed = try store.read { try $0.get(RenamedItem.self, milk.id) }
        // renamed.headline is "Oat milk".

        let team = try await SyncedStore("\(folder)/team.store", Item.self)
        try await team.subscriptions.update { wanted in
            try wanted.add("open", Item.where { !$0.isDone })
            try wanted.add("people", Person.all)
        }

        let teamRoute = FixedRoute(server: server, app: "team")
        let teamClient = SyncClient(SyncConfiguration(teamRoute, mode: .flexible))
        try await teamClient.add(team)
        try await team.wait(for: .subscriptions)
        let state = await team.subscriptions.current.state
        // state is complete.

        let undoneWrites = await team.undoneWrites
        let cake = Item(title: "Bake a cake", isDone: true)
        try await team.write { try $0.insert(cake) }

        var reason = ""
        for await undone in undoneWrites where undone.concerns(Item.self, cake.id) {
            reason = undone.reason
            break
        }
        let isUndone = try team.read { try $0.find(Item.self, cake.id) } == nil

        await teamClient.stop()
        try await team.close()

        let resets = await store.resets
        let report = Task { () -> ResetReport? in
            for await case .ended(let report) in resets { return report }
            return nil
        }
        // End of the page

        #expect(waiting.isEmpty && renamed.headline == "Oat milk" && estimates == [5, 5, 8] && !refused)
        #expect(lastSynced.map { $0 <= Date() && $0 > Date(timeIntervalSinceNow: -1000) } == true)
        let observed = await (openList.error == nil, sync.status.issue)
        #expect(observed.0 && observed.1 == nil)
        // Its observer would hear of the reset as well.
        await phone.stop()
        try await second.close()
        let list = VirtualPath(app: "tasks", partition: "list")
        #expect(try await syncServer.delete(list))
        #expect(await report.value == ResetReport())
        try await store.wait(for: .download)
        let countAfterReset = try store.read { try $0.count(Item.all) }
        await client.stop()
        try await store.close()
        run.cancel()
        try await run.value

        #expect(complaint == "there is a Task with the key \(milk.id) already")
        #expect(item.tags == ["shop", "today"] && item.priority == .high && owner?.name == "Ann")
        #expect(titles == ["Milk", "Water the roses"] && counts == (1, 1))
        #expect(rows == ["Bread", "Milk", "Water the roses"] && copies == rows)
        #expect(merged.title == "Oat milk" && merged.isDone)
        #expect(uploaded == 1 && milkStatus.isCached && !milkStatus.isPending)
        #expect(state == .complete && !reason.isEmpty && isUndone)
        #expect(countAfterReset == 0)
    }
}
