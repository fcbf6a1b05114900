import AnabranchClient
import AnabranchHistory
import AnabranchServer
import Foundation
import Testing

/// Every way to log in to the real server, and out again.
@Suite(.timeLimit(.minutes(30))) struct LogInTests {
    static func code(_ body: @Sendable () async throws -> Void) async -> AppError.Code? {
        await thrown(AppError.self, by: body)?.code
    }

    @Test func anonymousUsersAreNewUntilTheyLogOut() async throws {
        try await TestApp.run { app async throws in
            let client = try app.client()
            #expect(await client.currentUser == nil)
            let user = try await client.logIn(.anonymous)
            #expect(user.isAnonymous && user.isLoggedIn && user.provider == "anon-user" && user.customData == "{}")
            #expect(try await client.logIn(.anonymous) == user)
            #expect(await client.users == [user])
            let token = try await client.accessToken(of: user.id)
            #expect(
                try await client.syncURL(of: user.id)
                    == "ws://127.0.0.1:\(app.port)/api/client/v2.0/app/my-app/realm-sync?baas_at=\(token)")
            try await client.logOut(user.id)
            #expect(await client.users == [])
            #expect(await client.currentUser == nil)
            #expect(try await client.logIn(.anonymous).id != user.id)
        }
    }

    @Test func anAddressIsRegisteredOnce() async throws {
        try await TestApp.run { app async throws in
            let client = try app.client()
            try await client.register(email: "ann@example.com", password: "correct horse")
            let taken = await Self.code {
                try await client.register(email: "ann@example.com", password: "correct horse")
            }
            #expect(taken == .accountNameInUse)
            let short = await Self.code { try await client.register(email: "bob@example.com", password: "1") }
            #expect(short == .badRequest)
            let wrong = await Self.code {
                _ = try await client.logIn(.emailPassword(email: "ann@example.com", password: "wrong"))
            }
            #expect(wrong == .invalidPassword)
            let user = try await client.logIn(.emailPassword(email: "ann@example.com", password: "correct horse"))
            #expect(!user.isAnonymous && user.profile == #"{"email":"ann@example.com"}"# && user.deviceID.count == 24)
            #expect(user.identities.map(\.provider) == ["local-userpass"])
            try await client.logOut(user.id)
            try await client.logOut(user.id)
            #expect(await client.user(user.id)?.isLoggedIn == false)
            #expect(await client.currentUser == nil)
            await appFails(.loggedOut) { _ = try await client.accessToken(of: user.id) }
            await appFails(.loggedOut) { _ = try await client.switchUser(to: user.id) }
            let again = try await client.logIn(.emailPassword(email: "ann@example.com", password: "correct horse"))
            #expect(again.id == user.id)
            #expect(await client.users == [again])
        }
    }

    @Test func keysLogIn() async throws {
        try await TestApp.run { app async throws in
            let client = try app.client(), server = try app.client()
            let user = try await client.logIn(.anonymous)
            let made = try await client.createAPIKey(named: "cron", of: user.id)
            let text = try #require(made.key)
            let twice = await Self.code { _ = try await client.createAPIKey(named: "cron", of: user.id) }
            #expect(twice == .apiKeyAlreadyExists)
            #expect(try await client.apiKeys(of: user.id).map(\.name) == ["cron"])
            let same = try await server.logIn(.apiKey(text))
            #expect(same.id == user.id && same.provider == "api-key")
            try await client.setAPIKey(made.id, isEnabled: false, of: user.id)
            #expect(try await client.apiKeys(of: user.id).map(\.isDisabled) == [true])
            await appFails(.invalidSession) { _ = try await server.logIn(.apiKey(text)) }
            try await client.setAPIKey(made.id, isEnabled: true, of: user.id)
            _ = try await server.logIn(.apiKey(text))
            try await client.deleteAPIKey(made.id, of: user.id)
            await appFails(.apiKeyNotFound) { _ = try await client.deleteAPIKey(made.id, of: user.id) }
            await appFails(.apiKeyNotFound) { _ = try await client.deleteAPIKey("../x", of: user.id) }
        }
    }

    @Test func tokensOfAnotherIssuerLogIn() async throws {
        try await TestApp.run { app async throws in
            let client = try app.client()
            let user = try await client.logIn(.customToken(app.customToken(of: "customer 7")))
            #expect(try await client.logIn(.customToken(app.customToken(of: "customer 7"))).id == user.id)
            let other = try await client.logIn(.customToken(app.customToken(of: "customer 8")))
            #expect(await client.users.map(\.id) == [user.id, other.id])
            #expect(await client.currentUser == other)
            try await client.switchUser(to: user.id)
            #expect(await client.currentUser?.id == user.id)
            await appFails(.invalidSession) { _ = try await client.logIn(.customToken("a.b.c")) }
        }
    }

    @Test func whatTheAppDoesNotHaveIsSaid() async throws {
        try await TestApp.run { app async throws in
            let closed = try app.client(app: "closed"), missing = try app.client(app: "nothing")
            await appFails(.providerNotFound) { _ = try await closed.logIn(.anonymous) }
            let apple = AppCredentials.other(provider: "oauth2-apple", fields: ["id_token": "x"])
            await appFails(.providerNotFound) { _ = try await closed.logIn(apple) }
            let path = AppCredentials.other(provider: "../x", fields: [:])
            await appFails(.providerNotFound) { _ = try await closed.logIn(path) }
            await appFails(.appNotFound) { _ = try await missing.logIn(.anonymous) }
            await appFails(.noSuchUser) { _ = try await closed.deleteUser("x") }
        }
    }

    @Test func anAnonymousUserGetsAnAddress() async throws {
        try await TestApp.run { app async throws in
            let client = try app.client()
            let user = try await client.logIn(.anonymous)
            try await client.register(email: "ann@example.com", password: "correct horse")
            let credentials = AppCredentials.emailPassword(email: "ann@example.com", password: "correct horse")
            let linked = try await client.link(credentials, to: user.id)
            #expect(linked.id == user.id && !linked.isAnonymous)
            #expect(linked.identities.map(\.provider) == ["anon-user", "local-userpass"])
            try await client.logOut(user.id)
            #expect(try await client.logIn(credentials).id == user.id)
        }
    }

    @Test func usersAreDeletedAndRemoved() async throws {
        try await TestApp.run { app async throws in
            let client = try app.client()
            try await client.register(email: "ann@example.com", password: "correct horse")
            let credentials = AppCredentials.emailPassword(email: "ann@example.com", password: "correct horse")
            let user = try await client.logIn(credentials)
            try await client.removeUser(user.id)
            #expect(await client.users.isEmpty)
            _ = try await client.logIn(credentials)
            var changes = await client.userChanges().makeAsyncIterator()
            try await client.deleteUser(user.id)
            #expect(await changes.next()?.isLoggedIn == false)
            #expect(await client.users.isEmpty)
            #expect(await client.currentUser == nil)
            #expect(app.accounts.user(user.id) == nil)
            await appFails(.invalidPassword) { _ = try await client.logIn(credentials) }
        }
    }

    // MARK: E-mails

    private final class Mail: EmailHook {
        let emails: AsyncStream<AccountEmail>
        private let arrive: AsyncStream<AccountEmail>.Continuation

        init() { (emails, arrive) = AsyncStream.makeStream() }

        func send(_ email: AccountEmail) async throws { arrive.yield(email) }

        func next() async throws -> AccountEmail { try #require(await emails.first { _ in true }) }
    }

    private static let ann = AppCredentials.emailPassword(email: "ann@example.com", password: "correct horse")

    @Test func addressesAreConfirmed() async throws {
        let mail = Mail()
        try await TestApp.run(emails: mail) { app async throws in
            let client = try app.client()
            try await client.register(email: "ann@example.com", password: "correct horse")
            _ = try await mail.next()
            await appFails(.confirmationRequired) { _ = try await client.logIn(Self.ann) }
            try await client.sendConfirmation(to: "ann@example.com")
            let email = try await mail.next()
            let token = email.token
            let ident = email.tokenIdent
            let wrong = await Self.code { try await client.confirm(token: "x", tokenID: ident) }
            #expect(wrong == .emailTokenInvalid)
            try await client.confirm(token: token, tokenID: ident)
            let again = await Self.code { try await client.confirm(token: token, tokenID: ident) }
            #expect(again == .userAlreadyConfirmed)
            try await client.logIn(Self.ann)
        }
    }

    @Test func aResetOfThePasswordEndsLogIns() async throws {
        let mail = Mail()
        try await TestApp.run(emails: mail) { app async throws in
            let client = try app.client()
            try await client.register(email: "ann@example.com", password: "correct horse")
            let email = try await mail.next()
            try await client.confirm(token: email.token, tokenID: email.tokenIdent)
            let id = try await client.logIn(Self.ann).id
            try await client.sendPasswordReset(to: "ann@example.com")
            let reset = try await mail.next()
            try await client.resetPassword(to: "battery staple", token: reset.token, tokenID: reset.tokenIdent)
            await appFails(.loggedOut) { _ = try await client.refreshAccessToken(of: id) }
            await appFails(.invalidPassword) { _ = try await client.logIn(Self.ann) }
            let other = AppCredentials.emailPassword(email: "ann@example.com", password: "battery staple")
            #expect(try await client.logIn(other).id == id)
        }
    }
}
