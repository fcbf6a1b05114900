import AnabranchCore
import AnabranchProtocol
import Foundation
import Testing

@testable import AnabranchServer

/// Keys of an issuer that are behind a URL (`Spec/Admin.md`, section 6).
@Suite(.timeLimit(.minutes(30))) struct IssuerURLTests {
    private static let login = "/api/client/v2.0/app/demo/auth/providers/custom-token/login"

    private struct World {
        let issuer: TokenIssuer
        let server: PythonServer
        let ports: JSONValue
        let authority = PythonServer.fixtures.appending(path: "smtp/certificate.pem").path()

        init() async throws {
            issuer = try TokenIssuer()
            let key = PythonServer.fixtures.appending(path: "smtp/key.pem").path()
            server = try PythonServer("jwks/server.py", [issuer.path, authority, key])
            ports = try JSONValue(parsing: try await server.output.first().utf8)
        }

        func settings(_ scheme: String = "http", path: String = "/keys?of=demo") -> AppServicesSettings {
            var settings = AppServicesRig.development
            let issuer = CustomTokenIssuer(
                jwks: "\(scheme)://localhost:\(ports[scheme]?.integer ?? 0)\(path)", issuer: "https://id.example.com",
                authority: scheme == "https" ? authority : nil)
            settings.apps["demo"] = AppSettings(providers: [.customToken], issuer: issuer)
            return settings
        }

        func logIn(_ kid: String, _ alg: String, _ rig: AppServicesRig) async throws -> Int {
            let token = try issuer.token(kid, alg: alg, now: rig.clock.now)
            return try await rig.post(IssuerURLTests.login, ["token": .string(token)]).status
        }
    }

    @Test(arguments: ["http", "https"]) func tokensOfItsKeysLogIn(scheme: String) async throws {
        let world = try await World()
        try await AppServicesRig.run(world.settings(scheme)) { rig async throws in
            #expect(try await world.logIn("r", "RS256", rig) == 200)
            #expect(try await world.logIn("e", "ES256", rig) == 200)
            #expect(try await world.logIn("h", "HS256", rig) == 401, "a secret that anybody can fetch is none")
        }
    }

    /// An issuer that does not answer is no reason to log users out.
    @Test func clientsOfForksComeAgainWhenTheKeysAreThere() async throws {
        let world = try await World()
        for (path, isAdmitted) in [("/keys?of=demo", true), ("/nothing", false)] {
            var settings = world.settings(path: path)
            settings.apps["demo"]?.forks = [.barq: ForkSettings()]
            try await AppServicesRig.run(settings) { rig async throws in
                let token = try world.issuer.token("r", alg: "RS256", ["access": ["download"]], now: rig.clock.now)
                let credentials = Credentials(dialect: .barq, app: "", token: token, address: nil)
                switch await rig.services.admit(credentials) {
                case .admitted: #expect(isAdmitted)
                case .unavailable: #expect(!isAdmitted)
                case let other: Issue.record("\(other)")
                }
            }
        }
    }

    @Test func aKeyThatIsNewIsFetchedOnceAMinute() async throws {
        let world = try await World()
        let keys = try world.issuer.keys
        try world.issuer.write([keys[0]])
        try await AppServicesRig.run(world.settings()) { rig async throws in
            #expect(try await world.logIn("r", "RS256", rig) == 200)
            try world.issuer.write([keys[1]])
            #expect(try await world.logIn("e", "ES256", rig) == 401, "the last attempt is not a minute ago")
            rig.clock.advance(by: 60)
            #expect(try await world.logIn("e", "ES256", rig) == 200)
            #expect(try await world.logIn("r", "RS256", rig) == 401, "it is gone")
            for _ in 0..<9 { #expect(try await world.logIn("x", "ES256", rig) == 401) }
            #expect(try await world.logIn("e", "ES256", rig) == 200)
        }
        // After all others.
        let last = try FetchedKeys(
            url: "http://localhost:\(world.ports["http"]?.integer ?? 0)/last", authority: nil, logger: .quiet)
        await #expect(throws: FileError.self) { try await last.fetch() }
        var requests: [String] = []
        repeat { requests.append(try await world.server.output.first()) } while requests.last != "/last"
        #expect(requests == ["/keys?of=demo", "/keys?of=demo", "/last"])
    }

    @Test func keysThatAreOldAreFetchedAgain() async throws {
        let world = try await World()
        let keys = try world.issuer.keys
        try await AppServicesRig.run(world.settings()) { rig async throws in
            #expect(try await world.logIn("r", "RS256", rig) == 200)
            try world.issuer.write([keys[1]])
            #expect(try await world.logIn("r", "RS256", rig) == 200)
            rig.clock.advance(by: 3_600)
            #expect(try await world.logIn("r", "RS256", rig) == 401)
            try world.issuer.write([])
            rig.clock.advance(by: 3_600)
            #expect(try await world.logIn("e", "ES256", rig) == 200, "keys that cannot be used change nothing")
            #expect(rig.log.text.contains("warning keys of an issuer not fetched"))
        }
    }

    /// Until the clock is where it was, which may take years, no new key would be seen, and none that is gone.
    @Test func aClockThatWasAheadDelaysNothing() async throws {
        let world = try await World()
        let keys = try world.issuer.keys
        try world.issuer.write([keys[0]])
        try await AppServicesRig.run(world.settings()) { rig async throws in
            #expect(try await world.logIn("r", "RS256", rig) == 200)
            try world.issuer.write([keys[1]])
            rig.clock.setBack(by: 86_400)
            #expect(try await world.logIn("e", "ES256", rig) == 200)
            try world.issuer.write([keys[0]])
            rig.clock.setBack(by: 86_400)
            #expect(try await world.logIn("e", "ES256", rig) == 401, "it is gone")
        }
    }

    @Test func anIssuerThatIsAwayAtTheStartIsAskedLater() async throws {
        let world = try await World()
        let keys = try world.issuer.keys
        try world.issuer.write([])
        try await AppServicesRig.run(world.settings()) { rig async throws in
            #expect(rig.log.text.contains("no key for RS256 or ES256"))
            try world.issuer.write(keys)
            #expect(try await world.logIn("r", "RS256", rig) == 401)
            rig.clock.advance(by: 60)
            #expect(try await world.logIn("r", "RS256", rig) == 200)
        }
    }

    @Test(arguments: [
        ("http", "/moved", "answers 302; redirections are not followed: name their target"),
        ("http", "/none", "answers 404"), ("http", "/large", "its answer is too long"),
        ("http", "/silent", "no answer within 5 s"),
    ])
    func whatIsNoSetOfKeysIsToldInWords(scheme: String, path: String, reason: String) async throws {
        let world = try await World()
        let issuer = try #require(world.settings(scheme, path: path).apps["demo"]?.issuer)
        #expect(try await issuer.check(logger: .quiet) == "\(issuer.jwks): \(reason)")
    }

    @Test func aCertificateThatNobodyVouchesForIsRefused() async throws {
        let world = try await World()
        var issuer = try #require(world.settings("https").apps["demo"]?.issuer)
        #expect(try await issuer.check(logger: .quiet) == nil)
        issuer.authority = nil
        #expect(try await issuer.check(logger: .quiet)?.contains("its certificate is not trusted") == true)
        issuer.authority = world.issuer.path
        await #expect(throws: FileError.self) { try await issuer.check(logger: .quiet) }
    }

    @Test(arguments: [
        "http://id.example.com/keys", "https://", "https://a b/", "https://a/b#c", "ftp://a/b", "https://a:99999/",
        "https://u:p@a/",
    ])
    func otherURLsAreMistakes(url: String) async throws {
        await #expect(throws: FileError.self) { try await CustomTokenIssuer(jwks: url).check(logger: .quiet) }
    }
}
