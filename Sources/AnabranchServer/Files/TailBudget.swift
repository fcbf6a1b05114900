import AnabranchHistory

/// How much of their newest log entries and client files the synced files of a store thread keep in memory, all of them
/// together.
struct TailBudget {
    private struct Entry {
        var bytes: Int
        /// Of the turn in which the file last had something to do.
        var turn: UInt64
    }

    private let bytesMax: Int
    private var entries: [VirtualPath: Entry] = [:]
    private(set) var byteCount = 0
    private var turn: UInt64 = 0

    init(bytesMax: Int) { self.bytesMax = bytesMax }

    /// Notes what the files keep that had something to do in a turn.
    /// - Returns: the files that have to release it, so that half of the budget is free again: those with which nothing
    ///   was done for the longest time. There are none while there is room.
    mutating func note(_ files: [(path: VirtualPath, bytes: Int)]) -> [VirtualPath] {
        turn += 1
        for (path, bytes) in files {
            byteCount += bytes - (entries[path]?.bytes ?? 0)
            entries[path] = bytes > 0 ? Entry(bytes: bytes, turn: turn) : nil
        }
        guard byteCount > bytesMax else { return [] }
        var released: [VirtualPath] = []
        for (path, entry) in entries.sorted(by: { $0.value.turn < $1.value.turn }) where byteCount > bytesMax / 2 {
            byteCount -= entry.bytes
            entries[path] = nil
            released.append(path)
        }
        return released
    }
}
