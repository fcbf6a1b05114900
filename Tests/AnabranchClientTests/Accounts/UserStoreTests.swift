import AnabranchClient
import Foundation
import Synchronization
import Testing

/// Users that are kept from one run of a program to the next.
@Suite(.timeLimit(.minutes(30))) struct UserStoreTests {
    @Test func usersAreKeptInAFileThatNobodyElseReads() async throws {
        try await TestApp.run { app async throws in
            let path = app.folder.appendingPathComponent("users.json").path, store = FileUserStore(path: path)
            let client = try app.client(store: store)
            #expect(!FileManager.default.fileExists(atPath: path))
            let user = try await client.logIn(.customToken(app.customToken(of: "Ann")))
            let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
            #expect(mode == 0o600)
            let next = try app.client(store: store)
            #expect(await next.currentUser == user)
            #expect(try await next.accessToken(of: user.id) == client.accessToken(of: user.id))
            app.clock.advance(by: 3_600)
            let token = try await next.accessToken(of: user.id)
            #expect(try await app.client(store: store).accessToken(of: user.id) == token)
            try await next.logOut(user.id)
            #expect(try await app.client(store: store).users.map(\.isLoggedIn) == [false])
            #expect(try !String(contentsOfFile: path, encoding: .utf8).contains("Token"))
            try await next.removeUser(user.id)
            #expect(try await app.client(store: store).users.isEmpty)
            let folder = try FileManager.default.contentsOfDirectory(atPath: app.folder.path)
            #expect(folder.sorted() == ["jwks.json", "keys.json", "users.json"], "no draft stays")
        }
    }

    @Test(arguments: ["", "{}", "[1]", #"{"format":2,"users":[]}"#, #"{"format":1,"users":[{"id":3}]}"#])
    func aDamagedFileIsAnErrorAndStays(text: String) throws {
        let store = InMemoryUserStore()
        store.write(text)
        let error = #expect(throws: AppError.self) {
            try AppClient(appID: "a", baseURL: "http://localhost", store: store)
        }
        #expect(error?.code == .storeFailed && store.read() == text)
    }

    @Test func aFileThatCannotBeReadIsAnError() throws {
        let folder = FileUserStore(path: FileManager.default.temporaryDirectory.path)
        let error = #expect(throws: AppError.self) {
            try AppClient(appID: "a", baseURL: "http://localhost", store: folder)
        }
        #expect(error?.code == .storeFailed)
    }

    /// Keeps what it is told unless it is full.
    private final class FullStore: UserStore {
        let isFull = Mutex(false)
        private let kept = InMemoryUserStore()

        func read() -> String? { kept.read() }

        func write(_ text: String) throws {
            if isFull.withLock({ $0 }) { throw POSIXError(.ENOSPC) }
            kept.write(text)
        }
    }

    @Test func whatCannotBeKeptHasNotHappened() async throws {
        try await TestApp.run { app async throws in
            let store = FullStore()
            let client = try app.client(store: store)
            store.isFull.withLock { $0 = true }
            let credentials = AppCredentials.customToken(app.customToken(of: "Ann"))
            await appFails(.storeFailed) { _ = try await client.logIn(credentials) }
            #expect(await client.users.isEmpty)
            store.isFull.withLock { $0 = false }
            let user = try await client.logIn(credentials)
            store.isFull.withLock { $0 = true }
            await appFails(.storeFailed) { _ = try await client.logOut(user.id) }
            #expect(await client.user(user.id)?.isLoggedIn == true)
            let token = try await client.refreshAccessToken(of: user.id)
            #expect(try await client.accessToken(of: user.id) == token, "a token need not be kept")
        }
    }

    @Test(arguments: [
        ("a", "localhost"), ("a", "ftp://localhost"), ("a", "http://localhost/path?x"), ("a", "http://localhost?x"),
        ("", "http://localhost"),
        ("a/b", "http://localhost"), ("a?", "http://localhost"),
    ])
    func whatCannotBeAskedForIsAnErrorAtOnce(app: String, url: String) {
        let error = #expect(throws: AppError.self) {
            try AppClient(appID: app, baseURL: url, store: InMemoryUserStore())
        }
        #expect(error?.code == .invalidURL)
    }
}
