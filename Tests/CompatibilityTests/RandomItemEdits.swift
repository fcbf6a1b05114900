import AnabranchCore
import AnabranchTesting

/// Random edits of few objects, so that those of different clients often meet.
struct RandomItemEdits {
    var random: SeededRandom

    init(seed: UInt64) { random = SeededRandom(seed: seed) }

    static func addSchema(_ tx: WriteTransaction) throws {
        try tx.addClass("Item", key: "_id", .int)
        try tx.addColumn("count", .int, to: "Item")
        try tx.addColumn("title", .string, isNullable: true, to: "Item")
        try tx.addColumn("free", .null, to: "Item")
        try tx.addLink("other", to: "Item", of: "Item")
        try tx.addColumn("row", .int, collection: .list, to: "Item")
        try tx.addLink("others", to: "Item", collection: .list, of: "Item")
        try tx.addColumn("marks", .null, collection: .set, to: "Item")
        try tx.addColumn("words", .string, collection: .dictionary, to: "Item")
    }

    mutating func edit(_ tx: WriteTransaction) throws {
        for _ in 0...random.below(4) { try editItem(tx) }
    }

    private mutating func editItem(_ tx: WriteTransaction) throws {
        let key = PrimaryKey.int(Int64(random.below(5)))
        guard let item = try tx.object("Item", key: key) else {
            try tx.create("Item", key: key, ["title": text()], areDefaults: random.isOne(in: 2))
            return
        }
        switch random.below(16) {
        case 0: if random.isOne(in: 6) { try tx.delete(item) }
        case 1: item["count"] = .int(Int64(random.below(100)))
        case 2, 3: try item.add(Int64(random.below(20)) - 10, to: "count")
        case 4: item["title"] = random.isOne(in: 4) ? .null : text()
        case 5: item["free"] = random.pick([.null, 1, "one", .double(1.5), .bool(true), item.link])
        case 6: item["other"] = try link(tx)
        case 7: try item.list("others").insert(try link(tx), at: 0)
        case 8: try editSet(try item.set("marks"))
        case 9:
            let words = try item.dictionary("words"), key = random.pick(["k", "l", "m"])
            if random.isOne(in: 4) { try words.remove(key) } else { try words.set(text(), for: key) }
        default: try editList(try item.list("row"))
        }
    }

    private mutating func text() -> Payload { .string(Array(random.pick(["", "a", "bb", "ccc"]).utf8)) }

    private mutating func link(_ tx: WriteTransaction) throws -> Payload { random.pick(try tx.objects("Item")).link }

    private mutating func editSet(_ set: DynamicSet) throws {
        let value = random.pick([.null, 1, 2, "a", "b", .bool(false)] as [Payload])
        if random.isOne(in: 3) { try set.remove(value) } else { try set.insert(value) }
    }

    private mutating func editList(_ list: DynamicList) throws {
        let count = try list.count
        switch count == 0 ? 0 : random.below(8) {
        case 0...3: try list.insert(.int(Int64(random.below(1_000))), at: random.upTo(count))
        case 4: try list.remove(at: random.below(count))
        case 5: try list.set(.int(Int64(random.below(1_000))), at: random.below(count))
        case 6: try list.move(from: random.below(count), to: random.below(count))
        default: if random.isOne(in: 20) { try list.removeAll() } else { try list.swapAt(0, count - 1) }
        }
    }
}
