import AnabranchCore
import AnabranchTesting
import Foundation
import Synchronization
import Testing

@testable import AnabranchHistory

/// The times of entries, by the server's clock (`Spec/History.md`, section 18).
@Suite struct IntegrationTimeTests {
    /// A clock that says what the test wants.
    private final class TestClock: Sendable {
        let time = Mutex(ChangesetTime(1_000_000))
    }

    /// A file in a store, with such a clock.
    private final class Fixture {
        let test: TestStore
        let clock = TestClock()
        private(set) var file: SyncedFile

        init(_ kind: StoreKind) throws {
            test = try TestStore(kind)
            file = try .open(in: test.store, keepsState: true)
            setClock()
        }

        private func setClock() { file.clock = { [clock] in clock.time.withLock { $0 } } }

        func restart() throws {
            try test.restart()
            file = try .open(in: test.store, keepsState: true)
            setClock()
        }

        func read<Result: Sendable>(
            _ body: (any FileView) throws(HistoryError) -> Result
        ) throws(HistoryError) -> Result { try test.store.read(file.id, body) }

        /// Sets the clock, and writes as many versions.
        func write(_ count: Int = 1, at moment: ChangesetTime) throws {
            clock.time.withLock { $0 = moment }
            for _ in 0..<count {
                let number = Int64(file.version.rawValue)
                try file.write(at: 1) { transaction in
                    if number == 0 {
                        try transaction.addClass("T", key: "_id", .int)
                        try transaction.addColumn("n", .int, to: "T")
                    }
                    try transaction.create("T", key: 1)["n"] = .int(number)
                }
            }
        }
    }

    /// What is kept, entry by entry: marks are a second apart at least and never go back, and a clock that has gone
    /// back stands still. Restarts, sealing, trims and clocks that jump are random, and lookups equal a search through
    /// all entries.
    @Test(arguments: StoreKind.allCases, 1...4 as ClosedRange<UInt64>)
    func lookupsEqualANaiveScan(kind: StoreKind, seed: UInt64) throws {
        let fixture = try Fixture(kind)
        var random = SeededRandom(seed: seed), clock: UInt64 = 1_000_000, expected: [ChangesetTime] = []
        while expected.count < 900 {
            switch random.below(20) {
            case 0: clock -= min(clock, UInt64(random.below(20_000)))
            case 1: clock += UInt64(random.below(10_000_000))
            default: clock += UInt64(random.below(1_500))
            }
            let count = 1 + random.below(2)
            try fixture.write(count, at: ChangesetTime(rawValue: clock))
            for _ in 0..<count {
                let last = expected.last
                let isMarked = last.map { clock >= $0.rawValue + 1_000 } ?? true
                expected.append(isMarked ? ChangesetTime(rawValue: clock) : last ?? 0)
            }
            if random.isOne(in: 100) { try fixture.restart() }
            if random.isOne(in: 50) {
                try fixture.file.seal(SealingPolicy(entriesMax: 40, restMin: 3))
            }
            if expected.count > 600, random.isOne(in: 20) {
                try fixture.file.trim(upTo: ServerVersion(rawValue: UInt64(expected.count - 300)))
            }
        }
        let base = fixture.file.head.baseVersion
        #expect(base > 0, "seed \(seed)")
        for _ in 0..<2 {
            try fixture.read { view throws(HistoryError) in
                for version in base.rawValue + 1...UInt64(expected.count) {
                    let time = try view.integrationTime(of: ServerVersion(rawValue: version))
                    #expect(time == expected[Int(version) - 1], "seed \(seed), version \(version)")
                }
                for _ in 0..<200 {
                    let index = random.below(expected.count), shift = UInt64(random.below(3))
                    let time = ChangesetTime(rawValue: expected[index].rawValue + shift - 1)
                    let naive = UInt64(expected.count { $0 <= time })
                    guard naive > base.rawValue else { continue }
                    #expect(try view.version(at: time)?.rawValue == naive, "seed \(seed), time \(time)")
                }
                #expect(try view.version(at: .largest)?.rawValue == UInt64(expected.count))
                let oldest = try view.oldestIntegration()
                #expect(oldest.map { $0.version <= base + 1 } == true, "seed \(seed)")
                let before = ChangesetTime(rawValue: (oldest?.time.rawValue ?? 1) - 1)
                #expect(try view.version(at: before) == nil, "seed \(seed)")
            }
            try fixture.restart()
        }
        try fixture.test.verify()
    }

    /// Without a clock nothing is kept, and nothing is known.
    @Test(arguments: StoreKind.allCases) func withoutAClockNothingIsKnown(kind: StoreKind) throws {
        let fixture = try Fixture(kind)
        fixture.file.clock = nil
        try fixture.write(2, at: 5_000)
        try fixture.read { view throws(HistoryError) in
            #expect(try view.integrationTime(of: 1) == nil)
            #expect(try view.version(at: .largest) == nil)
            #expect(try view.oldestIntegration() == nil)
        }
    }

    /// A mark for every entry is the most that is kept: less than 6 bytes each.
    @Test func marksAreSmall() throws {
        var times = IntegrationTimes(), records: [RecordPlace: Int] = [:]
        for number in 1...100_000 as ClosedRange<UInt64> {
            let time = ChangesetTime(rawValue: 400_000_000_000 + number * 1_500)
            let noted = times.record(ServerVersion(rawValue: number), at: time)
            let change = try #require(noted), value = try #require(change.value)
            records[change.place] = value.count + change.place.key.count + 32
        }
        #expect(records.values.reduce(0, +) < 6 * 100_000)
    }

    /// A record that is not what was written is damage, and no trap.
    @Test func damagedRecordsAreRefused() {
        var random = SeededRandom(seed: 1)
        for _ in 0..<1_000 {
            let value = (0..<random.below(30)).map { _ in UInt8(truncatingIfNeeded: random.below(256)) }
            let key = Array(repeating: UInt8.max, count: 8)
            let record = DoorRecord(place: RecordPlace(space: 0, kind: 1, key: key), value: value)
            do {
                let times = try IntegrationTimes(record)
                #expect(!times.marks.isEmpty)
            } catch {
                #expect(error.code == .storeDamaged)
            }
        }
    }
}
