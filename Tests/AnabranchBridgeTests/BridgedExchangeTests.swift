import AnabranchBridge
import AnabranchClient
import Testing

/// Rows of which none can be written first (`Spec/Bridge.md`, section 5).
@Suite(.timeLimit(.minutes(30))) struct BridgedExchangeTests {
    @Test func uniqueValuesAreExchanged() async throws {
        let schema = """
            CREATE TABLE note (id bigint PRIMARY KEY, title varchar(9) NOT NULL UNIQUE, place int NOT NULL,
              list uuid, UNIQUE (list, place));
            CREATE UNIQUE INDEX ON note (place) WHERE list IS NULL
            """
        try await BridgeWorld.run(schema, ["note"]) { world in
            let device = try await world.device(), bridge = try await world.bridge()
            try world.app.run("INSERT INTO note SELECT i, 't' || i, i FROM generate_series(1, 9) i")
            try await bridge.synchronize()
            try await device.waitForDownload()
            try await device.change { transaction in
                for number in 1...9 {
                    let note = try transaction.object("note", key: .int(Int64(number)))
                    try note?.set("title", to: .string(Array("t\(10 - number)".utf8)))
                    try note?.set("place", to: .int(Int64(number % 9 + 1)))
                }
                // It waits, and hinders none of the others.
                try transaction.create("note", key: 10, ["title": "t1", "place": 10])
            }
            try await bridge.synchronize()
            let rows = try world.app.rows("SELECT id, title, place FROM note ORDER BY id")
            #expect(rows == (1...9).map { "\($0)|t\(10 - $0)|\($0 % 9 + 1)" })
            #expect(try world.app.rows("SELECT key FROM anabranch.pending") == ["10"])
            #expect(try world.app.rows("SELECT count(*) FROM anabranch.history") == ["0"])
        }
    }

    /// More rows than one transaction writes, whose column has few other values.
    @Test func aLongListIsTurnedRound() async throws {
        let schema = """
            CREATE TABLE item (id bigint PRIMARY KEY, was int, place smallint NOT NULL UNIQUE CHECK (place > 0))
            """
        try await BridgeWorld.run(schema, ["item"]) { world in
            let device = try await world.device(), bridge = try await world.bridge()
            try world.app.run("INSERT INTO item SELECT i, i, i FROM generate_series(1, 2000) i")
            try await bridge.synchronize()
            try await device.waitForDownload()
            try await device.change { transaction in
                for number in 1...2_000 {
                    try transaction.object("item", key: .int(Int64(number)))?
                        .set("place", to: .int(Int64((number + 999) % 2_000 + 1)))
                }
            }
            try await bridge.synchronize()
            #expect(try world.app.rows("SELECT count(*) FROM item WHERE place = (was + 999) % 2000 + 1") == ["2000"])
            #expect(try world.app.rows("SELECT count(*) FROM anabranch.pending") == ["0"])
        }
    }

    /// They are too large for one transaction, or come one after the other.
    @Test func twoRowsExchangeUniqueValues() async throws {
        try await BridgeWorld.run("CREATE TABLE item (id bigint PRIMARY KEY, place int UNIQUE, body text)", ["item"]) {
            world in
            let device = try await world.device(), bridge = try await world.bridge()
            try world.app.run("INSERT INTO item SELECT i, i, repeat('x', 5 << 19) FROM generate_series(1, 2) i")
            try await bridge.synchronize()
            try await device.waitForDownload()
            try await device.change { transaction in
                for key in [1, 2] as [Int64] {
                    try transaction.object("item", key: .int(key))?.set("place", to: .int(3 - key))
                }
            }
            #expect(try await bridge.synchronize().waiting == 0)
            #expect(try world.app.rows("SELECT place FROM item ORDER BY id") == ["2", "1"])
            for (key, waiting) in [(1, 1), (2, 0)] as [(Int64, Int)] {
                try await device.change { try $0.object("item", key: .int(key))?.set("place", to: .int(key)) }
                #expect(try await bridge.synchronize().waiting == waiting)
            }
            #expect(try world.app.rows("SELECT place FROM item ORDER BY id") == ["1", "2"])
        }
    }
}
