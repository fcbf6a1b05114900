import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import Dispatch
import NIOCore
import NIOHTTP1
import Testing

@testable import AnabranchServer

/// The requests that one address, one user and one connection may ask for: up to the limit, and no further
/// (`Spec/Limits.md`).
@Suite struct ClientLimitTests {
    private static func path(_ login: AppServicesRig.Login) -> String {
        "/api/client/v2.0/app/demo/realm-sync?baas_at=\(login.access)"
    }

    /// Tries again until a place is free: a server learns of the end of a connection a little later than its client.
    private static func open(_ rig: AppServicesRig, _ login: AppServicesRig.Login) async throws -> WebSocketClient {
        for _ in 0..<10_000 {
            if let client = try? await WebSocketClient.open(port: rig.port, path: path(login)) { return client }
        }
        return try await WebSocketClient.open(port: rig.port, path: path(login))
    }

    private static func expectPong(_ client: WebSocketClient) async throws {
        try await client.send("ping 1 0\n")
        #expect(try await client.message().kind == "pong")
    }

    @Test func anAddressHasSoManyConnections() async throws {
        try await AppServicesRig.run(change: { $0.connectionsPerAddressMax = 3 }) { rig async throws in
            var clients: [WebSocketClient] = []
            for _ in 0..<3 {
                let client = try await WebSocketClient(port: rig.port)
                let answer = try await client.request("GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
                #expect(answer.hasPrefix("HTTP/1.1 404"))
                clients.append(client)
            }
            #expect(try await WebSocketClient(port: rig.port).isAtEnd())
            let metrics = try await rig.admin("GET", "/metrics").body
            #expect(metrics.contains("anabranch_connections_refused_total{limit=\"address\"} 1\n"))
            try await clients[0].close()
            #expect(try await rig.newUserOnceThereIsAPlace("ann@example.com").user.count == 24)
        }
    }

    @Test func aUserHasSoManyConnections() async throws {
        try await AppServicesRig.run(change: { $0.connectionsPerUserMax = 2 }) { rig async throws in
            let ann = try await rig.newUser("ann@example.com"), bob = try await rig.newUser("bob@example.com")
            let first = try await WebSocketClient.open(port: rig.port, path: Self.path(ann))
            let second = try await WebSocketClient.open(port: rig.port, path: Self.path(ann))
            do {
                _ = try await WebSocketClient.open(port: rig.port, path: Self.path(ann))
                Issue.record("let in")
            } catch let error as WebSocketClient.HandshakeRefused {
                #expect(error.response.hasPrefix("HTTP/1.1 503 "))
            }
            let other = try await WebSocketClient.open(port: rig.port, path: Self.path(bob))
            for client in [first, second, other] { try await Self.expectPong(client) }
            try await first.close()
            let third = try await Self.open(rig, ann)
            for client in [second, third] {
                try await Self.expectPong(client)
                try await client.close()
            }
            try await other.close()
        }
    }

    @Test func aConnectionHasSoManySessions() async throws {
        try await AppServicesRig.run(change: { $0.limits.sessionsPerConnectionMax = 3 }) { rig async throws in
            let login = try await rig.newUser("ann@example.com")
            let client = try await WebSocketClient.open(port: rig.port, path: Self.path(login))
            for session in 1...3 {
                try await client.send("bind \(session) 1 0 1 0\n\(session)")
                #expect(try await client.message().kind == "ident")
            }
            try await client.send("bind 4 1 0 1 0\n4")
            let error = try await client.message()
            #expect(error.words.prefix(2) == ["json_error", "201"])
            #expect(String(decoding: error.body, as: UTF8.self).contains(#""tryAgain":true"#))
            let metrics = try await rig.admin("GET", "/metrics").body
            #expect(metrics.contains("anabranch_errors_total{code=\"201\"} 1\n"))
            try await client.send("unbind 1\n")
            #expect(try await client.message().kind == "unbound")
            try await client.send("unbind 4\n")
            try await client.send("bind 4 1 0 1 0\n4")
            #expect(try await client.message().kind == "ident")
            try await client.close()
        }
    }

    @Test func aUserMakesSoManyFilesInAMinute() async throws {
        try await AppServicesRig.run(change: { $0.newFilesPerMinuteMax = 2 }) { rig async throws in
            var session = 0
            func bind(_ client: WebSocketClient, _ partition: Int) async throws -> String {
                session += 1
                try await client.send("bind \(session) 1 0 1 0\n\(partition)")
                let answer = try await client.message()
                let isTransient = String(decoding: answer.body, as: UTF8.self).contains(#""tryAgain":true"#)
                return answer.words[0] + (isTransient ? " again" : "")
            }
            let ann = try await WebSocketClient.open(
                port: rig.port, path: Self.path(try await rig.newUser("ann@example.com")))
            let bob = try await WebSocketClient.open(
                port: rig.port, path: Self.path(try await rig.newUser("bob@example.com")))
            for partition in [1, 2, 2] { #expect(try await bind(ann, partition) == "ident") }
            #expect(try await bind(ann, 3) == "json_error again")
            #expect(try await bind(bob, 3) == "ident")
            for partition in [1, 3] { #expect(try await bind(ann, partition) == "ident", "it is open") }
            rig.clock.advance(by: 60)
            #expect(try await bind(ann, 4) == "ident")
            for client in [ann, bob] { try await client.close() }
        }
    }

    @Test func aUserGetsSoManyIdentsInAMinute() async throws {
        try await AppServicesRig.run(change: { $0.newClientFilesPerMinuteMax = 3 }) { rig async throws in
            let ann = try await WebSocketClient.open(
                port: rig.port, path: Self.path(try await rig.newUser("ann@example.com")))
            let bob = try await WebSocketClient.open(
                port: rig.port, path: Self.path(try await rig.newUser("bob@example.com")))
            func bind(_ client: WebSocketClient, _ session: Int) async throws -> String {
                try await client.send("bind \(session) 1 0 1 0\nx")
                let answer = try await client.message()
                let isTransient = String(decoding: answer.body, as: UTF8.self).contains(#""tryAgain":true"#)
                return answer.words[0] + (isTransient ? " again" : "")
            }
            for session in 1...3 { #expect(try await bind(ann, session) == "ident") }
            #expect(try await bind(ann, 4) == "json_error again")
            #expect(try await bind(bob, 1) == "ident")
            let metrics = try await rig.admin("GET", "/metrics").body
            #expect(metrics.contains("anabranch_sessions_refused_total{limit=\"client_files\"} 1\n"))
            rig.clock.advance(by: 60)
            #expect(try await bind(ann, 5) == "ident")
            for client in [ann, bob] { try await client.close() }
        }
    }

    private static let queryMilliseconds = 2_000

    @Test func theQueriesOfAUserTakeSoMuchTimeInAMinute() async throws {
        let codec = ClientMessageCodec(mode: .flexible), answers = ServerMessageCodec(mode: .flexible)
        try await AppServicesRig.run(
            change: { settings in
                settings.flexibleApps = ["demo"]
                settings.queryMillisecondsPerMinuteMax = Self.queryMilliseconds
            }
        ) { rig async throws in
            func open(_ user: String) async throws -> WebSocketClient {
                let login = try await rig.newUser("\(user)@example.com")
                return try await WebSocketClient.open(
                    port: rig.port, path: Self.path(login), offer: "com.mongodb.realm-query-sync#14")
            }
            /// A session that asks so often for something: whether it may, and may come again.
            func query(_ client: WebSocketClient, _ session: SessionID, count: Int = 1) async throws -> String {
                func send(_ message: ClientMessage) async throws { try await client.send(codec.encode(message).bytes) }
                try await send(
                    .bind(session: session, BindRequest(flexible: FlexibleBind(), needsFileIdent: true)))
                while true {
                    switch try answers.decode(try await client.receive().payload) {
                    case .ident(_, let file):
                        try await send(
                            .ident(session: session, IdentRequest(file: file, subscriptions: SubscriptionSet.none)))
                        for version in 1...UInt64(count) {
                            let set = SubscriptionSet(version: QueryVersion(rawValue: version), query: Array("{}".utf8))
                            try await send(.query(session: session, set))
                        }
                        try await send(.mark(session: session, request: 1))
                    case .mark: return "done"
                    case .error(_, let error): return "\(error.code.rawValue) \(error.triesAgain ? "again" : "")"
                    default: break
                    }
                }
            }
            let ann = try await open("ann"), bob = try await open("bob")
            #expect(try await query(ann, 1) == "done")
            // Each counts as a millisecond at least.
            #expect(try await query(ann, 2, count: Self.queryMilliseconds) == "201 again")
            #expect(try await query(ann, 3) == "201 again")
            #expect(try await query(bob, 1) == "done")
            let metrics = try await rig.admin("GET", "/metrics").body
            #expect(metrics.contains("anabranch_sessions_refused_total{limit=\"queries\"} 2\n"))
            rig.clock.advance(by: 60)
            #expect(try await query(ann, 4) == "done")
            for client in [ann, bob] { try await client.close() }
        }
    }

    /// A request as the HTTP side hands it on, from an address of the test's choice.
    private static func login(from address: String) -> EndpointRequest {
        EndpointRequest(
            method: .POST, path: "/api/client/v2.0/app/demo/auth/providers/anon-user/login",
            body: .whole(Array("{}".utf8)), address: address)
    }

    @Test func attemptsAreCountedByAddress() async throws {
        var settings = AppServicesRig.development
        settings.loginsPerMinuteMax = 2
        try await AppServicesRig.run(settings) { rig async throws in
            for (address, status) in [
                ("192.0.2.1", HTTPResponseStatus.ok), ("192.0.2.1", .ok), ("192.0.2.2", .ok),
                ("192.0.2.1", .tooManyRequests), ("192.0.2.2", .ok), ("192.0.2.2", .tooManyRequests),
            ] { #expect(await rig.services.respond(to: Self.login(from: address)).status == status, "\(address)") }
        }
    }

    @Test(arguments: [
        ("192.0.2.1", "192.0.2.1"), ("2001:db8:1:2:3:4:5:6", "20010db800010002/64"),
        ("2001:db8:1:2:ffff::1", "20010db800010002/64"), ("2001:db8:1:3::1", "20010db800010003/64"),
        ("::1", "::1"), ("::ffff:192.0.2.1", "::ffff:192.0.2.1"),
    ])
    func anIPv6ClientIsKnownByItsNetwork(address: String, name: String) throws {
        #expect(try SocketAddress(ipAddress: address, port: 1).client == name)
    }

    /// None at all, so that the test need not be quicker than a hash.
    @Test func passwordsAreNotHashedBeyondTheLimit() async throws {
        var settings = AppServicesRig.development
        settings.passwordsUnderWayMax = 0
        try await AppServicesRig.run(settings) { rig async throws in
            let provider = "/api/client/v2.0/app/demo/auth/providers/local-userpass"
            for (path, name) in [("register", "email"), ("login", "username")] {
                let answer = try await rig.post(
                    "\(provider)/\(path)", [name: "ann@example.com", "password": "correct horse"])
                #expect(answer.status == 429, "\(path)")
            }
        }
    }

    /// All threads for passwords are busy and some passwords wait, until the handshake is over.
    @Test(.timeLimit(.minutes(30))) func handshakesDoNotWaitForPasswords() async throws {
        try await AppServicesRig.run { rig async throws in
            let login = try await rig.newUser("ann@example.com"), gate = DispatchSemaphore(value: 0)
            let (begun, onBegin) = AsyncStream.makeStream(of: Void.self)
            let services = rig.services, count = services.settings.passwordsUnderWayMax
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<count {
                    group.addTask {
                        try await services.hashing(AppServices.attempt("\(number)", in: "demo", from: nil)) { _ in
                            onBegin.yield()
                            gate.wait()
                        }
                    }
                }
                for await _ in begun { break }
                let admission = await services.admit(Credentials(app: "demo", token: login.access, address: nil))
                for _ in 0..<count { gate.signal() }
                try await group.waitForAll()
                guard case .admitted = admission else {
                    Issue.record("\(admission)")
                    return
                }
            }
        }
    }

    @Test func soManyPasswordsAreHashedAtATime() {
        let limit = ConcurrencyLimit(countMax: 2)
        #expect(limit.acquire() && limit.acquire())
        #expect(!limit.acquire())
        limit.release()
        #expect(limit.acquire())
    }

    /// A hash takes many times as long as everything else together, so the shortest times tell whether there was one.
    /// They are taken until they agree, which they never do if only one of the two is hashed.
    @Test func anUnknownUserTakesAsLongAsAWrongPassword() async throws {
        try await AppServicesRig.run(passwordCost: 14) { rig async throws in
            _ = try await rig.newUser("ann@example.com")
            func duration(_ name: String) async throws -> Duration {
                let start = ContinuousClock.now
                let answer = try await rig.post(
                    "/api/client/v2.0/app/demo/auth/providers/local-userpass/login",
                    ["username": .string(name), "password": "wrong horse"])
                #expect(answer.status == 401)
                return start.duration(to: .now)
            }
            var known = Duration.seconds(1_000), unknown = known
            for _ in 0..<50 {
                known = min(known, try await duration("ann@example.com"))
                unknown = min(unknown, try await duration("nobody@example.com"))
                if unknown > known / 2, known > unknown / 2 { return }
            }
            Issue.record("\(known) for a user, \(unknown) for nobody")
        }
    }

    /// The new password is set while the old one, which was still right, is being checked.
    @Test func aLoginDoesNotOutliveItsPassword() async throws {
        try await AppServicesRig.run { rig async throws in
            _ = try await rig.newUser("ann@example.com")
            let ann = try #require(
                try rig.accounts.user(of: "demo", provider: "local-userpass", name: "ann@example.com"))
            let secret = try PasswordHash(cost: 1).hash("new password")
            // The clock is looked at when the attempt is counted, when it is the password's turn, and when the session
            // is made.
            rig.clock.whenAsked(again: 2) {
                try? rig.accounts.setSecret(secret, of: ann.identities[0].ident, user: ann.ident)
            }
            func logIn(_ password: JSONValue) async throws -> AppServicesRig.Response {
                try await rig.post(
                    "/api/client/v2.0/app/demo/auth/providers/local-userpass/login",
                    ["username": "ann@example.com", "password": password])
            }
            let old = try await logIn("correct horse")
            #expect(old.status == 401 && old.json?["error_code"]?.string == "InvalidPassword")
            #expect(try rig.accounts.user(ann.ident)?.identities[0].secret == secret)
            #expect(try await logIn("new password").status == 200)
        }
    }

    // MARK: The end of a login

    enum End: CaseIterable {
        case loggedOut, deleted, disabled, expired, passwordReset
    }

    @Test(arguments: End.allCases) func aConnectionEndsWithItsLogin(end: End) async throws {
        try await AppServicesRig.run(change: { $0.loginCheckSecondsMax = 1 }) { rig async throws in
            let ann = try await rig.newUser("ann@example.com")
            let new = try await WebSocketClient.open(port: rig.port, path: Self.path(ann))
            let old = try await WebSocketClient.open(
                port: rig.port, path: Self.path(ann), offer: "com.mongodb.realm-sync/7, com.mongodb.realm-sync/6")
            switch end {
            case .loggedOut:
                _ = try await rig.request("DELETE", "/api/client/v2.0/auth/session", token: ann.refresh)
            case .deleted:
                _ = try await rig.request("DELETE", "/api/client/v2.0/auth/delete", token: ann.access)
            case .disabled: try rig.accounts.setDisabled(true, user: ann.user)
            case .expired: rig.clock.advance(by: 60 * 24 * 3600)
            case .passwordReset: try rig.accounts.removeSessions(of: ann.user)
            }
            #expect(try await new.receive().closeCode == 4001)
            #expect(try await old.receive().closeCode == 1000)
            #expect(await new.isAtEnd())
            #expect(await old.isAtEnd())
        }
    }

    /// There is no way to renew a token in a connection, so a connection lives as long as its login, not as its token.
    @Test func aConnectionOutlivesItsAccessToken() async throws {
        try await AppServicesRig.run(change: { $0.loginCheckSecondsMax = 1 }) { rig async throws in
            let ann = try await rig.newUser("ann@example.com"), bob = try await rig.newUser("bob@example.com")
            let staying = try await WebSocketClient.open(port: rig.port, path: Self.path(ann))
            let leaving = try await WebSocketClient.open(port: rig.port, path: Self.path(bob))
            rig.clock.advance(by: 3600)
            try rig.accounts.removeSessions(of: bob.user)
            // So both logins have been looked at.
            #expect(try await leaving.receive().closeCode == 4001)
            try await Self.expectPong(staying)
            try await staying.close()
        }
    }
}

extension AppServicesRig {
    /// As `newUser`, while the server may still believe that all places are taken.
    fileprivate func newUserOnceThereIsAPlace(_ email: String) async throws -> Login {
        for _ in 0..<10_000 {
            if let login = try? await newUser(email) { return login }
        }
        return try await newUser(email)
    }
}
