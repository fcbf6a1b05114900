import AnabranchCore

/// The values that `StoredWorkload` writes into its file of values: a class for each type of key, and one with a column
/// for each type of value in each kind of collection.
enum StoredValues {
    /// The types of scalars and values at their edges.
    static let scalars: [(name: String, type: PayloadType, values: [Payload])] = [
        ("int", .int, [1, 0, -1, .int(.max), .int(.min)]),
        ("bool", .bool, [true, false]),
        ("string", .string, ["plain", "", "grün 👋", "\"quoted\"\n\u{1}\\", .string([0xff, 0xfe])]),
        ("binary", .binary, [.binary([0, 1, 255]), .binary([]), .binary(Array(repeating: 0xab, count: 300))]),
        ("timestamp", .timestamp, [timestamp(1, 2), timestamp(-1, -999_999_999), timestamp(253_402_300_799, 1)]),
        (
            "float", .float,
            [.float(1.5), .float(-0.0), .float(.nan), .float(.infinity), .float(.leastNonzeroMagnitude)]
        ),
        (
            "double", .double,
            [.double(0.1), .double(-0.0), .double(Double(bitPattern: 0x7ff8_0000_0000_0123)), .double(-.infinity)]
        ),
        (
            "decimal", .decimal,
            [decimal(150, 0x303c), decimal(0, 0x3040), decimal(7, 0x7c00), decimal(0, 0xf800), decimal(.max, 0xb041)]
        ),
        (
            "objectId", .objectID,
            [1, 0, 255].map { ObjectID(repeatElement($0, count: 12)).map(Payload.objectID) ?? .null }
        ),
        ("uuid", .uuid, [1, 0, 255].map { UUIDBytes(repeatElement($0, count: 16)).map(Payload.uuid) ?? .null }),
    ]

    private static func timestamp(_ seconds: Int64, _ nanoseconds: Int32) -> Payload {
        .timestamp(Timestamp(seconds: seconds, nanoseconds: nanoseconds))
    }

    /// - Parameter top: the upper 16 bits.
    private static func decimal(_ low: UInt64, _ top: UInt64) -> Payload {
        .decimal(Decimal128(low: low, high: top << 48))
    }

    static func objectID(_ byte: UInt8) -> PrimaryKey {
        ObjectID(repeatElement(byte, count: 12)).map(PrimaryKey.objectID) ?? .null
    }

    static func uuid(_ byte: UInt8) -> PrimaryKey {
        UUIDBytes(repeatElement(byte, count: 16)).map(PrimaryKey.uuid) ?? .null
    }

    // MARK: Schema

    static func addSchema(_ tx: WriteTransaction) throws {
        try tx.addClass("Int", key: "_id", .int)
        try tx.addColumn("note", .string, isNullable: true, to: "Int")
        try tx.addClass("IntOrNull", key: "_id", .int, isNullable: true)
        try tx.addClass("String", key: "name", .string, isNullable: true)
        try tx.addClass("ObjectId", key: "_id", .objectID)
        try tx.addClass("UUID", key: "_id", .uuid)
        try tx.addClass("NoKey")
        try tx.addColumn("value", .null, to: "NoKey")
        try tx.addClass("Event", key: "_id", .uuid, isAsymmetric: true)
        try tx.addColumn("what", .string, to: "Event")
        try tx.addEmbeddedClass("Part")
        try tx.addColumn("x", .int, to: "Part")
        try tx.addColumn("row", .int, collection: .list, to: "Part")
        try tx.addLink("next", to: "Part", of: "Part")
        try tx.addClass("Passing", key: "_id", .int)
        try tx.addColumn("x", .int, to: "Passing")
        try tx.addClass("Value", key: "_id", .int)
        for (name, type, _) in scalars + [("mixed", .null, [])] {
            for (suffix, collection) in collections {
                try tx.addColumn(name + suffix, type, collection: collection, to: "Value")
                if type == .null { continue }
                try tx.addColumn(name + suffix + "OrNull", type, isNullable: true, collection: collection, to: "Value")
            }
        }
        for (suffix, collection) in collections {
            try tx.addLink("link" + suffix, to: "Int", collection: collection, of: "Value")
            if collection != .set { try tx.addLink("part" + suffix, to: "Part", collection: collection, of: "Value") }
        }
        for name in ["passingInt", "usedInt"] { try tx.addColumn(name, .int, to: "Value") }
    }

    private static let collections: [(suffix: String, collection: CollectionType)] = [
        ("", .single), ("List", .list), ("Set", .set), ("Dictionary", .dictionary),
    ]

    // MARK: Objects

    /// Objects with keys of every type; a Value with everything in it, one with other values, and one as it is made.
    static func addObjects(_ tx: WriteTransaction) throws {
        for key in [.int(1), .int(2), .int(3), .int(-4), .int(.max)] as [PrimaryKey] { try tx.create("Int", key: key) }
        for key in [.null, 0] as [PrimaryKey] { try tx.create("IntOrNull", key: key) }
        for key in [.null, "", "text", .string([0xff])] as [PrimaryKey] { try tx.create("String", key: key) }
        for byte in [0, 1] as [UInt8] {
            try tx.create("ObjectId", key: objectID(byte))
            try tx.create("UUID", key: uuid(byte))
            try tx.create("NoKey", ["value": .int(Int64(byte))])
            try tx.create("Event", key: uuid(byte), ["what": "happened"])
            try tx.create("Passing", key: .int(Int64(byte)), ["x": 5])
        }
        for key in 1...3 as ClosedRange<Int64> { try tx.create("Value", key: .int(key)) }
        try tx.create("Value", key: 4, ["int": 4, "string": "default", "passingInt": 4], areDefaults: true)
        for (key, skipped) in [(1, 0), (2, 1)] as [(PrimaryKey, Int)] {
            guard let object = try tx.object("Value", key: key) else { continue }
            for (name, _, values) in scalars { try fill(object, name, Array(values.dropFirst(skipped))) }
            try fillMixed(object)
            try fillLinks(object, try tx.create("Int", key: 2).link)
            try fillParts(object)
        }
    }

