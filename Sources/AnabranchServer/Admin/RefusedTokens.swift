import Synchronization

/// The requests to the admin interface without its token that no line of the log has told of yet.
final class RefusedTokens: Sendable {
    /// What a line tells.
    struct Count: Equatable, Sendable {
        var missing = 0
        var wrong = 0
        /// From where the last one came, if that is known.
        var address: String?
    }

    private let count = Mutex(Count())

    func add(isMissing: Bool, from address: String?) {
        count.withLock { count in
            if isMissing { count.missing += 1 } else { count.wrong += 1 }
            count.address = address
        }
    }

    /// Nil if there were none.
    func take() -> Count? {
        count.withLock { count in
            defer { count = Count() }
            return count == Count() ? nil : count
        }
    }
}
