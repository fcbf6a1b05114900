import CommandSupport
import Foundation

/// The circumstances of a measurement: without them, figures of two machines, or of two commits, cannot be compared.
struct BenchEnvironment: Encodable {
    var commit = BuildInfo.commit
    var cpu = Self.processor
    var cores = ProcessInfo.processInfo.activeProcessorCount
    var system = ProcessInfo.processInfo.operatingSystemVersionString
    var date = Date().formatted(.iso8601)

    /// Prints it as one line of JSON on standard error: on standard output each line is a figure.
    static func show() {
        guard let line = try? ["environment": BenchEnvironment()].jsonLine() else { return }
        RunProgress.say(line)
    }

    private static var processor: String {
        let lines = (try? String(contentsOfFile: "/proc/cpuinfo", encoding: .utf8))?.split(separator: "\n") ?? []
        let line = lines.first { $0.hasPrefix("model name") }
        return line?.split(separator: ":").last.map { $0.trimmingCharacters(in: .whitespaces) } ?? "unknown"
    }
}
