import AnabranchCore
import AnabranchServer
import AnabranchSimperium
import AnabranchTestClient
import Testing

@testable import AnabranchSimperiumWire

/// Buckets whose entities are objects of a class that the app has (`Spec/Simperium.md`, section 7).
@Suite(.timeLimit(.minutes(30))) struct TypedTests {
    // MARK: Values

    @Test func valuesOfEachTypeAreSeenByBoth() async throws {
        try await WireRig.runTyped { _, _, one, realm in
            #expect(try await one.create("k", TypedClasses.full) == .text(TypedClasses.full))
            try await realm.download()
            try await realm.read { tx in
                let object = try #require(try tx.object("note", key: "k"))
                for (name, value) in [
                    ("t", "text"), ("s", "more"), ("n", -3), ("m", 4), ("yes", true), ("r", 1.5), ("f", .float(0.1)),
                    ("at", .timestamp(Timestamp(seconds: 1_709_208_000, nanoseconds: 0))), ("data", .binary([0, 255])),
                    ("oid", ObjectID("0123456789abcdef01234567").map(Payload.objectID) ?? .null),
                    ("uuid", UUIDBytes(text: "00112233445566778899aabbccddeeff").map(Payload.uuid) ?? .null),
                    ("price", Decimal128("12.50").map(Payload.decimal) ?? .null), ("any", .dictionary),
                    ("other", .link(className: Array("note".utf8), key: "target")),
                    ("tag", .link(className: Array("tag".utf8), key: 7)),
                ] as [(String, Payload)] {
                    #expect(try object.value(name) == value, "\(name)")
                }
                #expect(try object.list("list").values == [1, 2, 2])
                #expect(try object.set("set").values == ["a", "b"])
                let entries = try object.dictionary("dict")
                #expect(try entries.keys == ["", "%24c", "50%25", "a%2Eb"])
                #expect(try entries.value(for: "a%2Eb") == 1 && entries.value(for: "") == .null)
                #expect(try object.dictionary("any").list(for: "x%2Ey").values == [1, "z", .dictionary])
                #expect(try object.object("place")?.value("name") == "here")
                #expect(try object.list("places").object(at: 1).value("x") == 2.5)
                #expect(try object.dictionary("spots").object(for: "at%2Ehome")?.value("x") == -1.0)
                #expect(try object.list("others").count == 2)
            }
        }
    }

    @Test func whatIsNotGivenIsAsInANewObject() async throws {
        try await WireRig.runTyped { _, _, one, realm in
            #expect(try await one.entity("target") == .text(TypedClasses.initial))
            let change = try await one.make("M", "k", ["v": .adds("x")])
            #expect(change["v"]?["t"] == ["o": "+", "v": "x"] && change["v"]?["yes"] == ["o": "+", "v": false])
            #expect(change["v"]?["s"] == nil)
            let made = try await one.edit("k", at: 1, #"{"place":{"o":"+","v":{}},"m":{"o":"+","v":null}}"#)
            #expect(try made["v"] == .text(#"{"place":{"o":"+","v":{"x":0,"visits":0}}}"#))
            #expect(try await one.edit("k", at: 2, #"{"m":{"o":"+","v":null}}"#)["error"] == 412)
            // What is removed is null, or as in a new object.
            try await one.edit("k", at: 2, #"{"n":{"o":"r","v":5},"m":{"o":"+","v":5},"list":{"o":"r","v":[1]}}"#)
            let removed = try await one.edit(
                "k", at: 3,
                #"{"t":{"o":"-"},"n":{"o":"-"},"m":{"o":"-"},"list":{"o":"-"},"place":{"o":"-"},"yes":{"o":"-"}}"#)
            let told = """
                {"t":{"o":"d","v":"-1"},"n":{"o":"r","v":0},"m":{"o":"-"},"list":{"o":"r","v":[]},"place":{"o":"-"}}
                """
            #expect(try removed["v"] == .text(told))
            #expect(try await one.entity("k") == .text(TypedClasses.initial))
            #expect(try await one.make("M", "k", ["d": [:]])["error"] == 412)
            try await realm.download()
            let place = try await realm.read { try #require(try $0.object("note", key: "k")).value("place") }
            #expect(place == .null)
        }
    }

    @Test func changesOfARealmClientAreTold() async throws {
        try await WireRig.runTyped { _, _, one, realm in
            _ = try await one.create("k", TypedClasses.full)
            try await realm.download()
            try await realm.write { tx in
                let object = try #require(try tx.object("note", key: "k"))
                try object.set("t", to: "texts")
                try object.add(4, to: "n")
                try object.set("price", to: .null)
                try object.set("at", to: .timestamp(Timestamp(seconds: -1, nanoseconds: -500_000_001)))
                try object.list("list").remove(at: 0)
                try object.set("set").insert("c")
                try object.dictionary("dict").remove("a%2Eb")
                try #require(try object.object("place")).set("x", to: 3.5)
                try object.list("places").object(at: 0).set("name", to: "new")
                try object.set("tag", to: .null)
                try object.set("r", to: .double(.infinity))
            }
            try await realm.upload()
            let change = try await one.change()
            let delta = TextDelta(from: "2024-02-29T12:00:00.000Z", to: "1969-12-31T23:59:58.499999999Z")
            let told = """
                {"t":{"o":"d","v":"=4\\t+s"},"n":{"o":"r","v":1},"price":{"o":"-"},
                "at":{"o":"d","v":\(JSONValue.string(delta.encoded).encoded)},
                "list":{"o":"r","v":[2,2]},"set":{"o":"r","v":["a","b","c"]},"dict":{"o":"O","v":{"a.b":{"o":"-"}}},
                "place":{"o":"O","v":{"x":{"o":"r","v":3.5}}},
                "places":{"o":"r","v":[{"x":1,"name":"new","visits":0},{"x":2.5,"name":"there","visits":2}]},
                "tag":{"o":"-"},"r":{"o":"-"}}
                """
            #expect(try change["v"] == .text(told))
            #expect(change["clientid"] == "anabranch" && change["sv"] == 1 && change["ev"] == 2)
            // What JSON cannot say stays as it is.
            let whole = try #require(try await one.entity("k")?.members?.merging(["yes": false]) { $1 })
            #expect(try await one.make("M", "k", ["d": .object(whole)])["v"] == ["yes": ["o": "r", "v": false]])
            try await realm.download()
            let number = try await realm.read { try #require(try $0.object("note", key: "k")).value("r") }
            #expect(number == .double(.infinity))
        }
    }

    @Test func valuesThatSayTheSameInOtherWordsChangeNothing() async throws {
        try await WireRig.runTyped { _, _, one, _ in
            _ = try await one.create("k", TypedClasses.full)
            let same = #"{"at":{"o":"r","v":"2024-02-29T13:00:00+01:00"},"price":{"o":"r","v":"12.5"}}"#
            #expect(try await one.edit("k", at: 1, same)["error"] == 412)
            // What a class keeps otherwise is told as it is kept.
            let other = #"{"uuid":{"o":"r","v":"FF112233445566778899AABBCCDDEEFF"},"set":{"o":"r","v":["b","a","b"]}}"#
            let change = try await one.edit("k", at: 1, other)
            #expect(change["v"]?["set"] == nil && change["v"]?["uuid"]?["o"] == "d")
            #expect(try await one.entity("k")?["uuid"] == "ff112233-4455-6677-8899-aabbccddeeff")
        }
    }

    @Test(arguments: [
        #"{"nope":1}"#, #"{"_id":"k"}"#, #"{"t":1}"#, #"{"t":null}"#, #"{"s":["x"]}"#, #"{"n":1.5}"#, #"{"n":"1"}"#,
        #"{"n":9223372036854775808}"#, #"{"n":null}"#, #"{"n":true}"#, #"{"yes":1}"#, #"{"yes":null}"#, #"{"r":"1"}"#,
        #"{"r":9007199254740993}"#, #"{"f":1e300}"#, #"{"f":16777217}"#, #"{"price":1}"#, #"{"price":"1,5"}"#,
        #"{"at":0}"#, #"{"at":"yesterday"}"#, #"{"at":"2024-02-30T00:00:00Z"}"#, #"{"oid":"0123"}"#, #"{"uuid":"x"}"#,
        #"{"data":"AP8"}"#, #"{"data":[0]}"#, #"{"list":{}}"#, #"{"list":null}"#, #"{"list":[1,"2"]}"#,
        #"{"list":[null]}"#, #"{"set":"a"}"#, #"{"set":[1]}"#, #"{"set":[["a"]]}"#, #"{"dict":[]}"#,
        #"{"dict":{"a":"1"}}"#, #"{"place":[]}"#, #"{"place":{"nope":1}}"#, #"{"place":{"x":null}}"#,
        #"{"places":[1]}"#, #"{"places":[{"x":"1"}]}"#, #"{"spots":{"a":{"x":[]}}}"#, #"{"other":1}"#,
        #"{"others":"target"}"#, #"{"tag":7}"#, #"{"tag":"seven"}"#,
    ])
    func whatDoesNotFitTheClassIsRefused(members: String) async throws {
        try await WireRig.runTyped { _, _, one, _ in
            _ = try await one.create("k", TypedClasses.full)
            let wrong = try #require(try JSONValue.text(members).members)
            var diff = wrong.mapValues { ["o": "r", "v": $0] as JSONValue }
            // What fits is not taken either.
            if diff["s"] == nil { diff["s"] = ["o": "r", "v": "x"] }
            #expect(try await one.make("M", "k", ["v": .object(diff), "sv": 1])["error"] == 400)
            let whole = try #require(try JSONValue.text(TypedClasses.full).members).merging(wrong) { $1 }
            #expect(try await one.make("M", "k", ["d": .object(whole)])["error"] == 400)
            #expect(try await one.make("M", "new", ["d": .object(wrong)])["error"] == 400)
            let entries = try await one.list()["index"]?.array ?? []
            #expect(try entries.first == ["id": "k", "v": 1, "d": .text(TypedClasses.full)] && entries.count == 2)
        }
    }

    // MARK: Merges

    @Test func additionsToANumberAllCount() async throws {
        try await WireRig.runTyped { _, _, one, realm in
            _ = try await one.create("k", #"{"n":10,"place":{"visits":1}}"#)
            try await realm.download()
            func add(_ count: Int64) async throws {
                try await realm.write { tx in
                    let object = try #require(try tx.object("note", key: "k"))
                    try object.add(count, to: "n")
                    try #require(try object.object("place")).add(count, to: "visits")
                }
            }
            let addition = #"{"n":{"o":"I","v":2},"place":{"o":"O","v":{"visits":{"o":"I","v":2}}}}"#
            // The other's addition comes in later.
            try await add(5)
            let first = try await one.edit("k", at: 1, addition)
            #expect(first["v"]?["n"] == ["o": "r", "v": 12])
            try await realm.upload()
            #expect(try await one.change()["v"]?["n"] == ["o": "r", "v": 17])
            // The other's addition, which the client has not seen, is there already.
            try await add(100)
            try await realm.upload()
            _ = try await one.change()
            #expect(try await one.edit("k", at: 3, addition)["v"]?["n"] == ["o": "r", "v": 119])
            #expect(try await one.edit("k", at: 5, #"{"n":{"o":"I","v":0.5}}"#)["error"] == 400)
            #expect(try await one.edit("k", at: 5, #"{"n":{"o":"I","v":9223372036854775807}}"#)["error"] == 400)
            #expect(try await one.edit("k", at: 5, #"{"m":{"o":"I","v":1}}"#)["error"] == 440)
            try await realm.download()
            try await realm.read { tx in
                let object = try #require(try tx.object("note", key: "k"))
                #expect(try object.value("n") == 119 && object.object("place")?.value("visits") == 110)
            }
        }
    }

    @Test(arguments: [
        // Two insertions and a removal, as operations, as text and as a whole.
        #"{"o":"L","v":{"0":{"o":"-"},"2":{"o":"+","v":7},"3":{"o":"+","v":8}}}"#,
        #"{"o":"dL","v":"-2\t=2\t+7%0A8%0A\t=2"}"#, #"{"o":"r","v":[2,7,8,3]}"#,
    ])
    func editsOfAListMerge(edit: String) async throws {
        try await WireRig.runTyped { _, _, one, realm in
            _ = try await one.create("k", #"{"list":[1,2,3]}"#)
            try await realm.download()
            try await realm.write { tx in
                try #require(try tx.object("note", key: "k")).list("list").append(9)
            }
            #expect(try await one.edit("k", at: 1, "{\"list\":\(edit)}")["v"]?["list"]?["v"] == [2, 7, 8, 3])
            try await realm.upload()
            #expect(try await one.change()["v"]?["list"] == ["o": "r", "v": [2, 7, 8, 3, 9]])
            try await realm.download()
            let values = try await realm.read { try #require(try $0.object("note", key: "k")).list("list").values }
            #expect(values == [2, 7, 8, 3, 9])
        }
    }

    @Test func anEditOfAnOldListMerges() async throws {
        try await WireRig.runTyped { _, _, one, realm in
            _ = try await one.create("k", #"{"list":[1,2,3],"places":[{"x":1},{"x":2}]}"#)
            try await realm.download()
            try await realm.write { tx in
                let object = try #require(try tx.object("note", key: "k"))
                try object.list("list").insert(9, at: 0)
                try object.list("places").object(at: 1).set("name", to: "there")
            }
            try await realm.upload()
            _ = try await one.change()
            let edit = """
                {"list":{"o":"L","v":{"3":{"o":"+","v":4}}},
                "places":{"o":"L","v":{"0":{"o":"-"},"1":{"o":"O","v":{"x":{"o":"r","v":5}}}}}}
                """
            try await one.edit("k", at: 1, edit)
            let entity = try await one.entity("k")
            #expect(entity?["list"] == [9, 1, 2, 3, 4])
            #expect(try entity?["places"] == .text(#"[{"x":5,"name":"there","visits":0}]"#))
        }
    }

    @Test func propertiesMergeOneByOne() async throws {
        try await WireRig.runTyped { _, _, one, realm in
            _ = try await one.create(
                "k", #"{"t":"AC","place":{"x":1},"dict":{"a":1,"b.c":2},"set":["a","b"],"spots":{"h":{"x":1}}}"#)
            try await realm.download()
            try await realm.write { tx in
                let object = try #require(try tx.object("note", key: "k"))
                try object.set("s", to: "theirs")
                try #require(try object.object("place")).set("name", to: "theirs")
                try object.dictionary("dict").set(3, for: "new")
                try object.set("set").insert("c")
                try #require(try object.dictionary("spots").object(for: "h")).set("name", to: "theirs")
            }
            let edit = """
                {"t":{"o":"d","v":"=1\\t+B\\t=1"},"place":{"o":"O","v":{"x":{"o":"r","v":2}}},
                "dict":{"o":"O","v":{"b.c":{"o":"r","v":5},"a":{"o":"-"}}},"set":{"o":"r","v":["b"]},
                "spots":{"o":"O","v":{"h":{"o":"O","v":{"x":{"o":"r","v":2}}}}}}
                """
            try await one.edit("k", at: 1, edit)
            try await realm.upload()
            _ = try await one.change()
            let members = try #require(try await one.entity("k")?.members)
            #expect(members["t"] == "ABC" && members["s"] == "theirs" && members["set"] == ["b", "c"])
            #expect(try members["place"] == .text(#"{"x":2,"name":"theirs","visits":0}"#))
            #expect(try members["spots"] == .text(#"{"h":{"x":2,"name":"theirs","visits":0}}"#))
            #expect(members["dict"] == ["b.c": 5, "new": 3])
            // A key that a client of Realm's wire has not escaped stays what it is.
            try await realm.download()
            try await realm.write { tx in
                try #require(try tx.object("note", key: "k")).dictionary("dict").set(1, for: "50%")
            }
            try await realm.upload()
            _ = try await one.change()
            try await one.edit("k", at: 4, #"{"dict":{"o":"O","v":{"50%":{"o":"r","v":2}}}}"#)
            try await realm.download()
            try await realm.read { tx in
                let entries = try #require(try tx.object("note", key: "k")).dictionary("dict")
                #expect(try entries.count == 3 && entries.value(for: "50%") == 2)
            }
        }
    }

    // MARK: Links

    @Test func aLinkLeadsToWhatIsThere() async throws {
        try await WireRig.runTyped { rig, login, one, realm in
            _ = try await one.create("k", #"{"other":"target"}"#)
            #expect(try await one.edit("k", at: 1, #"{"other":{"o":"r","v":"none"}}"#)["error"] == 417)
            #expect(try await one.edit("k", at: 1, #"{"other":{"o":"r","v":"k"}}"#)["ev"] == 2)
            // A deletion takes links to it away, which is another change, of nobody.
            try await one.edit("k", at: 2, #"{"other":{"o":"r","v":"target"}}"#)
            try await one.send("-", "target")
            var changes: [JSONValue] = []
            while changes.count < 2 { changes += try await one.hear("c").array ?? [] }
            let other = changes.first { $0["id"] == "k" }
            #expect(other?["v"] == ["other": ["o": "-"]] && other?["ccids"] == [] && other?["ev"] == 4)
            // One that a client has made while another one has deleted the target.
            let late = try await rig.realmClient(login.user)
            try await late.download()
            try await realm.download()
            try await realm.write { tx in
                let tag = try #require(try tx.object("tag", key: 7)).link
                try #require(try tx.object("note", key: "k")).set("tag", to: tag)
            }
            try await realm.upload()
            #expect(try await one.change()["v"] == ["tag": ["o": "+", "v": "7"]])
            try await late.write { tx in try tx.delete(try #require(try tx.object("tag", key: 7))) }
            try await late.upload()
            let gone = try await one.change()
            #expect(gone["v"] == ["tag": ["o": "-"]] && gone["ev"] == 6)
            try await late.write { tx in _ = try tx.create("tag", key: 7) }
            try await late.upload()
            #expect(try await one.change()["v"] == ["tag": ["o": "+", "v": "7"]])
        }
    }

    @Test func theAuthorOfADeletionIsNotThatOfItsConsequences() async throws {
        try await WireRig.runTyped { settings in
            var typed = BucketSettings()
            typed.form = .typed
            settings.apps[WireRig.app]?.buckets["copy"] = typed
        } _: { rig, login, one, realm in
            try await realm.write { tx in
                try tx.addClass("copy", key: "_id", .string)
                try tx.addLink("of", to: "note", of: "copy")
            }
            try await realm.upload()
            let two = try await Conversation(rig, login, client: "two", library: "other", bucket: "copy")
            try await two.list()
            // Both have the key.
            try await two.make("M", "target", ["d": ["of": "target"]])
            try await one.make("-", "target")
            let change = try await two.change()
            #expect(change["v"] == ["of": ["o": "-"]] && change["ccids"] == [] && change["clientid"] == "anabranch")
        }
    }
}
