import AnabranchReplica
import Foundation
import Synchronization

/// The right to write a file, for one object of one process: the system releases it when the process ends.
final class FileLock: Sendable {
    private let descriptor: Mutex<Int32?>

    /// - Parameter file: the file to be locked. The lock is a file next to it, which serves no other purpose.
    init(of file: String) throws(ReplicaError) {
        let path = file + ".lock"
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw ReplicaError(.storeFailed, "\(path): \(String(cString: strerror(errno)))")
        }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            close(descriptor)
            throw ReplicaError(.inUse, "\(file) is in use: another process, or this one, writes it")
        }
        self.descriptor = Mutex(descriptor)
    }

    /// Creates a file that only its owner can read, unless it exists.
    static func makePrivate(_ path: String) throws(ReplicaError) {
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw ReplicaError(.storeFailed, String(cString: strerror(errno))) }
        close(descriptor)
    }

    deinit { release() }

    func release() {
        descriptor.withLock { descriptor in
            if let open = descriptor {
                // A process that is being started has the descriptor as well, for a moment, and closing it only here
                // would not release the lock.
                flock(open, LOCK_UN)
                close(open)
            }
            descriptor = nil
        }
    }
}
