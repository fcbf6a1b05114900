import AnabranchCore
import AnabranchHistory
import AnabranchTesting
import ArgumentParser
import Foundation

struct BenchSegmentsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "segments",
        abstract: "Measure what sealed log entries take, and what reading them costs.",
        discussion: """
            Prints a JSON line a workload: the bytes of changesets and of sealed blocks for each entry, and medians \
            in microseconds of what is done with one segment.
              settings       an Int of one of 10,000 objects is set by one of 20 clients
              texts          a text of about 100 letters is set
              objects        an object is created, and four fields of it are set
            seal_us is what sealing takes; open_us opens a block and verifies its checksum; columns_us is all that \
            receipts need; decode_us is columns and changesets; search_us, with that, what looking for the entries \
            takes that write an object; probe_ns, in nanoseconds, the question whether a conflict key may be there, if \
            100 are asked for.

            EXAMPLE
              anabranch-lab bench segments --entries 768
            """)

    @Option(help: "How many entries a segment has.")
    var entries = 768

    @Option(help: "How many segments are made of each workload.")
    var segments = 100

    @Option(help: "The effort of zstd, 1 … 19.")
    var level = LogSegment.compressionLevel

    func validate() throws {
        guard 1...LogSegment.entryCountMax ~= entries, segments > 0, 1...19 ~= level else {
            throw ValidationError(
                "A segment has 1 to \(LogSegment.entryCountMax) entries; there must be one, and a level from 1 to 19.")
        }
    }

    func run() throws {
        BenchEnvironment.show()
        for workload in SegmentWorkload.allCases {
            print(try figures(workload).jsonLine())
            fflush(nil)
        }
    }

    private struct Figures: Encodable {
        var name: String
        var entries: Int
        var changesetBytes, sealedBytes, sealUs, openUs, columnsUs, decodeUs, searchUs, probeNs: Double
    }

    private func figures(_ workload: SegmentWorkload) throws -> Figures {
        let start = Checksum(startOf: VirtualPath("/bench"))
        let whole = VersionRange(after: 0, through: ServerVersion(entries * segments))
        var log = SegmentLog(workload)
        var times = SegmentTimes()
        var (changesetBytes, sealedBytes) = (0, 0)
        for _ in 0..<segments {
            let sealed = log.next(entries)
            let block = try times.measure(\.seal) {
                try LogSegment.seal(sealed, after: start, of: start, level: level)
            }
            let segment = try times.measure(\.open) { try LogSegment(block, of: start) }
            _ = try times.measure(\.columns) { try segment.columns() }
            _ = try times.measure(\.decode) { try segment.content() }
            let written = try ConflictKeys(of: log.random.pick(sealed).changeset).reads
            _ = try times.measure(\.search) {
                try segment.versions(writing: written, in: whole, excludingOrigin: 1)
            }
            let keys = (0..<Self.probes).map { _ in log.random.next() }.sorted()
            _ = try times.measure(\.probes) { try segment.versions(writing: keys, in: whole, excludingOrigin: 1) }
            changesetBytes += sealed.reduce(0) { $0 + $1.changeset.count }
            sealedBytes += block.count
        }
        let count = Double(entries * segments)
        return Figures(
            name: workload.rawValue, entries: entries, changesetBytes: hundredths(Double(changesetBytes) / count),
            sealedBytes: hundredths(Double(sealedBytes) / count), sealUs: times.seal.microseconds,
            openUs: times.open.microseconds, columnsUs: times.columns.microseconds,
            decodeUs: times.decode.microseconds, searchUs: times.search.microseconds,
            probeNs: hundredths(times.probes.microseconds * 1000 / Double(Self.probes)))
    }

    private func hundredths(_ number: Double) -> Double { (number * 100).rounded() / 100 }

    /// The number of conflict keys that are looked up at a time.
    private static let probes = 100
}

/// The times of each kind of work.
private struct SegmentTimes {
    var seal, open, columns, decode, search, probes: [Duration]

    init() { (seal, open, columns, decode, search, probes) = ([], [], [], [], [], []) }

    mutating func measure<Result>(
        _ kind: WritableKeyPath<SegmentTimes, [Duration]>, _ body: () throws -> Result
    ) rethrows -> Result {
        let clock = ContinuousClock(), start = clock.now
        let result = try body()
        self[keyPath: kind].append(clock.now - start)
        return result
    }
}

extension [Duration] {
    fileprivate var microseconds: Double { (median.inMilliseconds * 1e4).rounded() / 10 }
}
