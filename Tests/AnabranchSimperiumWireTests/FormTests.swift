import AnabranchCore
import AnabranchServer
import AnabranchSimperium
import AnabranchTestClient
import Testing

@testable import AnabranchSimperiumWire

/// Buckets whose entities lie in dictionaries (`Spec/Simperium.md`, section 7).
@Suite(.timeLimit(.minutes(30))) struct FormTests {
    /// Runs a server with a client of each wire, of which one listens to the bucket `note`.
    private static func run(
        _ form: BucketForm, _ body: (Conversation, TestClient) async throws -> Void
    ) async throws {
        try await WireRig.run {
            $0.apps[WireRig.app]?.otherBuckets?.form = form
        } _: { rig in
            let login = try await rig.logIn()
            let one = try await Conversation(rig, login, library: "other")
            try await one.list()
            try await body(one, try await rig.realmClient(login.user))
        }
    }

    @Test(arguments: [BucketForm.flat, .deep]) func everyValueIsReplacedByEveryOther(form: BucketForm) async throws {
        try await Self.run(form) { one, realm in
            let bucket = Bucket(number: 1, name: "note", form: form, className: Array("note".utf8))
            let values: [JSONValue] = [
                [1, 2, [3]], [4], [], [[4, 5], ["a": [6]]], ["a": [1], "b": ["c": [2, 3]]], ["a": [], "b": ["c": [3]]],
                ["b": [1]], "text", [["x": 1]], [["x": 1, "y": [1]]], .null, ["a": [:]], 7, [7], ["7"],
            ]
            for (index, value) in values.enumerated() {
                let change = try await one.make("M", "k", ["d": .object(["v": value])])
                #expect(change["ev"] == .integer(Int64(index) + 1))
                #expect(try await one.entity("k") == .object(["v": value]), "\(value.encoded)")
                try await realm.download()
                let seen = try await realm.read { tx in try tx.state.entity("k", of: bucket) }
                #expect(seen == ["v": value], "\(value.encoded)")
            }
        }
    }

    @Test func elementsOfListsMerge() async throws {
        try await Self.run(.deep) { one, realm in
            try await one.make("M", "k", ["d": .text(#"{"l":[1,2,3],"o":{"l":["a"]}}"#)])
            try await realm.download()
            try await realm.write { tx in
                let body = try #require(try tx.object("note", key: "k")).dictionary("body")
                try body.list(for: "l").append(9)
                try body.dictionary(for: "o").set(1, for: "theirs")
            }
            try await one.edit("k", at: 1, #"{"l":{"o":"r","v":[0,2,3]},"o":{"o":"O","v":{"l":{"o":"r","v":["b"]}}}}"#)
            try await realm.upload()
            _ = try await one.change()
            #expect(try await one.entity("k") == .text(#"{"l":[0,2,3,9],"o":{"l":["b"],"theirs":1}}"#))
        }
    }

    @Test(arguments: [BucketForm.flat, .deep]) func aKeyThatIsNotEscapedStaysWhatItIs(form: BucketForm) async throws {
        try await Self.run(form) { one, realm in
            try await one.make("M", "k", ["v": .adds("x")])
            try await realm.download()
            func write(_ values: [String: Payload]) async throws {
                try await realm.write { tx in
                    let body = try #require(try tx.object("note", key: "k")).dictionary("body")
                    for (key, value) in values.sorted(by: { $0.key < $1.key }) { try body.set(value, for: key) }
                }
                try await realm.upload()
                _ = try await one.change()
            }
            func keys() async throws -> [String] {
                try await realm.download()
                return try await realm.read { try #require(try $0.object("note", key: "k")).dictionary("body").keys }
            }
            try await write(["50%": 1, "%zz": 2])
            try await one.edit("k", at: 2, #"{"50%":{"o":"r","v":2},"%zz":{"o":"-"}}"#)
            #expect(try await one.entity("k") == .text(#"{"t":"x","50%":2}"#))
            #expect(try await keys() == ["50%", "t"])
            // Of two keys for one name, neither is left.
            try await write(["50%25": 3])
            #expect(try await one.entity("k")?["50%"] == 3)
            try await one.edit("k", at: 4, #"{"50%":{"o":"-"}}"#)
            #expect(try await one.entity("k") == .text(#"{"t":"x"}"#))
            #expect(try await keys() == ["t"])
        }
    }

    /// Entities that no client of this wire could take are not shown to any: it would ask for them for ever.
    @Test(arguments: [BucketForm.flat, .deep]) func whatIsTooLargeOrTooDeepIsNotShown(form: BucketForm) async throws {
        try await Self.run(form) { one, realm in
            try await one.make("M", "k", ["v": .adds("x")])
            try await realm.download()
            func write(_ edit: @escaping @Sendable (DynamicDictionary) throws -> Void) async throws -> JSONValue {
                try await realm.write { tx in
                    try edit(try #require(try tx.object("note", key: "k")).dictionary("body"))
                }
                try await realm.upload()
                return try await one.change()
            }
            let large = String(repeating: "x", count: 5 << 20)
            let gone = try await write { try $0.set(.string(Array(large.utf8)), for: "t") }
            #expect(gone["o"] == "-" && gone["sv"] == 1 && gone["ev"] == 2)
            #expect(try await one.list()["index"] == [])
            #expect(try await one.make("M", "k", ["d": ["t": "y"]])["error"] == 413)
            #expect(try await one.make("-", "k")["error"] == 412)
            let back = try await write { try $0.set("y", for: "t") }
            #expect(back["o"] == "M" && back["sv"] == nil && back["ev"] == 3 && back["v"] == .adds("y"))
            // Deeper than any JSON is read.
            let deep = try await write { body in
                try body.set(.list, for: "l")
                var list = try body.list(for: "l")
                for _ in 0..<250 {
                    try list.append(.list)
                    list = try list.list(at: 0)
                }
            }
            #expect(deep["o"] == "-" && deep["ev"] == 4)
            #expect(try await write { try $0.remove("l") }["ev"] == 5)
            #expect(try await one.edit("k", at: 5, #"{"t":{"o":"d","v":"=1\t+z"}}"#)["ev"] == 6)
        }
    }
}
