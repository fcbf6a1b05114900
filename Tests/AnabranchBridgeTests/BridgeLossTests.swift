import AnabranchBridge
import AnabranchClient
import AnabranchCore
import Testing

/// Columns of JSON, and values that no property holds (`Spec/Bridge.md`, section 3).
@Suite(.timeLimit(.minutes(30))) struct BridgeLossTests {
    @Test func aNumberOfJSONStaysOne() async throws {
        try await BridgeWorld.run("CREATE TABLE note (id bigint PRIMARY KEY, meta jsonb)", ["note"]) { world in
            let device = try await world.device(), bridge = try await world.bridge()
            let numbers = [
                "9223372036854775808", "-9223372036854775809", "12345678901234567890",
                "1\(String(repeating: "0", count: 33))",
                "1\(String(repeating: "0", count: 40))", "100000000000000000000.0", "10000000000000000.0", "0.00000012",
                "2.5",
            ]
            for (key, number) in numbers.enumerated() {
                try world.app.run("INSERT INTO note VALUES (\(key), '\(number)')")
            }
            try await bridge.synchronize()
            try await device.waitForDownload()
            // What devices have goes to other rows, as to those of another database.
            try await device.change { transaction in
                for key in numbers.indices {
                    guard let value = try transaction.object("note", key: .int(Int64(key)))?.value("meta") else {
                        continue
                    }
                    try transaction.create("note", key: .int(Int64(100 + key)), ["meta": value])
                }
                try transaction.create("note", key: 200, ["meta": .double(1e16)])
                try transaction.create("note", key: 201, ["meta": .double(-1.5e300)])
            }
            try await bridge.synchronize()
            let written = try world.app.rows("SELECT meta FROM note WHERE id BETWEEN 100 AND 199 ORDER BY id")
            for (number, copy) in zip(numbers, written) where number.utf8.count <= 34 { #expect(copy == number) }
            #expect(try world.app.rows("SELECT DISTINCT jsonb_typeof(meta) FROM note") == ["number"])
            #expect(try world.app.rows("SELECT meta FROM note WHERE id = 200") == ["10000000000000000.0"])
            #expect(try await world.differences(bridge.replica) == [])
            let before = await bridge.replica.record.version
            try world.database.repairAtNextPass()
            try await bridge.synchronize()
            #expect(await bridge.replica.record.version == before)
        }
    }

    @Test func whatNoPropertyHoldsIsKeptAndTheRowStays() async throws {
        try await BridgeWorld.run("CREATE TABLE note (id bigint PRIMARY KEY, at timestamptz, total numeric)", ["note"])
        { world in
            let device = try await world.device(), bridge = try await world.bridge()
            try world.app.run("INSERT INTO note VALUES (1, 'infinity', 1), (2, now(), repeat('9', 40)::numeric)")
            try await bridge.synchronize()
            #expect(
                try world.app.rows("SELECT key, kind FROM anabranch.conflict ORDER BY key") == ["1|value", "2|value"])
            #expect(try world.app.rows("SELECT count(*) FROM note WHERE at = 'infinity'") == ["1"])
            try await device.waitForDownload()
            #expect(try await device.read { try $0.objects("note").count } == 2)
        }
    }

    /// Others write the row: what objects do not know of is not taken away, nor NULL made an array without elements,
    /// nor 0 made −0.
    @Test func whatNoPropertyHoldsStaysInARowThatDevicesWrite() async throws {
        let schema = """
            CREATE TABLE note (id bigint PRIMARY KEY, title text, at timestamptz, days date[], total numeric,
              places int[], tags text[], meta jsonb, x float8)
            """
        try await BridgeWorld.run(schema, ["note"]) { world in
            let device = try await world.device(), bridge = try await world.bridge()
            try world.app.run(
                """
                INSERT INTO note VALUES (1, 'a', 'infinity', '{2020-01-01,infinity}', repeat('9', 40)::numeric,
                  '{{1,2},{3,4}}', NULL, 'null', 0)
                """)
            try await bridge.synchronize()
            try await device.waitForDownload()
            let values = "SELECT at, days, total, places, tags, meta, x FROM note"
            let before = try world.app.rows(values)
            try await device.change { transaction in
                let note = try transaction.object("note", key: 1)
                try note?.set("title", to: "b")
                try note?.set("x", to: .double(-0.0))
            }
            try await bridge.synchronize()
            #expect(try world.app.rows(values) == before)
            #expect(try world.app.rows("SELECT title FROM note") == ["b"])
            #expect(try await world.differences(bridge.replica) == [])
            try await device.change { transaction in
                let note = try transaction.object("note", key: 1)
                try note?.set("at", to: .timestamp(Timestamp(seconds: 0, nanoseconds: 0)))
                try note?.list("places").append(5)
                try note?.list("tags").append("x")
            }
            try await bridge.synchronize()
            #expect(
                try world.app.rows("SELECT extract(epoch FROM at) = 0, days, places, tags FROM note")
                    == ["t|{2020-01-01,infinity}|{5}|{x}"])
        }
    }

    @Test func whatIsLostIsKeptIfTheProcessEndsBeforeTheDatabaseKnowsOfTheStep() async throws {
        try await BridgeWorld.run("CREATE TABLE note (id bigint PRIMARY KEY, at timestamptz, meta json)", ["note"]) {
            world in
            let bridge = try await world.bridge()
            try await bridge.synchronize()
            // The replica makes its transaction, and the database does not hear of it.
            try world.app.run(
                """
                CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
                CREATE TRIGGER fail BEFORE DELETE ON anabranch.state FOR EACH ROW WHEN (OLD.name = 'step time')
                  EXECUTE FUNCTION fail();
                INSERT INTO note VALUES (1, 'infinity', '{"a":1,"a":2}')
                """)
            await #expect(throws: BridgeError.self) { try await bridge.pass() }
            #expect(try world.app.rows("SELECT * FROM anabranch.conflict") == [])
            try await bridge.close()
            try world.app.run("DROP TRIGGER fail ON anabranch.state")
            let next = try await world.bridge()
            try await next.synchronize()
            #expect(
                try world.app.rows("SELECT key, kind, left(lost, 3) FROM anabranch.conflict ORDER BY lost") == [
                    "1|value|at:", "1|value|met",
                ])
            #expect(try await next.replica.read { try $0.objects("note").count } == 1)
        }
    }

    @Test func ofALongValueThatIsLostTheFirstPartIsKept() async throws {
        try await BridgeWorld.run("CREATE TABLE note (id bigint PRIMARY KEY, meta json)", ["note"]) { world in
            let bridge = try await world.bridge()
            let long = #"{"a":"' || repeat('x', 300000) || '","a":2}"#
            try world.app.run("INSERT INTO note VALUES (1, ('\(long)')::json)")
            try await bridge.synchronize()
            let isCut = "octet_length(lost) < 70000 AND position('first 65536 of' IN lost) > 0"
            #expect(try world.app.rows("SELECT key, kind, \(isCut) FROM anabranch.conflict") == ["1|value|t"])
        }
    }

    /// PostgreSQL takes what the reader of JSON does not.
    @Test func jsonThatNoObjectHoldsIsKeptAndAllElseGoesOn() async throws {
        let schema = "CREATE TABLE note (id bigint PRIMARY KEY, title text, meta json, deep jsonb)"
        try await BridgeWorld.run(schema, ["note"]) { world in
            let device = try await world.device(), bridge = try await world.bridge()
            try world.app.run(
                """
                INSERT INTO note VALUES (1, 'a', '{"a":1,"a":2}', '1'), (2, 'b', '1e400', '2'),
                  (3, 'c', '{"a":1}', (repeat('[', 300) || repeat(']', 300))::jsonb), (4, 'd', NULL, NULL)
                """)
            try await bridge.synchronize()
            #expect(
                try world.app.rows("SELECT key, kind, left(lost, 5) FROM anabranch.conflict ORDER BY key") == [
                    "1|value|meta:", "2|value|meta:", "3|value|deep:",
                ])
            #expect(try world.app.rows("SELECT meta FROM note WHERE id = 1") == [#"{"a":1,"a":2}"#])
            #expect(try await device.values("note", "title").count == 4)
            try world.app.run(#"UPDATE note SET meta = '{"a":3}' WHERE id = 1"#)
            try await bridge.synchronize()
            try await device.waitForDownload()
            let value = try await device.read { try $0.object("note", key: 1)?.dictionary("meta").value(for: "a") }
            #expect(value == 3)
        }
    }

    /// `json` can hold what `jsonb` cannot: triggers that compare rows take no statement of the application for that.
    @Test(arguments: ["", " PARTITION BY HASH (id)"]) func jsonThatIsNoneOfJSONBStopsNoApplication(
        partitions: String
    ) async throws {
        var schema = "CREATE TABLE note (id bigint PRIMARY KEY, title text, meta json)\(partitions)"
        if !partitions.isEmpty {
            schema += "; CREATE TABLE part PARTITION OF note FOR VALUES WITH (MODULUS 1, REMAINDER 0)"
        }
        try await BridgeWorld.run(schema, ["note"]) { world in
            let device = try await world.device(), bridge = try await world.bridge()
            try world.app.run(#"INSERT INTO note VALUES (1, 'a', '"\u0000"'), (2, 'b', '{}')"#)
            try await bridge.synchronize()
            try world.app.run("UPDATE note SET title = 'c'")
            try await bridge.synchronize()
            #expect(try world.app.rows("SELECT title FROM note") == ["c", "c"])
            try await device.waitForDownload()
            let titles = try await device.read { try $0.objects("note").map { try $0.value("title") } }
            #expect(titles == ["c", "c"])
        }
    }
}
