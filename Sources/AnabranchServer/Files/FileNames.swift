import AnabranchHistory
import Synchronization

/// Which synced file a path means (`Spec/Protocol.md`, section 4.2).
final class FileNames: Sendable {
    private let names: Mutex<PartitionNames>

    init(_ names: PartitionNames = PartitionNames()) { self.names = Mutex(names) }

    /// The file of a path, in whatever spelling of its partition's value.
    func file(at path: VirtualPath) -> VirtualPath {
        // A long partition is read before others have to wait.
        let canonical = path.canonical
        return names.withLock { $0.file(at: path, canonical: canonical) }
    }

    /// The file is deleted.
    func remove(_ path: VirtualPath) { names.withLock { $0.remove(path) } }
}
