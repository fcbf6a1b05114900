import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// Blocks that are not what was written. What has the right checksum all the same was written by somebody who wants the
/// process to end: it may say anything, in little memory.
@Suite struct DamagedSegmentTests {
    private static let start = Checksum(startOf: VirtualPath("/a"))
    private static let damaged = HistoryError(.storeDamaged, "")

    private static func block(_ count: Int = 12) throws -> [UInt8] {
        try LogSegment.seal(RandomLog.settings(count), after: start, of: start)
    }

    /// Puts the right checksum before bytes.
    private static func resealed(_ bytes: [UInt8]) -> [UInt8] { start.keyed([], bytes).bytes + bytes }

    @Test func everyFlippedBitIsFound() throws {
        let block = try Self.block()
        for bit in 0..<8 * block.count {
            var flipped = block
            flipped[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(throws: Self.damaged, "bit \(bit)") { try LogSegment(flipped, of: Self.start) }
        }
    }

    @Test func whatIsCutOffOrAddedIsFoundAndSoIsTheSegmentOfAnotherFile() throws {
        let block = try Self.block()
        for count in 0..<block.count {
            #expect(throws: Self.damaged) { try LogSegment(Array(block.prefix(count)), of: Self.start) }
        }
        #expect(throws: Self.damaged) { try LogSegment(block + [0], of: Self.start) }
        let other = Checksum(startOf: VirtualPath("/b"))
        #expect(throws: Self.damaged) { try LogSegment(block, of: other) }
        _ = try LogSegment(block, of: Self.start)
    }

    /// Asks everything; an error has to be one of a damaged store.
    /// - Returns: Whether there was none.
    private static func readsEverything(_ body: () throws(HistoryError) -> LogSegment) -> Bool {
        do throws(HistoryError) {
            let segment = try body()
            for key: UInt64 in [0, 1 << 63, .max] { _ = segment.head.mayWrite(key, in: segment.range.last) }
            let content = try segment.content()
            try ask(content.columns, content)
            return true
        } catch {
            #expect(error.code == .storeDamaged, "\(error)")
            return false
        }
    }

    private static func ask(_ columns: LogSegmentColumns, _ content: LogSegmentContent?) throws(HistoryError) {
        let whole = VersionRange(after: 0, through: .largest)
        for origin in (0..<min(3, columns.count)).map({ columns.entry(at: $0, []).origin }) {
            _ = columns.receipts(from: origin, in: whole)
            _ = columns.lastReceipt(from: origin, upTo: .largest)
            _ = columns.versions(in: whole, excludingOrigin: origin)
        }
        _ = content?.entries(in: whole, excludingOrigin: nil, byteBudget: .max)
        _ = content?.chain(after: start)
        let match = ConflictKeyFilter.Match(keys: [0], parts: .all)
        _ = try content?.versions(writing: match, in: whole, excludingOrigin: 1)
    }

    @Test func garbageWithTheRightChecksumEndsInAnErrorOrIsRead() throws {
        var read = 0, refused = 0
        for seed in LogSegmentTests.seeds(1...3000) {
            var random = SeededRandom(scrambling: seed)
            var bytes = Array(try Self.block(1 + random.below(20)).dropFirst(LogSegment.checksumBytes))
            bytes.damage(using: &random)
            let isRead = Self.readsEverything { () throws(HistoryError) in
                try LogSegment(Self.resealed(bytes), of: Self.start)
            }
            if isRead { read += 1 } else { refused += 1 }
        }
        #expect(refused > 0 && read > 0)
    }

    /// The compressor hides them from the test before.
    @Test func damagedColumnsEndInAnErrorOrAreRead() throws {
        var read = 0, refused = 0
        for seed in LogSegmentTests.seeds(1...20_000) {
            var random = SeededRandom(scrambling: seed)
            let log = RandomLog.entries(1 + random.below(8), using: &random)
            let origins = log.map(\.origin).sortedUnique()
            var bytes = LogSegmentColumns.parts(of: log, origins: origins).flatMap(\.self)
            bytes.damage(using: &random)
            let range = VersionRange(after: log[0].version - 1, through: log[log.count - 1].version)
            do throws(HistoryError) {
                let columns = try LogSegmentColumns(
                    bytes, range: range, baseCumulativeSize: .max, origins: origins,
                    changesetBytes: log.reduce(0) { $0 + $1.changeset.count })
                #expect(columns.count == log.count, LogSegmentTests.repetition(seed, "DamagedSegmentTests"))
                try Self.ask(columns, nil)
                read += 1
            } catch {
                #expect(error.code == .storeDamaged)
                refused += 1
            }
        }
        #expect(refused > 0 && read > 0)
    }

    @Test func aFilterIsRefusedOrAnswers() throws {
        var read = 0, refused = 0
        for seed in LogSegmentTests.seeds(1...20_000) {
            var random = SeededRandom(scrambling: seed)
            let range = VersionRange(after: 0, through: ServerVersion(1 + random.below(20)))
            let entries = (0..<random.below(30)).map { _ in
                ConflictKeyEntry(
                    key: random.next(), version: ServerVersion(1 + random.below(Int(range.last.rawValue))), origin: 2)
            }
            var writer = SegmentWriter()
            ConflictKeyFilter.write(entries, of: range, to: &writer)
            var bytes = writer.bytes
            bytes.damage(using: &random)
            var reader = SegmentReader(bytes, name: "a filter")
            do throws(HistoryError) {
                let filter = try ConflictKeyFilter(from: &reader)
                for _ in 0..<20 { _ = filter.match((0..<4).map { _ in random.next() }) }
                _ = filter.match([0, .max, 0, .max])
                read += 1
            } catch {
                #expect(error.code == .storeDamaged)
                refused += 1
            }
        }
        #expect(refused > 0 && read > 0)
    }

    @Test("sizes that cannot be, or are too large, are refused before memory is reserved")
    func declaredSizes() throws {
        let declared: [(size: Int, compressed: Int, sizeMax: Int)] = [
            (101, 100, 100), (.max, 100, 1 << 30), (1 << 30, 100, 1 << 30), (1 << 30, 1 << 20, 1 << 29),
        ]
        for (size, compressed, sizeMax) in declared {
            var writer = SegmentWriter()
            writer.write(count: size)
            writer.write(counted: Array(repeating: 0, count: compressed))
            #expect(throws: Self.damaged) {
                var reader = SegmentReader(writer.bytes, name: "a frame")
                _ = try ZstdFrame(from: &reader, sizeMax: sizeMax)
            }
        }
    }

