import AnabranchHistory
import Synchronization

/// What the long merges of all synced files have found out, and keep between their steps.
///
/// If all of them together keep too much, the second largest gives it up, and begins anew. The largest never does: so
/// there is always one that comes to its end, whatever others begin meanwhile.
final class MergeBudget: Sendable {
    private let bytesMax: Int
    private let bytesOfFiles = Mutex<[VirtualPath: Int]>([:])

    /// - Parameter bytesMax: what the long merges may occupy together, beside the largest of them.
    init(bytesMax: Int) { self.bytesMax = bytesMax }

    /// How many merges keep something.
    var mergeCount: Int { bytesOfFiles.withLock(\.count) }

    /// Notes what a merge keeps after a step; 0 if it is done.
    /// - Returns: the files whose merges have to begin anew.
    func note(_ path: VirtualPath, _ bytes: Int) -> [VirtualPath] {
        bytesOfFiles.withLock { bytesOfFiles in
            bytesOfFiles[path] = bytes > 0 ? bytes : nil
            guard bytes > 0, bytesOfFiles.count > 1 else { return [] }
            let largestFirst = bytesOfFiles.sorted { left, right in
                guard left.value == right.value else { return left.value > right.value }
                return left.key.bytes.lexicographicallyPrecedes(right.key.bytes)
            }
            var rest = largestFirst.dropFirst().reduce(0) { $0 + $1.value }
            var dropped: [VirtualPath] = []
            for (path, bytes) in largestFirst.dropFirst() where rest > bytesMax {
                rest -= bytes
                bytesOfFiles[path] = nil
                dropped.append(path)
            }
            return dropped
        }
    }
}
