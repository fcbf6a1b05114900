import AnabranchCore
import AnabranchTesting

/// The writes of the replicas of a torture. Every transaction adds one to a counter that all share, and creates an
/// object that nobody touches again; so what was lost, and what took effect twice, can be counted in the end.
enum TortureWorkload {
    static let classNames = ["Entry", "Counter", "Note"]
    private static let recordCount = 12

    static func entryKey(_ client: Int, _ number: Int) -> String { "\(client)-\(number)" }

    /// - Parameter number: the number of the transaction; no client writes one number twice.
    static func write(
        _ number: Int, of client: Int, to transaction: WriteTransaction, _ random: inout SeededRandom
    ) throws {
        try declare(transaction)
        let counter = try transaction.create("Counter", key: 0)
        try counter.add(1, to: "value")
        let key = PrimaryKey.string(Array(entryKey(client, number).utf8))
        try transaction.create("Entry", key: key, ["client": .int(Int64(client))])
        for _ in 0...random.below(4) { try edit(transaction, &random) }
    }

    static func declare(_ transaction: WriteTransaction) throws {
        try transaction.addClass("Entry", key: "_id", .string)
        try transaction.addColumn("client", .int, to: "Entry")
        try transaction.addClass("Counter", key: "_id", .int)
        try transaction.addColumn("value", .int, to: "Counter")
        try transaction.addClass("Note", key: "_id", .int)
        try transaction.addColumn("title", .string, isNullable: true, to: "Note")
        try transaction.addColumn("tags", .string, collection: .list, to: "Note")
        try transaction.addColumn("words", .string, collection: .set, to: "Note")
        try transaction.addColumn("numbers", .int, collection: .dictionary, to: "Note")
        try transaction.addColumn("any", .null, to: "Note")
        try transaction.addLink("next", to: "Note", of: "Note")
        try transaction.addLink("others", to: "Note", collection: .list, of: "Note")
    }

    private static func edit(_ transaction: WriteTransaction, _ random: inout SeededRandom) throws {
        let key = PrimaryKey.int(Int64(random.below(recordCount)))
        let text = Payload.string(Array("\(random.below(1000))".utf8))
        guard let note = try transaction.object("Note", key: key) else {
            try transaction.create("Note", key: key, ["title": text])
            return
        }
        let tags = try note.list("tags"), tagCount = try tags.count
        switch random.below(14) {
        case 0: try transaction.delete(note)
        case 1: try note.set("title", to: random.isOne(in: 4) ? .null : text)
        case 2: try note.set("any", to: random.isOne(in: 2) ? text : .int(Int64(random.below(9))))
        case 3: try note.set("words").insert(.string(Array("w\(random.below(6))".utf8)))
        case 4: try note.set("words").remove(.string(Array("w\(random.below(6))".utf8)))
        case 5: try note.dictionary("numbers").set(.int(Int64(random.below(100))), for: "k\(random.below(5))")
        case 6: try note.dictionary("numbers").remove("k\(random.below(5))")
        case 7: try link(note, in: transaction, &random)
        case 8 where tagCount > 0: try tags.remove(at: random.below(tagCount))
        case 9 where tagCount > 1: try tags.move(from: random.below(tagCount), to: random.below(tagCount))
        case 10 where tagCount > 0: try tags.set(text, at: random.below(tagCount))
        case 11 where random.isOne(in: 5): try tags.removeAll()
        default: try tags.insert(text, at: random.below(tagCount + 1))
        }
    }

    private static func link(
        _ note: DynamicObject, in transaction: WriteTransaction, _ random: inout SeededRandom
    ) throws {
        let others = try note.list("others"), count = try others.count
        guard let other = try transaction.object("Note", key: .int(Int64(random.below(recordCount)))) else {
            return try note.set("next", to: .null)
        }
        if random.isOne(in: 2) {
            try note.set("next", to: other.link)
        } else if count > 0, random.isOne(in: 3) {
            try others.remove(at: random.below(count))
        } else {
            try others.insert(other.link, at: random.below(count + 1))
        }
    }
}
