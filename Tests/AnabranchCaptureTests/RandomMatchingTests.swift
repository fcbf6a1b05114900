import AnabranchCore
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchCapture

/// Rows and objects that are matched, against a model that is written otherwise (`Spec/Capture.md`, section 3).
@Suite(.timeLimit(.minutes(30))) struct RandomMatchingTests {
    private static let environment = ProcessInfo.processInfo.environment

    // MARK: All small trees

    private static let tree = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, parent INTEGER REFERENCES item, n)"

    /// A row or an object of a tree, with the place of its parent.
    private struct Item {
        let name: String?
        let parent: Int?
    }

    /// All trees and forests of up to two items with two names or none.
    private static let forests: [[Item]] = {
        let names = ["x", "y", nil], firsts = names.map { Item(name: $0, parent: nil) }
        let pairs = firsts.flatMap { first in
            names.flatMap { name in [nil, 0].map { [first, Item(name: name, parent: $0)] } }
        }
        return [[]] + firsts.map { [$0] } + pairs
    }()

    private static let keys = (0..<2).compactMap { UUIDBytes([UInt8](repeating: $0, count: 16)) }

    /// The pairs, from the roots on: of the children of a pair, those that are alone with their name on both sides.
    private static func pairs(_ rows: [Item], _ objects: [Item]) -> [Int: Int] {
        var pairs: [Int: Int] = [:]
        func pair(childrenOf row: Int?, _ object: Int?) {
            for name in ["x", "y", nil] where row != nil || name != nil {
                let own = rows.indices.filter { rows[$0].parent == row && rows[$0].name == name }
                let others = objects.indices.filter { objects[$0].parent == object && objects[$0].name == name }
                guard own.count == 1, others.count == 1 else { continue }
                pairs[own[0]] = others[0]
                pair(childrenOf: own[0], others[0])
            }
        }
        pair(childrenOf: nil, nil)
        return pairs
    }

    @Test func allSmallForestsAreMatchedFromTheirRoots() throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "match-\(UUID()).sqlite").path()
        defer { try? FileManager.default.removeItem(atPath: path) }
        _ = FileManager.default.createFile(atPath: path, contents: nil)
        let db = try SQLConnection(path: path)
        try db.execute("PRAGMA synchronous = OFF; \(Self.tree)")
        let database = try CapturedDatabase(path: path)
        var rule = TableRule()
        rule.matches = ["name", "parent"]
        try database.install(["item"], rules: ["item": rule])
        for objects in Self.forests {
            let state = try Self.graph(objects)
            for rows in Self.forests {
                try db.execute("DELETE FROM item")
                for (place, row) in rows.enumerated() {
                    // Parents have greater numbers.
                    let parent = row.parent.map { SQLValue.int(Int64(9 - $0)) } ?? .null
                    try db.run(
                        "INSERT INTO item (id, name, parent) VALUES (?, ?, ?)",
                        [.int(Int64(9 - place)), row.name.map { SQLValue($0) } ?? .null, parent])
                }
                let found = try #require(try database.matches(with: state, rowsWin: false).first)
                let expected = Self.pairs(rows, objects)
                #expect(
                    Set(found.pairs.map { "\($0.key) \($0.object)" })
                        == Set(expected.map { "\(9 - $0) \(Hex.encode(Self.keys[$1].bytes))" }), "\(rows) \(objects)")
                #expect(found.rows == rows.count - expected.count && found.objects == objects.count - expected.count)
                #expect(found.differentCount == 0)
            }
        }
    }

    private static func graph(_ objects: [Item]) throws -> ObjectGraph {
        var graph = ObjectGraph()
        _ = try graph.write(as: 1) { tx in
            try tx.addClass("item", key: "_id", .uuid)
            try tx.addColumn("name", .null, isNullable: true, to: "item")
            try tx.addLink("parent", to: "item", of: "item")
            for (place, object) in objects.enumerated() {
                let item = try tx.create("item", key: .uuid(keys[place]))
                if let name = object.name { try item.set("name", to: .string(Array(name.utf8))) }
                if let parent = object.parent {
                    try item.set("parent", to: .link(className: Array("item".utf8), key: .uuid(keys[parent])))
                }
            }
        }
        return graph
    }

    // MARK: Two databases

    /// More of them: `ANABRANCH_MATCHES=2000 swift test --filter RandomMatchingTests`.
    @Test func twoDatabasesWithRowsBecomeOne() async throws {
        let only = Self.environment["ANABRANCH_SEED"].flatMap(UInt64.init)
        let first = Self.environment["ANABRANCH_FIRST"].flatMap(UInt64.init) ?? 1
        let count = Self.environment["ANABRANCH_MATCHES"].flatMap(UInt64.init) ?? 10
        var matched = 0
        try await CaptureWorld.run { world in
            for seed in only.map({ $0...$0 }) ?? first...(first + count - 1) {
                do { matched += try await RandomMatch(seed).carryOut(in: world) } catch {
                    Issue.record(
                        """
                        seed \(seed): \(error); repeat with
                        ANABRANCH_SEED=\(seed) swift test --filter RandomMatchingTests
                        """)
                }
            }
        }
        if only == nil { #expect(matched > 0) }
    }
}

