import AnabranchHistory
import Synchronization

/// The memory of the results that the long merges of all synced files keep between their steps.
///
/// If all of them together keep too much, the second largest gives its results up and begins again. The largest never
/// does: so there is always one that finishes, whatever other merges begin.
final class MergeBudget: Sendable {
    private let bytesMax: Int
    private let kept = Mutex(Kept())

    private struct Kept {
        var bytesOfFiles: [VirtualPath: Int] = [:]
        var byteCount = 0

        mutating func set(_ path: VirtualPath, _ bytes: Int) {
            byteCount += bytes - (bytesOfFiles[path] ?? 0)
            bytesOfFiles[path] = bytes > 0 ? bytes : nil
        }
    }

    /// - Parameter bytesMax: the memory that all long merges but the largest may occupy together, in bytes.
    init(bytesMax: Int) { self.bytesMax = bytesMax }

    /// The number of merges that keep something.
    var mergeCount: Int { kept.withLock(\.bytesOfFiles.count) }

    /// Records the bytes that a merge keeps after a step; 0 if it is done.
    /// - Returns: the files whose merges have to begin again.
    func record(_ path: VirtualPath, _ bytes: Int) -> [VirtualPath] {
        kept.withLock { kept in
            kept.set(path, bytes)
            guard kept.byteCount > bytesMax, let largest = kept.bytesOfFiles.values.max() else { return [] }
            var rest = kept.byteCount - largest
            guard bytes > 0, rest > bytesMax else { return [] }
            let largestFirst = kept.bytesOfFiles.sorted { left, right in
                guard left.value == right.value else { return left.value > right.value }
                return left.key.bytes.lexicographicallyPrecedes(right.key.bytes)
            }
            var dropped: [VirtualPath] = []
            for (path, bytes) in largestFirst.dropFirst() where rest > bytesMax {
                rest -= bytes
                kept.set(path, 0)
                dropped.append(path)
            }
            return dropped
        }
    }
}
