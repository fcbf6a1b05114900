import Foundation

/// The state of a process at a moment, from /proc.
struct ProcessSnapshot: Sendable {
    var residentBytes: Int
    /// The most that was resident since the process began.
    var peakBytes: Int
    /// The resident bytes that do not belong to a file.
    var anonymousBytes: Int
    var userSeconds: Double
    var systemSeconds: Double
    /// The bytes that the process has caused to be written to disks; 0 if only its owner may know.
    var writtenBytes: Int
    var descriptorCount: Int

    /// - Throws: `LoadError` if there is no such process, or no /proc.
    init(of process: Int32) throws {
        let folder = "/proc/\(process)"
        guard let status = Self.text("\(folder)/status"), let stat = Self.text("\(folder)/stat") else {
            throw LoadError("there is no process \(process), or the system has no /proc to measure it with")
        }
        residentBytes = (Self.number("VmRSS:", in: status) ?? 0) << 10
        peakBytes = (Self.number("VmHWM:", in: status) ?? 0) << 10
        anonymousBytes = (Self.number("RssAnon:", in: status) ?? 0) << 10
        // The name of the program, in parentheses, may contain spaces; user and system time are fields 14 and 15.
        let fields = stat.suffix(from: stat.lastIndex(of: ")") ?? stat.startIndex).split(separator: " ")
        let ticksPerSecond = Double(sysconf(Int32(_SC_CLK_TCK)))
        func seconds(_ index: Int) -> Double {
            fields.indices.contains(index) ? (Double(fields[index]) ?? 0) / ticksPerSecond : 0
        }
        userSeconds = seconds(12)
        systemSeconds = seconds(13)
        writtenBytes = Self.text("\(folder)/io").flatMap { Self.number("write_bytes:", in: $0) } ?? 0
        descriptorCount = (try? FileManager.default.contentsOfDirectory(atPath: "\(folder)/fd").count) ?? 0
    }

    static func ofOwnProcess() throws -> ProcessSnapshot { try ProcessSnapshot(of: getpid()) }

    var cpuSeconds: Double { userSeconds + systemSeconds }

    private static func text(_ path: String) -> String? { try? String(contentsOfFile: path, encoding: .utf8) }

    /// The number after a name at the beginning of a line.
    private static func number(_ name: String, in text: String) -> Int? {
        let line = text.split(separator: "\n").first { $0.hasPrefix(name) }
        return line?.dropFirst(name.count).split(whereSeparator: \.isWhitespace).first.flatMap { Int($0) }
    }
}
