import Synchronization

/// Yes or no, for many threads.
final class Flag: Sendable {
    private let value = Atomic(false)

    var isSet: Bool {
        get { value.load(ordering: .acquiring) }
        set { value.store(newValue, ordering: .releasing) }
    }
}
