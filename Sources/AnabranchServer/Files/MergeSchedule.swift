import AnabranchHistory
import NIOCore

/// The synced files of a store thread that have uploads to be merged, in the order of their turns.
///
///     uploads come ─▶ new ─ merged within a step ─▶ to be committed
///                      └─ longer ─▶ long: one step, then a step of each other file ─▶ to be committed
///
/// A long merge keeps what it has found out between its steps. If all of them together keep too much, the second
/// largest gives it up, and begins anew behind the others. The largest never does: so there is always one that comes to
/// its end, whatever others begin meanwhile.
struct MergeSchedule {
    /// What the long merges may occupy together in bytes, beside the largest of them.
    static let longMergeBytesMax = 256 << 20

    private let bytesMax: Int
    // A slice of an array would keep what was taken out of it.
    private var new: CircularBuffer<FileSessions> = []
    private var long: CircularBuffer<FileSessions> = []

    /// - Parameter longMergeBytesMax: unless it is the usual one.
    init(longMergeBytesMax: Int = MergeSchedule.longMergeBytesMax) { bytesMax = longMergeBytesMax }

    var isEmpty: Bool { new.isEmpty && long.isEmpty }

    /// Takes a file in, unless it is there already.
    mutating func append(_ file: FileSessions) {
        guard !file.isScheduled else { return }
        file.isScheduled = true
        new.append(file)
    }

    /// Takes a file out whose uploads nothing was done with.
    mutating func nextNew() -> FileSessions? { new.popFirst().map(Self.unscheduled) }

    /// Takes the file out that is next to go on with its merge.
    mutating func nextLong() -> FileSessions? { long.popFirst().map(Self.unscheduled) }

    /// Takes a file back in whose merge was not finished within a step.
    /// - Returns: how many merges have given up what they had found out.
    @discardableResult
    mutating func appendLong(_ file: FileSessions) -> Int {
        file.isScheduled = true
        long.append(file)
        var bytes = long.reduce(0) { $0 + $1.file.integrationBytes }
        let largestFirst = long.sorted { $0.file.integrationBytes > $1.file.integrationBytes }
        bytes -= largestFirst[0].file.integrationBytes
        var droppedCount = 0
        for file in largestFirst.dropFirst() where bytes > bytesMax {
            bytes -= file.file.integrationBytes
            file.file.dropIntegration()
            long.removeAll { $0 === file }
            long.append(file)
            droppedCount += 1
        }
        return droppedCount
    }

    /// Takes all long merges out.
    mutating func takeLong() -> [FileSessions] {
        defer { long.removeAll() }
        return long.map(Self.unscheduled)
    }

    mutating func remove(_ file: FileSessions) {
        guard file.isScheduled else { return }
        for queue in [\Self.new, \.long] { self[keyPath: queue].removeAll { $0 === file } }
    }

    private static func unscheduled(_ file: FileSessions) -> FileSessions {
        file.isScheduled = false
        return file
    }
}
