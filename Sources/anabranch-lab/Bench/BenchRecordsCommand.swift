import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import AnabranchTesting
import ArgumentParser
import Foundation
import Synchronization

struct BenchRecordsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "records",
        abstract: "Measure the records that doors keep beside the log, in a store on disk.",
        discussion: """
            Stores records with keys of 24 bytes and values of 100, 1,000 a commit, of which every second one expires, \
            and prints a JSON line:
              stored_bytes         of the whole database, for each record
              write_us             what storing a record takes, with its share of a commit
              entry_ms             a commit with a log entry, with all records stored (median)
              entry_record_ms      the same with a record about it
              read_us              reading a record by its key, anywhere
              range_ms             reading 100 records that follow each other
              erase_s              erasing the expired half
              neighbor_ms          a commit to another file of the shard meanwhile (median)
              neighbor_max_ms      the longest of these

            EXAMPLE
              anabranch-lab bench records --records 1000000
            """)

    @Option(help: "How many records.")
    var records = 1_000_000

    func validate() throws {
        guard records >= 10_000 else { throw ValidationError("--records must be 10,000 or more.") }
    }

    func run() throws {
        BenchEnvironment.show()
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("anabranch-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        print(try RecordsBenchmark(in: folder.path, count: records).run().jsonLine())
    }
}

/// A store with a file that has records, and one that has none.
private struct RecordsBenchmark {
    struct Figures: Encodable {
        var records: Int
        var storedBytes = 0.0, writeUs = 0.0, entryMs = 0.0, entryRecordMs = 0.0, readUs = 0.0, rangeMs = 0.0
        var eraseS = 0.0, neighborMs = 0.0, neighborMaxMs = 0.0
    }

    private static let perCommit = 1_000, expiry: UInt64 = 1_000, samples = 1_000
    private let directory: String
    private let count: Int

    init(in directory: String, count: Int) {
        self.directory = directory
        self.count = count
    }

    func run() throws -> Figures {
        var figures = Figures(records: count)
        let store = try SQLiteStore(directory: directory, options: SQLiteStore.Options(shards: 1))
        let file = try SyncedFile(path: VirtualPath("/door"), store: store)
        try file.write(at: 1) { try $0.addClass("Note", key: "_id", .int) }
        var start = ContinuousClock.now, written = 0
        while written < count {
            var commit = try file.prepare([]).commit
            commit.records = (written..<min(written + Self.perCommit, count)).map(change)
            try put(commit, of: file, in: store)
            written += commit.records.count
            RunProgress.report("\(written) records", share: Double(written) / Double(count), after: .now - start)
        }
        RunProgress.end()
        figures.writeUs = rounded((.now - start).inMilliseconds * 1000 / Double(count))
        (figures.entryMs, _) = try entries(in: file, of: store, withRecord: false)
        (figures.entryRecordMs, _) = try entries(in: file, of: store, withRecord: true)
        var random = SeededRandom(seed: 1)
        let places = (0..<Self.samples).map { _ in place(random.below(count)) }
        start = .now
        let found = try store.read(file.id) { view throws(HistoryError) in
            var found = 0
            for place in places where try view.record(at: place) != nil { found += 1 }
            return found
        }
        guard found == Self.samples else { throw HistoryError(.storeDamaged, "\(found) records are found") }
        figures.readUs = rounded((.now - start).inMilliseconds * 1000 / Double(Self.samples))
        start = .now
        _ = try store.read(file.id) { view throws(HistoryError) in
            try view.records(
                in: RecordRange(space: 1, kind: 1, from: places[0].key), countMax: 100, isReversed: false)
        }
        figures.rangeMs = rounded((.now - start).inMilliseconds)
        try store.close()
        let size = try FileManager.default.attributesOfItem(atPath: directory + "/shard-00.sqlite")[.size] as? Int
        figures.storedBytes = rounded(Double(size ?? 0) / Double(count))
        try erase(&figures)
        return figures
    }

    private func place(_ number: Int) -> RecordPlace {
        // In no order, as keys of objects come.
        let key = UInt64(number) &* 0x9E37_79B9_7F4A_7C15
        return RecordPlace(
            space: 1, kind: 1, key: (0..<24).map { UInt8(truncatingIfNeeded: key >> UInt64($0 % 8 * 8)) })
    }

    private func change(_ number: Int) -> RecordChange {
        RecordChange(
            place: place(number), value: Array(repeating: UInt8(truncatingIfNeeded: number), count: 100),
            expiresAt: number % 2 == 0 ? 0 : Self.expiry)
    }

    /// Commits of one log entry each.
    private func entries(
        in file: SyncedFile, of store: SQLiteStore, withRecord: Bool, countMax: Int = samples,
        while shouldContinue: () -> Bool = { true }
    ) throws -> (median: Double, max: Double) {
        var times: [Duration] = []
        while times.count < countMax, shouldContinue() {
            let number = Int64(times.count)
            let prepared = try file.prepare([
                HeadWrite(at: 1) { tx, records in
                    try tx.create("Note", key: .int(number))
                    if withRecord { records.set([1], at: place(count + Int(number))) }
                    return []
                }
            ])
            let start = ContinuousClock.now
            try put(prepared.commit, of: file, in: store)
            times.append(.now - start)
        }
        return (rounded(times.median.inMilliseconds), rounded((times.max() ?? .zero).inMilliseconds))
    }

    private func put(_ commit: Commit, of file: SyncedFile, in store: SQLiteStore) throws {
        let commit = file.completed(commit)
        try store.commit([commit])
        file.finish(commit, nil)
    }

    private func erase(_ figures: inout Figures) throws {
        let store = try SQLiteStore(directory: directory)
        let neighbor = try SyncedFile(path: VirtualPath("/neighbor"), store: store)
        try neighbor.write(at: 1) { try $0.addClass("Note", key: "_id", .int) }
        let outcome = Mutex<Result<Duration, any Error>?>(nil), done = Mutex(false)
        let thread = Thread {
            let start = ContinuousClock.now
            let result = Result { try store.maintain(at: Self.expiry) }
            outcome.withLock { $0 = result.map { .now - start } }
            done.withLock { $0 = true }
        }
        thread.start()
        (figures.neighborMs, figures.neighborMaxMs) = try entries(
            in: neighbor, of: store, withRecord: false, countMax: .max
        ) { !done.withLock { $0 } }
        while !done.withLock({ $0 }) { Thread.sleep(forTimeInterval: 0.001) }
        try store.close()
        figures.eraseS = rounded((try outcome.withLock { $0 }?.get() ?? .zero).inMilliseconds / 1000)
    }

    private func rounded(_ number: Double) -> Double { (number * 1000).rounded() / 1000 }
}
