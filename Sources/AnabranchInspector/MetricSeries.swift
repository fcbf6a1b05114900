import AnabranchServer
import NIOHTTP1
import Synchronization

/// The figures of the last hour: some of the server's metrics, looked up every few seconds.
final class MetricSeries: Sendable {
    /// The time between two samples.
    static let stepSeconds: UInt64 = 5
    /// The most samples that are kept: an hour.
    static let samplesMax = 720

    /// The metrics that are kept.
    static let names = [
        "anabranch_connections", "anabranch_sessions", "anabranch_uploads_received_total",
        "anabranch_downloads_made_total", "anabranch_commits_total", "anabranch_versions_made_total",
        "anabranch_received_bytes_total", "anabranch_sent_bytes_total", "anabranch_commit_duration_seconds_sum",
        "anabranch_commit_duration_seconds_count", "anabranch_store_used_bytes", "anabranch_store_free_bytes",
        "anabranch_store_write_ahead_log_bytes", "anabranch_upload_memory_bytes", "anabranch_store_failures_total",
        "anabranch_store_damages_total", "anabranch_clock_jump_seconds", "process_resident_memory_bytes",
        "process_cpu_seconds_total", "anabranch_tls_certificate_end_seconds",
    ]

    struct Sample: Sendable {
        var time: UInt64
        /// In the order of `names`.
        var values: [Double]
        /// How many integrations took no longer than each bound, all since the start.
        var buckets: [(bound: String, count: Double)]
    }

    private let samples = Mutex<[Sample]>([])
    private let access: AdminAccess
    private let task = Mutex<Task<Void, Never>?>(nil)

    init(_ access: AdminAccess) {
        self.access = access
        task.withLock { task in
            task = Task { [weak self] in
                while await self?.add() != nil {
                    guard (try? await Task.sleep(for: .seconds(Self.stepSeconds))) != nil else { return }
                }
            }
        }
    }

    deinit { task.withLock { $0?.cancel() } }

    private func add() async {
        guard let sample = await now() else { return }
        samples.withLock { samples in
            samples.append(sample)
            if samples.count > Self.samplesMax { samples.removeFirst(samples.count - Self.samplesMax) }
        }
    }

    /// The samples of the last hour, the newest last.
    var last: [Sample] { samples.withLock { $0 } }

    /// The figures of this moment.
    func now() async -> Sample? {
        let response = await access.answer(EndpointRequest(method: .GET, path: "/metrics"))
        guard case .whole(let bytes) = response.body else { return nil }
        var values = [Double](repeating: 0, count: Self.names.count), buckets: [(bound: String, count: Double)] = []
        for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") where line.first != "#" {
            guard let space = line.lastIndex(of: " "), let value = Double(line[line.index(after: space)...]) else {
                continue
            }
            let name = line[..<space]
            if let position = Self.positions[name] { values[position] = value }
            let bucket = "anabranch_commit_duration_seconds_bucket{le=\""
            if name.hasPrefix(bucket) {
                buckets.append((bound: String(name.dropFirst(bucket.count).prefix { $0 != "\"" }), count: value))
            }
        }
        return Sample(time: access.unixSeconds, values: values, buckets: buckets)
    }

    private static let positions = Dictionary(
        uniqueKeysWithValues: names.enumerated().map { (Substring($1), $0) })
}
