import AnabranchClient
import AnabranchCore
import AnabranchHistory
import AnabranchServer
import Foundation
import Logging
import NIOCore
import Testing

@Suite struct LogInTests {
    struct Item: SyncedObject {
        var id = UUID()
        var title = ""
    }

    @Test(.timeLimit(.minutes(30))) func thePageIsTrue() async throws {
        let files = FileManager.default
        let folder = files.temporaryDirectory.appendingPathComponent("log-in-\(UUID().uuidString)").path
        try files.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? files.removeItem(atPath: folder) }
        let syncServer = try await makeServer(folder: folder)
        let run = Task { try await syncServer.run() }
        let server = "http://127.0.0.1:\(try await syncServer.listening().port ?? 0)"

        // Begin of AnabranchClient/LogIn.md
        let app = try AppClient(appID: "tasks", baseURL: server, store: FileUserStore(path: "\(folder)/users"))
        try await app.register(email: "ann@example.com", password: "correct horse")
        let ann = try await app.logIn(.emailPassword(email: "ann@example.com", password: "correct horse"))

        var code: AppError.Code?
        do {
            try await app.logIn(.emailPassword(email: "ann@example.com", password: "wrong"))
        } catch let error as AppError {
            code = error.code  // .invalidPassword
        }

        let annsStore = try await SyncedStore("\(folder)/\(ann.id).store", Item.self)
        let annsClient = SyncClient(SyncConfiguration(AppRoute(app, user: ann.id)))
        try await annsClient.add(annsStore, partition: .string("user=\(ann.id)"))
        try await annsStore.write { try $0.insert(Item(title: "Water the plants")) }
        try await annsStore.wait(for: .upload)

        let restarted = try AppClient(appID: "tasks", baseURL: server, store: FileUserStore(path: "\(folder)/users"))
        let current = await restarted.currentUser
        // current?.id is that of Ann.

        let ben = try await app.logIn(.anonymous)
        let bensStore = try await SyncedStore("\(folder)/\(ben.id).store", Item.self)
        let bensClient = SyncClient(SyncConfiguration(AppRoute(app, user: ben.id)))
        try await bensClient.add(bensStore, partition: .string("user=\(ben.id)"))
        try await bensStore.wait(for: .firstSync)

        try await app.switchUser(to: ann.id)
        let users = await app.users.map(\.id)
        // users are Ann and Ben.

        await annsClient.stop()
        try await app.logOut(ann.id)
        try await annsStore.write { try $0.insert(Item(title: "Feed the cat")) }

        let again = try await app.logIn(.emailPassword(email: "ann@example.com", password: "correct horse"))
        let nextClient = SyncClient(SyncConfiguration(AppRoute(app, user: again.id)))
        try await nextClient.add(annsStore, partition: .string("user=\(again.id)"))
        try await annsStore.wait(for: .upload)

        /// A server in the memory of the test, with quick log-ins; the key of the tokens is a file in `folder`.
        func makeServer(folder: String) async throws -> SyncServer {
            let logger = Logger(label: "server") { _ in SwiftLogNoOpLogHandler() }
            let now = { @Sendable in UInt64(Date().timeIntervalSince1970) }
            let keys = try await KeyFile(path: "\(folder)/keys", now: now(), logger: logger)
            var services = AppServicesSettings()
            services.apps["tasks"] = AppSettings(providers: [.anonymous, .emailPassword])
            let apps = try await AppServices(
                settings: services, accounts: InMemoryAccountStore(), keys: keys, passwordCost: 1, logger: logger,
                unixSeconds: now)
            var settings = ServerSettings(cores: 2)
            (settings.host, settings.port) = ("127.0.0.1", 0)
            return SyncServer(
                settings: settings, store: InMemoryStore(), authenticator: apps, routes: [HTTPRoute(to: apps)],
                logger: logger)
        }
        // End of the page

        let path = VirtualPath(app: "tasks", partition: .string("user=\(ann.id)"))
        let titles = try await syncServer.read(path) { state in
            try state.objects("Item").map { $0["title"] ?? "" }.sorted()
        }
        for client in [nextClient, bensClient] { await client.stop() }
        for store in [annsStore, bensStore] { try await store.close() }
        run.cancel()
        try await run.value

        #expect(titles == ["Feed the cat", "Water the plants"])
        #expect(code == .invalidPassword && current?.id == ann.id && again.id == ann.id)
        #expect(users == [ann.id, ben.id])
    }
}
