import AnabranchHistory
import Synchronization

/// The synced files that paths mean (`Spec/Protocol.md`, section 4.2).
final class FileNames: Sendable {
    private let names: Mutex<PartitionNames>

    init(_ names: PartitionNames = PartitionNames()) { self.names = Mutex(names) }

    /// The file of a path, in any spelling of its partition's value.
    func file(at path: VirtualPath) -> VirtualPath {
        // A long partition is read before the lock is taken, so that others do not wait.
        let canonical = path.canonical
        return names.withLock { $0.file(at: path, canonical: canonical) }
    }

    /// Forgets a deleted file.
    func remove(_ path: VirtualPath) { names.withLock { $0.remove(path) } }
}
