import AnabranchHistory
import NIOCore

/// The synced files of a store thread that have uploads to be merged, in the order of their turns.
///
///     uploads come ─▶ new ─ merged within a step ─▶ to be committed
///                      └─ longer ─▶ long: one step, then a step of each other file ─▶ to be committed
///
/// A long merge keeps what it has found out between its steps. If all of them together keep too much, the newest one
/// gives it up, and begins anew when the others are done.
struct MergeSchedule {
    /// What the long merges may occupy together in bytes, beside the largest of them.
    static let longMergeBytesMax = 256 << 20

    private let bytesMax: Int
    private var new: CircularBuffer<FileSessions> = []
    private var long: CircularBuffer<FileSessions> = []
    /// Those that have given up what they had.
    private var held: CircularBuffer<FileSessions> = []

    /// - Parameter longMergeBytesMax: unless it is the usual one.
    init(longMergeBytesMax: Int = MergeSchedule.longMergeBytesMax) { bytesMax = longMergeBytesMax }

    var isEmpty: Bool { new.isEmpty && long.isEmpty && held.isEmpty }

    /// Takes a file in, unless it is there already.
    mutating func append(_ file: FileSessions) {
        guard !file.isScheduled else { return }
        file.isScheduled = true
        new.append(file)
    }

    /// Takes a file out whose uploads nothing was done with.
    mutating func nextNew() -> FileSessions? { new.popFirst().map(Self.unscheduled) }

    /// Takes the file out that is next to go on with its merge.
    mutating func nextLong() -> FileSessions? {
        (long.popFirst() ?? held.popFirst()).map(Self.unscheduled)
    }

    /// Takes a file back in whose merge was not finished within a step.
    mutating func appendLong(_ file: FileSessions) {
        file.isScheduled = true
        let sizes = long.map(\.file.integrationBytes) + [file.file.integrationBytes]
        if sizes.reduce(0, +) - (sizes.max() ?? 0) > bytesMax {
            file.file.dropIntegration()
            held.append(file)
        } else {
            long.append(file)
        }
    }

    /// Takes all long merges out.
    mutating func takeLong() -> [FileSessions] {
        defer { (long, held) = ([], []) }
        return (long + held).map(Self.unscheduled)
    }

    mutating func remove(_ file: FileSessions) {
        guard file.isScheduled else { return }
        for queue in [\Self.new, \.long, \.held] { self[keyPath: queue].removeAll { $0 === file } }
    }

    private static func unscheduled(_ file: FileSessions) -> FileSessions {
        file.isScheduled = false
        return file
    }
}