    private static func fill(_ object: DynamicObject, _ name: String, _ values: [Payload]) throws {
        for (suffix, all) in [("", values), ("OrNull", values + [.null])] {
            object[name + suffix] = values[0]
            for value in all { try object.list(name + "List" + suffix).append(value) }
            for value in all { try object.set(name + "Set" + suffix).insert(value) }
            for (number, value) in all.enumerated() {
                try object.dictionary(name + "Dictionary" + suffix).set(value, for: number == 1 ? "" : "key \(number)")
            }
        }
    }

    private static func fillMixed(_ object: DynamicObject) throws {
        let all = scalars.flatMap(\.values) + [.null]
        for value in all { try object.list("mixedList").append(value) }
        for value in all { try object.set("mixedSet").insert(value) }
        for (number, value) in all.enumerated() {
            try object.dictionary("mixedDictionary").set(value, for: "k\(number)")
        }
        try object.set("mixed", to: .dictionary)
        let outer = try object.dictionary("mixed")
        try outer.set(.list, for: "list")
        try outer.list(for: "list").append(.dictionary)
        let inner = try outer.list(for: "list").dictionary(at: 0)
        try inner.set(.double(.nan), for: "not a number")
        try inner.set(.list, for: "empty")
        try outer.set("text", for: "grün")
    }

    private static func fillLinks(_ object: DynamicObject, _ link: Payload) throws {
        object["link"] = link
        try object.list("linkList").append(link)
        try object.list("linkList").append(link)
        try object.set("linkSet").insert(link)
        try object.dictionary("linkDictionary").set(link, for: "there")
        try object.dictionary("linkDictionary").set(.null, for: "nowhere")
        try object.list("mixedList").append(link)
    }

    private static func fillParts(_ object: DynamicObject) throws {
        let part = try object.createObject("part")
        part["x"] = 1
        try part.list("row").append(7)
        try part.createObject("next")["x"] = 2
        for number in 0..<3 { try object.list("partList").appendObject()["x"] = .int(Int64(number)) }
        try object.dictionary("partDictionary").createObject(for: "key")["x"] = 9
        try object.dictionary("partDictionary").set(.null, for: "none")
    }

    // MARK: Edits of the clients

    /// Links to an object that another client deletes at the same time: they stay, without a target.
    static func linkToThree(_ tx: WriteTransaction) throws {
        guard let object = try tx.object("Value", key: 1) else { return }
        let link = try tx.create("Int", key: 3).link
        object["link"] = link
        try object.list("linkList").insert(link, at: 1)
        try object.set("linkSet").insert(link)
        try object.dictionary("linkDictionary").set(link, for: "gone")
        try object.list("mixedList").insert(link, at: 0)
        try object.dictionary("mixedDictionary").set(link, for: "gone")
    }

    static func deleteThree(_ tx: WriteTransaction) throws {
        if let object = try tx.object("Int", key: 3) { try tx.delete(object) }
        if let object = try tx.object("String", key: "text") { try tx.delete(object) }
    }

    /// Meets what the others do at the same time, at places of every kind.
    static func conflict(_ author: String) -> @Sendable (WriteTransaction) throws -> Void {
        { tx in
            guard let object = try tx.object("Value", key: 2) else { return }
            object["string"] = .string(Array(author.utf8))
            try object.add(Int64(author.utf8.count), to: "usedInt")
            try object.list("intList").insert(.int(Int64(author.utf8.count)), at: 1)
            try object.list("intList").move(from: 0, to: 2)
            try object.list("stringList").remove(at: 0)
            try object.set("stringSet").insert(.string(Array(author.utf8)))
            try object.dictionary("stringDictionary").set(.string(Array(author.utf8)), for: "author")
            try tx.create("NoKey", ["value": .string(Array(author.utf8))])
        }
    }

    static func editInside(_ tx: WriteTransaction) throws {
        guard let object = try tx.object("Value", key: 1) else { return }
        try object.list("partList").object(at: 1)["x"] = 11
        try object.object("part")?.list("row").append(8)
        try object.dictionary("mixed").list(for: "list").append("more")
        try object.list("doubleList").removeAll()
    }

    static func eraseSchema(_ tx: WriteTransaction) throws {
        try tx.eraseClass("Passing")
        try tx.eraseColumn("passingInt", of: "Value")
        try tx.addClass("Passing", key: "_id", .string)
        try tx.addColumn("passingInt", .string, to: "Value")
    }

    /// At the same time as `eraseSchema`: left out of the log.
    static func useErasedSchema(_ tx: WriteTransaction) throws {
        try tx.create("Value", key: 3)["passingInt"] = 3
        try tx.create("Passing", key: 1)["x"] = 6
    }

    static func document(_ number: UInt8, _ tx: WriteTransaction) throws -> DynamicObject {
        try tx.create("Document", key: objectID(number))
    }
}
