import AnabranchCore
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchServer

/// Whatever comes in a body, the answer is the client's fault or a success, never the server's.
@Suite struct RandomBodyTests {
    private static let requests: [(method: String, path: String)] = {
        let app = "/api/client/v2.0/app/demo/auth/providers/"
        let emails = ["confirm", "confirm/send", "confirm/call", "reset", "reset/send", "reset/call", "register"]
        let logins = Provider.allCases.map { app + $0.rawValue + "/login" } + [app + "anon-user/login?link=true"]
        let users = ["session", "api_keys"].map { "/api/client/v2.0/auth/" + $0 }
        return (emails.map { app + "local-userpass/" + $0 } + logins + users).map { ("POST", $0) } + [
            ("GET", "/api/client/v2.0/auth/profile"), ("DELETE", "/api/client/v2.0/auth/delete"),
            ("PUT", "/api/client/v2.0/auth/api_keys/0123456789abcdef01234567/enable"),
            ("GET", "/api/client/v2.0/app/demo/location"), ("PATCH", "/"),
        ]
    }()

    /// One in a body's life: bytes, JSON with holes in it, JSON of the right form with the wrong things.
    private static func body(_ generator: inout SeededRandom) -> [UInt8] {
        let pieces = [
            "{", "}", "[", "]", ":", ",", "\"", "\\", "\\u", "\\ud83d", "null", "true", "-", "0", "1e999", "\"email\"",
            "\"password\"", "\"username\"", "\"key\"", "\"token\"", "\"tokenId\"", "\"name\"", "\"arguments\"",
            "\"123456\"", "{\"$numberInt\":\"1\"}", " ", "\u{0}", "a.b.c",
        ]
        switch Int.random(in: 0..<4, using: &generator) {
        case 0:
            return (0..<Int.random(in: 0..<200, using: &generator)).map { _ in .random(in: 0...255, using: &generator) }
        case 1:
            let count = Int.random(in: 0..<40, using: &generator)
            return (0..<count).flatMap { _ in Array(pieces.randomElement(using: &generator)!.utf8) }
        case 2:
            return [UInt8](repeating: UInt8(ascii: "["), count: Int.random(in: 0..<2000, using: &generator))
        default:
            var members: [String: JSONValue] = [:]
            for name in ["email", "password", "username", "key", "token", "tokenId", "name"] {
                switch Int.random(in: 0..<4, using: &generator) {
                case 0: break
                case 1: members[name] = .integer(.random(in: .min ... .max, using: &generator))
                case 2: members[name] = .string(String(repeating: "x", count: .random(in: 0..<300, using: &generator)))
                default: members[name] = .string(pieces.randomElement(using: &generator)!)
                }
            }
            return Array(JSONValue.object(members).encoded.utf8)
        }
    }

    private static let environment = ProcessInfo.processInfo.environment

    @Test func noBodyIsTheServersFault() async throws {
        let count = Self.environment["ANABRANCH_BODIES"].flatMap { Int($0) } ?? 1_000
        let seed = Self.environment["ANABRANCH_SEED"].flatMap { UInt64($0) } ?? .random(in: 0...UInt64(UInt32.max))
        try await AppServicesRig.run { rig async throws in
            let login = try await rig.newUser("ann@example.com")
            var generator = SeededRandom(seed: seed)
            var done = 0, statuses: [Int: Int] = [:]
            while done < count {
                // Many on one connection, one after the other: the way in is part of the test.
                let batch = min(500, count - done)
                var bytes: [UInt8] = []
                for index in 0..<batch {
                    let (method, path) = Self.requests.randomElement(using: &generator)!
                    let body = Self.body(&generator)
                    let token = [login.access, login.refresh, "junk"].randomElement(using: &generator)!
                    let head = """
                        \(method) \(path) HTTP/1.1\r
                        Host: 127.0.0.1\r
                        Content-Length: \(body.count)\r
                        Connection: \(index == batch - 1 ? "close" : "keep-alive")\r
                        Authorization: Bearer \(path.hasSuffix("delete") ? "junk" : token)\r
                        \r

                        """
                    bytes += Array(head.utf8) + body
                }
                let answer = String(decoding: try await rig.exchange(bytes), as: UTF8.self)
                let found = answer.matches(of: #/HTTP/1\.1 ([0-9]{3}) /#).compactMap { Int($0.output.1) }
                for status in found { statuses[status, default: 0] += 1 }
                let command = "ANABRANCH_SEED=\(seed) ANABRANCH_BODIES=\(count) swift test --filter RandomBodyTests"
                #expect(found.count == batch, "\(command)")
                #expect(found.allSatisfy { $0 < 500 }, "\(command)")
                done += batch
            }
            #expect(statuses[200] != nil && statuses[400] != nil && statuses[401] != nil, "\(statuses)")
        }
    }
}
