import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import AnabranchTesting
import ArgumentParser
import Foundation

struct BenchSealedCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sealed",
        abstract: "Measure a store on disk with a long log that is sealed.",
        discussion: """
            Writes a log of small transactions (those of `bench segments`: settings) into a store, seals it, gives \
            free pages back, and prints two JSON lines. The second one has what nothing but explanations needs, for \
            each transaction: explain_bytes, what base and release take of a sealed segment, and times_bytes, what \
            the time of integration takes beside the log if there is more than a second between any two.
              stored_bytes         of the whole database, for each transaction
              connect_ms           a client that has everything comes: the file is opened, IDENT is checked, and the \
            first DOWNLOAD made
              seal_ms              what sealing one segment takes, with its commit (median)
              search_cold_ms       a client that has nothing sets a field of 100 objects, of which the log has one \
            entry each, in 100 segments: the entries are found, with nothing in memory
              search_ms            the same with the heads of all segments in memory
              search_warm_ms       the same once more
              integrate_ms         the same as an upload, with its merge and commit, with nothing in memory
              integrate_heads_ms   the same upload of another client, when the one before is done

            EXAMPLE
              anabranch-lab bench sealed --entries 1000000
            """)

    @Option(help: "How many entries the log has.")
    var entries = 1_000_000

    @Option(help: "How many entries a segment has.")
    var segment = SealingPolicy().entriesMax

    func validate() throws {
        guard entries >= 10_000, 1...LogSegment.entryCountMax ~= segment else {
            throw ValidationError(
                "The log must have 10,000 entries, and a segment has 1 to \(LogSegment.entryCountMax).")
        }
    }

    func run() throws {
        BenchEnvironment.show()
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("anabranch-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        var benchmark = SealedStoreBenchmark(in: folder.path, entries: entries, segment: segment)
        print(try benchmark.run().jsonLine())
        print(try benchmark.explanations().jsonLine())
    }
}

/// A store with one file.
private struct SealedStoreBenchmark {
    struct Figures: Encodable {
        var entries: Int
        var segments = 0
        var storedBytes = 0.0
        var sealMs = 0.0, connectMs = 0.0, searchColdMs = 0.0, searchMs = 0.0, searchWarmMs = 0.0
        var integrateMs = 0.0, integrateHeadsMs = 0.0
    }

    private static let path = VirtualPath("/bench")
    private static let rareCount = 100
    private static let writers = 20
    private let directory: String
    private let segment: Int
    private var figures: Figures

    init(in directory: String, entries: Int, segment: Int) {
        self.directory = directory
        self.segment = segment
        figures = Figures(entries: entries)
    }

    struct Explanations: Encodable {
        var explainBytes: Double
        var timesBytes: Double
    }

    /// The cost of the data for explanations: of bases and releases, by sealing the same entries without them.
    func explanations() throws -> Explanations {
        let start = Checksum(startOf: Self.path), segments = 20
        var log = SegmentLog(.settings), bytes = 0
        for _ in 0..<segments {
            let entries = log.next(segment)
            let bare = entries.map { entry in
                var entry = entry
                (entry.base, entry.uploader) = (nil, .unknown)
                return entry
            }
            bytes += try LogSegment.seal(entries, after: start, of: start).count
            bytes -= try LogSegment.seal(bare, after: start, of: start).count
        }
        let count = UInt64(segments * segment)
        var times = IntegrationTimes(), records: [RecordPlace: Int] = [:]
        for version in 1...count {
            let time = ChangesetTime(rawValue: version * 1_500)
            guard let change = times.record(ServerVersion(rawValue: version), at: time) else { continue }
            // A row has these, its file and its checksum.
            records[change.place] = change.place.key.count + (change.value?.count ?? 0) + 32
        }
        func each(_ bytes: Int) -> Double { (Double(bytes) / Double(count) * 100).rounded() / 100 }
        return Explanations(explainBytes: each(bytes), timesBytes: each(records.values.reduce(0, +)))
    }

    mutating func run() throws -> Figures {
        try write()
        try connect()
        try search()
        try integrate()
        return figures
    }

    private func open() throws -> SQLiteStore {
        try SQLiteStore(directory: directory, options: SQLiteStore.Options(shards: 1))
    }

    private func file(in store: SQLiteStore) throws(HistoryError) -> SyncedFile {
        try SyncedFile(path: Self.path, store: store, keepsState: false)
    }

    // MARK: Writing

