import AnabranchTesting
import Synchronization
import Testing

@testable import AnabranchCore

/// A state in rows against the same state in memory, with parts of a few bytes, so that everything is divided often.
@Suite struct RandomRowsTests {
    /// Rows that change while states read from them.
    private final class Rows: ObjectRows {
        private let content = Mutex(MemoryRows())

        var snapshot: MemoryRows { content.withLock { $0 } }

        func write(_ writes: RowWrites) { content.withLock { $0.write(writes) } }

        func row(at address: RowAddress) throws -> [UInt8]? { try snapshot.row(at: address) }

        func objects(
            of classID: ClassID, after key: [UInt8]?, limit: Int
        ) throws -> [(key: [UInt8], row: [UInt8])] {
            try snapshot.objects(of: classID, after: key, limit: limit)
        }

        func greatestKey(of classID: ClassID) throws -> [UInt8]? { try snapshot.greatestKey(of: classID) }
    }

    private struct Pair {
        var memory = ObjectGraph()
        let rows = Rows()
        var stored: ObjectGraph
        let limits: PartLimits

        init(_ random: inout SeededRandom) throws {
            limits = PartLimits(
                inlineBytesMax: random.pick([0, 8, 16, 64, 256, 1_024]), leafBytesMax: random.pick([1, 16, 64, 256]),
                objectBytesMax: random.pick([32, 256, 16_384]))
            stored = try ObjectGraph(rows: rows)
            stored.partLimits = limits
        }

        mutating func reload() throws {
            stored = try ObjectGraph(rows: rows)
            stored.partLimits = limits
        }

        /// Writes the same to both; both record the same, or fail in the same way.
        mutating func write(_ body: (WriteTransaction) throws -> Void) throws -> Bool {
            let first = try Self.outcome { try memory.write(as: 2, body) }
            let second = try Self.outcome { try stored.write(as: 2, body) }
            if let written = second.written { rows.write(try stored.rowWrites(of: written.changes)) }
            return first.written?.changeset == second.written?.changeset && first.error == second.error
        }

        private static func outcome(
            _ body: () throws -> WriteResult<Void>
        ) throws -> (written: WriteResult<Void>?, error: ApplyError?) {
            do { return (try body(), nil) } catch let error as ApplyError { return (nil, error) }
        }
    }

    @Test func randomWritesAreThoseInMemory() throws {
        for seed in Seeds.upTo(60) {
            let hint = Comment(rawValue: Seeds.repeatCommand("RandomRowsTests", seed: seed))
            var random = SeededRandom(seed: seed)
            var pair = try Pair(&random)
            let world = RandomWorld(&random)
            #expect(try pair.write { try RandomWorld.begin($0) }, hint)
            for _ in 0..<random.below(60) + 10 {
                let seeds = (0..<random.below(12) + 1).map { _ in random.next() }
                let isSame = try pair.write { transaction in
                    for seed in seeds { try world.edit(transaction, seed: seed) }
                }
                try #require(isSame, hint)
                switch random.below(6) {
                case 0: try pair.reload()
                case 1: pair.stored.unload()
                default: break
                }
                #expect(try StateDigest(of: pair.stored) == StateDigest(of: pair.memory), hint)
            }
            #expect(try pair.stored.canonicalJSON() == pair.memory.canonicalJSON(), hint)
            let fromRows = try ObjectGraph(rows: pair.rows.snapshot)
            for state in [pair.stored, fromRows] {
                #expect(try Self.values(of: state) == Self.values(of: pair.memory), hint)
            }
            #expect(try !pair.stored.hasDamagedLinks(), hint)
            #expect(try Self.parts(of: pair.stored) == Self.parts(in: pair.rows.snapshot), hint)
        }
    }

    /// The values of each property of all objects, one property after the other; of collections how much that is.
    private static func values(of state: ObjectGraph) throws -> [String] {
        var texts: [String] = []
        for schema in state.classes {
            for property in schema.properties + [schema.key].compactMap({ $0 }) {
                try state.forEachValue(of: property) { value in
                    let text =
                        switch value {
                        case .list(let list): "list \(list.count)"
                        case .set(let set): "set \(set.count)"
                        case .dictionary(let entries): "dictionary \(entries.count)"
                        case .object: "object"
                        default: "\(value)"
                        }
                    texts.append(text)
                }
            }
        }
        return texts
    }

