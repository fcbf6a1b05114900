import AnabranchCore
import NIOCore
import Synchronization

/// A limit for the open connections of each user, or of each address.
final class ConnectionLimit: Sendable {
    private let countMax: Int
    private let counts = Mutex<[ExactString: Int]>([:])

    /// - Parameter countMax: the most connections of each name at one time.
    init(countMax: Int) {
        self.countMax = countMax
    }

    /// Counts a connection until it is over.
    /// - Parameters:
    ///   - name: the user or the address.
    ///   - end: succeeds or fails when the connection is over.
    /// - Returns: false if the name has too many connections already; then this one does not count.
    func admit(_ name: String, until end: EventLoopFuture<Void>) -> Bool {
        let name = ExactString(name)
        let isAdmitted = counts.withLock { counts in
            guard counts[name, default: 0] < countMax else { return false }
            counts[name, default: 0] += 1
            return true
        }
        if isAdmitted { end.whenComplete { [self] _ in remove(name) } }
        return isAdmitted
    }

    private func remove(_ name: ExactString) {
        counts.withLock { counts in
            let count = counts[name, default: 1] - 1
            counts[name] = count > 0 ? count : nil
        }
    }
}
