import Synchronization

/// A limit for the amount of work of one kind that is under way at one time.
final class ConcurrencyLimit: Sendable {
    private let countMax: Int
    private let count = Mutex(0)

    init(countMax: Int) {
        self.countMax = countMax
    }

    /// - Returns: whether the work may begin; if so, `release` has to follow it.
    func acquire() -> Bool {
        count.withLock { count in
            guard count < countMax else { return false }
            count += 1
            return true
        }
    }

    func release() { count.withLock { $0 -= 1 } }
}
