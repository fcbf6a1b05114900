import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import AnabranchTesting
import ArgumentParser
import Foundation

struct BenchGrowthCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "growth",
        abstract: "Measure how a store on disk grows while the same objects are overwritten and it is maintained.",
        discussion: """
            A client overwrites a field of 64 KiB in as many objects as make a tenth of --megabytes, again and again, \
            until it has uploaded --megabytes. Then the file is maintained, as a server does it, with thresholds of a \
            hundredth of that, and the store gives free pages back. After each cycle a JSON line is printed:
              version, base_version   the end and the beginning of the log
              log_bytes               of its changesets
              stored_bytes            of all files of the store
              seconds                 what maintenance took
            The last line has slope_bytes, by how much the store grows in a cycle, without the first two cycles, and \
            slope_share of what is written in one. A store that keeps no more than it needs does not grow.

            EXAMPLE
              anabranch-lab bench growth --cycles 10 --megabytes 100
            """)

    @Option(help: "How many cycles there are.")
    var cycles = 10

    @Option(help: "What is uploaded in each, in megabytes.")
    var megabytes = 100

    func validate() throws {
        guard cycles >= 4, 1...10_000 ~= megabytes else {
            throw ValidationError("There must be 4 cycles, and 1 to 10,000 megabytes.")
        }
    }

    func run() throws {
        BenchEnvironment.show()
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("anabranch-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        var benchmark = try GrowthBenchmark(in: folder, megabytes: megabytes)
        var sizes: [Double] = []
        for cycle in 1...cycles {
            let figures = try benchmark.run(cycle)
            sizes.append(Double(figures.storedBytes))
            print(try figures.jsonLine())
        }
        let slope = Self.slope(of: Array(sizes.dropFirst(2)))
        print(try Slope(slopeBytes: slope, slopeShare: slope / Double(megabytes << 20)).jsonLine())
    }

    private struct Slope: Encodable { var slopeBytes: Double, slopeShare: Double }

    /// The slope of the line that is nearest to the values, by the sum of squares.
    private static func slope(of values: [Double]) -> Double {
        let middle = Double(values.count - 1) / 2
        let squares = values.indices.reduce(0) { $0 + (Double($1) - middle) * (Double($1) - middle) }
        return values.enumerated().reduce(0) { $0 + (Double($1.offset) - middle) * $1.element } / squares
    }
}

/// A store with one file, in which a client overwrites the same fields.
private struct GrowthBenchmark {
    struct Figures: Encodable {
        var cycle: Int
        var version: UInt64, baseVersion: UInt64
        var logBytes: UInt64
        var storedBytes: Int
        var seconds: Double
    }

    private static let valueBytes = 64 << 10
    private static let path = VirtualPath("/bench")
    private let folder: URL
    private let store: SQLiteStore
    private let file: SyncedFile
    private let client: ClientFileID
    private var clientVersion: ClientVersion = 1
    private let valueCount: Int
    private let objectCount: Int
    private let policy: HistoryPolicy
    private var random = SeededRandom(scrambling: 1)

    init(in folder: URL, megabytes: Int) throws {
        self.folder = folder
        store = try SQLiteStore(directory: folder.path, options: SQLiteStore.Options(shards: 1))
        file = try SyncedFile(path: Self.path, store: store)
        client = try file.allocateIdents(for: [nil], at: 1)[0].ident
        valueCount = max(10, (megabytes << 20) / Self.valueBytes)
        objectCount = valueCount / 10
        var policy = HistoryPolicy()
        policy.sealEntries = 64
        policy.generationBytes = UInt64(megabytes << 20) / 100
        policy.generationRatio = 1
        self.policy = policy
        let objects = (0..<objectCount).map { NamedInstruction.createObject(Self.object($0)) }
        try upload([ChangesetWriter([.addTable("T"), .addColumn("T", "b", .binary)] + objects).bytes])
    }

    private static func object(_ number: Int) -> ObjectName { ObjectName(className: "T", key: .int(Int64(number))) }

    mutating func run(_ cycle: Int) throws -> Figures {
        for number in 0..<valueCount {
            let field = FieldPath(object: Self.object(number % objectCount), field: "b")
            let value = (0..<Self.valueBytes / 8).flatMap { _ in
                withUnsafeBytes(of: random.next() as UInt64) { Array($0) }
            }
            try upload([ChangesetWriter([.update(field, .binary(value))]).bytes])
        }
        let start = ContinuousClock.now, time = UInt64(cycle) * 86_400
        try file.maintain(at: time, policy, connected: [client])
        try store.maintain(at: time)
        let seconds = (ContinuousClock.now - start).inMilliseconds / 1000
        return Figures(
            cycle: cycle, version: file.head.version.rawValue, baseVersion: file.head.baseVersion.rawValue,
            logBytes: file.head.logBytes, storedBytes: try storedBytes(), seconds: seconds)
    }

    /// Uploads changesets of a client that has downloaded everything.
    private mutating func upload(_ changesets: [[UInt8]]) throws {
        let changesets = changesets.map { bytes in
            clientVersion = clientVersion + 1
            return UploadedChangeset(
                cursor: UploadCursor(clientVersion: clientVersion, serverVersion: file.version), timestamp: 1,
                changeset: bytes)
        }
        let progress = UploadCursor(clientVersion: clientVersion, serverVersion: file.version)
        try file.enqueue(Upload(progress: progress, lockedVersion: file.version, changesets: changesets), from: client)
        if let refusal = try file.integrate(at: 1).outcomes.first?.refusal { throw refusal }
    }

    private func storedBytes() throws -> Int {
        try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: [.fileSizeKey])
            .reduce(0) { $0 + (try $1.resourceValues(forKeys: [.fileSizeKey]).fileSize ?? 0) }
    }
}
