import AnabranchCore
import AnabranchTesting

/// Writes that can be counted: each makes an object of its own and changes one that all share.
enum CountedWrites {
    static let entry = "Entry", board = "Board"
    private static let claimKey = "last"

    static func declare(_ transaction: WriteTransaction) throws {
        try transaction.addClass(entry, key: "_id", .int)
        for field in ["count", "owner"] { try transaction.addColumn(field, .int, to: entry) }
        try transaction.addColumn("text", .string, to: entry)
        try transaction.addClass(board, key: "_id", .int)
        try transaction.addColumn("total", .int, to: board)
        try transaction.addColumn("items", .int, collection: .list, to: board)
        try transaction.addColumn("tags", .int, collection: .set, to: board)
        try transaction.addColumn("marks", .string, collection: .dictionary, to: board)
        try transaction.addLink("last", to: entry, of: board)
    }

    /// Adds a column as a faulty application does: with a type that differs between clients.
    static func declareConflict(_ transaction: WriteTransaction, asText: Bool) throws {
        try transaction.addColumn("extra", asText ? .string : .int, to: entry)
    }

    /// Writes the name of the last writer.
    static func claim(_ name: String, _ transaction: WriteTransaction) throws {
        try declare(transaction)
        let board = try transaction.object(board, key: .int(1)) ?? transaction.create(board, key: .int(1))
        try board.dictionary("marks").set(.string(Array(name.utf8)), for: claimKey)
    }

    /// - Returns: the name of the last writer.
    static func claim(in state: ObjectGraph) throws -> String? {
        try state.read { transaction in
            guard
                case .string(let name)? = try transaction.object(board, key: .int(1))?.dictionary("marks")
                    .value(for: claimKey)
            else { return nil }
            return String(decoding: name, as: UTF8.self)
        }
    }

    /// - Parameter token: a number that no other write has.
    static func write(
        _ token: Int64, by owner: Int, _ random: inout SeededRandom, _ transaction: WriteTransaction
    ) throws {
        try declare(transaction)
        let text = String(repeating: "x", count: random.pick([0, 3, 40, 400]))
        let values: [String: Payload] = ["owner": .int(Int64(owner)), "text": .string(Array(text.utf8))]
        let made = try transaction.create(entry, key: .int(token), values)
        try made.add(1, to: "count")
        let board = try transaction.object(board, key: .int(1)) ?? transaction.create(board, key: .int(1))
        try board.add(1, to: "total")
        let items = try board.list("items")
        try items.insert(.int(token), at: random.upTo(try items.count))
        if random.isOne(in: 4), try items.count > 1 {
            try items.move(from: random.below(try items.count), to: random.below(try items.count))
        }
        if random.isOne(in: 3) { try board.set("tags").insert(.int(token % 7)) }
        if random.isOne(in: 6) { try board.set("tags").remove(.int(token % 7)) }
        if random.isOne(in: 3) { try board.dictionary("marks").set(.string(Array(text.utf8)), for: "k\(token % 5)") }
        if random.isOne(in: 3) { try board.set("last", to: made.link) }
    }
}
