import AnabranchTesting
import Foundation
import GRDB
import Testing

@testable import AnabranchCore
@testable import AnabranchRows

/// Rows of objects in pages (`Spec/State.md`, D8) are what they would be one by one.
@Suite struct ObjectPagesTests {
    typealias Object = (key: [UInt8], row: [UInt8])

    /// A table of pages, and what has to be in it.
    private final class Pages {
        let queue: DatabaseQueue
        let table = ObjectPages(file: 1)
        private(set) var model: [ClassID: [[UInt8]: [UInt8]]] = [:]

        init() throws {
            queue = try DatabaseQueue()
            try queue.write { db in try db.execute(sql: ObjectPages.sql) }
        }

        func write(_ changes: [(classID: ClassID, key: [UInt8], row: [UInt8]?)]) throws {
            var all = PageChanges()
            for (classID, key, row) in changes {
                let isTaken = all.take(RowAddress(classID: classID, key: key), row)
                #expect(isTaken)
                model[classID, default: [:]][key] = row
            }
            try queue.write { [all] db in try table.write(all, in: db) }
        }

        func write(_ classID: ClassID, _ key: [UInt8], _ row: [UInt8]?) throws { try write([(classID, key, row)]) }

        func removeAll(of classID: ClassID) throws {
            model[classID] = nil
            try queue.write { db in try table.removeAll(of: classID, in: db) }
        }

        func wanted(_ classID: ClassID) -> [Object] {
            (model[classID] ?? [:]).sorted { $0.key.lexicographicallyPrecedes($1.key) }
                .map { (key: $0.key, row: $0.value) }
        }

        func found(_ classID: ClassID) throws -> [Object] {
            try queue.read { db in
                var found: [Object] = []
                try table.forEachObject(of: classID, in: db) { found.append((Array($0), Array($1))) }
                return found
            }
        }

        func row(_ classID: ClassID, _ key: [UInt8]) throws -> [UInt8]? {
            try queue.read { db in try table.row(of: classID, key, in: db) }
        }

        func rows(_ classID: ClassID, _ keys: [[UInt8]]) throws -> [[UInt8]?] {
            try queue.read { db in try table.rows(of: classID, keys, in: db) }
        }

        func greatestKey(_ classID: ClassID) throws -> [UInt8]? {
            try queue.read { db in try table.greatestKey(of: classID, in: db) }
        }

        func objects(_ classID: ClassID, after key: [UInt8]?, limit: Int) throws -> [Object] {
            try queue.read { db in try table.objects(of: classID, after: key, limit: limit, in: db) }
        }

        /// How many rows of the database have been written so far.
        func writtenRows() throws -> Int { try queue.read(\.totalChangesCount) }

        /// The sizes of the pages of a class in bytes, and how many objects each has.
        func sizes(_ classID: ClassID) throws -> [(bytes: Int, objects: Int)] {
            let sql = "SELECT key, content FROM object_page WHERE class = ? ORDER BY key"
            return try queue.read { db in
                try Row.fetchAll(db, sql: sql, arguments: [Int64(classID.rawValue)]).map { row in
                    let key: Data = row[0], content: Data = row[1]
                    return (content.count, try PageObjects(Array(content), from: Array(key)).objects.count)
                }
            }
        }
    }

    private static let first = ClassID(1)

    private static func isSame(_ one: [Object], _ other: [Object]) -> Bool {
        one.elementsEqual(other) { $0.key == $1.key && $0.row == $1.row }
    }

    // MARK: A model

