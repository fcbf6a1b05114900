import AnabranchCore
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchHistory

/// Segments of logs that clients have made, and of entries with numbers of all sizes.
@Suite struct LogSegmentTests {
    private static let start = Checksum(startOf: VirtualPath("/a"))

    /// The seed of the environment, or all of a range.
    static func seeds(_ seeds: ClosedRange<UInt64>) -> ClosedRange<UInt64> {
        let seed = ProcessInfo.processInfo.environment["ANABRANCH_SEED"].flatMap(UInt64.init)
        return seed.map { $0...$0 } ?? seeds
    }

    static func repetition(_ seed: UInt64, _ name: String) -> Comment {
        "seed \(seed); repeat with ANABRANCH_SEED=\(seed) swift test --filter \(name)"
    }

    /// A log, cut anywhere into segments that have gone through their bytes.
    private static func segments(of log: [LogEntry], using random: inout SeededRandom) throws -> [LogSegment] {
        var segments: [LogSegment] = []
        var rest = log[...], link = start
        while !rest.isEmpty {
            let entries = Array(rest.prefix(1 + random.below(40)))
            segments.append(try LogSegment(try LogSegment.seal(entries, after: link, of: start), of: start))
            rest = rest.dropFirst(entries.count)
            link = entries.reduce(link) { $0.following($1) }
        }
        return segments
    }

    @Test("segments say what the log says, to every question of a view", arguments: [Workload.Profile.data, .schema])
    func answers(profile: Workload.Profile) throws {
        for seed in Self.seeds(1...40) {
            let workload = try Workload(.memory, profile, seed: seed)
            try workload.run(steps: 150)
            let log = try workload.file.log()
            var random = SeededRandom(seed: seed)
            let segments = try Self.segments(of: log, using: &random)
            for _ in 0..<20 {
                let questions = SegmentQuestions(log, idents: workload.file.head.nextIdent, using: &random)
                let expected = try workload.file.read { view throws(HistoryError) in try questions.ask(view) }
                #expect(try questions.ask(segments) == expected, Self.repetition(seed, "LogSegmentTests"))
            }
        }
    }

    @Test("every field of an entry comes back, whatever its value, and so does the chain")
    func roundTrip() throws {
        for seed in Self.seeds(1...300) {
            var random = SeededRandom(scrambling: seed)
            let log = RandomLog.entries(1 + random.below(60), using: &random)
            let link = Self.start.keyed([seed], [])
            let block = try LogSegment.seal(log, after: link, of: Self.start)
            let segment = try LogSegment(block, of: Self.start)
            let content = try segment.content()
            let comment = Self.repetition(seed, "LogSegmentTests")
            #expect(content.entries == log, comment)
            #expect(segment.head.end.cumulativeSize == log.last?.cumulativeSize, comment)
            #expect(segment.head.origins == Set(log.map(\.origin)).sorted(), comment)
            #expect(segment.range == VersionRange(after: log[0].version - 1, through: log[log.count - 1].version))
            #expect(segment.chain == log.reduce(link) { $0.following($1) }, comment)
            #expect(content.chain(after: link) == segment.chain, comment)
            #expect(content.chain(after: Self.start) != segment.chain, comment)
        }
    }

    /// Made by another program, from the chapter alone. Blocks are stored: what is read of them must never change.
    static let blockOfTheChapter = """
        e8eb65adf5bdec252b5d29d85fad33f802050464b0779a7da07394538832db12f75a1700030002070319e4fcf37c67fa1b39\
        4228b52ffd0000c9010001000102024d024e0100028ae6d60601c89bdd050100020a01030100030102000103010006000804\
        d00fc701890e021100111103010101010901333c28b52ffd00009901003f3f3f0000000101015454543f3f3f010101010101\
        6e6e6e040404000000010101010201010101000000010101050607000000
        """