    /// One list, set and dictionary of strings in all sizes, which grow and shrink.
    @Test func collectionsGrowAndShrink() throws {
        for seed in Seeds.upTo(30) {
            let hint = Comment(rawValue: Seeds.repeatCommand("collectionsGrowAndShrink", seed: seed))
            var random = SeededRandom(seed: seed)
            var pair = try Pair(&random)
            #expect(
                try pair.write { transaction in
                    try transaction.addClass("A", key: "_id", .int)
                    try transaction.addColumn("l", .null, collection: .list, to: "A")
                    try transaction.addColumn("s", .string, collection: .set, to: "A")
                    try transaction.addColumn("d", .null, collection: .dictionary, to: "A")
                    try transaction.create("A", key: 1)
                }, hint)
            for step in 0..<60 {
                let (seed, grows) = (random.next(), step < 35)
                try #require(
                    try pair.write { transaction in
                        var random = SeededRandom(seed: seed)
                        let object = try #require(try transaction.object("A", key: 1))
                        for _ in 0..<random.below(30) { try Self.edit(object, grows: grows, &random) }
                    }, hint)
                if random.isOne(in: 3) { try pair.reload() }
                #expect(try StateDigest(of: pair.stored) == StateDigest(of: pair.memory), hint)
                #expect(try Self.parts(of: pair.stored) == Self.parts(in: pair.rows.snapshot), hint)
            }
        }
    }

    private static func edit(_ object: DynamicObject, grows: Bool, _ random: inout SeededRandom) throws {
        let isAdded = random.isOne(in: 5) != grows
        let text = Payload.string(Array(repeating: UInt8(97 + random.below(26)), count: random.below(80)))
        switch random.below(4) {
        case 0:
            let list = try object.list("l"), count = try list.count
            if isAdded { return try list.insert(random.isOne(in: 9) ? .list : text, at: random.below(count + 1)) }
            if count > 0 { try list.remove(at: random.below(count)) }
        case 1:
            let list = try object.list("l"), count = try list.count
            guard count > 1 else { return }
            try list.move(from: random.below(count), to: random.below(count))
            let index = random.below(count)
            if try list.value(at: index) == .list { try list.list(at: index).append(text) }
        case 2:
            let set = try object.set("s")
            if isAdded { return try set.insert(text) }
            if let value = try set.values.randomElement(using: &random) { try set.remove(value) }
        default:
            let entries = try object.dictionary("d"), key = "\(random.below(200))"
            if isAdded { try entries.set(random.isOne(in: 3) ? text : 7, for: key) } else { try entries.remove(key) }
        }
    }

    // MARK: Parts

    /// The addresses of all parts that the rows of objects lead to.
    private static func parts(of graph: ObjectGraph) throws -> Set<RowAddress> {
        var parts: Set<RowAddress> = []
        for number in graph.schema.present where graph.schema[number].kind != .embedded {
            var stored = StoredObjects(of: number, in: graph)
            while let (key, fields) = try stored.next() {
                let object = RowAddress(ObjectReference(classID: number, key: key))
                for content in fields.contents { try collect(content) { parts.insert(object.part($0)) } }
            }
        }
        return parts
    }

    private static func parts(in rows: MemoryRows) -> Set<RowAddress> { Set(rows.rows.keys.filter { $0.part > 0 }) }

    private static func collect(_ content: Content, _ body: (UInt64) -> Void) throws {
        switch content {
        case .stored(let value): body(value.number)
        case .object(let fields): for content in fields.contents { try collect(content, body) }
        case .list(let list): try collect(list.root, body)
        case .set(let elements): try collect(elements.root, body)
        case .dictionary(let entries): try collect(entries.root, body)
        default: break
        }
    }

    private static func collect<Element: ContentElement>(
        _ node: TreeNode<Element>?, _ body: (UInt64) -> Void
    ) throws {
        if let number = node?.stored?.number { body(number) }
        guard let node = try node?.loaded() else { return }
        for element in node.elements { try collect(element.content, body) }
        for child in node.children { try collect(child, body) }
    }
}
