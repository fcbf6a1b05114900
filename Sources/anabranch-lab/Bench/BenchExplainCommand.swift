import AnabranchCore
import AnabranchExplain
import AnabranchHistory
import AnabranchSQLite
import AnabranchTesting
import ArgumentParser
import Foundation

struct BenchExplainCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Measure explanations, blame and earlier states over a long log on disk.",
        discussion: """
            Writes a log of small transactions of 20 clients (those of `bench segments`: settings) into a store, seals \
            it, and prints one JSON line. One object is written by every hundredth entry, another by every second one \
            of 20,000 in the middle.
              explain_cold_ms   explaining the version in the middle, with nothing in memory
              explain_ms        explaining one of 100 versions around it (median)
              blame_ms          blame of the object that 10,000 of the entries in the middle wrote, with nothing in \
            memory
              blame_spread_ms   blame of the object that every hundredth entry wrote: nearly all of the log is read
              state_ms          the state in the middle, with nothing in memory
              time_ms           the version at a time in the middle, with nothing in memory, where each entry has a mark
              time_bytes        what the times take in the store, for each entry

            EXAMPLES
              anabranch-lab bench explain --entries 1000000
              anabranch-lab bench explain --entries 1000000 --data ./long && \\
                  /usr/bin/time -v anabranch explain 500000 --data ./long --path /bench
            """)

    @Option(help: "How many entries the log has.")
    var entries = 1_000_000

    @Option(help: "A new directory for the store, which stays; without it the store is temporary.")
    var data: String?

    func validate() throws {
        guard entries >= 10_000 else { throw ValidationError("The log must have 10,000 entries.") }
    }

    func run() throws {
        BenchEnvironment.show()
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("anabranch-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        var benchmark = ExplainBenchmark(in: data ?? folder.path, entries: entries)
        print(try benchmark.run().jsonLine())
    }
}

/// A store with one file.
private struct ExplainBenchmark {
    struct Figures: Encodable {
        var entries: Int
        var storedBytes = 0.0
        var explainColdMs = 0.0, explainMs = 0.0
        var blameMs = 0.0, blameSpreadMs = 0.0
        var stateMs = 0.0
        var timeMs = 0.0, timeBytes = 0.0
    }

    private static let path = VirtualPath("/bench")
    private static let className = "Measurement"
    private static let (clients, objects, interval) = (20, 10_000, 100)
    /// The time between two entries, as the marks have it.
    private static let stepMilliseconds: UInt64 = 1_500
    private let directory: String
    private var figures: Figures

    init(in directory: String, entries: Int) {
        self.directory = directory
        figures = Figures(entries: entries)
    }

    mutating func run() throws -> Figures {
        try write()
        let middle = ServerVersion(figures.entries / 2)
        figures.explainColdMs = try cold { file in
            try measure { _ = try file.withView { view throws(HistoryError) in try view.explanation(of: middle) } }
        }.milliseconds
        figures.explainMs = try cold { file in
            try (0..<100).map { number in
                try measure {
                    try file.withView { view throws(HistoryError) in try view.explanation(of: middle + UInt64(number)) }
                }.time
            }.sorted()[50].milliseconds
        }
        figures.blameMs = try blame(of: Self.objects + 1, versions: 10_000)
        figures.blameSpreadMs = try blame(of: Self.objects, versions: figures.entries / Self.interval)
        figures.stateMs = try cold { file in try measure { _ = try file.state(at: middle) } }.milliseconds
        figures.timeMs = try cold { file in
            let time = ChangesetTime(rawValue: middle.rawValue * Self.stepMilliseconds)
            let (found, duration) = try measure {
                try file.withView { view throws(HistoryError) in try view.version(at: time) }
            }
            guard found == middle else {
                throw HistoryError(.storeDamaged, "the time finds \(String(describing: found))")
            }
            return duration
        }.milliseconds
        return figures
    }

    /// - Parameter count: the least number of versions that wrote the object.
    private func blame(of key: Int, versions count: Int) throws -> Double {
        let object = ObjectAddress(Self.className.utf8, .int(Int64(key)))
        return try cold { file in
            let state = try file.state(at: file.head.version)
            let (blame, time) = try measure {
                try file.withView { view throws(HistoryError) in try view.blame(object, in: state) }
            }
            let versions = try file.withView { view throws(HistoryError) in try view.versions(changing: object) }
            guard blame?.lines.isEmpty == false, versions.count >= count - 1 else {
                throw HistoryError(.storeDamaged, "\(versions.count) versions wrote the object")
            }
            return time.milliseconds
        }
    }

