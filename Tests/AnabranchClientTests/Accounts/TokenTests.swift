import AnabranchClient
import AnabranchHistory
import AnabranchServer
import Foundation
import Testing

/// Tokens that end, and log-ins that the server ends.
@Suite(.timeLimit(.minutes(30))) struct TokenTests {
    @Test func aTokenThatEndsIsReplacedOnceForAllWhoNeedIt() async throws {
        try await TestApp.run { app async throws in
            let http = CountingSender()
            let client = try app.client(http: http)
            let user = try await client.logIn(.anonymous)
            let first = try await client.accessToken(of: user.id)
            #expect(try await client.accessToken(of: user.id) == first && http.count("POST session") == 0)
            app.clock.advance(by: 30 * 60 - 6)
            #expect(try await client.accessToken(of: user.id) == first)
            app.clock.advance(by: 1)
            let tokens = try await withThrowingTaskGroup(of: String.self) { group in
                for _ in 0..<20 { group.addTask { try await client.accessToken(of: user.id) } }
                return try await group.reduce(into: Set<String>()) { $0.insert($1) }
            }
            #expect(tokens.count == 1 && !tokens.contains(first))
            #expect(http.count("POST session") == 1 && http.count("GET location") == 1)
        }
    }

    /// The clock of the client stands still, so that it learns from the server that its token has ended.
    @Test func aCallIsRepeatedOnceWithANewToken() async throws {
        try await TestApp.run { app async throws in
            let http = CountingSender()
            let client = try app.client(http: http, clock: Clock())
            let user = try await client.logIn(.anonymous)
            app.clock.advance(by: 3_600)
            #expect(try await client.refreshProfile(of: user.id) == user)
            #expect(http.count("POST session") == 1 && http.count("GET profile") == 3)
        }
    }

    @Test(arguments: [true, false]) func aUserWhoseLogInTheServerEndsIsLoggedOut(isDisabled: Bool) async throws {
        try await TestApp.run { app async throws in
            let client = try app.client(), http = CountingSender(), caller = try app.client(http: http)
            let user = try await client.logIn(.customToken(app.customToken(of: "Ann")))
            let other = try await caller.logIn(.customToken(app.customToken(of: "Ann")))
            var changes = await client.userChanges().makeAsyncIterator()
            if isDisabled {
                try app.accounts.setDisabled(true, user: user.id)
            } else {
                app.accounts.removeSessions(of: user.id)
            }
            let error = await thrown(AppError.self) { try await client.refreshAccessToken(of: user.id) }
            #expect(error?.code == .loggedOut && error?.status == 401)
            #expect(await client.user(user.id)?.isLoggedIn == false)
            #expect(await client.currentUser == nil)
            #expect(await changes.next()?.isLoggedIn == false)
            // The same for a call with an access token, and for one with the token of the log-in.
            await appFails(.loggedOut) { _ = try await caller.refreshProfile(of: other.id) }
            #expect(http.count("POST session") == 1)
            await appFails(.loggedOut) { _ = try await caller.apiKeys(of: other.id) }
        }
    }

    @Test func aLogInThatHasEndedMakesKeysUseless() async throws {
        try await TestApp.run { app async throws in
            let client = try app.client()
            let user = try await client.logIn(.customToken(app.customToken(of: "Ann")))
            app.accounts.removeSessions(of: user.id)
            await appFails(.loggedOut) { _ = try await client.apiKeys(of: user.id) }
            #expect(await client.user(user.id)?.isLoggedIn == false)
        }
    }

    @Test func customDataComesWithANewToken() async throws {
        try await TestApp.run { app async throws in
            let client = try app.client()
            let user = try await client.logIn(.anonymous)
            try app.accounts.setCustomData(#"{"team":"ä"}"#, user: user.id)
            var changes = await client.userChanges().makeAsyncIterator()
            try await client.refreshAccessToken(of: user.id)
            #expect(await client.user(user.id)?.customData == #"{"team":"ä"}"#)
            #expect(await changes.next()?.customData == #"{"team":"ä"}"#)
        }
    }

    @Test func theURLOpensAWebSocketUntilTheLogInEnds() async throws {
        try await TestApp.run { app async throws in
            let client = try app.client()
            let user = try await client.logIn(.anonymous)
            let url = try await client.syncURL(of: user.id)
            let connection = try await NIOTransport().connect(TransportTests.request(url))
            try await connection.send(Array("ping 1 0\n".utf8))
            #expect(try await connection.receive() == Array("pong 1\n".utf8))
            await connection.close()
            try await client.refreshLocation()
            app.clock.advance(by: 3_600)
            let late = try await NIOTransport().connect(TransportTests.request(url))
            await transportFails(.closed(code: 4001)) { _ = try await late.receive() }
            let fresh = try await NIOTransport().connect(
                TransportTests.request(try await client.syncURL(of: user.id)))
            try await fresh.send(Array("ping 1 0\n".utf8))
            #expect(try await fresh.receive() == Array("pong 1\n".utf8))
            await fresh.close()
        }
    }

    @Test func aServerWithoutAppsHasARouteOfItsOwn() async throws {
        try await withServer { _, port async throws in
            let url = try SyncRoute.withoutApp(baseURL: "http://127.0.0.1:\(port)")
            #expect(url == "ws://127.0.0.1:\(port)/realm-sync?baas_at=")
            await (try NIOTransport().connect(TransportTests.request(url))).close()
        }
        #expect(try SyncRoute.withoutApp(baseURL: "https://a.example") == "wss://a.example/realm-sync?baas_at=")
        for url in ["http://a.example:81/sync", "ws://a.example:81/sync/"] {
            #expect(try SyncRoute.withoutApp(baseURL: url) == "ws://a.example:81/sync/realm-sync?baas_at=")
        }
        for url in ["a.example", "ws://a.example/sync?x"] {
            #expect(throws: AppError.self) { try SyncRoute.withoutApp(baseURL: url) }
        }
    }
}