    @Test(
        arguments: ProcessInfo.processInfo.environment["ANABRANCH_SEED"].flatMap(UInt64.init).map { [$0] }
            ?? Array(1...6))
    func theyAreWhatADictionaryWouldBe(seed: UInt64) async throws {
        var random = SeededRandom(scrambling: seed)
        let pages = try Pages(), command = "ANABRANCH_SEED=\(seed) swift test --filter ObjectPagesTests"
        for _ in 0..<40 {
            try Self.step(pages, &random)
            for classID in [ClassID(0), ClassID(1), ClassID(1 << 31 + 1)] {
                let wanted = pages.wanted(classID)
                #expect(Self.isSame(try pages.found(classID), wanted), "\(command)")
                for _ in 0..<20 {
                    let key = wanted.isEmpty || random.isOne(in: 3) ? Self.key(&random) : random.pick(wanted).key
                    #expect(try pages.row(classID, key) == pages.model[classID]?[key], "\(command)")
                    let limit = random.below(90)
                    let after = wanted.filter { key.lexicographicallyPrecedes($0.key) }.prefix(limit)
                    let found = try pages.objects(classID, after: key, limit: limit)
                    #expect(Self.isSame(found, Array(after)), "\(command)")
                }
                #expect(Self.isSame(try pages.objects(classID, after: nil, limit: .max), wanted), "\(command)")
                let there = wanted.map(\.key).filter { _ in random.isOne(in: 3) }
                let others = (0..<9).map { _ in Self.key(&random) }
                let keys = Set(there + others).sorted { $0.lexicographicallyPrecedes($1) }
                #expect(try pages.rows(classID, keys) == keys.map { pages.model[classID]?[$0] }, "\(command)")
                #expect(try pages.greatestKey(classID) == wanted.last?.key, "\(command)")
                for size in try pages.sizes(classID) {
                    let isSmall = size.bytes <= ObjectPages.bytesMax + 5
                    #expect(size.objects > 0 && (isSmall || size.objects == 1), "\(size); \(command)")
                }
            }
            await Task.yield()  // all tests share a few threads
        }
    }

