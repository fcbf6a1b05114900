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
            _ method: HTTPMethod, _ path: String, _ query: String = "", bucket: String = "note", body: String = ""
        ) async -> (status: HTTPResponseStatus, body: String, version: String?) {
            let response = await endpoints.respond(
                to: EndpointRequest(
                    method: method, path: "/1/my-app/\(bucket)/\(path)", query: query,
                    headers: ["X-Simperium-Token": token], body: .whole(Array(body.utf8))))
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

    /// Whoever waits for changes may go away.
    @Test func aRequestThatIsCutIsNoFailure() async throws {
        let log = WireLog()
        try await WireRig.run(logger: log.logger) { rig in
            let asker = try await Asker(rig)
            for _ in 0..<20 {
                let asking = Task { await asker.ask(.GET, "changes") }
                asking.cancel()
                _ = await asking.value
            }
        }
        #expect(!log.messages.contains { $0.contains("a request fails") })
    }

    @Test func anAdministratorActsForAUser() async throws {
        let token = String(repeating: "a", count: 32)
        var administrators = SecretList()
        #expect(administrators.add(#"["\#(token)"]"#.utf8, length: 32) == nil)
        try await WireRig.run { [administrators] in
            $0.apps[WireRig.app]?.administrators = administrators
        } _: { rig in
            let ann = try await rig.logIn(), endpoints = SimperiumEndpoints(rig.services, rig.wire)
            for (token, user, status) in [
                (token, ann.user, .ok), (token, nil, .badRequest), (token, "nobody", .unauthorized),
                (ann.token, "nobody", .unauthorized), (ann.token, ann.user, .preconditionFailed),
            ] as [(String, String?, HTTPResponseStatus)] {
                var headers: HTTPHeaders = ["X-Simperium-Token": token]
                if let user { headers.add(name: "X-Simperium-User", value: user) }
                let request = EndpointRequest(
                    method: .POST, path: "/1/my-app/note/i/k", headers: headers, body: .whole(Array(#"{"n":1}"#.utf8)))
                #expect(await endpoints.respond(to: request).status == status, "\(token) \(user ?? "")")
            }
            let one = try await Conversation(rig, ann)
            #expect(try await one.list()["index"] == [["id": "k", "v": 1, "d": ["n": 1]]])
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
            #expect(answer.status == .notFound && answer.body.hasPrefix("no class of that bucket: the class does not"))
        }
    }

    @Test(arguments: [
        (#"{"nope":1}"#, "nope: the class note has no such property"),
        (#"{"_id":"k"}"#, "_id: the primary key is the key of the entity, and no member"),
        (#"{"n":"1"}"#, #"n: a whole number of 64 bits is needed, and there is "1""#),
        (#"{"n":null}"#, "n: a whole number of 64 bits is needed, and there is null"),
        (#"{"yes":1}"#, "yes: true or false is needed, and there is 1"),
        (#"{"t":{"a":1}}"#, #"t: a text is needed, and there is {"a":1}"#),
        (#"{"r":"1"}"#, #"r: a number of the type double is needed, and there is "1""#),
        (#"{"f":1e300}"#, "f: a number of the type float is needed, and there is 1e+300"),
        (#"{"price":1}"#, "price: a text with a decimal number, or null, is needed, and there is 1"),
        (
            #"{"at":"yesterday"}"#,
            #"at: a text with a date of ISO 8601 and its zone, or null, is needed, and there is "yesterday""#
        ), (#"{"oid":"0123"}"#, #"oid: a text of 24 hexadecimal digits, or null, is needed, and there is "0123""#),
        (#"{"uuid":"x"}"#, #"uuid: a text with a UUID, or null, is needed, and there is "x""#),
        (#"{"data":"AP8"}"#, #"data: a text in Base64, or null, is needed, and there is "AP8""#),
        (#"{"list":{}}"#, "list: a list is needed, and there is {}"),
        (#"{"list":[1,"2"]}"#, #"list/1: a whole number of 64 bits is needed, and there is "2""#),
        (#"{"set":[["a"]]}"#, #"set/0: a text, or null, is needed, and there is ["a"]"#),
        (#"{"dict":[]}"#, "dict: an object is needed, and there is []"),
        (#"{"dict":{"a":"1"}}"#, #"dict/a: a whole number of 64 bits, or null, is needed, and there is "1""#),
        (#"{"place":{"x":null}}"#, "place/x: a number of the type double is needed, and there is null"),
        (#"{"place":{"nope":1}}"#, "place/nope: the class place has no such property"),
        (#"{"place":[]}"#, "place: an object, or null, is needed, and there is []"),
        (#"{"places":[{"x":"1"}]}"#, #"places/0/x: a number of the type double is needed, and there is "1""#),
        (#"{"spots":{"a":{"x":[]}}}"#, "spots/a/x: a number of the type double is needed, and there is []"),
        (#"{"other":1}"#, "other: a text with the key of an object, or null, is needed, and there is 1"),
        (#"{"tag":"seven"}"#, "tag: seven is no key of the class tag"),
        (#"{"tag":"8"}"#, "tag: there is no object 8 of the class tag"),
        (#"{"others":["target","none"]}"#, #"others/1: there is no object "none" of the class note"#),
    ])
    func theReasonNamesTheMemberThatAClassDoesNotTake(members: String, reason: String) async throws {
        try await WireRig.runTyped { rig, _, _, _ in
            let asker = try await Asker(rig, isNew: false)
            #expect(await asker.ask(.POST, "i/k", body: TypedClasses.full).status == .ok)
            let refused = await asker.ask(.POST, "i/k", body: members)
            let status: HTTPResponseStatus = reason.contains("there is no object") ? .expectationFailed : .badRequest
            #expect(refused == (status, reason, nil))
            // A new entity, and one of a list of changes.
            let change = #"[{"id":"new","ccid":"c","o":"M","d":\#(members)}]"#
            let error = try JSONValue.text(await asker.ask(.POST, "changes", "wait=1", body: change).body).array?.first
            #expect(error?["error"] == .integer(Int64(status.code)) && error?["reason"] == .string(reason))
        }
    }

    @Test func everyRefusalHasAReason() async throws {
        try await WireRig.run {
            $0.apps[WireRig.app]?.otherBuckets?.deletesStrictly = true
            $0.door.bucketsMax = 1
        } _: { rig in
            let asker = try await Asker(rig), digits = String(repeating: "9", count: 400)
            #expect(await asker.ask(.POST, "i/k", "ccid=a", body: #"{"t":"AC"}"#).version == "1")
            #expect(await asker.ask(.POST, "i/k", body: #"{"n":1}"#).version == "2")
            let deep = String(repeating: #"{"a":"#, count: 70) + "1" + String(repeating: "}", count: 70)
            let large = #"{"u":"\#(String(repeating: "x", count: 1 << 20))"}"#
            let gone = "there is no such entity: it was never made, or is deleted"
            for (method, path, query, body, status, reason) in [
                (.POST, "i/k", "", "{", 400, "the body is not JSON: a string is missing, at byte 1"),
                (.POST, "i/k", "", "[]", 400, "the body is not an object"),
                (.POST, "i/k", "", #"{"a":{"b":[1,\#(digits)]}}"#, 400, "a/b/1: a number out of range"),
                (.POST, "i/k%0A", "", "{}", 400, "key: 1 to 256 bytes without control characters and / are needed"),
                (.GET, "i/k%2F", "", "", 400, "key: 1 to 256 bytes without control characters and / are needed"),
                (.POST, "i/k", "ccid=", "{}", 400, "ccid: 1 to 256 bytes are needed"),
                (.DELETE, "i/k", "clientid=", "", 400, "clientid: 1 to 256 bytes are needed"),
                (.POST, "changes", "", "{}", 400, "the body is not a list of at most 1000 changes"),
                (.GET, "i/none", "", "", 404, "no such entity or version"),
                (.POST, "i/none/v/1", "", "{}", 404, gone), (.DELETE, "i/none", "", "", 404, gone),
                (.POST, "i/k/v/9", "", "{}", 405, "version 9 is not kept: the newest one is 2"),
                (.DELETE, "i/k/v/1", "", "", 405, "only the newest version, 2, can be deleted, and not 1"),
                (.POST, "i/k", "ccid=a", "{}", 409, "a change with this ccid was accepted before"),
                (.POST, "i/k", "ccid=b", "{}", 412, "nothing would change"),
                (.POST, "i/k", "ccid=b", #"{"n":7}"#, 412, "a change with this ccid has changed nothing before"),
                (.POST, "i/k", "replace=1", large, 413, "it would have 1048584 bytes, and may have 1048576"),
                (.POST, "i/k", "", deep, 413, "it would be 70 deep, and may be 64"),
            ] as [(HTTPMethod, String, String, String, UInt, String)] {
                let answer = await asker.ask(method, path, query, body: body)
                #expect(answer.status.code == status && answer.body == reason, "\(method) \(path): \(answer)")
            }
            // In a list, beside the code.
            let changes = #"""
                [1, {"id":"a/b","ccid":"c","o":"-"}, {"id":"k","o":"-"}, {"id":"k","ccid":"c","o":"X"},
                {"id":"k","ccid":"c","o":"M"}, {"id":"k","ccid":"c","o":"-","sv":[]},
                {"id":"k","ccid":"c","o":"M","v":{"n":{"o":"I"}}},
                {"id":"k","ccid":"d","o":"M","v":{"t":{"o":"d","v":"=9"}},"sv":2},
                {"id":"k","ccid":"e","o":"M","v":{"n":{"o":"O","v":{}}},"sv":2}]
                """#
            let errors = try JSONValue.text(await asker.ask(.POST, "changes", "wait=1", body: changes).body).array
            let reasons: [String?] = [
                "a change is an object", "id: 1 to 256 bytes without control characters and / are needed",
                "ccid: 1 to 256 bytes are needed", "o: M or - is needed", "v or d is needed",
                "sv: a version is needed", "n: the operation I has no value of its kind",
                "t: a delta for 9 code units, not 2", "n: an object is needed, and there is a number",
            ]
            #expect(errors?.map { $0["reason"]?.string } == reasons)
            #expect(errors?.map { $0["error"] } == [400, 400, 400, 400, 400, 400, 400, 440, 440])
            let other = await asker.ask(.POST, "i/k", bucket: "other", body: "{}")
            #expect(other == (.internalServerError, "the bucket has no class, and a user has 1 at most", nil))
        }
    }

    /// Small objects take 50 times as much memory as their text.
    @Test func aBodyWithVeryManyValuesIsRefused() async throws {
        try await WireRig.run { rig in
            let asker = try await Asker(rig)
            func body(_ count: Int) -> String { "[\(repeatElement("0", count: count - 1).joined(separator: ","))]" }
            let refused = await asker.ask(.POST, "changes", body: body(Change.valuesMax + 1))
            #expect(refused.status == .badRequest && refused.body.contains("too many values"))
            let other = await asker.ask(.POST, "changes", body: body(Change.valuesMax))
            #expect(other.body == "the body is not a list of at most 1000 changes")
        }
    }

    /// They take longer than one commit may: the others follow.
    @Test func manyChangesOfALargeEntityAreMadeInTheirOrder() async throws {
        try await WireRig.run { rig in
            let asker = try await Asker(rig)
            let list = "[\(repeatElement("1234567", count: 100_000).joined(separator: ","))]"
            #expect(await asker.ask(.POST, "i/k", body: #"{"l":\#(list),"n":-1}"#).status == .ok)
            let changes = (0..<64).map { #"{"id":"k","ccid":"c\#($0)","o":"M","v":{"n":{"o":"r","v":\#($0)}}}"# }
            let body = "[\(changes.joined(separator: ","))]"
            let answers = try JSONValue.text(await asker.ask(.POST, "changes", "wait=1", body: body).body).array
            #expect(answers?.compactMap { $0["v"]?["n"]?["v"]?.integer } == (0..<64).map { Int64($0) })
            #expect(answers?.compactMap { $0["ev"]?.integer } == (2..<66).map { Int64($0) })
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

    @Test func placesThatEntitiesHaveLeftAreLimited() async throws {
        try await WireRig.run {
            $0.skipsPerMinuteMax = 20
        } _: { rig in
            let asker = try await Asker(rig)
            for number in 0..<30 { _ = await asker.ask(.POST, "i/k", body: #"{"n":\#(number)}"#) }
            for _ in 0..<2 { #expect(await asker.ask(.GET, "index").status == .ok) }
            #expect(await asker.ask(.GET, "index").status == .serviceUnavailable)
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
            let half = await asker.ask(.POST, "i/half", "response=1", body: #"{"t":"\ud83d"}"#)
            #expect(half == (.ok, "{\"t\":\"\u{FFFD}\"}", "1"))
        }
    }

    /// Over one store, which one of them has at a time, or both.
    @Test(arguments: [false, true]) func aWriteCountsOnceWhicheverServerTakesIt(isShared: Bool) async throws {
        let disk = try WireRig.Disk(isShared: isShared)
        try await WireRig.run(on: disk) { one in
            let first = try await Asker(one)
            try await WireRig.run(on: disk) { other in
                let second = try await Asker(other, isNew: false)
                #expect(await first.ask(.POST, "i/k", "ccid=a", body: #"{"n":1}"#).version == "1")
                #expect(await second.ask(.POST, "i/k", "ccid=a", body: #"{"n":1}"#).status == .conflict)
                #expect(await second.ask(.POST, "i/k", "ccid=b", body: #"{"n":2}"#).version == "2")
                #expect(await first.ask(.POST, "i/k", "ccid=b", body: #"{"n":2}"#).status == .conflict)
                #expect(await first.ask(.GET, "i/k") == (.ok, #"{"n":2}"#, "2"))
            }
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