/// Two databases with folders and items, some of them the same, and what is to become of them.
private struct RandomMatch {
    private struct Folder {
        let name: String?
        let text: String?
    }

    private struct Item {
        let code: String?
        let text: String?
        let folder: Int?
    }

    private struct Content {
        var folders: [Folder] = []
        var items: [Item] = []

        init(_ random: inout SeededRandom, _ name: String) {
            let texts = [nil, "\(name)1", "\(name)2", "same"]
            for _ in 0..<random.below(5) {
                folders.append(Folder(name: random.pick(["f", "g", "h", nil]), text: random.pick(texts)))
            }
            for _ in 0..<random.below(8) {
                let folder = folders.isEmpty || random.isOne(in: 3) ? nil : random.below(folders.count)
                items.append(Item(code: random.pick(["x", "y", "z", nil]), text: random.pick(texts), folder: folder))
            }
        }
    }

    private static let schema = """
        CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT, text TEXT);
        CREATE TABLE item (id INTEGER PRIMARY KEY, code TEXT, text TEXT, folder INTEGER REFERENCES folder);
        """

    private let seed: UInt64
    private let random: SeededRandom
    private let contents: [Content]
    private let rowsWin: Bool

    init(_ seed: UInt64) {
        self.seed = seed
        var random = SeededRandom(seed: seed)
        contents = [Content(&random, "a"), Content(&random, "b")]
        rowsWin = Bool.random(using: &random)
        self.random = random
    }

    /// The places in the second database with those in the first that are the same, by identities.
    private static func pairs<Identity: Hashable>(_ first: [Identity?], _ second: [Identity?]) -> [Int: Int] {
        let places = Dictionary(grouping: first.indices) { first[$0] }
        let others = Dictionary(grouping: second.indices) { second[$0] }
        var pairs: [Int: Int] = [:]
        for (identity, own) in others where identity != nil && own.count == 1 {
            if let same = places[identity], same.count == 1 { pairs[own[0]] = same[0] }
        }
        return pairs
    }

    /// - Parameter folder: the place of its folder in the first database.
    private static func identity(_ item: Item, folder: Int?) -> [String?]? {
        item.code == nil && folder == nil ? nil : [item.code, folder.map { "\($0)" }]
    }

    private func merged(_ first: String?, _ second: String?) -> String? {
        rowsWin ? second ?? first : first ?? second
    }

