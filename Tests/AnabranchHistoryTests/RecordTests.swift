import AnabranchCore
import AnabranchTesting
import Synchronization
import Testing

@testable import AnabranchHistory

/// The records that doors keep beside the log, and their writes at its head (`Spec/Doors.md`).
@Suite struct RecordTests {
    private typealias Fixture = StateTests.Fixture

    /// Keeps a copy of the objects of class T from steps alone: a record for each object, and one for each entry.
    private final class Mirror: RecordObserver {
        static let space: UInt16 = 9
        let violations = Mutex<[String]>([])
        /// Fails as a store in trouble would.
        let fails = Mutex(false)

        static func object(_ key: PrimaryKey) -> RecordPlace {
            RecordPlace(space: space, kind: 1, key: Array("\(key)".utf8))
        }

        static func entry(_ version: ServerVersion) -> RecordPlace {
            RecordPlace(space: space, kind: 2, key: version.rawValue.bigEndianBytes)
        }

        static func text(of key: PrimaryKey, in state: ObjectGraph) throws(HistoryError) -> [UInt8]? {
            do {
                return try state.read { read in
                    try read.object("T", key: key).map { object in
                        Array("\(try object.value("n")) \(try object.list("l").values)".utf8)
                    }
                }
            } catch {
                return nil  // The class is not there yet.
            }
        }

        func observe(_ step: RecordStep, _ records: inout PendingRecords) throws(HistoryError) {
            let place = Self.entry(step.entry.version)
            if try records.value(at: place) != nil { report("entry \(step.entry.version) came twice") }
            records.set(step.author ?? [], at: place)
            if fails.withLock({ $0 }) { throw HistoryError(.storeFailed, "planned") }
            for object in try step.touched().objects where object.className.elementsEqual("T".utf8) {
                let place = Self.object(object.key), before = try Self.text(of: object.key, in: step.before)
                if try records.value(at: place) != before {
                    report("\(object.key) was another before \(step.entry.version)")
                }
                records.set(try Self.text(of: object.key, in: step.after), at: place)
            }
        }

        private func report(_ violation: String) { violations.withLock { $0.append(violation) } }
    }

    /// F1 and F2: every change of an object comes once, in the order of the log, and the after of one is the before of
    /// the next; whoever made it, and however many entries a commit has.
    @Test(arguments: StoreKind.allCases, 1...6 as ClosedRange<UInt64>)
    func everyChangeComesOnceInTheOrderOfTheLog(kind: StoreKind, seed: UInt64) throws {
        var fixture = try Fixture(kind, clients: 4, cachedObjectsMax: seed % 2 == 0 ? 1 : 1000)
        var changes = RandomChanges(SeededRandom(seed: seed)), random = SeededRandom(seed: seed &+ 1000)
        let mirror = Mirror()
        fixture.file.observers = [mirror]
        let first = fixture.file.version
        try Self.seedMirror(fixture.file)
        var clientVersions: [ClientFileID: UInt64] = [:], entriesOfOneCommit = 0
        for _ in 0..<40 {
            let before = fixture.file.version
            switch random.below(5) {
            case 0:
                try fixture.file.write(at: 5) { try $0.create("T", key: .int(Int64(random.below(4)))) }
            case 1:
                let keys = (0...random.below(3)).map { _ in Int64(random.below(4)) }
                let prepared = try fixture.file.prepare(
                    keys.map { key in
                        HeadWrite(at: 5) { tx, _ in
                            let object = try tx.object("T", key: .int(key))
                            if let object, key == 2 {
                                try tx.delete(object)
                            } else {
                                try tx.create("T", key: .int(key))["n"] = 4
                            }
                            return Array("door".utf8)
                        }
                    })
                try fixture.file.commit(prepared.commit)
            default:
                for ident in [3, 4, 5] as [ClientFileID] {
                    let state = try fixture.file.withState { $0 }
                    let number = clientVersions[ident, default: 0] + 1
                    clientVersions[ident] = number
                    let upload = Upload(
                        [try changes.data(state)], from: ClientVersion(number), base: fixture.file.version)
                    try fixture.file.enqueue(upload, from: ident)
                }
                _ = try fixture.file.integrate(at: 1000)
            }
            entriesOfOneCommit = max(entriesOfOneCommit, Int(fixture.file.version.rawValue - before.rawValue))
            if random.isOne(in: 8) {
                try fixture.test.restart()
                fixture.file = try SyncedFile.open(in: fixture.test.store, keepsState: true)
                fixture.file.observers = [mirror]
            }
        }
        #expect(mirror.violations.withLock { $0 } == [], "seed \(seed)")
        #expect(entriesOfOneCommit > 1, "no commit had several entries: the test shows less than it says")
        try Self.check(fixture.file, after: first)
        try fixture.test.verify()
    }

