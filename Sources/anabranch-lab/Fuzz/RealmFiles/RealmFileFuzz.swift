import AnabranchRealmFile
import CoreFoundation
import Foundation

/// Reads damaged Realm files, and watches what that costs.
struct RealmFileFuzz {
    struct Tally {
        var readWhole = 0, salvaged = 0
        /// The number of refusals, by code.
        var refused: [String: Int] = [:]
        /// The longest reading, in seconds of processor time: others may use the processor, too.
        var slowest = 0.0
    }

    private static let secondsMax = 1.0
    private static let bytesMax = 256 << 20
    private let bytesBefore = Self.peakBytes

    private(set) var tally = Tally()

    /// `RUSAGE_SELF`, which Linux and Darwin declare with different types.
    private static let ownProcess: Int32 = 0

    private static var usage: rusage {
        var usage = rusage()
        getrusage(ownProcess, &usage)
        return usage
    }

    private static var seconds: Double {
        let times = [usage.ru_utime, usage.ru_stime]
        return times.reduce(0) { $0 + Double($1.tv_sec) + Double($1.tv_usec) / 1_000_000 }
    }

    /// The most memory that the process has had.
    private static var peakBytes: Int {
        let usage = usage
        #if canImport(Darwin)
        return usage.ru_maxrss
        #else
        return usage.ru_maxrss << 10
        #endif
    }

    var grownBytes: Int { max(0, Self.peakBytes - bytesBefore) }

    /// The fault in the reading of a file; nil if there is none.
    mutating func problem(of damaged: RealmFileDamage.Case) -> String? {
        let start = Self.seconds
        do {
            let file = try RealmFile(RealmFileBytes(damaged.bytes), key: damaged.key)
            let exported = try file.export(salvages: damaged.salvages) { _ in }
            _ = try file.syncState(salvages: damaged.salvages)
            _ = try file.information(salvages: damaged.salvages)
            if exported.problemCount > 0 { tally.salvaged += 1 } else { tally.readWhole += 1 }
            if let problem = exported.problems.lazy.compactMap(Self.problem).first { return problem }
        } catch let error as RealmFileError {
            tally.refused["\(error.code)", default: 0] += 1
            if let problem = Self.problem(of: error) { return problem }
        } catch {
            return "an error of another type: \(error)"
        }
        let elapsed = Self.seconds - start
        tally.slowest = max(tally.slowest, elapsed)
        if elapsed > Self.secondsMax { return "it took \(elapsed) s" }
        if grownBytes > Self.bytesMax { return "it took \(grownBytes) bytes of memory" }
        return nil
    }

    private static func problem(of error: RealmFileError) -> String? {
        if error.reason.isEmpty { return "an error without a reason: \(error)" }
        let hasPlace = error.place.offset != nil || error.place.className != nil
        return error.code == .damaged && !hasPlace ? "damage without a place: \(error)" : nil
    }
}
