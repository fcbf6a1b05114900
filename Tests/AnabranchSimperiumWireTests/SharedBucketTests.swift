import AnabranchCore
import AnabranchServer
import AnabranchTestClient
import NIOHTTP1
import Synchronization
import Testing

@testable import AnabranchSimperiumWire

/// Buckets that all users of an app have together (`Spec/Simperium.md`, section 5).
@Suite(.timeLimit(.minutes(30))) struct SharedBucketTests {
    @Test func usersShareWhatTheRulesAllow() async throws {
        let reader = Mutex(""), shared = #""simperium-shared/board""#
        let rights = CallbackAuthorizer { principal, partition in
            let isShared = String(decoding: partition, as: UTF8.self) == shared
            return isShared && principal.user == reader.withLock { $0 } ? .read : .write
        }
        try await WireRig.run(authorizer: rights) {
            $0.apps[WireRig.app]?.buckets["board", default: BucketSettings()].isShared = true
        } _: { rig in
            let ann = try await rig.logIn(), bob = try await rig.logIn("bob@example.com")
            reader.withLock { $0 = bob.user }
            let one = try await Conversation(rig, ann, client: "one", library: "other", bucket: "board")
            let two = try await Conversation(rig, bob, client: "two", library: "other", bucket: "board")
            try await one.list()
            try await two.list()
            let change = try await one.make("M", "k", ["v": .adds("x")])
            #expect(try await two.change() == change)
            #expect(try await two.make("M", "k", ["v": .edits("=1\t+y"), "sv": 1])["error"] == 401)
            // Other buckets are each user's own.
            let own = try await Conversation(rig, ann, library: "other")
            try await own.list()
            try await own.make("M", "mine", ["v": .adds("x")])
            let others = try await Conversation(rig, bob, library: "other")
            #expect(try await others.list()["index"] == [])
            let endpoints = SimperiumEndpoints(rig.services, rig.wire)
            for (method, status) in [(.GET, .ok), (.POST, .unauthorized)] as [(HTTPMethod, HTTPResponseStatus)] {
                let request = EndpointRequest(
                    method: method, path: "/1/my-app/board/i/k", headers: ["X-Simperium-Token": bob.token],
                    body: .whole(Array(#"{"t":"z"}"#.utf8)))
                #expect(await endpoints.respond(to: request).status == status)
            }
            // Clients of Realm's wire have the file as well.
            let realm = TestClient(app: WireRig.app, partition: SimperiumWire.partition(ofShared: "board"))
            try await realm.connect(to: "ws://127.0.0.1:\(rig.port)", token: "any")
            try await realm.download()
            try await realm.write { tx in
                try #require(try tx.object("board", key: "k")).dictionary("body").set("z", for: "t")
            }
            try await realm.upload()
            #expect(try await two.change()["v"]?["t"] == ["o": "d", "v": "-1\t+z"])
        }
    }
}