    /// - Returns: the number of rows that were matched.
    func carryOut(in world: CaptureWorld) async throws -> Int {
        var random = random
        let apps = try ["a", "b"].map {
            try CapturingApp("match-\($0)-\(seed)", in: world, Self.schema, partition: "match-\(seed)")
        }
        let (a, b) = (apps[0], apps[1])
        var rules = ["folder": TableRule(), "item": TableRule()]
        rules["folder"]?.matches = ["name"]
        rules["item"]?.matches = ["code", "folder"]
        b.rowsWin = rowsWin
        for (app, content) in zip(apps, contents) {
            // Some rows come between the installation and the first exchange.
            let isLate = Bool.random(using: &random)
            if isLate { try app.install(["folder", "item"], rules: rules) }
            try Self.insert(content, into: app)
            if !isLate { try app.install(["folder", "item"], rules: rules) }
        }
        try await a.synchronize()
        let own = try ["folder", "item"].map(a.objects)

        let folders = Self.pairs(contents[0].folders.map(\.name), contents[1].folders.map(\.name))
        let items = Self.pairs(
            contents[0].items.map { Self.identity($0, folder: $0.folder) },
            contents[1].items.map { item in
                let folder = item.folder.flatMap { folders[$0] }
                return item.folder != nil && folder == nil ? nil : Self.identity(item, folder: folder)
            })
        try await b.open()
        guard let looked = try await b.capture?.matches() else { throw Failure("it is not open") }
        let found = try await b.synchronize().matches
        guard found == looked else { throw Failure("\(looked) before, and then \(found)") }
        let counts = Dictionary(uniqueKeysWithValues: found.map { ($0.table, $0.count) })
        guard counts["folder"] ?? 0 == folders.count, counts["item"] ?? 0 == items.count else {
            throw Failure("\(counts), not \(folders.count) and \(items.count)")
        }
        let others = try ["folder", "item"].map(b.objects)
        for (place, pairs) in [folders, items].enumerated() {
            for (row, object) in pairs where others[place][row] != own[place][object] {
                throw Failure("row \(row) of \(["folder", "item"][place]) is another object")
            }
        }

        // Later writes, on the same records, and perhaps a new replica. A database without folders has got those of
        // the other one, and the row that is written is one of them.
        try b.db.execute(
            "INSERT INTO item (code, text) VALUES ('new', 'b'); UPDATE folder SET text = 'late' WHERE id = 1")
        if Bool.random(using: &random) {
            try await b.synchronize()
            try await b.close()
            try b.removeReplica()
        }
        for app in [b, a, b, a] { try await app.synchronize() }
        let firstCame = others[0].first.flatMap { own[0].firstIndex(of: $0) }
        let expected = expected(folders, items, firstCame)
        for app in apps {
            guard try await app.synchronize().isEmpty else { throw Failure("it does not come to rest") }
            let rows = try Self.queries.map { try app.rows($0).sorted() }
            guard rows == expected else { throw Failure("\(rows), not \(expected)") }
            let now = try ["folder", "item"].map(app.objects)
            guard app === b || zip(now, own).allSatisfy({ $0.starts(with: $1) }) else {
                throw Failure("rows of a are other objects")
            }
        }
        for app in apps { try await app.close() }
        return folders.count + items.count
    }

    private static let queries = [
        "SELECT name, text FROM folder",
        "SELECT code, item.text, name, folder.text FROM item LEFT JOIN folder ON folder.id = folder",
    ]

    /// - Parameter firstCame: the place in the first database of the folder that has come as the second one's first
    ///   row.
    private func expected(_ folderPairs: [Int: Int], _ itemPairs: [Int: Int], _ firstCame: Int?) -> [[String]] {
        let (first, second) = (contents[0], contents[1])
        var folders = first.folders.map { ($0.name, $0.text) }
        var places: [Int] = []
        for (place, folder) in second.folders.enumerated() {
            if let same = folderPairs[place] {
                folders[same].1 = merged(folders[same].1, folder.text)
                places.append(same)
            } else {
                places.append(folders.count)
                folders.append((folder.name, folder.text))
            }
        }
        if let changed = places.first ?? firstCame { folders[changed].1 = "late" }
        var items = first.items.map { ($0.code, $0.text, $0.folder) }
        for (place, item) in second.items.enumerated() {
            if let same = itemPairs[place] {
                items[same].1 = merged(items[same].1, item.text)
            } else {
                items.append((item.code, item.text, item.folder.map { places[$0] }))
            }
        }
        items.append(("new", "b", nil))
        func line(_ values: String?...) -> String { values.map { $0 ?? "∅" }.joined(separator: "|") }
        return [
            folders.map { line($0.0, $0.1) }.sorted(),
            items.map { item in
                let folder = item.2.map { folders[$0] }
                return line(item.0, item.1, folder?.0, folder?.1)
            }.sorted(),
        ]
    }

    private static func insert(_ content: Content, into app: CapturingApp) throws {
        func text(_ value: String?) -> SQLValue { value.map { SQLValue($0) } ?? .null }
        for folder in content.folders {
            try app.db.run("INSERT INTO folder (name, text) VALUES (?, ?)", [text(folder.name), text(folder.text)])
        }
        for item in content.items {
            let folder = item.folder.map { SQLValue.int(Int64($0 + 1)) } ?? .null
            try app.db.run(
                "INSERT INTO item (code, text, folder) VALUES (?, ?, ?)", [text(item.code), text(item.text), folder])
        }
    }
}

private struct Failure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
