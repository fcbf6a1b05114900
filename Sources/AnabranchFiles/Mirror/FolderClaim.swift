import Foundation

/// Keeps other mirrors from a folder for as long as it lives, in whatever process they are. Each of two would take what
/// the other brings for a new file, without end.
final class FolderClaim: Sendable {
    private let descriptor: Int32

    /// - Throws: `SpaceError` if another mirror has the folder.
    init(_ path: String) throws {
        let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw ContentCache.lastError(path) }
        // Not every disk can lock a folder.
        if flock(descriptor, LOCK_EX | LOCK_NB) != 0, errno == EWOULDBLOCK {
            close(descriptor)
            throw SpaceError(.notAllowed, "another mirror keeps \(path) equal to a space")
        }
        self.descriptor = descriptor
    }

    deinit { close(descriptor) }
}
