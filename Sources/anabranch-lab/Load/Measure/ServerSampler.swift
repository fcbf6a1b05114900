import CoreFoundation
import Foundation
import Synchronization

/// The resources that the server's process needed before, during and after a load.
struct ServerFigures: Encodable {
    /// A level before, during and after a load. The highest of many samples during the load and after it is the peak.
    struct Level: Encodable {
        var before: Double
        var peak: Double
        var after: Double
    }

    var rssMib: Level
    /// Samples at equal distances during the load.
    var rssMibSeries: [Double]
    /// The processor time during the load.
    var cpuUserSeconds: Double
    var cpuSystemSeconds: Double
    /// The processor time per operation, of user and system together, in microseconds; nil if there were no operations.
    var cpuUsPerOperation: Double?
    /// The data written to disks during the load.
    var writtenMib: Double
    /// Open files and sockets before and after.
    var descriptors: Level
    /// The size of the database's write-ahead log, if the data directory is known.
    var walMib: Level?
    var databaseMib: Level?
    /// The size of the server's log, if it is known.
    var logMib: Level?
    /// The server's own counts before the load and after it; those of the bystanders are among them. Nil if its data
    /// directory is not known, or if it has no admin interface or one with TLS.
    var gauges: [String: Change]?

    struct Change: Encodable {
        var before: Double
        var after: Double
    }
}

/// Samples the server's process a few times a second.
final class ServerSampler: Sendable {
    private struct Sample {
        var time: ContinuousClock.Instant
        var process: ProcessSnapshot
        var walBytes: Int?
        var databaseBytes: Int?
        var logBytes: Int?
    }

    /// The process of a server and, perhaps, its files.
    struct Place: Sendable {
        var process: Int32
        var dataDirectory: String?
        var log: String?
    }

    private static let interval = Duration.milliseconds(100)
    private static let seriesCountMax = 20
    private static let attemptsMax = 30

    private let place: Place
    private let samples = Mutex<[Sample]>([])
    /// Nil once it is known that the server will never tell.
    private let gauges = Mutex<[[String: Double]]?>([])

    init(_ place: Place) { self.place = place }

    /// Samples until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            try? sample()
            try? await Task.sleep(for: Self.interval)
        }
    }

    /// - Throws: `LoadError` if the process has ended.
    func sample() throws {
        let sample = Sample(
            time: .now, process: try ProcessSnapshot(of: place.process), walBytes: size(".sqlite-wal"),
            databaseBytes: size(".sqlite"), logBytes: place.log.flatMap { Self.fileSize($0) })
        samples.withLock { $0.append(sample) }
    }

    /// Asks the server for its own counts. One that has just started may not have announced its admin interface yet.
    func readGauges() async {
        guard let directory = place.dataDirectory, gauges.withLock({ $0 != nil }) else { return }
        do throws(LoadError) {
            for _ in 0..<Self.attemptsMax {
                if let values = try await ServerGauges.read(dataDirectory: directory) {
                    return gauges.withLock { $0?.append(values) }
                }
                try? await Task.sleep(for: Self.interval)
            }
        } catch {
            RunProgress.say("\(error)")
            gauges.withLock { $0 = nil }
        }
    }

    private var gaugeChanges: [String: ServerFigures.Change]? {
        let gauges = gauges.withLock { $0 }
        guard let gauges, gauges.count > 1, let first = gauges.first, let last = gauges.last else { return nil }
        return first.reduce(into: [:]) { changes, gauge in
            changes[gauge.key] = last[gauge.key].map { ServerFigures.Change(before: gauge.value, after: $0) }
        }
    }

    func snapshot() throws -> ProcessSnapshot { try ProcessSnapshot(of: place.process) }

    /// The size of the files of all shards; older servers have one database.
    private func size(_ suffix: String) -> Int? {
        guard let directory = place.dataDirectory,
            let names = try? FileManager.default.contentsOfDirectory(atPath: directory)
        else { return nil }
        return names.filter { ($0.hasPrefix("shard-") || $0.hasPrefix("anabranch")) && $0.hasSuffix(suffix) }
            .reduce(0) { $0 + (Self.fileSize(directory + "/" + $1) ?? 0) }
    }

    private static func fileSize(_ path: String) -> Int? {
        var status = stat()
        return stat(path, &status) == 0 ? Int(status.st_size) : nil
    }

    /// - Parameter load: the beginning and the end of the load; there has to be a sample before it.
    func figures(of load: ClosedRange<ContinuousClock.Instant>, operations: Int) -> ServerFigures? {
        let samples = samples.withLock { $0 }
        guard let first = samples.first, let after = samples.last else { return nil }
        let before = samples.last { $0.time <= load.lowerBound } ?? first
        let during = samples.filter { load.contains($0.time) }
        let end = samples.first { $0.time >= load.upperBound } ?? after
        let later = samples.filter { $0.time >= load.lowerBound }
        func level(_ value: (Sample) -> Int?, unit: Double) -> ServerFigures.Level? {
            guard let first = value(before), let last = value(after) else { return nil }
            let peak = later.compactMap(value).max() ?? last
            func rounded(_ count: Int) -> Double { (Double(count) / unit).rounded(places: 1) }
            return ServerFigures.Level(before: rounded(first), peak: rounded(max(peak, first)), after: rounded(last))
        }
        let mebibyte = Double(1 << 20)
        guard let rss = level({ $0.process.residentBytes }, unit: mebibyte),
            let descriptors = level({ $0.process.descriptorCount }, unit: 1)
        else { return nil }
        let user = end.process.userSeconds - before.process.userSeconds
        let system = end.process.systemSeconds - before.process.systemSeconds
        let step = max(1, (during.count + Self.seriesCountMax - 1) / Self.seriesCountMax)
        return ServerFigures(
            rssMib: rss,
            rssMibSeries: stride(from: 0, to: during.count, by: step).map {
                (Double(during[$0].process.residentBytes) / mebibyte).rounded(places: 1)
            },
            cpuUserSeconds: user.rounded(places: 2), cpuSystemSeconds: system.rounded(places: 2),
            cpuUsPerOperation: operations > 0 ? ((user + system) * 1e6 / Double(operations)).rounded(places: 1) : nil,
            writtenMib: (Double(end.process.writtenBytes - before.process.writtenBytes) / mebibyte).rounded(places: 1),
            descriptors: descriptors, walMib: level(\.walBytes, unit: mebibyte),
            databaseMib: level(\.databaseBytes, unit: mebibyte), logMib: level(\.logBytes, unit: mebibyte),
            gauges: gaugeChanges)
    }
}
