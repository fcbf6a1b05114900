import AnabranchCore
import AnabranchHistory
import NIOHTTP1
import Testing

@testable import AnabranchServer
@testable import AnabranchSimperiumWire

/// Listings, entities and catching up (`Spec/Simperium.md`, section 8).
@Suite(.timeLimit(.minutes(30))) struct ReadingTests {
    private static func fill(_ one: Conversation, _ count: Int) async throws {
        for number in 0..<count {
            try await one.send("M", "k\(number)", ["v": ["n": ["o": "+", "v": .integer(Int64(number))]]])
        }
        var told = 0
        while told < count { told += try await one.hear("c").array?.count ?? 0 }
    }

    @Test func aListingIsThatOfOneMoment() async throws {
        try await WireRig.run { rig in
            let login = try await rig.logIn()
            let one = try await Conversation(rig, login, library: "other")
            try await one.list()
            try await Self.fill(one, 25)
            let two = try await Conversation(rig, login, client: "two")
            var page = try await two.list("1:::10"), current = page["current"], keys: [String] = []
            keys += (page["index"]?.array ?? []).compactMap { $0["id"]?.string }
            // Between the pages one is changed, one deleted, one added.
            try await one.make("M", "k3", ["v": ["n": ["o": "r", "v": 33]], "sv": 1])
            try await one.make("-", "k4")
            try await one.make("M", "new", ["v": .adds("x")])
            while let mark = page["mark"]?.string {
                #expect(mark.utf8.allSatisfy { "0123456789abcdef".utf8.contains($0) })
                page = try await two.list("1:\(mark)::10")
                #expect(page["current"] == current)
                for entry in page["index"]?.array ?? [] {
                    keys.append(entry["id"]?.string ?? "")
                    #expect(entry["v"] == 1 && entry["d"]?["n"]?.integer.map { "k\($0)" } == entry["id"]?.string)
                }
            }
            #expect(keys == (0..<25).reversed().map { "k\($0)" })
            // And then what has come since.
            var told = try await two.hear("c").array ?? []
            while told.count < 3 { told += try await two.hear("c").array ?? [] }
            #expect(told.map { $0["id"] } == ["k3", "k4", "new"])
            current = told.last?["cv"]
            try await two.say("0:cv:\(current?.string ?? "")")
            #expect(try await two.hear() == "0:c:[]")
        }
    }

    @Test(arguments: [0, 1, 9, 10, 11, 20]) func noPageIsEmptyButTheOnly(count: Int) async throws {
        try await WireRig.run { rig in
            let one = try await Conversation(rig, try await rig.logIn(), library: "other")
            try await one.list()
            try await Self.fill(one, count)
            var page = try await one.list(":::10"), pages = 1, entries = page["index"]?.array?.count ?? 0
            while let mark = page["mark"]?.string {
                page = try await one.list(":\(mark)::10")
                pages += 1
                entries += page["index"]?.array?.count ?? 0
                #expect(page["index"] != [])
            }
            #expect(pages == max(1, (count + 9) / 10) && entries == count)
            #expect(page["index"]?.array?.allSatisfy { $0["d"] == nil } == true)
        }
    }

    @Test func pagesAndFramesAreShort() async throws {
        try await WireRig.run { rig in
            let one = try await Conversation(rig, try await rig.logIn(), library: "other")
            try await one.list()
            let text = String(repeating: "é", count: 200_000)
            for number in 0..<8 { try await one.make("M", "k\(number)", ["v": .adds(text)]) }
            let large = String(repeating: "y", count: (1 << 20) - 20)
            try await one.make("M", "large", ["v": .adds(large)])
            var mark = "", counts: [Int] = []
            repeat {
                try await one.say("0:i:1:\(mark)::")
                let message = try await one.hear()
                #expect(message.utf8.count <= (1 << 20) + 600)
                let page = try #require(try JSON(message, after: "0:i:"))
                counts.append(page["index"]?.array?.count ?? 0)
                mark = page["mark"]?.string ?? ""
            } while !mark.isEmpty
            #expect(counts == [1, 2, 2, 2, 2] && one.socket.longestFrame <= 1 << 20)
        }
    }

    @Test func marksThatWereMadeUpBeginAnew() async throws {
        try await WireRig.run { rig in
            let one = try await Conversation(rig, try await rig.logIn(), library: "other")
            try await one.list()
            try await Self.fill(one, 3)
            let first = try await one.list("0:::2"), mark = try #require(first["mark"]?.string)
            for wrong in [
                "x", "m/1", String(repeating: "0", count: 88), String(repeating: "f", count: 88),
                String(mark.dropLast(2)) + "zz", String(mark.dropLast()), "ff" + mark.dropFirst(2),
            ] { #expect(try await one.list("0:\(wrong)::2") == first, "\(wrong)") }
            #expect(try await one.list("0:\(mark):-5:2")["index"]?.array?.count == 1)
            #expect(try await one.list("::1:99999")["index"]?.array?.count == 2)
            #expect(try await one.list("")["index"]?.array?.count == 3)
            // Everything is still there as it was, until something changes.
            rig.clock.advance(by: 86_400)
            #expect(try await one.list("0:\(mark)::2")["index"]?.array?.count == 1)
            try await one.make("M", "new", ["v": .adds("x")])
            #expect(try await one.list("0:\(mark)::2")["index"]?.array?.first?["id"] == "new")
        }
    }

    @Test func entitiesAreReadAsTheyWere() async throws {
        try await WireRig.run { rig in
            let one = try await Conversation(rig, try await rig.logIn(), library: "android")
            try await one.list()
            try await one.make("M", "a.b", ["v": .adds("1")])
            for version in 1..<70 {
                try await one.make("M", "a.b", ["v": .edits("=\(version)\t+x"), "sv": .integer(Int64(version))])
            }
            try await one.make("-", "a.b")
            try await one.make("M", "a.b", ["v": .adds("again")])
            for version in 1...70 {
                try await one.say("0:e:a.b.\(version)")
                let text = "1" + String(repeating: "x", count: version - 1)
                #expect(try await one.hear() == "0:e:a.b.\(version)\n{\"data\":{\"t\":\"\(text)\"}}")
            }
            for (version, data) in [
                ("71", "?"), ("72", "{\"data\":{\"t\":\"again\"}}"), ("73", "?"), ("0", "?"), ("-1", "?"),
                ("undefined", "?"), ("99999999999999999999999", "?"),
            ] {
                try await one.say("0:e:a.b.\(version)")
                #expect(try await one.hear() == "0:e:a.b.\(version)\n\(data)")
            }
            for name in ["none.1", "nothing", "", ".", "a/b.1"] {
                try await one.say("0:e:\(name)")
                #expect(try await one.hear() == "0:e:\(name)\n?")
            }
        }
    }

    /// A client may ask before it has listed, and the bucket may be younger than its channel.
    @Test func entitiesAreReadWithoutAListing() async throws {
        try await WireRig.run { rig in
            let login = try await rig.logIn(), key = String(repeating: "é", count: 400)
            let one = try await Conversation(rig, login, library: "android")
            let two = try await Conversation(rig, login, client: "two", library: "other")
            try await two.list()
            try await two.make("M", "k", ["v": .adds("x")])
            try await one.say("0:e:k.1")
            #expect(try await one.hear() == "0:e:k.1\n{\"data\":{\"t\":\"x\"}}")
            try await one.say("0:e:\(key).1")
            #expect(try await one.hear() == "0:e:\(key).1\n?")
        }
    }

    @Test func catchingUpTellsEverythingOnce() async throws {
        try await WireRig.run { rig in
            let login = try await rig.logIn()
            let one = try await Conversation(rig, login, library: "other")
            let empty = try #require(try await one.list()["current"]?.string)
            try await Self.fill(one, 250)
            let two = try await Conversation(rig, login, client: "two")
            try await two.say("0:cv:\(empty)")
            var cvs: [String] = [], messages = 0
            while cvs.count < 250 {
                let changes = try await two.hear("c").array ?? []
                #expect(changes.count <= 100)
                cvs += changes.compactMap { $0["cv"]?.string }
                messages += 1
            }
            #expect(messages == 3 && Set(cvs).count == 250)
            try await two.say("0:cv:\(cvs[200])")
            #expect(try await two.hear("c").array?.compactMap { $0["cv"]?.string } == Array(cvs[201...]))
            for unknown in ["", "x", String(repeating: "0", count: 40), String(repeating: "f", count: 40)] {
                try await two.say("0:cv:\(unknown)")
                #expect(try await two.hear() == "0:cv:?")
            }
            // Not listening any more, until it lists or knows a version.
            try await one.make("M", "late", ["v": .adds("x")])
            #expect(try await two.isSilent())
            try await two.say("0:cv:\(cvs[249])")
            #expect(try await two.change()["id"] == "late")
        }
    }

    @Test func aVersionOfAnotherBucketIsUnknown() async throws {
        try await WireRig.run { rig in
            let login = try await rig.logIn()
            let one = try await Conversation(rig, login, library: "other")
            let two = try await Conversation(rig, login, client: "two", library: "other", bucket: "b")
            let first = try #require(try await one.list()["current"]?.string)
            let second = try #require(try await one.make("M", "k", ["v": .adds("x")])["cv"]?.string)
            let others = try #require(try await two.list()["current"]?.string)
            for cv in [first, second] {
                try await two.say("0:cv:\(cv)")
                #expect(try await two.hear() == "0:cv:?")
            }
            try await two.say("0:cv:\(others)")
            #expect(try await two.hear() == "0:c:[]")
        }
    }

    @Test func theAuthorOfAnEntryIsTheClient() async throws {
        try await WireRig.run { rig in
            let login = try await rig.logIn(), user = login.user
            let one = try await Conversation(rig, login, client: "one", library: "other")
            try await one.list()
            try await one.make("M", "k", ["v": .adds("x")])
            let path = VirtualPath(app: WireRig.app, partition: SimperiumWire.partition(of: user))
            _ = try await rig.server.write(to: path) { tx in
                try #require(try tx.object("note", key: "k")).dictionary("body").set(1, for: "n")
            }
            _ = try await one.change()
            let authors = try await rig.wire.file(of: user, app: WireRig.app).read { reader in
                try (1...reader.door.position.rawValue).map { version in
                    try SimperiumWire.author(of: ServerVersion(rawValue: version), at: path, in: reader.records)
                }
            }
            #expect(authors.compactMap(\.self) == ["simperium/\(user)/one"] && authors.last == .some(nil))
        }
    }

    /// One write may change more than is kept of it: whoever follows the bucket has to read it anew.
    @Test func nobodyIsToldAPartOfAWrite() async throws {
        try await WireRig.run {
            $0.door.changeBytesMax = 4_096
        } _: { rig in
            let login = try await rig.logIn(), token = login.token
            let path = VirtualPath(app: WireRig.app, partition: SimperiumWire.partition(of: login.user))
            func write(_ name: String) async throws {
                _ = try await rig.server.write(to: path) { tx in
                    for number in 0..<30 {
                        let key = PrimaryKey(stringLiteral: "\(name)\(number)")
                        try tx.create("note", key: key).dictionary("body").set("x", for: "t")
                    }
                }
            }
            let one = try await Conversation(rig, login, library: "other")
            try await one.list()
            try await one.make("M", "k", ["v": .adds("x")])
            try await write("a")
            await #expect(throws: TextClient.Closed(code: 1013)) { try await one.hear() }
            let followers = try rig.server.runningFiles().environment.followers
            while followers.isFollowed(path) { await Task.yield() }
            let endpoints = SimperiumEndpoints(rig.services, rig.wire)
            async let news = endpoints.respond(
                to: EndpointRequest(
                    method: .GET, path: "/1/my-app/note/changes", headers: ["X-Simperium-Token": token],
                    body: .whole([])))
            while !followers.isFollowed(path) { await Task.yield() }
            try await write("b")
            #expect(await news.status == .notFound)
        }
    }

    /// No change makes room for thousands that come after it.
    @Test func changesAreForgottenLittleByLittle() async throws {
        try await WireRig.run {
            $0.door.changeBytesMax = 1 << 18
        } _: { rig in
            let login = try await rig.logIn(), one = try await Conversation(rig, login, library: "other")
            try await one.list()
            let file = try rig.wire.file(of: login.user, app: WireRig.app)
            var before = 0, most = 0
            for number in 0..<800 {
                try await one.make("M", "k\(number)", ["v": .adds("x")])
                let kept = try await file.read { reader in
                    try reader.records.bucket(named: "note").flatMap { try reader.records.keptChanges(of: $0) }
                }
                let count = Int(kept?.count ?? 0)
                (before, most) = (count, max(most, before + 1 - count))
            }
            #expect((1...4).contains(most), "\(most)")
        }
    }

    @Test func oldChangesAreForgotten() async throws {
        try await WireRig.run {
            $0.door.changesMin = 1
        } _: { rig in
            let login = try await rig.logIn()
            let one = try await Conversation(rig, login, library: "other")
            let empty = try #require(try await one.list()["current"]?.string)
            let first = try #require(try await one.make("M", "k", ["v": .adds("x")])["cv"]?.string)
            rig.clock.advance(by: 31 * 86_400)
            // There is nothing that it could have missed.
            try await one.say("0:cv:\(first)")
            #expect(try await one.hear() == "0:c:[]")
            let second = try #require(
                try await one.make("M", "k", ["v": .edits("=1\t+y"), "sv": 1])["cv"]?.string)
            try await one.say("0:cv:\(empty)")
            #expect(try await one.hear() == "0:cv:?")
            for (cv, count) in [(first, 1), (second, 0)] {
                try await one.say("0:cv:\(cv)")
                #expect(try await one.hear("c").array?.count == count)
            }
        }
    }

    /// Of a bucket that changes little, a client may have missed years.
    @Test func theNewestChangesAreKeptHoweverOldTheyAre() async throws {
        try await WireRig.run { rig in
            let login = try await rig.logIn()
            let one = try await Conversation(rig, login, library: "other")
            let empty = try #require(try await one.list()["current"]?.string)
            for number in 0..<3 {
                try await one.make("M", "k\(number)", ["v": .adds("x")])
                rig.clock.advance(by: 40 * 86_400)
            }
            try await one.say("0:cv:\(empty)")
            #expect(try await one.hear("c").array?.map { $0["id"] } == ["k0", "k1", "k2"])
        }
    }
}
