import Synchronization

/// The requests to the admin interface without its token that have not been logged yet.
final class RefusedTokens: Sendable {
    /// The contents of a log line.
    struct Count: Equatable, Sendable {
        var missing = 0
        var wrong = 0
        /// The address of the last request, if it is known.
        var address: String?
    }

    private let count = Mutex(Count())

    func add(isMissing: Bool, from address: String?) {
        count.withLock { count in
            if isMissing { count.missing += 1 } else { count.wrong += 1 }
            count.address = address
        }
    }

    /// Takes the requests so far; nil if there were none.
    func take() -> Count? {
        count.withLock { count in
            defer { count = Count() }
            return count == Count() ? nil : count
        }
    }
}
