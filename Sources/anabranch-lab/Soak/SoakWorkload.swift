import AnabranchCore
import AnabranchTesting

/// The writes of the clients of a soak: always to the same few objects, none of which grows without end.
enum SoakWorkload {
    static let className = "Page"
    private static let pageCount = 200
    private static let lineCountMax = 50

    static func declare(_ transaction: WriteTransaction) throws {
        try transaction.addClass(className, key: "_id", .int)
        try transaction.addColumn("text", .string, to: className)
        try transaction.addColumn("count", .int, to: className)
        try transaction.addColumn("lines", .string, collection: .list, to: className)
        try transaction.addColumn("marks", .int, collection: .dictionary, to: className)
    }

    static func write(_ random: inout SeededRandom, to transaction: WriteTransaction) throws {
        try declare(transaction)
        let key = PrimaryKey.int(Int64(random.below(pageCount)))
        guard let page = try transaction.object(className, key: key) else {
            try transaction.create(className, key: key, ["text": text(&random)])
            return
        }
        switch random.below(12) {
        case 0: try transaction.delete(page)
        case 1, 2: try page.set("text", to: text(&random))
        case 3...5: try page.add(1, to: "count")
        case 6, 7: try page.dictionary("marks").set(.int(Int64(random.below(1_000))), for: "m\(random.below(20))")
        default: try edit(try page.list("lines"), &random)
        }
    }

    private static func edit(_ lines: DynamicList, _ random: inout SeededRandom) throws {
        let count = try lines.count
        if count < lineCountMax, count == 0 || !random.isOne(in: 3) {
            return try lines.insert(text(&random), at: random.upTo(count))
        }
        if random.isOne(in: 3), count > 1 {
            try lines.move(from: random.below(count), to: random.below(count))
        } else {
            try lines.remove(at: random.below(count))
        }
    }

    /// A random text; a few are long.
    private static func text(_ random: inout SeededRandom) -> Payload {
        let length = random.isOne(in: 50) ? 5_000 + random.below(20_000) : random.below(100)
        return .string((0..<length).map { _ in UInt8(ascii: "a") + UInt8(random.below(26)) })
    }
}
