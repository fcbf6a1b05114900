import AnabranchHistory
import Synchronization

/// The memory of all synced files together that only makes later work cheaper (`SyncedFile.cachedByteCount`).
final class CacheBudget: Sendable {
    private struct Entry {
        var bytes: Int
        /// The time when the file last had something to do: a number that rises with each use.
        var time: UInt64
    }

    private struct State {
        var entries: [VirtualPath: Entry] = [:]
        var byteCount = 0
        var time: UInt64 = 0
    }

    private let bytesMax: Int
    private let state = Mutex(State())

    init(bytesMax: Int) { self.bytesMax = bytesMax }

    var byteCount: Int { state.withLock(\.byteCount) }

    /// Records the size of a file's caches after it has worked.
    /// - Returns: the files that have to release their caches, so that half of the budget is free again: those that
    ///   have been idle for the longest time. Empty while there is room.
    func record(_ path: VirtualPath, _ bytes: Int) -> [VirtualPath] {
        state.withLock { state in
            state.time += 1
            state.byteCount += bytes - (state.entries[path]?.bytes ?? 0)
            state.entries[path] = bytes > 0 ? Entry(bytes: bytes, time: state.time) : nil
            guard state.byteCount > bytesMax else { return [] }
            var released: [VirtualPath] = []
            for (path, entry) in state.entries.sorted(by: { $0.value.time < $1.value.time })
            where state.byteCount > bytesMax / 2 {
                state.byteCount -= entry.bytes
                state.entries[path] = nil
                released.append(path)
            }
            return released
        }
    }
}
