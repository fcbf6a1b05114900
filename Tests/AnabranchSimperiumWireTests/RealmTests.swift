import AnabranchCore
import AnabranchHistory
import AnabranchServer
import AnabranchTestClient
import Synchronization
import Testing

@testable import AnabranchSimperiumWire

/// Clients of Realm's wire on the same file (`Spec/Simperium.md`, section 7).
@Suite(.timeLimit(.minutes(30))) struct RealmTests {
    @Test(arguments: [BucketForm.flat, .deep]) func bothSeeTheSame(form: BucketForm) async throws {
        try await WireRig.run {
            $0.apps[WireRig.app]?.otherBuckets?.form = form
        } _: { rig in
            let login = try await rig.logIn()
            let one = try await Conversation(rig, login, library: "other")
            try await one.list()
            let members: [String: JSONValue] = [
                "t": "text", "n": 1, "r": .real(1.5), "yes": true, "nothing": .null, "list": [1, ["a"], ["x.y": "$z"]],
                "object": ["$a": ["b.c%": 1]], "a.b": 2, "$c": 3, "%24": 4, "": 5,
            ]
            try await one.make("M", "k", ["d": .object(members)])
            let realm = try await rig.realmClient(login.user)
            try await realm.download()
            let bucket = Bucket(number: 1, name: "note", form: form, className: Array("note".utf8))
            let seen = try await realm.read { tx in try tx.state.entity("k", of: bucket) }
            #expect(seen.map(JSONValue.object) == .object(members))
            try await realm.read { tx in
                let object = try #require(try tx.object("note", key: "k"))
                let body = try object.dictionary("body")
                #expect(try body.value(for: "t") == "text" && body.value(for: "a%2Eb") == 2)
                #expect(try body.value(for: "%24c") == 3 && body.value(for: "%2524") == 4)
                if form == .flat {
                    #expect(try body.value(for: "list") == nil)
                    #expect(try object.dictionary("nested").value(for: "list") == #"[1,["a"],{"x.y":"$z"}]"#)
                } else {
                    #expect(try body.value(for: "list") == .list)
                    #expect(try body.dictionary(for: "object").dictionary(for: "%24a").value(for: "b%2Ec%25") == 1)
                }
            }
            // And the other way round.
            try await realm.write { tx in
                let body = try #require(try tx.object("note", key: "k")).dictionary("body")
                try body.set("other text", for: "t")
                try body.remove("n")
                try tx.create("note", key: "new")
            }
            try await realm.upload()
            var changes: [JSONValue] = []
            while changes.count < 2 { changes += try await one.hear("c").array ?? [] }
            #expect(changes.allSatisfy { $0["clientid"] == "anabranch" && $0["ccids"] == [] })
            #expect(changes[0]["sv"] == 1 && changes[0]["ev"] == 2 && changes[0]["v"]?["n"] == ["o": "-"])
            #expect(changes[1]["id"] == "new" && changes[1]["sv"] == nil && changes[1]["v"] == [:])
            #expect(changes[0]["cv"] != changes[1]["cv"])
            // A value of another kind.
            let other: JSONValue = ["list": ["o": "r", "v": "none"], "t": ["o": "r", "v": [1]]]
            try await one.make("M", "k", ["v": other, "sv": 2])
            try await realm.download()
            let last = try await realm.read { tx in try tx.state.entity("k", of: bucket) }
            #expect(last?["list"] == "none" && last?["t"] == [1])
            try await realm.write { tx in
                try tx.delete(try #require(try tx.object("note", key: "k")))
            }
            try await realm.upload()
            let deletion = try await one.change()
            #expect(deletion["o"] == "-" && deletion["sv"] == 3 && deletion["ev"] == 4)
        }
    }

    /// An edit that a Realm client has made before loses, also if that was in the same second.
    @Test func theLaterOfTwoEditsInASecondWins() async throws {
        let second = Double(WireRig.Clock().now), time = Mutex(second)
        let disk = try WireRig.Disk(preciseSeconds: { time.withLock { $0 } })
        try await WireRig.run(on: disk) { rig in
            let login = try await rig.logIn()
            let one = try await Conversation(rig, login, library: "other")
            try await one.list()
            try await one.make("M", "k", ["d": ["n": 1]])
            let realm = try await rig.realmClient(login.user)
            try await realm.download()
            try await realm.write(at: ChangesetTime(secondsSince1970: second + 0.5)) { tx in
                try #require(try tx.object("note", key: "k")).dictionary("body").set(2, for: "n")
            }
            time.withLock { $0 = second + 0.9 }
            try await one.make("M", "k", ["d": ["n": 3]])
            try await realm.upload()
            try await realm.download()
            #expect(try await one.entity("k") == ["n": 3])
        }
    }

    @Test func valuesThatJSONLacksAreTexts() async throws {
        try await WireRig.run { rig in
            let login = try await rig.logIn()
            let realm = try await rig.realmClient(login.user)
            try await realm.write { tx in
                try BucketForm.flat.addClass("note", tx)
                let body = try tx.create("note", key: "k").dictionary("body")
                try body.set(.binary([0, 255]), for: "data")
                try body.set(.timestamp(Timestamp(seconds: 1, nanoseconds: 500_000_000)), for: "at")
                try body.set(.float(0.1), for: "f")
                try body.set(.double(.nan), for: "none")
                try body.set(.decimal(12), for: "price")
            }
            try await realm.upload()
            let one = try await Conversation(rig, login, library: "other")
            let entity = try await one.list()["index"]?.array?.first?["d"]
            let seen: JSONValue = [
                "data": "AP8=", "at": "1970-01-01T00:00:01.500Z", "f": .real(0.1), "none": .null, "price": "12",
            ]
            #expect(entity == seen)
        }
    }

    @Test func objectsThatWereThereAreEntities() async throws {
        try await WireRig.run { rig in
            let login = try await rig.logIn()
            let realm = try await rig.realmClient(login.user)
            try await realm.write { tx in
                try BucketForm.flat.addClass("note", tx)
                for key in ["a", "b", "with/slash", ""] {
                    try tx.create("note", key: PrimaryKey(stringLiteral: key)).dictionary("body").set("x", for: "t")
                }
                // A class that is none of a bucket.
                try tx.addClass("other", key: "id", .int)
                try tx.create("other", key: 1)
            }
            try await realm.upload()
            let one = try await Conversation(rig, login, library: "other")
            let entries = try await one.list()["index"]?.array ?? []
            #expect(entries.map { $0["id"]?.string }.sorted { ($0 ?? "") < ($1 ?? "") } == ["a", "b"])
            #expect(entries.allSatisfy { $0["v"] == 1 && $0["d"] == ["t": "x"] })
            #expect(try await one.make("M", "a", ["v": .edits("=1\t+y"), "sv": 1])["ev"] == 2)
            // A bucket whose name is that of another class has a class of its own.
            let two = try await Conversation(rig, login, client: "two", library: "other", bucket: "other")
            try await two.list()
            try await two.make("M", "k", ["v": .adds("x")])
            try await realm.download()
            let names = try await realm.read { $0.classNames }
            #expect(names.filter { $0.hasPrefix("b_other_") }.count == 1)
            // One that a Realm client makes later is found, too.
            try await realm.write { tx in
                try BucketForm.deep.addClass("later", tx)
                try tx.create("later", key: "k")
            }
            let three = try await Conversation(rig, login, client: "three", library: "other", bucket: "later")
            #expect(try await three.list()["index"] == [])
            try await realm.upload()
            #expect(try await three.change()["id"] == "k")
        }
    }

    /// As after `admin doors --drop`, or in a store that was imported: entities are in the class that their bucket had,
    /// whatever the name of that.
    @Test func bucketsWithoutRecordsAreFoundByTheirClasses() async throws {
        try await WireRig.run { rig in
            let login = try await rig.logIn()
            let realm = try await rig.realmClient(login.user)
            try await realm.write { tx in try tx.addClass("other", key: "id", .int) }
            try await realm.upload()
            let buckets = ["note", "my-notes", "other"]
            for bucket in buckets {
                let one = try await Conversation(rig, login, library: "other", bucket: bucket)
                try await one.list()
                try await one.make("M", bucket, ["v": .adds("x")])
                await one.socket.cut()
            }
            let path = VirtualPath(app: WireRig.app, partition: SimperiumWire.partition(of: login.user))
            let drop = HeadWrite(at: 0) { _, records in
                for kind in RecordKind.allCases {
                    let range = RecordRange(space: RecordKind.space, kind: kind.rawValue)
                    for record in try records.records(in: range, countMax: 1_000) { records.set(nil, at: record.place) }
                }
                return []
            }
            _ = try await rig.server.write([drop], atHeadOf: path)
            for bucket in buckets {
                let one = try await Conversation(rig, login, library: "other", bucket: bucket)
                #expect(try await one.list()["index"] == [["id": .string(bucket), "v": 1, "d": ["t": "x"]]])
                #expect(try await one.make("M", bucket, ["v": .edits("=1\t+y"), "sv": 1])["ev"] == 2)
            }
        }
    }

    /// Also if a Realm client writes to it before the bucket is opened, as after a loss of the records.
    @Test func aNameThatWasMadeForABucketStaysThatOfItsClass() async throws {
        try await WireRig.run { rig in
            let login = try await rig.logIn(), className = BucketName.classNames("my-notes")[0]
            let one = try await Conversation(rig, login, library: "other")
            try await one.list()
            let path = VirtualPath(app: WireRig.app, partition: SimperiumWire.partition(of: login.user))
            try await rig.server.write(to: path) { tx in
                try BucketForm.flat.addClass(className, tx)
                try tx.create(className, key: "k").dictionary("body").set("x", for: "t")
            }
            let others = try await Conversation(rig, login, library: "other", bucket: className)
            #expect(try await others.list()["index"] == [])
            let two = try await Conversation(rig, login, library: "other", bucket: "my-notes")
            #expect(try await two.list()["index"] == [["id": "k", "v": 1, "d": ["t": "x"]]])
            #expect(try await two.make("M", "k", ["v": .edits("=1\t+y"), "sv": 1])["ev"] == 2)
        }
    }

    /// Otherwise nobody could write to the bucket any more.
    @Test func aClassThatIsErasedIsMadeAgain() async throws {
        try await WireRig.run { rig in
            let login = try await rig.logIn()
            let one = try await Conversation(rig, login, library: "other")
            try await one.list()
            try await one.make("M", "k", ["v": .adds("x")])
            let path = VirtualPath(app: WireRig.app, partition: SimperiumWire.partition(of: login.user))
            try await rig.server.write(to: path) { tx in try tx.eraseClass("note") }
            let gone = try await one.change()
            #expect(gone["o"] == "-" && gone["sv"] == 1 && gone["ev"] == 2)
            #expect(try await one.make("M", "k", ["v": .adds("y")])["ev"] == 3)
            #expect(try await one.entity("k") == ["t": "y"])
        }
    }

    @Test(arguments: [false, true]) func entriesThatTheDoorHasMissedBeginANewHistory(isDurable: Bool) async throws {
        let disk = try WireRig.Disk(isDurable: isDurable)
        let (login, cv) = try await WireRig.run(on: disk) { rig in
            let login = try await rig.logIn()
            let one = try await Conversation(rig, login, library: "other")
            try await one.list()
            for key in ["a", "b", "c"] { try await one.make("M", key, ["v": .adds(key)]) }
            let last = try await one.make("-", "c")
            return (login, last["cv"]?.string ?? "")
        }
        // Without the door, as a command writes to a stopped store.
        try await WireRig.run(on: disk) {
            $0.apps = [:]
        } _: { rig in
            let path = VirtualPath(app: WireRig.app, partition: SimperiumWire.partition(of: login.user))
            try await rig.server.write(to: path) { tx in
                try tx.delete(try #require(try tx.object("note", key: "a")))
                try #require(try tx.object("note", key: "b")).dictionary("body").set("unseen", for: "t")
                try tx.create("note", key: "d")
            }
        }
        try await WireRig.run(on: disk) { rig in
            let one = try await Conversation(rig, login, library: "other")
            try await one.say("0:cv:\(cv)")
            #expect(try await one.hear() == "0:cv:?")
            let entries = try await one.list()["index"]?.array ?? []
            let seen = [#"{"d":{"t":"unseen"},"id":"b","v":2}"#, #"{"d":{},"id":"d","v":1}"#]
            #expect(entries.map(\.encoded).sorted() == seen.sorted())
            // Nobody edits what he has not seen.
            #expect(try await one.make("M", "b", ["v": .edits("=1\t+x"), "sv": 1])["error"] == 405)
            #expect(try await one.make("M", "a", ["v": .adds("x")])["ev"] == 3)
            #expect(try await one.make("M", "b", ["v": .edits("=6\t+!"), "sv": 2])["ev"] == 3)
        }
    }

    @Test func whoeverIsConnectedWhileANewHistoryBeginsComesBack() async throws {
        try await WireRig.run { rig in
            let login = try await rig.logIn()
            let one = try await Conversation(rig, login, library: "other")
            let last = try await one.list()["current"]?.string ?? ""
            try await one.make("M", "k", ["v": .adds("x")])
            // As after an entry by a server without the door.
            let path = VirtualPath(app: WireRig.app, partition: SimperiumWire.partition(of: login.user))
            let missing = HeadWrite(at: ChangesetTime(secondsSince1970: 0)) { _, records in
                guard var door = try records.door() else { return [] }
                door.position = 0
                records.set(door)
                return []
            }
            _ = try await rig.server.write([missing], atHeadOf: path)
            try await rig.server.write(to: path) { tx in _ = try tx.create("note", key: "unseen") }
            try await rig.server.write(to: path) { tx in _ = try tx.create("note", key: "seen") }
            await #expect(throws: TextClient.Closed(code: 1013)) { _ = try await one.hear() }
            let two = try await Conversation(rig, login, library: "other")
            try await two.say("0:cv:\(last)")
            #expect(try await two.hear() == "0:cv:?")
            #expect(try await two.list()["index"]?.array?.count == 3)
        }
    }

    @Test(arguments: [false, true]) func aRestartForgetsNothing(isDurable: Bool) async throws {
        let disk = try WireRig.Disk(isDurable: isDurable)
        let (login, cv, ident) = try await WireRig.run(on: disk) { rig in
            let login = try await rig.logIn()
            let one = try await Conversation(rig, login, library: "other")
            try await one.list()
            let first = try await one.make("M", "k", ["v": .adds("x")])
            let second = try await one.make("M", "k", ["v": .edits("=1\t+y"), "sv": 1])
            return (login, first["cv"]?.string ?? "", second["ccids"]?.array?.first?.string ?? "")
        }
        try await WireRig.run(on: disk) { rig in
            let one = try await Conversation(rig, login, library: "other")
            try await one.say("0:cv:\(cv)")
            #expect(try await one.change()["ev"] == 2)
            try await one.say(Conversation.change("M", "k", ident, ["v": .edits("=1\t+y"), "sv": 1]))
            #expect(try await one.change()["error"] == 409)
            try await one.say("0:e:k.1")
            #expect(try await one.hear() == "0:e:k.1\n{\"data\":{\"t\":\"x\"}}")
        }
    }
}
