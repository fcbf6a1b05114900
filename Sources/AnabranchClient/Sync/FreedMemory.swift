#if canImport(Glibc)
import CMalloc
#endif

/// Gives back memory that messages have needed and the C library keeps for later: a client that has downloaded many
/// objects would hold tens of megabytes of unused memory, while it goes on and when it rests. The process's allocator
/// is not changed.
struct FreedMemory {
    /// The bytes of messages after which memory is given back.
    static let messageBytesMin = 256 << 10
    /// The time without messages after which memory is given back once more, in milliseconds: longer than the pauses
    /// within a burst.
    private static let restMilliseconds: Int64 = 500
    /// The divisor of a burst's duration that bounds the time for giving memory back: at most a twentieth.
    private static let timeShare = 20

    /// The bytes of the messages since memory was given back.
    private var bytes = 0
    /// The number of times that memory was to be given back.
    private(set) var count = 0
    /// The time before which nothing is given back again: where there is much memory, it takes long.
    private var pauseEnd = ContinuousClock.now

    /// Records that a message is not needed any more.
    /// - Returns: how long to wait before `rest` is called; nil if it need not be.
    mutating func messageIsOver(bytes: Int) -> Duration? {
        self.bytes += bytes
        guard self.bytes >= Self.messageBytesMin else { return nil }
        self.bytes = 0
        count += 1
        if ContinuousClock.now >= pauseEnd { giveBack() }
        return .milliseconds(Self.restMilliseconds)
    }

    /// Gives memory back unless more messages have come.
    /// - Parameter count: the count when waiting began.
    mutating func rest(since count: Int) { if self.count == count { giveBack() } }

    private mutating func giveBack() {
        #if canImport(Glibc)
        let start = ContinuousClock.now
        malloc_trim(0)
        pauseEnd = .now + (.now - start) * Self.timeShare
        #endif
    }
}

extension SyncClient {
    /// Records that a message is not needed any more.
    func messageIsOver(bytes: Int) {
        guard let pause = freedMemory.messageIsOver(bytes: bytes) else { return }
        Task { [weak self, count = freedMemory.count] in
            try? await Task.sleep(for: pause)
            await self?.rest(since: count)
        }
    }

    private func rest(since count: Int) { freedMemory.rest(since: count) }
}
