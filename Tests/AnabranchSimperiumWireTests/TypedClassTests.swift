import AnabranchCore
import AnabranchServer
import AnabranchSimperium
import AnabranchTestClient
import Testing

@testable import AnabranchSimperiumWire

/// The classes of buckets of the form `typed`, and how much their objects may show (`Spec/Simperium.md`, section 7).
@Suite(.timeLimit(.minutes(30))) struct TypedClassTests {
    // MARK: Classes

    @Test func theAppHasToMakeTheClass() async throws {
        try await WireRig.run {
            $0.apps[WireRig.app]?.otherBuckets?.form = .typed
        } _: { rig in
            let login = try await rig.logIn(), client = try await rig.connect()
            func opening(_ bucket: String) async throws -> String {
                try await client.send(Frame.opening(login.token, bucket: bucket, library: "other"))
                return try await client.receive()
            }
            let refusal = #"0:auth:{"msg":"No class of that bucket","code":500}"#
            #expect(try await opening("note") == refusal)
            let realm = try await rig.realmClient(login.user)
            let special = try #require(BucketName.classNames("my-notes").first)
            try await realm.write { tx in
                try tx.addClass("numbered", key: "_id", .int)
                try tx.addClass("keyless")
                try tx.addEmbeddedClass("inner")
                try tx.addClass("note", key: "_id", .string)
                try tx.addColumn("t", .string, to: "note")
                try tx.create("note", key: "k")
                try tx.addClass(special, key: "_id", .string, isNullable: true)
                try tx.create(special, key: .null)
            }
            try await realm.upload()
            for bucket in ["numbered", "keyless", "inner", "none"] { #expect(try await opening(bucket) == refusal) }
            #expect(try await opening("my-notes") == "0:auth:ann@example.com")
            try await client.send("0:i:1:::10")
            #expect(try JSON(await client.receive(), after: "0:i:")?["index"] == [])
            #expect(try await opening("note") == "0:auth:ann@example.com")
            try await client.send("0:i:1:::10")
            #expect(try JSON(await client.receive(), after: "0:i:")?["index"] == [["id": "k", "v": 1, "d": ["t": ""]]])
        }
    }

    @Test func newPropertiesAreTold() async throws {
        try await WireRig.runTyped { _, _, one, realm in
            _ = try await one.create("k", TypedClasses.initial)
            try await realm.write { tx in
                try tx.addColumn("perhaps", .int, isNullable: true, to: "note")
                try tx.addColumn("count", .int, to: "note")
            }
            try await realm.upload()
            var changes: [JSONValue] = []
            while changes.count < 2 { changes += try await one.hear("c").array ?? [] }
            #expect(changes.allSatisfy { $0["v"] == ["count": ["o": "+", "v": 0]] && $0["ev"] == 2 })
            #expect(try await one.edit("k", at: 2, #"{"perhaps":{"o":"+","v":1},"count":{"o":"I","v":2}}"#)["ev"] == 3)
            #expect(try await one.entity("k")?["count"] == 2)
            // Within embedded objects, too.
            try await one.edit("k", at: 3, #"{"place":{"o":"+","v":{"x":1}}}"#)
            try await realm.write { tx in try tx.addColumn("y", .double, to: "place") }
            try await realm.upload()
            let change = try await one.change()
            #expect(try change["v"] == .text(#"{"place":{"o":"O","v":{"y":{"o":"+","v":0}}}}"#) && change["id"] == "k")
        }
    }

    // MARK: Limits

    @Test func embeddedObjectsThatShowMoreThanWasSentAreLimited() async throws {
        try await WireRig.runTyped { _, _, one, realm in
            try await realm.write { tx in
                for number in 0..<100 { try tx.addColumn("a_column_with_a_long_name_\(number)", .int, to: "place") }
            }
            try await realm.upload()
            let many = "[\(Array(repeating: "{}", count: 2_000).joined(separator: ","))]"
            #expect(try await one.make("M", "k", ["d": .object(["places": .text(many)])])["error"] == 413)
            #expect(try await one.make("M", "k", ["d": ["places": [[:], [:]] as JSONValue]])["ev"] == 1)
            // A client of Realm's wire can make such an object: it is no entity as long as it is so large.
            try await realm.download()
            try await realm.write { tx in
                let places = try #require(try tx.object("note", key: "k")).list("places")
                for _ in 0..<2_000 { try places.appendObject() }
            }
            try await realm.upload()
            #expect(try await one.change()["o"] == "-")
            #expect(try await one.make("M", "k", ["d": ["t": "x"]])["error"] == 413)
            #expect(try await one.make("-", "k")["error"] == 412)
            try await realm.write { tx in try #require(try tx.object("note", key: "k")).list("places").removeAll() }
            try await realm.upload()
            let back = try await one.change()
            #expect(back["o"] == "M" && back["sv"] == nil && back["ev"] == 3)
        }
    }

    @Test func anEntityHasALimit() async throws {
        try await WireRig.runTyped {
            $0.apps[WireRig.app]?.buckets["note"]?.entityBytesMax = 2_000
        } _: { _, _, one, _ async throws in
            let text = String(repeating: "x", count: 1_950)
            // What the class adds counts.
            #expect(try await one.make("M", "k", ["d": .object(["t": .string(text)])])["error"] == 413)
            #expect(try await one.make("M", "k", ["d": .object(["t": .string(String(text.dropLast(400)))])])["ev"] == 1)
        }
    }

    @Test func listsOfManyElementsAreWrittenByTheirDifference() async throws {
        try await WireRig.runTyped { _, _, one, _ async throws in
            var random = Array(0..<20_000).map { JSONValue.integer(Int64($0 * 7_919 % 20_011)) }
            #expect(try await one.make("M", "k", ["d": .object(["list": .array(random)])])["ev"] == 1)
            random.insert(-1, at: 10_000)
            random.remove(at: 3)
            #expect(try await one.make("M", "k", ["d": .object(["list": .array(random)])])["ev"] == 2)
            #expect(try await one.entity("k")?["list"] == .array(random))
            #expect(try await one.make("M", "k", ["d": .object(["list": .array(random.reversed())])])["ev"] == 3)
            #expect(try await one.entity("k")?["list"] == .array(random.reversed()))
        }
    }
}
