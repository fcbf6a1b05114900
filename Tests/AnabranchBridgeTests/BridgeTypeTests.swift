import AnabranchBridge
import AnabranchClient
import AnabranchCore
import AnabranchTesting
import Foundation
import Testing

/// Values of every type as columns and back (`Spec/Bridge.md`, section 3).
@Suite(.timeLimit(.minutes(30))) struct BridgeTypeTests {
    private typealias Property = ExportedClass.Property

    private static let scalars: [(String, PayloadType)] = [
        ("int", .int), ("bool", .bool), ("text", .string), ("data", .binary), ("date", .timestamp), ("float", .float),
        ("double", .double), ("dec", .decimal), ("oid", .objectID), ("uuid", .uuid),
    ]

    private static let classes = [
        ExportedClass(
            name: "Person", kind: .topLevel, key: Property(name: "name", type: .string, isNullable: false),
            properties: [Property(name: "age", type: .int, isNullable: false)]),
        ExportedClass(
            name: "Address", kind: .embedded, key: nil,
            properties: [
                Property(name: "city", type: .string, isNullable: true),
                Property(name: "since", type: .timestamp, isNullable: true),
                Property(name: "floors", type: .int, isNullable: false, collection: .list),
            ]),
        ExportedClass(
            name: "All", kind: .topLevel, key: Property(name: "_id", type: .objectID, isNullable: false),
            properties: scalars.map { Property(name: $0, type: $1, isNullable: true) }
                + scalars.map { Property(name: $0 + "s", type: $1, isNullable: true, collection: .list) }
                + scalars.map { Property(name: $0 + "set", type: $1, isNullable: false, collection: .set) }
                + scalars.map { Property(name: $0 + "map", type: $1, isNullable: true, collection: .dictionary) }
                + [
                    Property(name: "any", type: .null, isNullable: true),
                    Property(name: "anys", type: .null, isNullable: true, collection: .list),
                    Property(name: "friend", type: .link, isNullable: true, target: "Person"),
                    Property(name: "friends", type: .link, isNullable: false, collection: .list, target: "Person"),
                    Property(name: "home", type: .link, isNullable: true, target: "Address"),
                    Property(name: "homes", type: .link, isNullable: false, collection: .list, target: "Address"),
                ]),
    ]

    private static let uuid = UUIDBytes(Array(0..<16))
    private static let objectID = ObjectID(Array(100..<112))

    private static let values: [String: [Payload]] = [
        "int": [.int(.min), .int(.max), 0], "bool": [true, false], "text": ["", "ä\"\\\n{}',😀", "NULL"],
        "data": [.binary([]), .binary([0, 92, 255])],
        "date": [
            .timestamp(Timestamp(seconds: 1_700_000_000, nanoseconds: 123_456_789)),
            .timestamp(Timestamp(seconds: -1, nanoseconds: -500_000_000)),
            .timestamp(Timestamp(seconds: -60_000_000_000, nanoseconds: 0)),
        ],
        "float": [.float(0.1), .float(.infinity), .float(-3.4e38)],
        "double": [.double(0.1), .double(.leastNonzeroMagnitude), .double(-.infinity), .double(1e300)],
        "dec": ["12.5", "-0.000001", "123456789012345678901234567890.5", "NaN"].compactMap {
            Decimal128($0).map(Payload.decimal)
        },
        "oid": [objectID.map(Payload.objectID) ?? .null], "uuid": [uuid.map(Payload.uuid) ?? .null],
    ]

    /// One object with values everywhere, for each of the longest list of values.
    private static func write(_ transaction: WriteTransaction) throws {
        try transaction.add(classes)
        try transaction.create("Person", key: "ann", ["age": 7])
        try transaction.create("Person", key: "böb", ["age": 8])
        let friends: [Payload] = [
            .link(className: Array("Person".utf8), key: "ann"), .link(className: Array("Person".utf8), key: "böb"),
        ]
        for number in 0..<4 {
            let key = ObjectID(Array(repeating: 0, count: 11) + [UInt8(number)]).map(PrimaryKey.objectID) ?? .null
            let object = try transaction.create("All", key: key)
            for (name, _) in scalars {
                let all = values[name] ?? []
                if number > 0 { try object.set(name, to: all[(number - 1) % all.count]) }
                for value in all { try object.list(name + "s").append(value) }
                if number == 2 { try object.list(name + "s").append(.null) }
                try object.set(name + "set").formUnion(all)
                for (place, value) in all.enumerated() {
                    try object.dictionary(name + "map").set(value, for: "k \(place)\"")
                }
            }
            let any = [
                .int(5), .double(1.5), .double(1e20), "text", .timestamp(Timestamp(seconds: 1, nanoseconds: 5)),
                friends[0],
            ]
            if number > 0 { try object.set("any", to: any[number]) }
            for value in any + [true, .null] { try object.list("anys").append(value) }
            try object.list("anys").append(.list)
            try object.list("anys").list(at: any.count + 2).append(.binary([1]))
            try object.list("anys").append(.dictionary)
            try object.list("anys").dictionary(at: any.count + 3).set("x", for: "int")
            if number > 1 { try object.set("friend", to: friends[0]) }
            for friend in friends { try object.list("friends").append(friend) }
            if number > 1 { try object.createObject("home").set("city", to: "Oslo") }
            let home = try object.list("homes").appendObject()
            try home.set("since", to: .timestamp(Timestamp(seconds: 86_400, nanoseconds: 0)))
            try home.list("floors").append(3)
        }
    }

    /// Any client can name a property so.
    @Test func aQuotationMarkBeforeAnAccentEndsNoName() {
        let name = "a\"\u{301} text); DROP TABLE note; --"
        let declared = ExportedClass(
            name: "C", kind: .topLevel, key: Property(name: "_id", type: .objectID, isNullable: false),
            properties: [Property(name: name, type: .string, isNullable: true)])
        let sql = BridgeSchema.sql(for: [declared]).sql
        #expect(sql.utf8.contains("\"a\"\"\u{301} text); DROP TABLE note; --\" text".utf8), "\(sql)")
    }

    @Test func everyValueBecomesThatOfAColumnAndComesBack() async throws {
        try await BridgeWorld.run { world in
            let device = try await world.device(), bridge = try await world.bridge()
            try await device.change { try Self.write($0) }
            let (sql, omitted) = BridgeSchema.sql(for: try await device.read { $0.state.exportedClasses })
            #expect(omitted == [])
            try world.app.run(sql)
            try world.install(["All", "Person"])
            let done = try await bridge.synchronize()
            #expect(done.applied == 6 && done.waiting == 0)
            #expect(try await world.differences(bridge.replica) == [])
            #expect(try await bridge.synchronize().isEmpty)
            #expect(
                try world.app.rows(
                    #"SELECT int, bool, text, data, date, dec, oid, uuid, ints, home, friends, textset FROM "All" "#
                        + "ORDER BY _id"
                ).last
                    == [
                        "0", "t", "NULL", "\\x", "0068-09-03 13:20:00+00", "123456789012345678901234567890.5",
                        "6465666768696a6b6c6d6e6f", "00010203-0405-0607-0809-0a0b0c0d0e0f",
                        "{-9223372036854775808,9223372036854775807,0}",
                        #"{"city": "Oslo", "since": null, "floors": []}"#, "{ann,böb}",
                        #"{"","NULL","ä\"\\\#n{}',😀"}"#,
                    ].joined(separator: "|"))

            // All of it is written to new rows, whose objects have the same values.
            try world.app.run(
                """
                INSERT INTO "All" SELECT r.* FROM "All" a,
                  jsonb_populate_record(a, jsonb_build_object('_id', 'ff' || substr(a._id, 3))) r
                """
            )
            #expect(try await bridge.synchronize().collected == 4)
            #expect(try world.app.rows("SELECT * FROM anabranch.conflict") == [])
            try await device.waitForDownload()
            let graph = try await device.snapshot().state
            let schema = try #require(graph.schema(ofClass: Array("All".utf8)))
            var texts: [[String]] = []
            try graph.forEachObject(of: schema.number) { object in
                texts.append(
                    schema.properties.map {
                        "\(String(decoding: $0.name, as: UTF8.self)) \(Self.text(object.value(of: $0)))"
                    })
            }
            #expect(texts.count == 8)
            for (old, new) in zip(texts.prefix(4), texts.suffix(4)) { #expect(old == new) }

            // Nothing is written to objects for values that rows cannot tell from theirs.
            let before = await bridge.replica.record.version
            try world.database.repairAtNextPass()
            try await bridge.synchronize()
            #expect(await bridge.replica.record.version == before)
        }
    }

    /// A value in words; times to the microsecond, which rows have.
    private static func text(_ value: StateValue) -> String {
        switch value {
        case .timestamp(let time): "\(time.seconds) \((time.nanoseconds + (time.nanoseconds < 0 ? -500 : 500)) / 1000)"
        case .list(let list): "\(list.values.map(text))"
        case .set(let set): "\(set.values.map(text))"
        case .dictionary(let entries): "\(zip(entries.keys, entries.values).map { "\($0) \(text($1))" })"
        case .object: "object"
        case .decimal(let number): "\(number)"
        default: "\(value)"
        }
    }

    @Test func aRowChangesOnlyWhatDiffersInACollection() async throws {
        try await BridgeWorld.run("CREATE TABLE note (id bigint PRIMARY KEY, tags text[], meta jsonb)", ["note"]) {
            world in
            let device = try await world.device(), bridge = try await world.bridge()
            try world.app.run("INSERT INTO note VALUES (1, '{a,b,c}', '{\"x\": 1}')")
            try await bridge.synchronize()
            try await device.waitForDownload()
            // The device inserts in what it knows, and the row has changed.
            try world.app.run("UPDATE note SET tags = '{a,sql,b,c}', meta = meta || '{\"y\": [true, null, 1.5]}'")
            try await bridge.pass()
            try await device.change { transaction in
                try transaction.object("note", key: 1)?.list("tags").append("device")
                try transaction.object("note", key: 1)?.dictionary("meta").set("z", for: "z")
            }
            try await bridge.synchronize()
            #expect(try world.app.rows("SELECT tags FROM note") == ["{a,sql,b,c,device}"])
            #expect(try world.app.rows("SELECT meta FROM note") == [#"{"x": 1, "y": [true, null, 1.5], "z": "z"}"#])
            #expect(try await world.differences(bridge.replica) == [])
        }
    }

    /// The elements of a list as rows of a table of their own.
    @Test func aListIsATable() async throws {
        try await BridgeWorld.run { world in
            let device = try await world.device(), bridge = try await world.bridge()
            let classes = [
                ExportedClass(
                    name: "Note", kind: .topLevel, key: Property(name: "_id", type: .string, isNullable: false),
                    properties: [
                        Property(name: "title", type: .string, isNullable: true),
                        Property(name: "tags", type: .string, isNullable: true, collection: .list),
                        Property(name: "marks", type: .decimal, isNullable: false, collection: .set),
                        Property(name: "next", type: .link, isNullable: false, collection: .list, target: "Note"),
                    ])
            ]
            try await device.change { transaction in
                try transaction.add(classes)
                try transaction.create("Note", key: "b")
                for (key, tags) in [("a", ["x", "y", "x"]), ("b", [])] {
                    let note = try transaction.create("Note", key: .string(Array(key.utf8)))
                    for tag in tags { try note.list("tags").append(.string(Array(tag.utf8))) }
                    try note.list("next").append(.link(className: Array("Note".utf8), key: "b"))
                    try note.set("marks").formUnion([Decimal128("1.50").map(Payload.decimal) ?? .null])
                }
            }
            let lists = ["Note.tags", "Note.marks", "Note.next", "Note.title"]
            let (sql, omitted) = BridgeSchema.sql(for: try await device.read { $0.state.exportedClasses }, lists: lists)
            #expect(omitted.count == 1 && omitted[0].hasPrefix("Note.title: "))
            try world.app.run(sql)
            #expect(try world.install(["Note"]).count == 3)
            #expect(try await bridge.synchronize().applied == 2)
            let tags = #"SELECT * FROM "Note_tags" ORDER BY owner, position"#
            #expect(try world.app.rows(tags) == ["a|0|x", "a|1|y", "a|2|x"])
            #expect(try world.app.rows(#"SELECT * FROM "Note_next" ORDER BY owner"#) == ["a|0|b", "b|0|b"])
            #expect(try world.app.rows(#"SELECT owner, value FROM "Note_marks""#) == ["a|1.50", "b|1.50"])
            #expect(try await bridge.synchronize().isEmpty)

            // SQL writes as it likes: positions have an order, and may have gaps.
            try world.app.run(
                """
                INSERT INTO "Note_tags" VALUES ('b', 7, 'late'), ('b', -3, NULL);
                UPDATE "Note_tags" SET value = 'z' WHERE value = 'y'; DELETE FROM "Note_tags" WHERE position = 0
                """)
            #expect(try await bridge.synchronize().collected == 2)
            try await device.waitForDownload()
            try await device.change { transaction in
                let (a, b) = (try transaction.object("Note", key: "a"), try transaction.object("Note", key: "b"))
                #expect(try a?.list("tags").values == ["z", "x"])
                #expect(try b?.list("tags").values == [.null, "late"])
                try a?.list("tags").append("device")
            }
            #expect(try await bridge.synchronize().applied == 1)
            #expect(
                try world.app.rows(tags) == ["a|0|z", "a|1|x", "a|2|device", "b|-3|∅", "b|7|late"])
            #expect(try await world.differences(bridge.replica) == [])

            // Its triggers are looked at as well, and an owner that goes takes its elements along.
            try world.app.run(#"DROP TRIGGER anabranch_i ON "Note_tags""#)
            #expect(try world.database.status().tables.map(\.hasTriggers) == [false])
            try world.install(["Note"])
            try await device.change { transaction in
                if let b = try transaction.object("Note", key: "b") { try transaction.delete(b) }
            }
            try world.app.run(#"TRUNCATE "Note_next""#)
            try await bridge.synchronize()
            #expect(try world.app.rows(tags) == ["a|0|z", "a|1|x", "a|2|device"])
            #expect(try await world.differences(bridge.replica) == [])
            #expect(try world.app.rows("SELECT * FROM anabranch.pending") == [])
            try world.database.uninstall(["Note"])
            try world.app.run(#"INSERT INTO "Note_tags" VALUES ('a', 9, 'free')"#)
        }
    }

    /// The replica has made its half of a step, and the database has gone away before it made the other one.
    @Test func aStepThatIsHalfDoneIsNotMadeAgain() async throws {
        try await BridgeWorld.run("CREATE TABLE note (id bigint PRIMARY KEY, tags text[])", ["note"]) { world in
            let device = try await world.device(), bridge = try await world.bridge()
            try await bridge.synchronize()
            try world.app.run(
                """
                INSERT INTO note VALUES (1, '{}');
                CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'gone'; END $$;
                CREATE TRIGGER fail BEFORE INSERT OR UPDATE ON anabranch.state FOR EACH ROW
                WHEN (NEW.name = 'collected') EXECUTE FUNCTION fail()
                """)
            await #expect(throws: BridgeError.self) { try await bridge.pass() }
            try await bridge.replica.waitForUpload()
            try await device.waitForDownload()
            try await device.change { try $0.object("note", key: 1)?.list("tags").append("device") }
            try await bridge.replica.waitForDownload()
            try world.app.run("DROP TRIGGER fail ON anabranch.state")
            try await bridge.synchronize()
            #expect(try world.app.rows("SELECT tags FROM note") == ["{device}"])
        }
    }

    /// One in small letters is the row of the same object.
    @Test func anObjectIDInCapitalsIsNoKey() async throws {
        try await BridgeWorld.run { world in
            let device = try await world.device(), bridge = try await world.bridge()
            try await device.change { transaction in
                try transaction.addClass("task", key: "_id", .objectID)
                try transaction.addColumn("n", .int, isNullable: true, to: "task")
            }
            try world.app.run("CREATE TABLE task (_id text PRIMARY KEY, n int)")
            try world.install(["task"])
            try world.app.run(
                """
                INSERT INTO task VALUES ('64B7F0AA0000000000000001', 1), ('64b7f0aa0000000000000002', 2)
                """)
            try await bridge.synchronize()
            #expect(try world.app.rows("SELECT n FROM task ORDER BY n") == ["1", "2"])
            let conflicts = try world.app.rows("SELECT key, kind FROM anabranch.conflict")
            #expect(conflicts == ["64B7F0AA0000000000000001|value"])
            #expect(try await device.values("task", "n").count == 1)
        }
    }

    /// Offsets of local time have seconds there, and data is not a hexadecimal digits.
    @Test func settingsOfTheDatabaseChangeNoValues() async throws {
        let schema = "CREATE TABLE note (id bigint PRIMARY KEY, at timestamptz, data bytea)"
        try await BridgeWorld.run(schema, ["note"]) { world in
            let device = try await world.device(), bridge = try await world.bridge()
            for setting in ["bytea_output TO escape", "TimeZone TO ''Europe/Paris''"] {
                let change = "format('ALTER DATABASE %I SET \(setting)', current_database())"
                try world.app.run("DO $$ BEGIN EXECUTE \(change); END $$")
            }
            try world.app.run(#"INSERT INTO note VALUES (1, '1890-01-01 00:00:00+00', '\x01ff')"#)
            try await bridge.synchronize()
            #expect(try world.app.rows("SELECT key, lost FROM anabranch.conflict") == [])
            try await device.waitForDownload()
            let data = try await device.read { try $0.object("note", key: 1)?.value("data") }
            #expect(data == .binary([1, 255]))
            let time = try await device.read { try $0.object("note", key: 1)?.value("at") }
            #expect(time == .timestamp(Timestamp(seconds: -2_524_521_600, nanoseconds: 0)))
        }
    }

    @Test func timesOfAllErasAreRead() async throws {
        let schema = "CREATE TABLE note (id bigint PRIMARY KEY, at timestamptz, day date)"
        try await BridgeWorld.run(schema, ["note"]) { world in
            let device = try await world.device(), bridge = try await world.bridge()
            try world.app.run(
                """
                INSERT INTO note VALUES (1, '0044-03-15 12:00:00.25+00 BC', '4713-11-24 BC'),
                  (2, '0001-01-01 00:00:00+00', '0001-12-31 BC'), (3, '10000-02-29 00:00:00+00', '5874897-12-31'),
                  (4, '294276-12-31 23:59:59+00', '1600-02-29')
                """)
            try await bridge.synchronize()
            #expect(try world.app.rows("SELECT key, lost FROM anabranch.conflict") == [])
            #expect(try await world.differences(bridge.replica) == [])
            try await device.waitForDownload()
            let epochs = "SELECT floor(extract(epoch FROM at)), extract(epoch FROM day) FROM note ORDER BY id"
            let seconds = try world.app.rows(epochs)
            let read = try await device.read { transaction in
                try transaction.objects("note").map { note in
                    try ["at", "day"].map { name in
                        guard case .timestamp(let time) = try note.value(name) else { return "" }
                        return "\(time.nanoseconds < 0 ? time.seconds - 1 : time.seconds)"
                    }.joined(separator: "|")
                }
            }
            #expect(read == seconds)
        }
    }

    @Test func aColumnThatDoesNotFitItsPropertyIsAnErrorWithBoth() async throws {
        try await BridgeWorld.run { world in
            let device = try await world.device(), bridge = try await world.bridge()
            try await device.change { try Self.write($0) }
            try world.app.run(#"CREATE TABLE "Person" (name text PRIMARY KEY, age text)"#)
            try world.install(["Person"])
            do {
                try await bridge.synchronize()
                Issue.record("it went on")
            } catch let error as BridgeError {
                #expect(error.code == .schemaMismatch && error.table == #""public"."Person""# && error.column == "age")
                #expect(error.reason.contains("Int") && error.reason.contains("text"))
            }
        }
    }
}
