import Synchronization

/// Lets so many in at a time.
final class ConcurrencyLimit: Sendable {
    private let inside = Mutex(0)

    func enter(countMax: Int) -> Bool {
        inside.withLock { inside in
            guard inside < countMax else { return false }
            inside += 1
            return true
        }
    }

    func leave() { inside.withLock { $0 -= 1 } }
}
