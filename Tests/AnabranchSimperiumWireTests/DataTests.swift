import AnabranchCore
import AnabranchServer
import NIOHTTP1
import Synchronization
import Testing

@testable import AnabranchSimperiumWire

/// Requests for data that published clients do not make (`Spec/Simperium.md`, section 12).
@Suite(.timeLimit(.minutes(30))) struct DataTests {
    /// A user's requests to the bucket `note`.
    private struct Asker {
        let endpoints: SimperiumEndpoints
        let token: String

        init(_ rig: WireRig, isNew: Bool = true) async throws {
            endpoints = SimperiumEndpoints(rig.services, rig.wire)
            token = try await rig.logIn(isNew: isNew).token
        }

        func ask(
            _ method: HTTPMethod, _ path: String, _ query: String = "", body: String = ""
        ) async -> (status: HTTPResponseStatus, body: String, version: String?) {
            let response = await endpoints.respond(
                to: EndpointRequest(
                    method: method, path: "/1/my-app/note/\(path)", query: query, headers: ["X-Simperium-Token": token],
                    body: .whole(Array(body.utf8))))
            guard case .whole(let bytes) = response.body else { return (response.status, "a stream", nil) }
            return (
                response.status, String(decoding: bytes, as: UTF8.self),
                response.headers.first(name: "X-Simperium-Version")
            )
        }
    }

    @Test func malformedRequestsAreRefused() async throws {
        try await WireRig.run { rig in
            let asker = try await Asker(rig), long = String(repeating: "x", count: 257)
            for (method, path, query, body, status) in [
                (.POST, "i/k", "", "", .badRequest), (.POST, "i/k", "", "[]", .badRequest),
                (.POST, "i/k", "", "{", .badRequest), (.POST, "i/\(long)", "", "{}", .badRequest),
                (.POST, "i/k", "ccid=", "{}", .badRequest), (.POST, "i/k", "ccid=\(long)", "{}", .badRequest),
                (.POST, "i/k", "clientid=\(long)", "{}", .badRequest), (.POST, "i/k", "x=%zz", "{}", .badRequest),
                (.GET, "i/a%2Fb", "", "", .badRequest), (.DELETE, "i/a%0Ab", "", "", .badRequest),
                (.POST, "changes", "", "{}", .badRequest), (.POST, "changes", "", "", .badRequest),
                (.POST, "changes", "", "[\(Array(repeating: "1", count: 1_001).joined(separator: ","))]", .badRequest),
                (.PUT, "i/k", "", "{}", .methodNotAllowed), (.POST, "index", "", "", .methodNotAllowed),
                (.DELETE, "changes", "", "", .methodNotAllowed), (.POST, "all", "", "[]", .methodNotAllowed),
                (.GET, "i/k/v/0", "", "", .notFound), (.GET, "changes", "cv=x", "", .notFound),
            ] as [(HTTPMethod, String, String, String, HTTPResponseStatus)] {
                let answer = await asker.ask(method, path, query, body: body)
                #expect(answer.status == status, "\(method) \(path) \(query): \(answer)")
            }
            let answer = await asker.ask(.POST, "changes", "wait=1", body: #"[1,{"id":"k","ccid":"c","o":"EMPTY"},[]]"#)
            #expect(try JSONValue(parsing: answer.body.utf8).array?.map { $0["error"] } == [400, 400, 400])
            #expect(await asker.ask(.GET, "index").body.contains(#""index":[]"#))
        }
    }

    @Test func entitiesOfAClassAreServed() async throws {
        try await WireRig.runTyped { rig, _, _, _ in
            let asker = try await Asker(rig, isNew: false)
            let made = await asker.ask(.POST, "i/k", "response=1", body: #"{"n":1,"list":[1,2]}"#)
            let initial = try #require(try JSONValue.text(TypedClasses.initial).members)
            var members = initial.merging(["n": 1, "list": [1, 2]]) { $1 }
            #expect(try JSONValue.text(made.body) == .object(members) && made.version == "1")
            #expect(await asker.ask(.POST, "i/k", body: #"{"n":"1"}"#).status == .badRequest)
            #expect(await asker.ask(.POST, "i/k", body: #"{"other":"none"}"#).status == .expectationFailed)
            let changed = await asker.ask(.POST, "i/k/v/1", "response=1", body: #"{"t":"x","list":[2,3]}"#)
            members.merge(["t": "x", "list": [2, 3]]) { $1 }
            #expect(try JSONValue.text(changed.body) == .object(members))
            let replaced = await asker.ask(.POST, "i/k", "response=1&replace=1", body: "{}")
            #expect(try JSONValue.text(replaced.body) == .object(initial))
        }
        try await WireRig.run {
            $0.apps[WireRig.app]?.otherBuckets?.form = .typed
        } _: { rig in
            let asker = try await Asker(rig), answer = await asker.ask(.GET, "index")
            #expect(answer.status == .notFound && answer.body == "no class of that bucket")
        }
    }

    @Test func changesAreLimited() async throws {
        try await WireRig.run {
            $0.changesPerMinuteMax = 20
        } _: { rig in
            let asker = try await Asker(rig)
            func changes(_ numbers: Range<Int>) -> String {
                let each = numbers.map { #"{"id":"k\#($0)","ccid":"c\#($0)","o":"M","v":{}}"# }
                return "[\(each.joined(separator: ","))]"
            }
            #expect(await asker.ask(.POST, "changes", body: changes(0..<15)).status == .ok)
            let refused = await asker.ask(.POST, "changes", "wait=1", body: changes(15..<21))
            #expect(refused.status == .serviceUnavailable && refused.body == "too many changes in a minute")
            #expect(await asker.ask(.POST, "changes", body: changes(15..<19)).status == .ok)
            #expect(await asker.ask(.POST, "i/k", body: "{}").status == .ok)
            #expect(await asker.ask(.DELETE, "i/k").status == .serviceUnavailable)
            let index = try JSONValue(parsing: await asker.ask(.GET, "index").body.utf8)["index"]
            #expect(index?.array?.count == 20)
        }
    }

    @Test func aRightThatIsWithdrawnWhileARequestWaitsIsSeen() async throws {
        let isAllowed = Mutex(true)
        let authorizer = CallbackAuthorizer { _, _ in isAllowed.withLock { $0 } ? .write : .none }
        try await WireRig.run(authorizer: authorizer) {
            $0.newsSeconds = 1
        } _: { rig in
            let asker = try await Asker(rig)
            #expect(await asker.ask(.GET, "changes").body == "[]")
            async let waiting = asker.ask(.GET, "changes")
            isAllowed.withLock { $0 = false }
            #expect(await waiting.status == .unauthorized)
        }
    }

    @Test func aWriteCountsOnceWithACcid() async throws {
        try await WireRig.run { rig in
            let asker = try await Asker(rig)
            #expect(await asker.ask(.POST, "i/k", "ccid=a", body: #"{"n":1}"#).version == "1")
            #expect(await asker.ask(.POST, "i/k", body: #"{"n":2}"#).version == "2")
            #expect(await asker.ask(.POST, "i/k", "ccid=a", body: #"{"n":1}"#).status == .conflict)
            #expect(await asker.ask(.POST, "i/k", body: #"{"n":1}"#).version == "3")
            // An entity without members is one too.
            #expect(await asker.ask(.POST, "i/empty", body: "{}").version == "1")
            #expect(await asker.ask(.POST, "i/empty", body: "{}").status == .preconditionFailed)
            #expect(await asker.ask(.DELETE, "i/k", "ccid=b") == (.ok, "", "4"))
            #expect(await asker.ask(.DELETE, "i/k", "ccid=b").status == .conflict)
            #expect(await asker.ask(.GET, "i/k/v/3") == (.ok, #"{"n":1}"#, "3"))
            #expect(await asker.ask(.GET, "i/k/v/4").status == .notFound)
            #expect(await asker.ask(.POST, "i/k/v/3", body: #"{"n":7}"#).status == .notFound)
            #expect(await asker.ask(.POST, "i/k", "response=true", body: #"{"n":7}"#) == (.ok, #"{"n":7}"#, "5"))
        }
    }

    @Test func whoMayNotWriteReads() async throws {
        struct Reader: Authorizer {
            func permission(for principal: Principal, on partition: [UInt8]) -> Permission { .read }
            func refresh() async -> Bool { false }
        }
        try await WireRig.run(authorizer: Reader()) { rig in
            let asker = try await Asker(rig)
            #expect(await asker.ask(.GET, "index").status == .ok)
            #expect(await asker.ask(.POST, "i/k", body: "{}").status == .unauthorized)
            #expect(await asker.ask(.DELETE, "i/k").status == .unauthorized)
            #expect(await asker.ask(.POST, "changes", body: "[]").status == .unauthorized)
        }
    }

    @Test func whoWaitsForNothingIsTold() async throws {
        try await WireRig.run({ $0.newsSeconds = 0 }) { rig in
            let asker = try await Asker(rig)
            #expect(await asker.ask(.GET, "changes") == (.ok, "[]", nil))
            #expect(await asker.ask(.GET, "all", "batch=100") == (.ok, "[]", nil))
        }
    }

    @Test func answersAreShort() async throws {
        try await WireRig.run { rig in
            let asker = try await Asker(rig), text = String(repeating: "x", count: 400_000)
            let start = try JSONValue(parsing: await asker.ask(.GET, "index").body.utf8)["current"]?.string ?? ""
            for key in 0..<5 {
                #expect(await asker.ask(.POST, "i/\(key)", body: #"{"t":"\#(text)"}"#).status == .ok)
            }
            var cv = start, keys: [String] = []
            while keys.count < 5 {
                let answer = await asker.ask(.GET, "all", "data=1&cv=\(cv)")
                #expect(answer.body.utf8.count <= 1 << 20)
                let changes = try #require(try JSONValue(parsing: answer.body.utf8).array)
                #expect(changes.allSatisfy { $0["d"]?["t"]?.string == text })
                keys += changes.compactMap { $0["id"]?.string }
                cv = try #require(changes.last?["cv"]?.string)
            }
            #expect(keys == ["0", "1", "2", "3", "4"])
        }
    }
}