    @Test("the block that the chapter describes is read")
    func blockIsRead() throws {
        var log = [
            LogEntry(
                version: 6, salt: 77, origin: 2, clientVersion: 3, timestamp: 1000, cumulativeSize: 0,
                changeset: ChangesetWriter.setting(1, to: 5), base: 4,
                uploader: Uploader(release: 14_005_002, protocolVersion: 10)),
            LogEntry(
                version: 7, salt: 77, origin: 0, clientVersion: 0, timestamp: 900, cumulativeSize: 0, changeset: []),
            LogEntry(
                version: 8, salt: 78, origin: 2, clientVersion: 7, timestamp: .largest, cumulativeSize: 0,
                changeset: ChangesetWriter.setting(2, to: 6), base: 7,
                uploader: Uploader(release: 14_005_002, protocolVersion: 10), section: [1, 1, 9]),
            LogEntry(
                version: 9, salt: 78, origin: 9, clientVersion: 2, timestamp: 0, cumulativeSize: 0,
                changeset: ChangesetWriter.setting(1, to: 7), base: 8,
                uploader: Uploader(release: 12_013_000, protocolVersion: 3)),
        ]
        var size: UInt64 = 100
        for place in log.indices {
            size += UInt64(log[place].changeset.count)
            log[place].cumulativeSize = size
        }
        let segment = try LogSegment(try #require(Hex.decode(Self.blockOfTheChapter)), of: Self.start)
        #expect(segment.range == VersionRange(after: 5, through: 9))
        #expect(segment.head.origins == [0, 2, 9] && segment.head.conflictKeyCount == 3)
        #expect(segment.chain == log.reduce(Self.start) { $0.following($1) })
        #expect(try segment.content().entries == log)
        #expect(try LogEntry.conflictKeys(of: log).allSatisfy { segment.head.mayWrite($0.key, in: $0.version) })
        // Object 2 is written by one entry, the third of four.
        let key = try #require(try LogEntry.conflictKeys(of: [log[2]]).map(\.key).max())
        #expect(segment.head.mayWrite(key, in: 8) && !segment.head.mayWrite(key, in: 6))
        let sealed = try LogSegment(try LogSegment.seal(log, after: Self.start, of: Self.start), of: Self.start)
        #expect(try sealed.content().entries == log)
    }

    @Test("every key that an entry writes is found, and of others few are taken for one")
    func filter() throws {
        let others = try LogEntry.conflictKeys(of: RandomLog.settings(1 << 19, from: 1 << 20)).map(\.key)
        for count in [1, 2, 3, 7, 8, 9, 512, 5000] {
            let log = RandomLog.settings(count, objects: count)
            let segment = try LogSegment(try LogSegment.seal(log, after: Self.start, of: Self.start), of: Self.start)
            let written = try LogEntry.conflictKeys(of: log), keys = written.map(\.key).sortedUnique()
            #expect(keys.count == count + 1 && segment.head.conflictKeyCount == keys.count)
            #expect(written.allSatisfy { segment.head.mayWrite($0.key, in: $0.version) } && !keys.isEmpty)
            // One in 8,192 is expected: 64 of as many.
            let filter = segment.head.filter
            #expect(filter.match(Set(others).subtracting(keys).sorted()).keys.count < 128)
            // In another order the answer is the same.
            #expect(filter.match(keys.reversed()).keys == keys.reversed())
        }
    }

    @Test("an empty changeset writes nothing, and segments without keys have none")
    func emptyChangesets() throws {
        var log = RandomLog.settings(3)
        log = log.map { entry in
            var entry = entry
            (entry.changeset, entry.cumulativeSize) = ([], 7)
            return entry
        }
        let segment = try LogSegment(try LogSegment.seal(log, after: Self.start, of: Self.start), of: Self.start)
        #expect(segment.head.conflictKeyCount == 0 && segment.head.filter.match([0, .max]).isEmpty)
        #expect(try segment.content().entries == log)
        #expect(segment.head.baseCumulativeSize == 7 && segment.head.end.cumulativeSize == 7)
        let whole = VersionRange(after: 0, through: .largest)
        #expect(try segment.columns().versions(in: whole, excludingOrigin: 9) == [])
    }

    @Test("entries are sealed alone, and as many as a segment can have")
    func sizes() throws {
        for count in [1, LogSegment.entryCountMax] {
            let log = RandomLog.settings(count)
            let block = try LogSegment.seal(log, after: Self.start, of: Self.start)
            #expect(try LogSegment(block, of: Self.start).content().entries == log)
        }
        var large = RandomLog.settings(2)
        var writer = ChangesetWriter()
        writer.write(.update(.at("data"), .binary(Array(repeating: 7, count: 16 << 20))))
        large[1].changeset = writer.bytes
        large[1].cumulativeSize = large[0].cumulativeSize + UInt64(writer.bytes.count)
        let block = try LogSegment.seal(large, after: Self.start, of: Self.start)
        #expect(block.count < 16 << 10)
        #expect(try LogSegment(block, of: Self.start).content().entries == large)
    }

    @Test("what no segment can have is not sealed")
    func tooLarge() throws {
        var huge = RandomLog.settings(1)
        huge[0].changeset = Array(repeating: 0, count: LogSegment.changesetBytesMax + 1)
        huge[0].cumulativeSize = UInt64(huge[0].changeset.count)
        var sections = RandomLog.settings(1)
        sections[0].section = Array(repeating: 0, count: LogSegment.columnBytesMax)
        for log in [[], RandomLog.settings(LogSegment.entryCountMax + 1), huge, sections] {
            #expect(throws: HistoryError(.storeFailed, "")) {
                try LogSegment.seal(log, after: Self.start, of: Self.start)
            }
        }
    }

