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