    @Test("what comes out of the compressor has to have the declared size")
    func otherSizes() throws {
        for size in [0, 99, 101, 5000] {
            var frame = SegmentWriter()
            try ZstdFrame.write([Array(repeating: 7, count: 100)], level: 1, to: &frame)
            var writer = SegmentWriter()
            writer.write(count: size)
            writer.write(frame.bytes.dropFirst())
            var reader = SegmentReader(writer.bytes, name: "a frame")
            #expect(try ZstdFrame(from: &reader, sizeMax: 1 << 20).decompress() == nil)
        }
    }

    @Test("receipts, salts and versions need no changesets, and keys that are not there need nothing")
    func brokenChangesets() throws {
        var bytes = Array(try Self.block().dropFirst(LogSegment.checksumBytes))
        bytes[bytes.count - 1] ^= 0xFF
        bytes[bytes.count - 20] ^= 0xFF
        let segment = try LogSegment(Self.resealed(bytes), of: Self.start)
        let whole = VersionRange(after: 0, through: .largest), log = RandomLog.settings(12)
        let columns = try segment.columns()
        #expect(columns.receipts(from: 3, in: whole).map(\.version) == [2, 5, 8, 11])
        #expect(columns.lastReceipt(from: 3, upTo: 10) == Receipt(version: 8, clientVersion: 9))
        #expect(columns.salt(of: 12) == 77 && columns.salt(of: 13) == nil)
        #expect(try segment.versions(writing: [1, 2, 3], in: whole, excludingOrigin: 9) == [])
        let keys = try LogEntry.conflictKeys(of: log).map(\.key)
        let none = VersionRange(after: 12, through: 20)
        #expect(try segment.versions(writing: keys, in: none, excludingOrigin: 9) == [])
        #expect(throws: Self.damaged) { try segment.content() }
        #expect(throws: Self.damaged) { try segment.versions(writing: keys, in: whole, excludingOrigin: 9) }
    }
}

extension [UInt8] {
    /// Changes, inserts, removes or cuts off a few bytes.
    fileprivate mutating func damage(using random: inout SeededRandom) {
        for _ in 0...random.below(4) {
            let place = random.upTo(count - 1)
            switch random.below(isEmpty ? 1 : 6) {
            case 0: insert(UInt8(random.below(256)), at: isEmpty ? 0 : place)
            case 1: remove(at: place)
            case 2: removeLast(Swift.min(count, random.below(4)))
            case 3: self[place] = random.pick([0, 1, 0x7F, 0x80, 0xFF])
            case 4: self[place] &+= random.isOne(in: 2) ? 1 : 255
            default: self[place] = UInt8(random.below(256))
            }
        }
    }
}