    @Test("a damaged log is not sealed")
    func damagedLog() {
        let damages: [(inout [LogEntry]) -> Void] = [
            { $0.remove(at: 1) }, { $0.swapAt(0, 1) }, { $0[1].cumulativeSize += 1 }, { $0[0].changeset += [0] },
            { $0[1].changeset = Array(repeating: 62, count: $0[1].changeset.count) },
            { log in for place in log.indices { log[place].version = ServerVersion(UInt64(place)) } },
            { log in for place in log.indices { log[place].version = ServerVersion(rawValue: .max - 2 + UInt64(place)) }
            },
        ]
        for damage in damages {
            var log = RandomLog.settings(3)
            damage(&log)
            #expect(throws: HistoryError(.storeDamaged, "")) {
                try LogSegment.seal(log, after: Self.start, of: Self.start)
            }
        }
    }
}

/// One question of each kind that a segment answers, about a random part of a log.
struct SegmentQuestions {
    struct Answers: Equatable, Sendable {
        var entry, bareEntry: LogEntry?
        var salt: Salt?
        var entries, entriesOfAll: [LogEntry]
        var versions: [ServerVersion]
        var receipts: [Receipt]
        var lastReceipt: Receipt?
        var writers: [ServerVersion]
    }

    private let range: VersionRange
    private let version: ServerVersion
    private let ident: ClientFileID
    private let byteBudget: Int
    private let keys: [UInt64]

    init(_ log: [LogEntry], idents: ClientFileID, using random: inout SeededRandom) {
        let ends = [random.upTo(log.count + 2), random.upTo(log.count + 2)].sorted()
        range = VersionRange(after: ServerVersion(ends[0]), through: ServerVersion(ends[1]))
        version = ServerVersion(random.upTo(log.count + 2))
        ident = ClientFileID(random.upTo(Int(idents.rawValue)))
        byteBudget = random.below(200)
        let known = (try? LogEntry.conflictKeys(of: log).map(\.key)) ?? []
        keys = known.isEmpty ? [1] : (0..<3).map { _ in random.pick(known) }
    }

    func ask(_ view: any FileView) throws(HistoryError) -> Answers {
        Answers(
            entry: try view.entry(version), bareEntry: try view.entryWithoutChangeset(version),
            salt: try view.salt(of: version),
            entries: try view.entries(in: range, excludingOrigin: ident, byteBudget: byteBudget),
            entriesOfAll: try view.entries(in: range, excludingOrigin: nil, byteBudget: byteBudget),
            versions: try view.versions(in: range, excludingOrigin: ident),
            receipts: try view.receipts(from: ident, in: range),
            lastReceipt: try view.lastReceipt(from: ident, upTo: version),
            writers: try view.versions(writing: keys, in: range, excludingOrigin: ident))
    }

    func ask(_ segments: [LogSegment]) throws -> Answers {
        let contents = try segments.map { try $0.content() }, columns = try segments.map { try $0.columns() }
        func entries(excludingOrigin origin: ClientFileID?) -> [LogEntry] {
            var found: [LogEntry] = [], left = byteBudget
            for content in contents where left >= 0 {
                let more = content.entries(in: range, excludingOrigin: origin, byteBudget: left)
                left -= more.reduce(0) { $0 + $1.byteCount }
                found += more
            }
            return found
        }
        return Answers(
            entry: contents.lazy.compactMap { $0.entry(version) }.first,
            bareEntry: contents.lazy.compactMap { $0.entry(version)?.withoutChangeset }.first,
            salt: columns.lazy.compactMap { $0.salt(of: version) }.first,
            entries: entries(excludingOrigin: ident), entriesOfAll: entries(excludingOrigin: nil),
            versions: columns.flatMap { $0.versions(in: range, excludingOrigin: ident) },
            receipts: columns.flatMap { $0.receipts(from: ident, in: range) },
            lastReceipt: columns.reversed().lazy.compactMap { $0.lastReceipt(from: ident, upTo: version) }.first,
            writers: try segments.flatMap { try $0.versions(writing: keys, in: range, excludingOrigin: ident) })
    }
}
