import Foundation

/// Linux's figures about this process, under the names that are usual with Prometheus. Values that cannot be read are
/// left out; on other systems, that is all of them.
enum ProcessMetrics {
    static var values: [String: Double] {
        var values: [String: Double] = [:]
        values["process_open_fds"] = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd"))
            .map { Double($0.count) }
        let limit = text("/proc/self/limits").split(separator: "\n").first { $0.hasPrefix("Max open files") }
        values["process_max_fds"] = limit?.split(separator: " ").dropFirst(3).first.flatMap { Double($0) }

        // The second field is the name of the program, which may have spaces and parentheses in it. Number 3 follows.
        let stat = text("/proc/self/stat").split(separator: ")").last?.split(separator: " ").map { Double($0) } ?? []
        let ticks = Double(sysconf(Int32(_SC_CLK_TCK)))
        func field(_ number: Int) -> Double? { number - 3 < stat.count ? stat[number - 3] : nil }
        if let user = field(14), let system = field(15) {
            values["process_cpu_seconds_total"] = (user + system) / ticks
        }
        let boot = text("/proc/stat").split(separator: "\n").first { $0.hasPrefix("btime ") }
        if let boot = boot.flatMap({ Double($0.dropFirst(6)) }), let start = field(22) {
            values["process_start_time_seconds"] = boot + start / ticks
        }
        values["process_resident_memory_bytes"] = field(24).map { $0 * Double(sysconf(Int32(_SC_PAGESIZE))) }
        return values
    }

    private static func text(_ path: String) -> String { (try? String(contentsOfFile: path, encoding: .utf8)) ?? "" }
}
