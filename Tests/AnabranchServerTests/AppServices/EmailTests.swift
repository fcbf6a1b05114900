import AnabranchCore
import AnabranchHistory
import Synchronization
import Testing

@testable import AnabranchServer

/// Addresses that have to be confirmed, and passwords that are reset, with a hook that keeps the e-mails.
@Suite(.timeLimit(.minutes(30))) struct EmailTests {
    private static let providers = "/api/client/v2.0/app/demo/auth/providers/local-userpass"
    private static let password: JSONValue = "correct horse"

    private final class Mail: EmailHook {
        struct Failure: Error, CustomStringConvertible {
            let description: String
        }

        let emails: AsyncStream<AccountEmail>
        private let arrive: AsyncStream<AccountEmail>.Continuation

        init() { (emails, arrive) = AsyncStream.makeStream() }

        func send(_ email: AccountEmail) async throws {
            arrive.yield(email)
            if email.address.hasPrefix("fails") { throw Failure(description: "cannot send \(email.token)!") }
        }

        func next() async throws -> AccountEmail {
            try #require(await emails.first { _ in true })
        }
    }

    private static func run(
        _ kinds: Set<AccountEmail.Kind> = [.confirmation, .reset],
        _ body: (AppServicesRig, Mail) async throws -> Void
    ) async throws {
        var settings = AppServicesRig.development
        settings.apps = [
            "demo": AppSettings(providers: [.emailPassword]), "other": AppSettings(providers: [.emailPassword]),
            "silent": AppSettings(providers: [.emailPassword]),
        ]
        for app in settings.apps.keys { settings.apps[app]?.emails = kinds }
        let mail = Mail()
        try await AppServicesRig.run(settings, emails: ["demo": mail, "other": mail]) { rig async throws in
            try await body(rig, mail)
        }
    }

    private static func register(_ email: String, app: String = "demo", _ rig: AppServicesRig) async throws -> Int {
        let path = "/api/client/v2.0/app/\(app)/auth/providers/local-userpass/register"
        return try await rig.post(path, ["email": .string(email), "password": password]).status
    }

    private static func logIn(
        _ email: String, _ rig: AppServicesRig, _ password: JSONValue = password
    ) async throws -> AppServicesRig.Response {
        try await rig.post(providers + "/login", ["username": .string(email), "password": password])
    }

    private static func confirm(
        _ email: AccountEmail, _ rig: AppServicesRig, providers: String = providers
    ) async throws -> JSONValue? {
        let body: JSONValue = ["token": .string(email.token), "tokenId": .string(email.tokenIdent)]
        return try await rig.post(providers + "/confirm", body).json?["error_code"]
    }

    private static func reset(
        _ email: AccountEmail, _ rig: AppServicesRig, to password: JSONValue = "battery staple"
    ) async throws -> JSONValue? {
        let body: JSONValue = [
            "token": .string(email.token), "tokenId": .string(email.tokenIdent), "password": password,
        ]
        return try await rig.post(providers + "/reset", body).json?["error_code"]
    }

    @Test func nobodyLogsInBeforeTheAddressIsConfirmed() async throws {
        try await Self.run { rig, mail async throws in
            #expect(try await Self.register("ann@example.com", rig) == 201)
            let early = try await Self.logIn("ann@example.com", rig)
            #expect(early.status == 401 && early.json?["error_code"] == "AuthError")
            #expect(early.json?["error"] == "confirmation required")
            let wrong = try await Self.logIn("ann@example.com", rig, "wrong")
            #expect(wrong.json?["error_code"] == "InvalidPassword", "who has the password alone is told")
            let email = try await mail.next()
            #expect(email.kind == .confirmation && email.app == "demo" && email.address == "ann@example.com")
            #expect(try await Self.confirm(email, rig) == nil)
            #expect(try await Self.logIn("ann@example.com", rig).status == 200)
            #expect(try await Self.confirm(email, rig) == "UserAlreadyConfirmed")
            #expect(!rig.log.text.contains(email.token))
        }
    }

    @Test func aTokenIsGoodForOneUserOneAppOnePurposeAndOneDay() async throws {
        try await Self.run { rig, mail async throws in
            for name in ["ann", "bob"] { #expect(try await Self.register("\(name)@example.com", rig) == 201) }
            let emails = [try await mail.next(), try await mail.next()]
            let other = AccountEmail(
                kind: .confirmation, app: "demo", address: "", token: emails[0].token, tokenIdent: emails[1].tokenIdent)
            #expect(try await Self.confirm(other, rig) == "UserpassTokenInvalid")
            #expect(try await Self.reset(emails[0], rig) == "UserpassTokenInvalid")
            let elsewhere = Self.providers.replacing("/demo/", with: "/other/")
            #expect(try await Self.confirm(emails[0], rig, providers: elsewhere) == "UserpassTokenInvalid")
            rig.clock.advance(by: 24 * 3600)
            #expect(try await Self.confirm(emails[0], rig) == "UserpassTokenInvalid")
            let again = try await rig.post(Self.providers + "/confirm/send", ["email": .string(emails[0].address)])
            #expect(again.status == 200)
            #expect(try await Self.confirm(try await mail.next(), rig) == nil)
        }
    }

    /// The clock is looked at twice: when the attempt is counted, and when the token is checked, after its user was
    /// read.
    @Test("a token works once, also if it is used again before the first answer")
    func simultaneousUse() async throws {
        try await Self.run([.confirmation, .reset]) { rig, mail async throws in
            #expect(try await Self.register("ann@example.com", rig) == 201)
            let confirmation = try await mail.next()
            let user = try #require(try rig.accounts.user(confirmation.tokenIdent))
            rig.clock.whenAsked(again: 1) {
                _ = try? rig.accounts.confirm(user.identities[0].ident, of: user.ident)
            }
            #expect(try await Self.confirm(confirmation, rig) == "UserAlreadyConfirmed")
            let answer = try await rig.post(Self.providers + "/reset/send", ["email": "ann@example.com"])
            #expect(answer.status == 200)
            let email = try await mail.next()
            rig.clock.whenAsked(again: 1) {
                try? rig.accounts.setSecret("another's", of: user.identities[0].ident, user: user.ident)
            }
            #expect(try await Self.reset(email, rig) == "UserpassTokenInvalid")
            #expect(try rig.accounts.user(user.ident)?.identities[0].secret == "another's")
        }
    }

    @Test func ofManySimultaneousResetsOneTakesEffect() async throws {
        try await Self.run([.reset]) { rig, mail async throws in
            _ = try await rig.newUser("ann@example.com")
            let answer = try await rig.post(Self.providers + "/reset/send", ["email": "ann@example.com"])
            #expect(answer.status == 200)
            let email = try await mail.next()
            let errors = try await withThrowingTaskGroup(of: JSONValue?.self) { group in
                for number in 0..<8 {
                    group.addTask { try await Self.reset(email, rig, to: .string("battery \(number)")) }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(errors.count { $0 == nil } == 1)
            #expect(errors.count { $0 == "UserpassTokenInvalid" } == 7)
        }
    }

    @Test("an address is the same in capital letters, and e-mails go to the one that was registered")
    func capitalLetters() async throws {
        try await Self.run { rig, mail async throws in
            #expect(try await Self.register("Ann@Example.com", rig) == 201)
            #expect(try await Self.register("ann@example.com", rig) == 409)
            #expect(try await Self.register("ann@example.com", app: "other", rig) == 201)
            let first = [try await mail.next(), try await mail.next()].first { $0.app == "demo" }
            let confirmation = try #require(first)
            #expect(try await Self.confirm(confirmation, rig) == nil)
            let answer = try await rig.post(Self.providers + "/reset/send", ["email": "ANN@example.COM"])
            #expect(answer.status == 200)
            let email = try await mail.next()
            #expect(email.kind == .reset && email.address == "Ann@Example.com")
            #expect(try await Self.reset(email, rig) == nil)
            var users: Set<String> = []
            for name in ["Ann@Example.com", "ann@example.com", "ANN@EXAMPLE.COM"] {
                users.insert(try AppServicesRig.Login(try await Self.logIn(name, rig, "battery staple")).user)
            }
            #expect(users.count == 1)
            let listed = try await rig.admin("GET", "/v1/users?app=demo&email=aNN@example.com").json?["users"]?.array
            #expect(listed?.compactMap { $0["user"]?.string } == Array(users))
        }
    }

    @Test func aResetEndsAllSessionsAndItsTokens() async throws {
        try await Self.run([.reset]) { rig, mail async throws in
            let old = try await rig.newUser("ann@example.com")
            var emails: [AccountEmail] = []
            for _ in 0..<2 {
                let answer = try await rig.post(Self.providers + "/reset/send", ["email": "ann@example.com"])
                #expect(answer.status == 200)
                emails.append(try await mail.next())
            }
            #expect(emails[0].kind == .reset)
            #expect(try await Self.confirm(emails[0], rig) == "UserpassTokenInvalid")
            #expect(try await Self.reset(emails[0], rig, to: "short") == "BadRequest")
            #expect(try await Self.reset(emails[0], rig) == nil)
            let session = "/api/client/v2.0/auth/session"
            #expect(try await rig.request("POST", session, token: old.refresh).status == 401)
            #expect(try await Self.logIn("ann@example.com", rig).status == 401)
            #expect(
                try AppServicesRig.Login(try await Self.logIn("ann@example.com", rig, "battery staple")).user
                    == old.user)
            for email in emails { #expect(try await Self.reset(email, rig) == "UserpassTokenInvalid", "used") }
            _ = try await rig.post(Self.providers + "/reset/send", ["email": "ann@example.com"])
            let late = try await mail.next()
            rig.clock.advance(by: 30 * 60)
            #expect(try await Self.reset(late, rig) == "UserpassTokenInvalid")
        }
    }

    @Test func sessionTokensAreNoTokensOfEMails() async throws {
        try await Self.run([.reset]) { rig, mail async throws in
            let login = try await rig.newUser("ann@example.com")
            for token in [login.access, login.refresh] {
                let email = AccountEmail(kind: .reset, app: "demo", address: "", token: token, tokenIdent: login.user)
                #expect(try await Self.reset(email, rig) == "UserpassTokenInvalid")
            }
            _ = try await rig.post(Self.providers + "/reset/send", ["email": "ann@example.com"])
            let token = try await mail.next().token
            #expect(try await rig.request("POST", "/api/client/v2.0/auth/session", token: token).status == 401)
        }
    }

    /// Also whoever has registered an address that is somebody else's has nothing of it.
    @Test func aResetConfirmsTheAddress() async throws {
        try await Self.run { rig, mail async throws in
            #expect(try await Self.register("ann@example.com", rig) == 201)
            let first = try await mail.next()
            _ = try await rig.post(Self.providers + "/reset/send", ["email": "ann@example.com"])
            #expect(try await Self.reset(try await mail.next(), rig) == nil)
            #expect(try await Self.logIn("ann@example.com", rig).status == 401)
            #expect(try await Self.logIn("ann@example.com", rig, "battery staple").status == 200)
            #expect(try await Self.confirm(first, rig) == "UserpassTokenInvalid")
        }
    }

    /// Two users that were linked have two addresses, with a password each.
    @Test func eachAddressOfAUserHasItsOwnPassword() async throws {
        try await Self.run { rig, mail async throws in
            #expect(try await Self.register("ann@example.com", rig) == 201)
            #expect(try await Self.confirm(try await mail.next(), rig) == nil)
            let ann = try AppServicesRig.Login(try await Self.logIn("ann@example.com", rig))
            #expect(try await Self.register("bob@example.com", rig) == 201)
            let link = { () async throws in
                let body: JSONValue = ["username": "bob@example.com", "password": Self.password]
                return try await rig.post(Self.providers + "/login?link=true", token: ann.access, body).status
            }
            #expect(try await link() == 401, "nobody has confirmed it")
            #expect(try await Self.confirm(try await mail.next(), rig) == nil)
            #expect(try await link() == 200)
            _ = try await rig.post(Self.providers + "/reset/send", ["email": "bob@example.com"])
            #expect(try await Self.reset(try await mail.next(), rig) == nil)
            #expect(try await Self.logIn("ann@example.com", rig).status == 200)
            let bob = try await Self.logIn("bob@example.com", rig, "battery staple")
            #expect(try AppServicesRig.Login(bob).user == ann.user)
        }
    }

    @Test func nobodyIsToldWhoHasAnAccount() async throws {
        try await Self.run { rig, mail async throws in
            try rig.accounts.add(
                User(
                    ident: "5f0c1e2d3b4a59687766aabb", app: "demo",
                    identities: [Identity(ident: "i", provider: "local-userpass", name: "ann@example.com")],
                    createdAt: 1))
            for action in ["/reset/send", "/confirm/send"] {
                var answers: Set<String> = []
                for name in ["ann@example.com", "nobody@example.com", "an@example.com"] {
                    let answer = try await rig.post(Self.providers + action, ["email": .string(name)])
                    answers.insert("\(answer.status) \(answer.body)")
                }
                #expect(answers == ["200 {}"])
            }
            // Only one of them was a reason for an e-mail: the operator's users need no confirmation.
            let email = try await mail.next()
            #expect(email.kind == .reset && email.address == "ann@example.com")
            #expect(try await Self.register("bob@example.com", rig) == 201)
            #expect(try await mail.next().address == "bob@example.com")
        }
    }

    @Test func anAddressGetsSoManyAnHour() async throws {
        try await Self.run([.reset]) { rig, _ async throws in
            let send = Self.providers + "/reset/send"
            for number in 0..<5 {
                let name = number % 2 == 0 ? "ann@example.com" : "Ann@Example.com"
                #expect(try await rig.post(send, ["email": .string(name)]).status == 200)
            }
            let refused = try await rig.post(send, ["email": "ann@example.com"])
            #expect(refused.status == 429 && refused.json?["error_code"] == "TooManyRequests")
            #expect(try await rig.post(send, ["email": "bob@example.com"]).status == 200)
            let metrics = try await rig.admin("GET", "/metrics").body
            #expect(metrics.contains(#"anabranch_emails_total{outcome="limited"} 1"#))
            rig.clock.advance(by: 3600)
            #expect(try await rig.post(send, ["email": "ann@example.com"]).status == 200)
        }
    }

    @Test(arguments: [
        "ann@example.com\r\nBcc: all@example.com", "ann@example.com\nX: y", "ann@example.com>", "<ann@example.com",
        "ann@example.com,bob@example.com", "ann@example.com\u{85}", "ann\u{2028}@example.com", "ann", "@", "a@", "@b",
        "a@b@c", "\"a b\"@example.com", "é@example.com", "a@exämple.com", "a;b@example.com", "a\u{0}@example.com",
    ])
    func anAddressIsOneOrRefused(address: String) async throws {
        try await Self.run { rig, _ async throws in
            #expect(!AccountEmail.canReach(address))
            #expect(try await Self.register(address, rig) == 400)
        }
    }

    @Test func whatCannotBeSentIsALineOfTheLog() async throws {
        try await Self.run { rig, mail async throws in
            #expect(try await Self.register("fails@example.com", rig) == 201, "and may ask for another e-mail")
            let token = try await mail.next().token
            await rig.log.wait(for: "notice e-mail not sent")
            let metrics = try await rig.admin("GET", "/metrics").body
            #expect(metrics.contains(#"anabranch_emails_total{outcome="failed"} 1"#))
            #expect(rig.log.text.contains("cannot send …!") && !rig.log.text.contains(token))
        }
    }

    @Test func withoutAWayToSendNobodyRegisters() async throws {
        try await Self.run { rig, _ async throws in
            #expect(try await Self.register("ann@example.com", app: "silent", rig) == 400)
            #expect(try rig.accounts.user(of: "silent", provider: "local-userpass", name: "ann@example.com") == nil)
        }
    }

    @Test func anAppsOwnFunctionsAreNotHere() async throws {
        try await Self.run { rig, _ async throws in
            let calls: [(String, JSONValue)] = [
                ("/reset/call", ["email": "a@b", "password": "123456", "arguments": []]),
                ("/confirm/call", ["email": "a@b"]),
            ]
            for (action, body) in calls {
                let answer = try await rig.post(Self.providers + action, body)
                #expect(answer.status == 404 && answer.json?["error_code"] == "FunctionNotFound")
            }
        }
    }

    @Test func theOperatorSeesWhoIsUnconfirmedAndCanChangeIt() async throws {
        try await Self.run { rig, mail async throws in
            #expect(try await Self.register("ann@example.com", rig) == 201)
            let ident = try await mail.next().tokenIdent
            let confirmed = { () async throws in
                try await rig.admin("GET", "/v1/user?user=\(ident)").json?["identities"]?.array?.first?["confirmed"]
            }
            #expect(try await confirmed() == false)
            let body: JSONValue = ["user": .string(ident), "password": "battery staple"]
            #expect(try await rig.admin("/v1/users/set-password", body).status == 200)
            #expect(try await confirmed() == true)
            #expect(try await Self.logIn("ann@example.com", rig, "battery staple").status == 200)
        }
    }
}