    private static func seedMirror(_ file: SyncedFile) throws {
        let prepared = try file.prepare([
            HeadWrite(at: 1) { tx, records in
                for object in try tx.objects("T") {
                    guard let key = object.key else { continue }
                    records.set(try Mirror.text(of: key, in: tx.state), at: Mirror.object(key))
                }
                return []
            }
        ])
        #expect(prepared.commit.entries.isEmpty)
        try file.commit(prepared.commit)
    }

    /// The mirror equals the state, and there is a record of each entry.
    private static func check(_ file: SyncedFile, after first: ServerVersion) throws {
        let state = try file.withState { $0 }
        try file.read { view throws(HistoryError) in
            let entries = try view.records(
                in: RecordRange(space: Mirror.space, kind: 2), countMax: .max >> 1, isReversed: false)
            #expect(
                entries.map(\.place.key)
                    == (first.rawValue + 1..<file.version.rawValue + 1).map(\.bigEndianBytes))
            let kept = try view.records(
                in: RecordRange(space: Mirror.space, kind: 1), countMax: .max >> 1, isReversed: false)
            var live: [[UInt8]: [UInt8]] = [:]
            for key in 0..<4 as Range<Int64> {
                let key = PrimaryKey.int(key)
                live[Mirror.object(key).key] = try Mirror.text(of: key, in: state)
            }
            #expect(Dictionary(uniqueKeysWithValues: kept.map { ($0.place.key, $0.value) }) == live)
        }
    }

    /// Notes each entry, in a space of its own.
    private struct Ledger: RecordObserver {
        static func entry(_ version: ServerVersion) -> RecordPlace {
            RecordPlace(space: 10, kind: 1, key: version.rawValue.bigEndianBytes)
        }

        func observe(_ step: RecordStep, _ records: inout PendingRecords) throws(HistoryError) {
            records.set([], at: Self.entry(step.entry.version))
        }
    }

    /// Trouble of one door stops neither the commit nor another door, before or after it, whoever writes.
    @Test(arguments: [false, true], [false, true])
    func aDoorThatFailsMissesTheEntryAlone(isAtHead: Bool, isFirst: Bool) throws {
        let fixture = try Fixture(), mirror = Mirror()
        fixture.file.observers = isFirst ? [mirror, Ledger()] : [Ledger(), mirror]
        func write(_ key: PrimaryKey) throws {
            guard isAtHead else { return _ = try fixture.file.write(at: 5) { try $0.create("T", key: key) } }
            let prepared = try fixture.file.prepare([
                HeadWrite(at: 5) { tx, _ in
                    try tx.create("T", key: key)
                    return []
                }
            ])
            _ = try prepared.outcomes[0].get()
            try fixture.file.commit(prepared.commit)
        }
        mirror.fails.withLock { $0 = true }
        try write(2)
        #expect(fixture.file.takeObserverFailure()?.reason == "planned")
        mirror.fails.withLock { $0 = false }
        try write(3)
        #expect(fixture.file.takeObserverFailure() == nil)
        let found = try fixture.file.read { view throws(HistoryError) in
            [2, 3].map { (version: ServerVersion) in
                [Mirror.entry(version), Ledger.entry(version)].map { (try? view.record(at: $0)) ?? nil != nil }
            }
        }
        #expect(found == [[false, true], [true, true]])
    }

    /// Counts the entries that it is shown.
    private final class Counter: RecordObserver {
        private let shown = Mutex(0)

        var count: Int { shown.withLock { $0 } }

        func observe(_ step: RecordStep, _ records: inout PendingRecords) { shown.withLock { $0 += 1 } }
    }

    /// What an observer does with an entry may take long, and a commit may have thousands of them.
    @Test(arguments: StoreKind.allCases, [false, true])
    func theEntriesOfAMergeAreShownInSteps(kind: StoreKind, isInterrupted: Bool) throws {
        let fixture = try Fixture(kind), file = fixture.file, mirror = Mirror(), counter = Counter()
        file.observers = [mirror, counter]
        let first = file.version
        try Self.seedMirror(file)
        let changesets = (1...5).map { ChangesetWriter.setting(1, to: $0) }
        try file.enqueue(Upload(changesets, from: 1, base: first), from: 3)
        var report: IntegrationReport?, isWritten = !isInterrupted, steps = 0
        while report == nil {
            let before = counter.count
            report = try file.stepIntegration(at: 1000)
            #expect(counter.count <= before + 1, "none is shown again at the commit")
            steps += 1
            guard counter.count == 2, !isWritten else { continue }
            // It comes first, and the merge begins anew.
            try file.write(at: 5) { try $0.create("T", key: 2) }
            isWritten = true
        }
        #expect(steps > 4)
        #expect(report?.outcomes.map(\.newVersions) == [5])
        #expect(counter.count == (isInterrupted ? 2 + 1 + 5 : 5))
        #expect(mirror.violations.withLock { $0 } == [])
        try Self.check(file, after: first)
        try fixture.test.verify()
    }

    // MARK: Writes at the head

    private struct Changed: Error {}

    /// W1: each body sees everything below its entry, records included; one that throws leaves nothing.
    @Test(arguments: StoreKind.allCases) func writesOfOneCommitFollowEachOther(kind: StoreKind) throws {
        let fixture = try Fixture(kind), file = fixture.file
        let place = RecordPlace(space: 1, kind: 1, key: [1])
        /// Adds one to T[1].n if it is as expected, and counts that.
        func increment(from expected: Int64) -> HeadWrite {
            HeadWrite(at: 100) { tx, records in
                guard let object = try tx.object("T", key: 1), try object.value("n") == .int(expected) else {
                    records.set([255], at: place)
                    throw Changed()
                }
                object["n"] = .int(expected + 1)
                records.set([(try records.value(at: place)?.first ?? 0) + 1], at: place)
                return []
            }
        }
        let prepared = try file.prepare([
            increment(from: 0), increment(from: 0), increment(from: 1), HeadWrite(at: 100) { _, _ in [] },
        ])
        let outcomes = prepared.outcomes.map { try? $0.get() }
        #expect(outcomes == [2, nil, 3, 3])
        #expect(throws: Changed.self) { try prepared.outcomes[1].get() }
        #expect(prepared.commit.entries.map(\.origin) == [0, 0])
        #expect(prepared.commit.records == [RecordChange(place: place, value: [2])])
        #expect(file.version == 1, "nothing is done before the commit")
        try file.commit(prepared.commit)
        #expect(file.version == 3)
        #expect(try fixture.canonicalState().contains(#""n":{"int":"2"}"#))
        #expect(try file.readHead { tx, records in try records.value(at: place) } == [2])
        try fixture.check()
        try fixture.test.verify()
    }

    /// W2: after a commit that failed the bodies run again, on what is there.
    @Test func writesAreRepeatedAfterAFailedCommit() throws {
        let fixture = try Fixture(.sqlite),
            write = HeadWrite(at: 100) { tx, _ in
                try tx.create("T", key: 5)
                return []
            }
        let prepared = try fixture.file.prepare([write])
        try fixture.file.write(at: 1) { try $0.create("T", key: 4) }
        #expect(throws: HistoryError.self) { try fixture.file.commit(prepared.commit) }
        let file = try SyncedFile.open(in: fixture.test.store, keepsState: true)
        let again = try file.prepare([write])
        try file.commit(again.commit)
        #expect(try again.outcomes.map { try $0.get() } == [3])
        #expect(try file.readHead { tx, _ in try tx.objects("T").count } == 3)
    }

    // MARK: Records of a commit in the making

    @Test(arguments: 1...100 as ClosedRange<UInt64>) func keysSortByTheirBytes(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let same = (0..<random.below(20)).map { _ in UInt8(random.below(256)) }
        func key() -> [UInt8] {
            Array(same.prefix(random.upTo(same.count))) + (0..<random.below(12)).map { _ in UInt8(random.below(256)) }
        }
        for _ in 0..<50 {
            let keys = [key(), key()]
            let places = keys.map { RecordPlace(space: 1, kind: 1, key: $0) }
            #expect((places[0] < places[1]) == keys[0].lexicographicallyPrecedes(keys[1]), "\(keys)")
            #expect((places[0] == places[1]) == (keys[0] == keys[1]))
        }
    }

    @Test(arguments: 1...200 as ClosedRange<UInt64>) func rangesSeeChangesOverWhatIsStored(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        func change(_ random: inout SeededRandom) -> RecordChange {
            let key = (0..<random.below(3)).map { _ in random.isOne(in: 4) ? UInt8.max : UInt8(random.below(3)) }
            return RecordChange(
                place: RecordPlace(space: 1, kind: 1, key: key),
                value: random.isOne(in: 3) ? nil : [UInt8(random.below(9))])
        }
        func latest(_ changes: [RecordChange]) -> [RecordChange] {
            Dictionary(changes.map { ($0.place, $0) }) { $1 }.values.sorted { $0.place < $1.place }
        }
        let stored = latest((0..<random.below(12)).map { _ in change(&random) })
        let made = latest((0..<random.below(6)).map { _ in change(&random) })
        let file = try SyncedFile.open(in: InMemoryStore(), keepsState: true)
        var commit = Commit(file: file.id, lease: file.lease, head: file.head)
        commit.records = stored
        try file.commit(commit)
        let expected = latest(stored + made).filter { $0.value != nil }
        let lower = change(&random).place.key, upper = random.isOne(in: 3) ? nil : change(&random).place.key
        let range = RecordRange(space: 1, kind: 1, from: lower, to: upper), countMax = random.below(8)
        let within = expected.filter { range.contains($0.place) }.map(\.place.key)
        let ahead = random.isOne(in: 2) ? range : RecordRange(space: 1, kind: 1, prefix: change(&random).place.key)
        let isReadAhead = random.isOne(in: 2)
        try file.read { view throws(HistoryError) in
            var pending = PendingRecords(over: view, made)
            if isReadAhead { try pending.readAhead(ahead) }
            for change in stored + made {
                let value = expected.first { $0.place == change.place }?.value
                #expect(try pending.value(at: change.place) == value, "seed \(seed)")
            }
            #expect(
                try pending.records(in: range, countMax: countMax).map(\.place.key) == Array(within.prefix(countMax)),
                "seed \(seed)")
            #expect(
                try pending.records(in: range, countMax: countMax, isReversed: true).map(\.place.key)
                    == Array(within.reversed().prefix(countMax)), "seed \(seed)")
        }
    }
}

extension UInt64 {
    fileprivate var bigEndianBytes: [UInt8] { (0..<8).map { UInt8(truncatingIfNeeded: self >> (56 - 8 * $0)) } }
}
