import AnabranchCore
import AnabranchHistory
import AnabranchServer
import NIOHTTP1

/// The overview: the server at this moment and in the last hour, and what an operator should know.
extension Inspector {
    /// The most samples in an answer; if there are more, only every n-th one is sent.
    static let sentSamplesMax = 180

    func overview() async throws(PageError) -> String {
        guard let now = await series.now() else { throw .unavailable }
        let ready = await access.answer(EndpointRequest(method: .GET, path: "/ready"))
        let status = (try? JSONValue(parsing: Array(try await text(of: ready).utf8)))?["status"]?.string
        let largest = try await largestFiles()
        let all = series.last, step = max(1, (all.count + Self.sentSamplesMax - 1) / Self.sentSamplesMax)
        let samples = stride(from: (all.count - 1) % step, to: all.count, by: step).map { all[$0] }
        return jsonObject([
            "version": jsonText(version), "time": "\(now.time)", "writes": "\(mode == .readWrite)",
            "status": jsonText(status), "is_ready": "\(ready.status == .ok)",
            "names": jsonArray(MetricSeries.names.map(JSONText.quoted)), "now": jsonNumbers(now.values),
            "buckets": jsonArray(
                now.buckets.map { jsonObject(["bound": jsonText($0.bound), "count": jsonNumber($0.count)]) }),
            "times": jsonArray(samples.map { "\($0.time)" }),
            "samples": jsonArray(samples.map { jsonNumbers($0.values) }),
            "files": largest.json, "warnings": jsonArray(try await warnings(now, largest).map(\.json)),
        ])
    }

    private struct Largest: Sendable {
        var count = 0
        var isCut = false
        var logBytes: UInt64 = 0
        var files: [CatalogFile] = []

        var json: String {
            jsonObject([
                "count": "\(count)", "cut": "\(isCut)", "log_bytes": "\(logBytes)",
                "largest": jsonArray(
                    files.map { file in
                        jsonObject([
                            "path": jsonText(file.path.description), "version": "\(file.head.version)",
                            "log_bytes": "\(file.head.logBytes)", "clients": "\(file.head.clientFileCount)",
                        ])
                    }),
            ])
        }
    }

    private func largestFiles() async throws(PageError) -> Largest {
        return try await reads.run { [listing] in
            let listed = try listing.listing()
            return Largest(
                count: listed.files.count, isCut: listed.isCut,
                logBytes: listed.files.reduce(0) { $0 &+ $1.head.logBytes },
                files: Array(listed.files.sorted { $0.head.logBytes > $1.head.logBytes }.prefix(5)))
        }
    }

    /// Something that an operator should know, in words, and what can be done about it.
    private struct Warning {
        var text: String
        var advice: String
        var path: VirtualPath?

        var json: String {
            jsonObject([
                "text": jsonText(text), "advice": jsonText(advice), "path": jsonText(path?.description),
            ])
        }
    }

    /// From how many bytes on a log that one client keeps is worth a warning.
    private static let pinnedBytesMin: Int64 = 64 << 20

    /// How many days before its end a certificate is worth a warning.
    private static let certificateDaysMin = 14.0

    private func warnings(_ now: MetricSeries.Sample, _ largest: Largest) async throws(PageError) -> [Warning] {
        var warnings: [Warning] = []
        func value(_ name: String) -> Double {
            MetricSeries.names.firstIndex(of: name).map { now.values[$0] } ?? 0
        }
        if value("anabranch_store_damages_total") > 0 {
            warnings.append(
                Warning(
                    text: "The store has met something damaged.",
                    advice: "Stop the server and run anabranch verify; the log says what it was."))
        } else if value("anabranch_store_failures_total") > 0 {
            warnings.append(
                Warning(
                    text: "The store could not do its work \(Int(value("anabranch_store_failures_total"))) times.",
                    advice: "The log says why: often the disk is full or fails."))
        }
        let free = value("anabranch_store_free_bytes"), used = value("anabranch_store_used_bytes")
        if free > 0, free < 5 * 1_073_741_824 || free < used / 5 {
            warnings.append(
                Warning(
                    text: "The disk of the data has \(Int(free / 1_048_576)) MiB left.",
                    advice: "Below free-bytes changes of clients wait. Make room, or move the data to a larger disk."))
        }
        if value("anabranch_clock_jump_seconds") != 0 {
            warnings.append(
                Warning(
                    text: "The clock has jumped by \(Int(value("anabranch_clock_jump_seconds"))) seconds.",
                    advice: "No client expires by itself until anabranch admin trust-clock says that it is right."))
        }
        if value("anabranch_store_write_ahead_log_bytes") > 1_073_741_824 {
            warnings.append(
                Warning(
                    text: "The write-ahead log has more than 1 GiB.",
                    advice: "Something reads the store for a long time, such as a backup: it shrinks when that ends."))
        }
        let end = value("anabranch_tls_certificate_end_seconds"), days = (end - Double(now.time)) / 86_400
        if end > 0, days < Self.certificateDaysMin {
            let rest = days >= 2 ? "in \(Int(days)) days" : "within two days"
            warnings.append(
                Warning(
                    text: days > 0
                        ? "The certificate ends \(rest)."
                        : "The certificate, or one that vouches for it, has ended, and clients refuse it.",
                    advice: "Put a new one in its place: the server reads it by itself."))
        }
        for file in largest.files where file.head.logBytes >= UInt64(Self.pinnedBytesMin) {
            let figures = try await json("GET /v1/file", "path=\(file.path.queryText)")
            if figures["full"] == true {
                warnings.append(
                    Warning(
                        text: "A file's log is full, and changes of its clients wait.",
                        advice: "Expire the client that keeps most of it, or raise partition-bytes.", path: file.path))
            }
            if let pin = figures["pinned_by"], let bytes = pin["bytes"]?.integer, bytes >= Self.pinnedBytesMin {
                warnings.append(
                    Warning(
                        text: """
                            Client \(pin["client"]?.integer ?? 0) keeps \(bytes >> 20) MiB of a file's log from going.
                            """,
                        advice: "If its device is lost, expire it: the device would start over if it came back.",
                        path: file.path))
            }
        }
        return warnings
    }
}

private func jsonNumber(_ value: Double) -> String {
    value.isFinite ? Int64(exactly: value).map { "\($0)" } ?? "\(value)" : "null"
}

private func jsonNumbers(_ values: [Double]) -> String { jsonArray(values.map(jsonNumber)) }