    private func measure<Result>(_ body: () throws -> Result) rethrows -> (result: Result, time: Duration) {
        let start = ContinuousClock.now
        let result = try body()
        return (result, .now - start)
    }

    private func measure(_ body: () throws -> Void) rethrows -> Duration {
        let start = ContinuousClock.now
        try body()
        return .now - start
    }

    /// Runs `body` with a store of which nothing was read.
    private func cold<Result>(_ body: (StoredFile) throws -> Result) throws -> Result {
        guard let file = try StoreReader(directory: directory).file(Self.path) else {
            throw HistoryError(.storeDamaged, "there is no file")
        }
        return try body(file)
    }

    // MARK: Writing

    /// The classes, and the objects that the log sets.
    private static func beginning() -> [UInt8] {
        var writer = ChangesetWriter()
        writer.write(.addTable(className))
        for field in ["temperature", "pressure"] { writer.write(.addColumn(className, field)) }
        for key in 0...objects + 1 {
            writer.write(.createObject(ObjectName(className: className, key: .int(Int64(key)))))
        }
        return writer.bytes
    }

    /// The object that an entry is about which is not one of the others.
    private static func key(writtenBy number: Int, of count: Int) -> Int? {
        if number == 0 { return nil }
        if number.isMultiple(of: interval) { return objects }
        return number % 2 == 1 && abs(number - count / 2) <= 10_000 ? objects + 1 : nil
    }

    private mutating func write() throws {
        let store = try SQLiteStore(directory: directory, options: SQLiteStore.Options(shards: 1))
        _ = try SyncedFile(path: Self.path, store: store, keepsState: false)
            .allocateIdents(for: (0..<Self.clients).map { "user \($0)" }, at: 1)
        var log = SegmentLog(.settings), times = IntegrationTimes(), timeBytes = 0
        var written = 0, size: UInt64 = 0
        let start = ContinuousClock.now
        while written < figures.entries {
            var entries = log.next(min(10_000, figures.entries - written))
            for index in entries.indices {
                let number = written + index
                if number == 0 { entries[index].changeset = Self.beginning() }
                if let key = Self.key(writtenBy: number, of: figures.entries) {
                    let object = ObjectName(className: Self.className, key: .int(Int64(key)))
                    let field = FieldPath(object: object, field: "pressure")
                    entries[index].changeset = ChangesetWriter([.update(field, .int(Int64(number)))]).bytes
                }
                size += UInt64(entries[index].changeset.count)
                entries[index].cumulativeSize = size
            }
            let opened = try store.open(Self.path)
            var commit = Commit(file: opened.id, lease: opened.lease, head: opened.head)
            commit.entries = entries
            var records: [RecordPlace: RecordChange] = [:]
            for entry in entries {
                let time = ChangesetTime(rawValue: entry.version.rawValue * Self.stepMilliseconds)
                if let change = times.record(entry.version, at: time) { records[change.place] = change }
                commit.conflictKeys += try ConflictKeys(of: entry.changeset).writes.map {
                    ConflictKeyEntry(key: $0, version: entry.version, origin: entry.origin)
                }
            }
            commit.records = records.values.sorted { $0.place < $1.place }
            // A row has these, its file and its checksum.
            timeBytes += records.values.reduce(0) { $0 + $1.place.key.count + ($1.value?.count ?? 0) + 32 }
            written += entries.count
            try store.commit([commit])
            // Opening it brings its state up to date.
            try seal(try SyncedFile(path: Self.path, store: store), in: store)
            RunProgress.report(
                "\(written) entries", share: Double(written) / Double(figures.entries), after: .now - start)
        }
        RunProgress.end()
        try store.maintain(at: 1)
        try store.close()
        figures.timeBytes = (Double(timeBytes) / Double(figures.entries) * 100).rounded() / 100
        let bytes = try FileManager.default.attributesOfItem(atPath: directory + "/shard-00.sqlite")[.size] as? Int
        figures.storedBytes = (Double(bytes ?? 0) / Double(figures.entries) * 100).rounded() / 100
    }

    private func seal(_ file: SyncedFile, in store: SQLiteStore) throws {
        while let commit = try file.sealIfDue(SealingPolicy()) {
            let commit = file.completed(commit)
            try store.commit([commit])
            file.finish(commit, nil)
        }
    }
}

extension Duration {
    fileprivate var milliseconds: Double { (inMilliseconds * 1000).rounded() / 1000 }
}