    private static func step(_ pages: Pages, _ random: inout SeededRandom) throws {
        let classID = random.pick([ClassID(0), ClassID(1), ClassID(1), ClassID(1), ClassID(1 << 31 + 1)])
        if random.isOne(in: 30) { return try pages.removeAll(of: classID) }
        let removals = random.pick([0, 0, 1, 5, 9]), known = pages.wanted(classID)
        try pages.write(
            (0..<random.pick([1, 1, 3, 30, 300])).map { _ in
                if !known.isEmpty, random.below(10) < removals { return (classID, random.pick(known).key, nil) }
                let key = known.isEmpty || !random.isOne(in: 4) ? key(&random) : random.pick(known).key
                let size = random.isOne(in: 50) ? random.below(12_000) : random.below(200)
                return (classID, key, (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 7) })
            })
    }

    /// Many begin alike, some are empty.
    private static func key(_ random: inout SeededRandom) -> [UInt8] {
        switch random.below(4) {
        case 0: [3, 0, 0, UInt8(random.below(4)), UInt8(random.below(256))]
        case 1: (0..<random.below(4)).map { _ in random.pick([0, 1, 127, 128, 255]) }
        case 2: Array(repeating: 9, count: random.below(300))
        default: (0..<12).map { _ in UInt8(random.below(256)) }
        }
    }

    // MARK: How full they are

    private static func key(_ number: Int) -> [UInt8] { withUnsafeBytes(of: UInt32(number).bigEndian) { Array($0) } }

    /// What is appended, one by one or many at a time, fills pages; what comes in any order fills half of them.
    @Test(arguments: [(1, true, 0.9), (400, true, 0.9), (1, false, 0.5), (400, false, 0.5)])
    func pagesAreNotEmpty(atATime: Int, isAscending: Bool, leastFull: Double) throws {
        var random = SeededRandom(seed: 5)
        let pages = try Pages(), row = [UInt8](repeating: 7, count: 100)
        var keys = (0..<4_000).map(Self.key)
        if !isAscending { keys.shuffle(using: &random) }
        for start in stride(from: 0, to: keys.count, by: atATime) {
            try pages.write(keys[start..<min(start + atATime, keys.count)].map { (Self.first, $0, row) })
        }
        let sizes = try pages.sizes(Self.first)
        let share = Double(sizes.map(\.bytes).reduce(0, +)) / Double(sizes.count * ObjectPages.bytesMax)
        #expect(share > leastFull, "\(sizes.count) pages")
    }

    /// In whatever order objects go, their pages go with them.
    @Test(arguments: 1...3 as ClosedRange<UInt64>) func pagesOfObjectsThatGoDoNotStay(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let pages = try Pages(), row = [UInt8](repeating: 7, count: 100)
        var keys = (0..<2_000).map(Self.key)
        try pages.write(keys.map { (Self.first, $0, row) })
        keys.shuffle(using: &random)
        for (index, key) in keys.enumerated() {
            try pages.write(Self.first, key, nil)
            guard index == 1_900 else { continue }
            let sizes = try pages.sizes(Self.first)
            #expect(sizes.count <= 12, "\(sizes.count) pages for 99 objects; seed \(seed)")
        }
        #expect(try pages.sizes(Self.first).isEmpty)
    }

    /// An object that has no room in the page before it costs its own page and not that one.
    @Test(arguments: [100, 2_000, 5_000]) func aPageThatStaysAsItIsIsNotWritten(rowBytes: Int) throws {
        let pages = try Pages(), row = [UInt8](repeating: 7, count: rowBytes)
        for number in 0..<200 {
            let before = try pages.writtenRows()
            try pages.write(Self.first, Self.key(number), row)
            #expect(try pages.writtenRows() == before + 1, "object \(number)")
        }
        let before = try pages.writtenRows()
        try pages.write(Self.first, Self.key(50), row)
        try pages.write(Self.first, Self.key(1_000), nil)
        #expect(try pages.writtenRows() == before, "nothing has changed")
    }

    // MARK: Damage

    /// Whatever is read of a damaged page, each object has its checksum or has not, and one at least has not.
    @Test func everyFlippedBitAndEveryTruncationIsFound() throws {
        let pages = try Pages()
        let objects = (0..<9).map { number in
            var row = [UInt8](repeating: UInt8(number), count: number * 17)
            RowChecksum.append(to: &row, at: RowAddress(classID: Self.first, key: Self.key(number)))
            return (classID: Self.first, key: Self.key(number), row: Optional(row))
        }
        try pages.write(objects)
        let content = try pages.queue.read { db in
            Array(try #require(try Data.fetchOne(db, sql: "SELECT content FROM object_page")))
        }
        #expect(try Self.whole(content) == 9)
        for bit in 0..<content.count * 8 {
            var damaged = content
            damaged[bit / 8] ^= 1 << (bit % 8)
            #expect((try? Self.whole(damaged)) == nil, "bit \(bit)")
        }
        for count in 0..<content.count { #expect((try? Self.whole(Array(content[..<count]))) == nil, "\(count) bytes") }
    }

    private struct Damage: Error {}

    /// How many objects a page has.
    private static func whole(_ content: [UInt8]) throws -> Int {
        let objects = try PageObjects(content, from: []).objects
        for object in objects {
            let address = RowAddress(classID: first, key: Array(object.key))
            guard RowChecksum.content(of: Array(object.row), at: address) != nil else { throw Damage() }
        }
        return objects.count
    }

    @Test(
        arguments: [
            [2, 1, 3, 0, 1, 3, 0], [2, 1, 4, 0, 1, 3, 0],  // twice, or not in order
            [1, 1, 1, 0],  // below the page's key
            [2, 1, 3, 0], [1, 1, 3, 0, 0],  // fewer and more than it says
            [], [1], [1, 1], [1, 1, 3], [1, 1, 3, 1], [1, 9, 3], [0x80],
            [0x80, 0x80, 0x80, 0x80, 0x80, 0], [0xff, 0xff, 0xff, 0xff, 0x7f], [1, 0xff, 0xff, 0xff, 0xff, 0x7f],
        ] as [[UInt8]])
    func whatIsNoPageIsRefused(content: [UInt8]) throws {
        #expect(throws: ApplyError.self) { try PageObjects(content, from: [2]) }
    }
}
