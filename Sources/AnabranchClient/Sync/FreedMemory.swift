#if canImport(Glibc)
import CMalloc
#endif

/// Gives back memory that large messages have needed and the C library keeps for later: a client that has downloaded
/// many objects and then rests would hold tens of megabytes of unused memory. The process's allocator is not changed.
enum FreedMemory {
    /// The size from which a message counts as large, in bytes.
    static let largeMessageBytesMin = 256 << 10
    /// The time without large messages after which memory is given back, in milliseconds: longer than the pauses within
    /// a burst.
    static let restMilliseconds: Int64 = 500

    static func giveBack() {
        #if canImport(Glibc)
        malloc_trim(0)
        #endif
    }
}

extension SyncClient {
    /// Records that a message is not needed any more.
    func messageIsOver(bytes: Int) {
        guard bytes >= FreedMemory.largeMessageBytesMin else { return }
        largeMessageCount += 1
        Task { [weak self, largeMessageCount] in
            try? await Task.sleep(for: .milliseconds(FreedMemory.restMilliseconds))
            if await self?.largeMessageCount == largeMessageCount { FreedMemory.giveBack() }
        }
    }
}
