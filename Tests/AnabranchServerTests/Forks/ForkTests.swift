import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchServer

/// Clients of Barq and Tessera at a whole server (`Spec/Forks.md`).
@Suite(.timeLimit(.minutes(30))) struct ForkTests {
    // MARK: Opening

    @Test func aClientOfBarqSyncsAPartitionThatItNamesByAPlainText() async throws {
        try await ForkRig.run { rig async throws in
            let socket = try await rig.open(try rig.token())
            #expect(socket.response.contains("Sec-WebSocket-Protocol: io.barq.sync#14\r\n"))
            try await socket.send("bind 1 4 0 1 0\nlist")
            let ident = try await socket.message()
            #expect(ident.words.prefix(3) == ["ident", "1", "2"])
            try await socket.send("ident 1 2 \(ident.words[3]) 0 0 0 0\n")
            #expect(try await socket.message().words.prefix(5) == ["download", "1", "0", "0", "0"])
        }
    }

    @Test func aClientOfBarqSubscribes() async throws {
        try await ForkRig.run(flexible: true) { app in
            app.forks[.barq]?.path = "main"
        } _: { rig async throws in
            let socket = try await rig.open(try rig.token(["path": "main"]), prefix: "io.barq.query-sync")
            #expect(socket.response.contains("Sec-WebSocket-Protocol: io.barq.query-sync#14\r\n"))
            try await socket.send("bind 1 37 0 1 0\n{\"schemaVersion\":0,\"sessionReason\":0}")
            let ident = try await socket.message()
            #expect(ident.words.prefix(3) == ["ident", "1", "2"])
            try await socket.send("ident 1 2 \(ident.words[3]) 0 0 0 0 0 2\n{}")
            #expect(try await socket.message().kind == "download")
        }
    }

    /// One partition: plain, as the SDKs of JavaScript and Kotlin write it, and as Realm's do.
    @Test(arguments: [
        ["list", "\"list\"", " \"list\" ", "\"l\\u0069st\""], ["/some/db", "\"/some/db\""],
        ["Käse – 芝", "\"K\\u00e4se – 芝\""], ["true", "\"true\""], ["[1]", "\"[1]\""], ["{", "\"{\""],
        ["7", "{\"$numberLong\":\"7\"}", "7.0"], ["null", " null"],
        [
            #"{"$uuid":"00112233-4455-6677-8899-aabbccddeeff"}"#,
            #"{"$binary":{"base64":"ABEiM0RVZneImaq7zN3u/w==","subType":"04"}}"#,
        ],
    ]) func spellingsOfOneValueAreOneFile(_ spellings: [String]) async throws {
        try await ForkRig.run { rig async throws in
            let changes = try Changesets.independent(of: 1, count: spellings.count)
            for (number, spelling) in spellings.enumerated() {
                let client = rig.client(spelling, try rig.token())
                try await client.reconnect()
                try await client.mark()
                #expect(client.received.count == number, "\(spelling)")
                client.change(changes[number], at: ChangesetTime(1_000 + UInt64(number)))
                try await client.upload()
                try await client.waitForAcknowledgement()
                try await client.disconnect()
            }
        }
    }

    @Test func namesAreThoseOfThePath() async throws {
        try await ForkRig.run { rig async throws in
            let (barq, realm) = ("io.barq.sync#14", "com.mongodb.realm-sync#14"), token = try rig.token()
            func status(_ path: String, _ offer: String) async throws -> String {
                do {
                    return try await WebSocketClient.open(port: rig.server.port, path: path, offer: offer).response
                        .components(separatedBy: "\r\n").first { $0.hasPrefix("Sec-WebSocket-Protocol") } ?? ""
                } catch let error as WebSocketClient.HandshakeRefused {
                    return String(error.response.split(separator: " ")[1])
                }
            }
            #expect(try await status("/realm-sync", barq) == "400")
            #expect(try await status("/barq-sync", realm) == "400")
            #expect(try await status("/barq-sync", "io.barq.sync/14") == "400")
            #expect(
                try await status("/barq-sync?barq_at=\(token)", "\(realm), \(barq)")
                    == "Sec-WebSocket-Protocol: \(barq)")
            #expect(try await status("/realm-sync", "\(realm), \(barq)") == "Sec-WebSocket-Protocol: \(realm)")
            #expect(try await status("/api/client/v2.0/app/shop/barq-sync", barq) == "404")
        }
    }

    @Test func withoutAnAppForThemTheirPathsAreNotThere() async throws {
        try await withServer { server async throws in
            for path in ["/barq-sync", "/tessera-sync"] {
                await #expect(throws: WebSocketClient.HandshakeRefused.self) {
                    try await WebSocketClient.open(port: server.port, path: path, offer: "io.barq.sync#14")
                }
            }
        }
    }

    @Test func anAppForThemAloneHasNoEndpoints() async throws {
        try await ForkRig.run { rig async throws in
            #expect(try await rig.server.request("GET", "/api/client/v2.0/app/shop/location").status == 404)
            #expect(try await rig.server.request("GET", "/api/client/v2.0/app/other/location").status == 200)
        }
    }

    @Test func theOtherKindOfSyncIsNamed() async throws {
        try await ForkRig.run { rig async throws in
            let socket = try await rig.open(try rig.token(), prefix: "io.barq.query-sync")
            #expect(try await socket.message().words.prefix(2) == ["json_error", "114"])
        }
        try await ForkRig.run(flexible: true) { rig async throws in
            let socket = try await rig.open(try rig.token())
            #expect(try await socket.message().words.prefix(2) == ["json_error", "113"])
        }
    }

    // MARK: Permissions

    @Test func whoMayOnlyDownloadWritesNothing() async throws {
        let store = InMemoryStore()
        try await ForkRig.run(store: store) { rig async throws in
            let client = rig.client("list", try rig.token(["access": ["download"]]))
            try await client.reconnect()
            client.change(try Changesets.independent(of: 1, count: 1)[0], at: 1_000)
            try await client.upload()
            let refusal = try await client.require().message()
            #expect(refusal.words.prefix(2) == ["json_error", "230"])
        }
        #expect(try store.open(VirtualPath(app: "shop", partition: "list")).head.version == 0)
    }

    @Test func aTokenForOneFileOpensThatAlone() async throws {
        try await ForkRig.run { rig async throws in
            for path in ["list", "/list", "\"list\""] {
                let token = try rig.token(["path": .string(path)])
                #expect(try await rig.outcome(token, binding: "list") == "ident")
                #expect(try await rig.outcome(token, binding: "\"list\"") == "ident")
                #expect(try await rig.outcome(token, binding: "other") == Self.denied)
                #expect(try await rig.outcome(token, binding: "") == "204 to 1: ApplicationBug, try again: false")
            }
        }
    }

    private static let denied = "206 to 1: ApplicationBug, try again: false"

    @Test func aSubscribersTokenIsForTheOneFile() async throws {
        let cases: [(setting: String?, isNeeded: Bool, claim: JSONValue, outcome: String)] = [
            (nil, false, .null, "ident"), (nil, false, "other", Self.denied), ("main", false, .null, "ident"),
            ("main", false, "/main", "ident"), ("main", false, "other", Self.denied), ("main", true, "main", "ident"),
            ("main", true, .null, Self.denied),
        ]
        for (setting, isNeeded, claim, outcome) in cases {
            try await ForkRig.run(flexible: true) { app in
                app.forks[.barq]?.path = setting
                app.forks[.barq]?.needsPath = isNeeded
            } _: { rig async throws in
                let socket = try await rig.open(try rig.token(["path": claim]), prefix: "io.barq.query-sync")
                let bind = #"{"schemaVersion":0,"sessionReason":0}"#
                #expect(try await ForkRig.outcome(socket, binding: bind) == outcome, "\(setting ?? "") \(claim)")
            }
        }
    }

    @Test func theOperatorsDeletionIsSpelledAsTheClientKnowsIt() async throws {
        try await ForkRig.run { rig async throws in
            let login = try await rig.server.newUser("ann@example.com")
            let sockets = [
                try await rig.open(try rig.token()), try await rig.openTessera(try rig.token()),
                try await WebSocketClient.open(
                    port: rig.server.port, path: "/api/client/v2.0/app/demo/realm-sync?baas_at=\(login.access)"),
            ]
            for (number, socket) in sockets.enumerated() {
                #expect(try await ForkRig.outcome(socket, binding: "\"list\"") == "ident")
                let body: JSONValue = ["connection": .integer(Int64(number + 1)), "session": 1, "delete_local": true]
                #expect(try await rig.server.admin("/v1/sessions/disconnect", body).status == 200)
                let error = try await socket.message()
                #expect(error.words.prefix(2) == ["json_error", "206"])
                let action = try JSONValue(parsing: error.body)["action"]?.string
                #expect(action == ["DeleteBarq", "DeleteRealm", "DeleteRealm"][number])
            }
        }
    }

    @Test func aClientOfTesseraNamesAPath() async throws {
        try await ForkRig.run { app in
            app.forks[.tessera]?.takesOldTokens = true
        } _: { rig async throws in
            let socket = try await rig.openTessera(try rig.oldToken())
            #expect(try await ForkRig.outcome(socket, binding: "/some/db") == "ident")
            let other = try await rig.openTessera(try rig.oldToken(["path": "/other"]))
            #expect(try await ForkRig.outcome(other, binding: "/some/db") == Self.denied)
            // Barq's clients may not in this app.
            #expect(try await rig.outcome(rig.oldToken()) == "closed with 4002")
        }
    }

    // MARK: Data

    @Test func vectorsAreListsOfFloat() async throws {
        try await ForkRig.run { rig async throws in
            var graph = ObjectGraph()
            let vector = (0..<768).map { Payload.float(Float($0) / 7) }
            let change = try graph.write(as: 1) { transaction in
                try transaction.addClass("Item", key: "_id", .int)
                try transaction.addColumn("embedding", .float, collection: .list, to: "Item")
                let list = try transaction.create("Item", key: 1).list("embedding")
                for (index, value) in vector.enumerated() { try list.insert(value, at: index) }
            }.changeset
            let writer = rig.client("list", try rig.token()), reader = rig.client("list", try rig.token())
            try await writer.reconnect()
            writer.change(change, at: 1_000)
            try await writer.upload()
            try await writer.waitForAcknowledgement()
            try await reader.reconnect()
            try await reader.mark()
            var received = ObjectGraph(), arena = ChangesetArena()
            for entry in reader.received {
                let version = entry.cursor.serverVersion.rawValue
                try received.apply(arena.decode(entry.changeset, version: version, tag: entry.tag), of: arena)
            }
            #expect(try StateDigest(of: received) == StateDigest(of: graph))
        }
    }
}
