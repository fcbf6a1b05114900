import AnabranchCapture
import AnabranchClient
import AnabranchCore
import ArgumentParser
import CMalloc
import CommandSupport
import Foundation
import Synchronization

// What `anabranch capture` and `anabranch bridge` tell alike of rows and objects.

/// The work of a pass.
protocol RowProgress: Sendable {
    var collected: Int { get }
    var applied: Int { get }
    var waiting: Int { get }
    var renewedTables: [String] { get }
    var matches: [CaptureMatches] { get }
    var isUnstable: Bool { get }
    var isEmpty: Bool { get }
}

extension CaptureProgress: RowProgress {}

extension RowProgress {
    var matches: [CaptureMatches] { [] }

    fileprivate var text: String { "\(collected) collected, \(applied) applied, \(waiting) waiting" }
}

/// Says what was done.
final class RowTeller: Sendable {
    private struct State {
        var line: ProgressLine
        var count: UInt64 = 0
    }

    private let state: Mutex<State>

    init(isAsked: Bool) { state = Mutex(State(line: ProgressLine(isAsked: isAsked))) }

    func tell(_ progress: some RowProgress) {
        state.withLock { state in
            state.count += 1
            if state.count == 1 { RowMemory.forgetCode() }
            state.line.tell { progress.text }
        }
    }

    /// - Parameter isQuiet: true if nothing is said of a pass without changes.
    func end(_ total: some RowProgress, isQuiet: Bool = false) {
        state.withLock { $0.line.end() }
        for table in total.renewedTables {
            StandardError.write("table \(table): its triggers were missing; all rows were compared\n")
        }
        if total.isUnstable { StandardError.write("triggers of the application change rows without end\n") }
        for table in total.matches { print(table.text(withPairs: false)) }
        if isQuiet, total.isEmpty { return }
        print(total.text)
        fflush(nil)
    }

    /// Numbers that change while something is done for a replica.
    func numbers(_ replica: SyncedReplica) async -> [UInt64] {
        let record = await replica.record
        return [
            record.version.rawValue, record.progress.upload.clientVersion.rawValue,
            record.progress.cursor.serverVersion.rawValue, state.withLock { $0.count },
        ]
    }
}

/// The option that has a process go on.
struct RepeatingOptions: ParsableArguments {
    private static let secondsMax = 86_400.0

    @Option(help: ArgumentHelp("Go on, with this time between two passes.", valueName: "seconds"))
    var every: Double?

    func validate() throws {
        if let every {
            guard (0.01...Self.secondsMax).contains(every) else {
                throw ValidationError("--every must be from 0.01 to 86400.")
            }
        }
    }
}

/// The options of a comparison of rows with objects.
struct ComparingOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The folder with the replicas.", valueName: "dir"))
    var data: String

    @Option(help: ArgumentHelp("What the replica is of, as `my-app/\"notes\"`.", valueName: "path"))
    var path: String

    @Flag(help: "Have the next pass make rows and objects equal.")
    var repair = false

    /// Prints the differences.
    ///
    /// - Parameters:
    ///   - noun: what is counted.
    ///   - compare: compares with the objects of the replica, and returns the number of what was compared.
    ///   - repairing: has the next pass make rows and objects equal.
    /// - Throws: `ExitCode.failure` if there are differences.
    func report(
        _ noun: String, _ compare: (ObjectGraph, (CaptureDifference) throws -> Void) throws -> Int,
        repairing: () throws -> Void
    ) throws {
        let file = try ClientTarget(path).file(in: URL(fileURLWithPath: data, isDirectory: true))
        var differences = 0
        let count = try compare(try ReplicaReader(path: file).snapshot().state) { difference in
            differences += 1
            print(difference.text)
        }
        if repair { try repairing() }
        print("\(counted(count, noun)) compared, \(counted(differences, "difference"))")
        if differences > 0 { throw ExitCode.failure }
    }
}

extension CaptureDifference {
    fileprivate var text: String {
        let what =
            switch kind {
            case .noObject: "no object"
            case .noRow: "no row"
            case .columns(let names): "different " + names.joined(separator: ", ")
            }
        return "\(table) \(key): \(what)" + (reason.map { ": \($0)" } ?? "")
    }
}

/// The memory of a process that makes passes.
enum RowMemory {
    /// The size from which the system itself has each piece of memory, in bytes: such pieces are given back when they
    /// are not used any more.
    private static let ownBytesMin: Int32 = 128 << 10

    /// Has all threads take memory from one heap, without large pieces: passes and sessions go on at different threads,
    /// each of their heaps would keep what the largest pass has needed, and so would gaps between large pieces.
    static func keepOneHeap() {
        #if canImport(Glibc)
        mallopt(M_ARENA_MAX, 1)
        mallopt(M_MMAP_THRESHOLD, ownBytesMin)
        mallopt(M_TRIM_THRESHOLD, ownBytesMin)
        #endif
    }

    /// Has no code in memory but what is used from now on, which is read from its files again: most of the rest was
    /// needed to begin, and would stay resident beside the rows of the largest pass.
    static func forgetCode() {
        #if canImport(Glibc)
        for line in (try? String(contentsOfFile: "/proc/self/maps", encoding: .utf8))?.split(separator: "\n") ?? [] {
            let parts = line.split(separator: " ")
            guard parts.count > 5, parts[1] == "r-xp", parts[5].hasPrefix("/") else { continue }
            let ends = parts[0].split(separator: "-").compactMap { UInt($0, radix: 16) }
            guard ends.count == 2, let start = UnsafeMutableRawPointer(bitPattern: ends[0]) else { continue }
            madvise(start, Int(ends[1] - ends[0]), MADV_DONTNEED)
        }
        #endif
    }
}
