import AnabranchCore
import AnabranchHistory
import AnabranchServer
import AnabranchTesting
import Synchronization
import Testing

@testable import AnabranchSimperiumWire

/// Clients that mean no good: what they do is refused, and others are served.
@Suite(.timeLimit(.minutes(30))) struct HostileTests {
    @Test func openingsAreLimited() async throws {
        try await WireRig.run {
            $0.initsPerMinuteMax = 150
        } _: { rig in
            let login = try await rig.logIn(), client = try await rig.connect()
            var codes: [Int64] = [], opened = 0
            do {
                for number in 0..<10_000 {
                    try await client.send(Frame.opening(login.token, channel: "\(number):", bucket: "b\(number)"))
                    let answer = try await client.receive()
                    guard answer != "\(number):auth:ann@example.com" else {
                        opened += 1
                        continue
                    }
                    codes.append(try JSON(answer, after: "\(number):auth:")?["code"]?.integer ?? 0)
                }
            } catch let error as TextClient.Closed {
                #expect(error.code == 1013)
            }
            #expect(opened == 100 && codes == Array(repeating: 500, count: 50))
            // Buckets that nobody has written to leave nothing behind.
            let file = try rig.wire.file(of: login.user, app: WireRig.app)
            #expect(try await file.read { try $0.records.buckets().count } == 0)
        }
    }

    @Test func bucketsAreLimited() async throws {
        try await WireRig.run {
            $0.door.bucketsMax = 3
        } _: { rig in
            let login = try await rig.logIn()
            for number in 0..<5 {
                let one = try await Conversation(rig, login, library: "other", bucket: "b\(number)")
                try await one.list()
                let answer = try await one.make("M", "k", ["v": .adds("x")])
                #expect(number < 3 ? answer["ev"] == 1 : answer["error"] == 500)
            }
        }
    }

    @Test func openingsThatAreWrongAreRefused() async throws {
        try await WireRig.run { settings in
            settings.apps[WireRig.app]?.otherBuckets = nil
            settings.apps[WireRig.app]?.buckets["note"] = BucketSettings()
        } _: { rig in
            let login = try await rig.logIn(), client = try await rig.connect()
            let unknown = String(repeating: "a", count: 64)
            for (frame, code) in [
                ("0:init:", 400), ("0:init:[]", 400), ("0:init:{\"name\":\"note\"}", 400),
                (Frame.opening("short"), 400), (Frame.opening(login.token + " "), 400),
                (Frame.opening(login.token, more: ["clientid": ""]), 400),
                (Frame.opening(login.token, more: ["app_id": 7]), 400), (Frame.opening(unknown), 401),
                (Frame.opening(String(login.token.dropLast()) + "!"), 400),
                (Frame.opening(login.token, bucket: "a b"), 500), (Frame.opening(login.token, bucket: "other"), 500),
                (Frame.opening(login.token, more: ["app_id": "another"]), 500), ("0:i:1:::10", 401), ("0:index", 401),
            ] as [(String, Int64)] {
                try await client.send(frame)
                #expect(try JSON(await client.receive(), after: "0:auth:")?["code"] == .integer(code), "\(frame)")
            }
            try await client.send(Frame.opening(unknown, channel: "", more: ["api": 1]))
            #expect(try await client.receive() == "auth:expired")
            #expect(try await client.receive().hasPrefix("auth:{") == true)
            // The case of an app does not count, and a channel may have no number.
            try await client.send(
                Frame.opening(login.token, channel: "", more: ["app_id": "MY-App", "cmd": "i:1:::40"]))
            #expect(try await client.receive() == "auth:ann@example.com")
            #expect(try await client.receive().hasPrefix("i:{") == true)
        }
    }

    @Test func messagesThatCannotBeReadEndTheConnection() async throws {
        try await WireRig.run { rig in
            let one = try await Conversation(rig, try await rig.logIn())
            try await one.list()
            for text in ["h:x", "h:", "h:-5", "h:99999999999999999999"] {
                try await one.say(text)
                #expect(try await one.hear() == "h:1")
            }
            let long = String(repeating: "x", count: 5_000)
            for text in ["log:{}", "0:o:{}", "0:what:x", "0:index:{\"current\":\"x\"}", "0:e:\(long)"] {
                try await one.say(text)
            }
            for number in 0..<19 { try await one.say(["", "?", "99999999999:i", "7", "hello"][number % 5]) }
            #expect(try await one.isSilent())
            try await one.say("once more")
            await #expect(throws: TextClient.Closed(code: 1008)) { _ = try await one.hear() }
        }
    }

    @Test func textsThatGrowStayWithinTheirLimit() async throws {
        try await WireRig.run { rig in
            let login = try await rig.logIn()
            let one = try await Conversation(rig, login, library: "other")
            let two = try await Conversation(rig, login, client: "two", library: "other", bucket: "else")
            try await one.list()
            try await two.list()
            try await one.make("M", "k", ["v": .adds("")])
            // Each delta doubles the text.
            var version: Int64 = 1, length = 0, code: Int64?
            while code == nil {
                let inserted = String(repeating: "x", count: max(1, length))
                let answer = try await one.make(
                    "M", "k", ["v": .edits(length == 0 ? "+x" : "=\(length)\t+\(inserted)"), "sv": .integer(version)])
                code = answer["error"]?.integer
                version += 1
                length += inserted.count
            }
            #expect(code == 413 && length == 1 << 20)
            let deep = String(repeating: "{\"o\":\"O\",\"v\":{\"a\":", count: 300)
            try await one.say("0:c:{\"o\":\"M\",\"id\":\"d\",\"ccid\":\"d\",\"v\":{\"a\":\(deep)")
            #expect(try await one.change()["error"] == 400)
            var nested: JSONValue = 1
            for _ in 0..<70 { nested = .object(["a": nested]) }
            #expect(try await one.make("M", "d", ["d": nested])["error"] == 413)
            #expect(try await two.make("M", "k", ["v": .adds("bystander")])["ev"] == 1)
        }
    }

    /// Not even a text of 100 MB that grows by small edits: each is 64 KiB, and none is taken beyond the limit.
    @Test func textsThatGrowSlowlyEndAtTheirLimit() async throws {
        try await WireRig.run { rig in
            let one = try await Conversation(rig, try await rig.logIn(), library: "other")
            try await one.list()
            try await one.make("M", "k", ["v": .adds("")])
            let piece = String(repeating: "y", count: 64 << 10)
            var version: Int64 = 1, length = 0, refused = 0
            while length + refused * piece.count < 100 << 20, refused < 20 {
                let kept = length > 0 ? "=\(length)\t" : ""
                let answer = try await one.make("M", "k", ["v": .edits("\(kept)+\(piece)"), "sv": .integer(version)])
                if answer["error"] == 413 {
                    refused += 1
                } else {
                    version += 1
                    length += piece.count
                }
            }
            #expect(refused == 20 && length < 1 << 20)
        }
    }

    /// Changes are told to nobody who is too far behind, and old ones make room for new ones.
    @Test func keptChangesHaveALimit() async throws {
        try await WireRig.run {
            $0.door.changeBytesMax = 1 << 20
        } _: { rig in
            let login = try await rig.logIn()
            let one = try await Conversation(rig, login, library: "other")
            let start = try #require(try await one.list()["current"]?.string)
            var place = start
            for number in 0..<24 {
                let text = String(repeating: "\(number % 10)", count: 30_000)
                let change = try await one.make("M", "k\(number % 3)", ["d": .object(["t": .string(text)])])
                place = change["cv"]?.string ?? ""
            }
            let bytes = try await rig.wire.file(of: login.user, app: WireRig.app).read { reader in
                try [RecordKind.change, .version].reduce(0) { bytes, kind in
                    let range = RecordRange(space: RecordKind.space, kind: kind.rawValue)
                    let records = try reader.records.records(in: range, countMax: 10_000)
                    return records.reduce(bytes) { $0 + $1.value.count }
                }
            }
            #expect(bytes > 700_000 && bytes < 1 << 20, "\(bytes)")
            try await one.say("0:cv:\(start)")
            #expect(try await one.hear() == "0:cv:?")
            try await one.say("0:cv:\(place)")
            #expect(try await one.hear() == "0:c:[]")
            // What is there has not changed.
            let page = try await one.list("1:::10")
            #expect(page["index"]?.array?.map { $0["v"] } == [8, 8, 8])
            // An edit of a version that is gone.
            let edit = try await one.make("M", "k0", ["v": .edits("-30000\t+x"), "sv": 2])
            #expect(edit["error"] == 405)
        }
    }

    /// Whatever stands in a mark, the answer is a page, and no entity is in a listing twice.
    @Test func marksThatAreMadeUpGivePages() async throws {
        try await WireRig.run { rig in
            let one = try await Conversation(rig, try await rig.logIn(), library: "other")
            try await one.list()
            for number in 0..<12 { try await one.make("M", "k\(number)", ["v": .adds("x")]) }
            let first = try await one.list("0:::5"), mark = try #require(first["mark"]?.string)
            var random = SeededRandom(seed: 1)
            for number in 0..<500 {
                var digits = Array(mark.utf8)
                for _ in 0..<1 + random.below(8) {
                    digits[random.below(digits.count)] = random.pick(Array("0123456789abcdef".utf8))
                }
                let made = number % 5 == 0 ? "no-mark_\(number)" : String(decoding: digits, as: UTF8.self)
                let page = try await one.list("0:\(made):\(number % 3):5")
                let keys = page["index"]?.array?.compactMap { $0["id"]?.string } ?? []
                #expect(keys.count == Set(keys).count && keys.count <= 5, "\(made)")
                #expect(!keys.isEmpty || page["mark"] == nil, "\(made)")
            }
            #expect(try await one.list("0:\(mark)::100")["index"]?.array?.count == 7)
        }
    }

    @Test func changesAreLimited() async throws {
        try await WireRig.run {
            $0.changesPerMinuteMax = 200
        } _: { rig in
            let one = try await Conversation(rig, try await rig.logIn(), library: "other")
            try await one.list()
            await #expect(throws: TextClient.Closed(code: 1013)) {
                for number in 0...200 { try await one.send("M", "k", ["v": [:], "sv": .integer(Int64(number))]) }
                while true { _ = try await one.hear() }
            }
        }
    }

    @Test func largeOffsetsAreLimited() async throws {
        try await WireRig.run { rig in
            let one = try await Conversation(rig, try await rig.logIn(), library: "other")
            for _ in 0..<2 { #expect(try await one.list("0::\(Int.max):100")["index"]?.array == []) }
            await #expect(throws: TextClient.Closed(code: 1013)) { try await one.list("0::\(Int.max):100") }
        }
    }

    /// A long message takes many times its bytes once it is decoded: of one user it is one message at a time.
    @Test func longChangesTakeTurns() async throws {
        let admission = ChangeAdmission()
        var long = await admission.enter(8 << 20)
        #expect(long != nil)
        #expect(await admission.enter(ChangeAdmission.waitingBytesMax + 1) == nil)
        async let next = admission.enter(1)
        withExtendedLifetime(long) {}
        long = nil
        #expect(await next != nil)

        try await WireRig.run { rig in
            let login = try await rig.logIn(), zeros = String(repeating: "0,", count: 200_000) + "0"
            var clients: [Conversation] = []
            // Few enough that nobody who is not read yet counts as stalled.
            for number in 0..<3 {
                clients.append(try await Conversation(rig, login, client: "c\(number)", library: "other"))
                try await clients[number].list()
                for change in 0..<2 {
                    let head = #""o":"M","id":"k\#(number)","ccid":"\#(change)""#
                    try await clients[number].say("0:c:{\(head),\"d\":{\"n\":\(change),\"l\":[\(zeros)]}}")
                }
            }
            for client in clients {
                var own = 0
                while own < 2 {
                    let changes = try #require(try await client.hear("c").array)
                    own += changes.filter { $0["clientid"] == .string(client.client) }.count
                    #expect(changes.allSatisfy { $0["error"] == nil })
                }
            }
        }
    }

    /// An entity that changes leaves its former places behind, which listings pass over for a while.
    @Test func placesThatEntitiesHaveLeftAreLimited() async throws {
        try await WireRig.run {
            $0.skipsPerMinuteMax = 20
        } _: { rig in
            let one = try await Conversation(rig, try await rig.logIn(), library: "other")
            try await one.list()
            for number in 0..<30 { try await one.make("M", "k", ["d": .object(["n": .integer(Int64(number))])]) }
            for _ in 0..<2 { #expect(try await one.list("0:::10")["index"] == [["id": "k", "v": 30]]) }
            await #expect(throws: TextClient.Closed(code: 1013)) { try await one.list("0:::10") }
        }
    }

    /// A client waits for the answer to each for ever.
    @Test func eachChangeOfALongMessageIsAnswered() async throws {
        try await WireRig.run { rig in
            let one = try await Conversation(rig, try await rig.logIn(), library: "other")
            try await one.list()
            let changes = (0..<1_500).map { number in
                // Every other one lacks its operation.
                "{\"id\":\"k\",\"ccid\":\"c\(number)\"\(number % 2 == 0 ? "" : ",\"o\":\"-\"")}"
            }
            try await one.say("0:c:[\(changes.joined(separator: ","))]")
            var answered: Set<String> = []
            while answered.count < 1_500 {
                answered.formUnion(try await one.change()["ccids"]?.array?.compactMap(\.string) ?? [])
            }
            #expect(answered == Set((0..<1_500).map { "c\($0)" }))
        }
    }

    @Test func longMessagesComeInFragments() async throws {
        try await WireRig.run { rig in
            let one = try await Conversation(rig, try await rig.logIn(), library: "other")
            try await one.list()
            let text = String(repeating: "🐙", count: 200_000)
            #expect(try await one.make("M", "k", ["v": .adds(text)])["v"] == .adds(text))
            // It may be closed before all of it is sent.
            try? await one.say("0:c:" + String(repeating: " ", count: 8 << 20))
            await #expect(throws: TextClient.Closed(code: 1009)) { _ = try await one.hear() }
        }
    }

    /// A delta has three bytes for each of a text that is not ASCII. Node would come back for ever.
    @Test func messagesOfTheServerHaveALimit() async throws {
        try await WireRig.run {
            $0.apps[WireRig.app]?.otherBuckets?.entityBytesMax = 3 << 20
        } _: { rig in
            let one = try await Conversation(rig, try await rig.logIn())
            try await one.list()
            for (character, version) in [("é", 1), ("è", 2)] as [(String, Int64)] {
                let text = String(repeating: character, count: 1_400_000)
                try await one.send("M", "k", ["d": ["t": .string(text)]])
                let message = try await one.hear()
                #expect(message.utf8.count <= 4 << 20)
                let change = try #require(try JSON(message, after: "0:c:")?.array?.first)
                let isWhole = change["v"]?["t"] == ["o": version == 1 ? "+" : "r", "v": .string(text)]
                #expect(isWhole && change["ev"] == .integer(version))
            }
        }
    }

    @Test func strangersSayLittle() async throws {
        try await WireRig.run { rig in
            let token = try await rig.logIn().token, long = JSONValue.string(String(repeating: "x", count: 70_000))
            for path in ["/sock/1/my-app/websocket", "/sock/1/my-app/0/s/websocket"] {
                let client = try await rig.connect(path: path)
                try await client.send(Frame.opening(token, more: ["more": long]))
                await #expect(throws: TextClient.Closed(code: 1008)) { while true { _ = try await client.receive() } }
            }
        }
    }

    @Test func aRightThatIsWithdrawnEndsChannels() async throws {
        let right = Mutex(Permission.write)
        let authorizer = CallbackAuthorizer { _, _ in right.withLock { $0 } }
        try await WireRig.run(authorizer: authorizer) { rig in
            let one = try await Conversation(rig, try await rig.logIn())
            try await one.list()
            #expect(try await one.make("M", "k", ["v": .adds("x")])["ev"] == 1)
            right.withLock { $0 = .read }
            authorizer.changed()
            #expect(try await one.make("M", "k", ["v": .edits("=1\t+y"), "sv": 1])["error"] == 401)
            try await one.list()
            right.withLock { $0 = .none }
            authorizer.changed()
            #expect(try await one.hear() == "0:auth:{\"msg\":\"No right to the bucket\",\"code\":500}")
            #expect(try await one.make("M", "k", ["v": .adds("x")])["error"] == 401)
            right.withLock { $0 = .write }
            try await one.say(Frame.opening(try await rig.logIn(isNew: false).token))
            #expect(try await one.hear() == "0:auth:ann@example.com")
        }
    }

    /// At the next look at it, or if an operator has ended it at once.
    @Test(arguments: [false, true]) func anEndedLoginEndsItsChannels(isByOperator: Bool) async throws {
        try await WireRig.run {
            $0.loginCheckSeconds = isByOperator ? 86_400 : 0
        } _: { rig in
            let login = try await rig.logIn()
            let one = try await Conversation(rig, login), old = try await Conversation(rig, login, more: ["api": 1])
            try await one.list()
            rig.clock.advance(by: 400 * 86_400)
            if isByOperator { rig.wire.recheckLogins(of: login.user) }
            #expect(try await old.hear() == "0:auth:expired")
            #expect(try await old.hear() == "0:auth:{\"msg\":\"Token invalid\",\"code\":401}")
            #expect(try await one.hear() == "0:auth:{\"msg\":\"Token invalid\",\"code\":401}")
            #expect(try await one.make("M", "k", ["v": .adds("x")])["error"] == 401)
        }
    }
}