    private mutating func write() throws {
        let store = try open()
        var log = SegmentLog(.settings, rareInterval: figures.entries / Self.rareCount)
        _ = try file(in: store).allocateIdents(for: Array(repeating: nil, count: Self.writers + 3), at: 1)
        var seals: [Duration] = [], written = 0
        let start = ContinuousClock.now
        while written < figures.entries {
            let entries = log.next(min(10_000, figures.entries - written))
            let opened = try store.open(Self.path)
            var commit = Commit(file: opened.id, lease: opened.lease, head: opened.head)
            commit.entries = entries
            for entry in entries {
                commit.conflictKeys += try ConflictKeys(of: entry.changeset).writes.map {
                    ConflictKeyEntry(key: $0, version: entry.version, origin: entry.origin)
                }
            }
            try store.commit([commit])
            written += entries.count
            try seal(try file(in: store), in: store, &seals)
            RunProgress.report(
                "\(written) entries", share: Double(written) / Double(figures.entries), after: .now - start)
        }
        RunProgress.end()
        (figures.segments, figures.sealMs) = (seals.count, milliseconds(seals.median))
        try store.maintain(at: 1)
        try store.close()
        let size = try FileManager.default.attributesOfItem(atPath: directory + "/shard-00.sqlite")[.size] as? Int
        figures.storedBytes = (Double(size ?? 0) / Double(figures.entries) * 100).rounded() / 100
    }

    private func seal(_ file: SyncedFile, in store: SQLiteStore, _ times: inout [Duration]) throws {
        var policy = SealingPolicy(), start = ContinuousClock.now
        policy.entriesMax = segment
        while let commit = try file.sealIfDue(policy) {
            let commit = file.completed(commit)
            try store.commit([commit])
            file.finish(commit, nil)
            times.append(.now - start)
            start = .now
        }
    }

    // MARK: Reading

    private func measure<Result>(_ body: () throws -> Result) rethrows -> (result: Result, milliseconds: Double) {
        let start = ContinuousClock.now
        let result = try body()
        return (result, milliseconds(.now - start))
    }

    private func milliseconds(_ duration: Duration) -> Double { (duration.inMilliseconds * 1000).rounded() / 1000 }

    private mutating func connect() throws {
        let store = try open()
        let ident = ClientFileID(Self.writers + 2)
        let sending = try file(in: store)
        guard let salt = try sending.clientFile(ident)?.salt else { return }
        // It was sent the log before.
        _ = try sending.downloads(for: ident)
            .download(after: DownloadCursor(serverVersion: sending.version), byteBudget: 0)
        let (_, time) = try measure {
            let file = try file(in: store), head = file.head
            let request = IdentRequest(
                file: SaltedFileID(ident: ident, salt: salt),
                download: DownloadCursor(serverVersion: head.version),
                latest: SaltedVersion(version: head.version, salt: head.versionSalt))
            let session = try file.identify(request)
            _ = try file.downloads(for: ident).download(after: session.download, byteBudget: 1 << 20)
        }
        figures.connectMs = time
        try store.close()
    }

    /// The changesets of a client that has downloaded nothing.
    private func changesets() -> [[UInt8]] { (1...Self.rareCount).map { SegmentLog.rareChangeset($0) } }

    private mutating func search() throws {
        let store = try open(), file = try file(in: store)
        let whole = VersionRange(after: 1, through: file.head.version)
        var keys: [UInt64] = []
        for changeset in changesets() { keys += try ConflictKeys(of: changeset).reads }
        keys = keys.sortedUnique()
        var absent = keys
        for place in absent.indices { absent[place] ^= 0xABCD_EF01_2345_6789 }
        let find = { (keys: [UInt64]) in
            try store.read(file.id) { view throws(HistoryError) in
                try view.versions(writing: keys, in: whole, excludingOrigin: 99)
            }
        }
        _ = try find(Array(absent.prefix(1)))
        let (found, heads) = try measure { try find(keys) }
        guard found.count == Self.rareCount else {
            throw HistoryError(.storeDamaged, "\(found.count) entries are found of \(Self.rareCount)")
        }
        figures.searchMs = heads
        figures.searchWarmMs = try measure { try find(keys) }.milliseconds
        try store.close()
        let anew = try open()
        figures.searchColdMs = try measure {
            try anew.read(file.id) { view throws(HistoryError) in
                try view.versions(writing: keys, in: whole, excludingOrigin: 99)
            }
        }.milliseconds
        try anew.close()
    }

    private mutating func integrate() throws {
        let store = try open(), file = try file(in: store)
        func upload(from ident: ClientFileID) throws -> Double {
            let changesets = changesets().enumerated().map { number, bytes in
                UploadedChangeset(
                    cursor: UploadCursor(clientVersion: ClientVersion(number + 1), serverVersion: 1), timestamp: 1,
                    changeset: bytes)
            }
            let progress = UploadCursor(clientVersion: ClientVersion(changesets.count), serverVersion: 1)
            try file.enqueue(Upload(progress: progress, changesets: changesets), from: ident)
            return try measure {
                let report = try file.integrate(at: 1)
                if let refusal = report.outcomes.first?.refusal { throw refusal }
            }.milliseconds
        }
        figures.integrateMs = try upload(from: ClientFileID(Self.writers + 3))
        figures.integrateHeadsMs = try upload(from: ClientFileID(Self.writers + 4))
        try store.close()
    }
}
