#if canImport(Glibc)
import CMalloc
#endif

/// What large messages have needed, the C library keeps for later: a client that has downloaded many objects and then
/// rests would hold tens of megabytes with nothing in them. How the process gets its memory is not changed.
enum FreedMemory {
    /// In bytes; from here on a message is a large one.
    static let largeMessageBytesMin = 256 << 10
    /// What else comes in a burst of messages comes earlier.
    static let restMilliseconds: Int64 = 500

    static func giveBack() {
        #if canImport(Glibc)
        malloc_trim(0)
        #endif
    }
}

extension SyncClient {
    /// A message is not needed any more.
    func messageIsOver(bytes: Int) {
        guard bytes >= FreedMemory.largeMessageBytesMin else { return }
        largeMessageCount += 1
        Task { [weak self, largeMessageCount] in
            try? await Task.sleep(for: .milliseconds(FreedMemory.restMilliseconds))
            if await self?.largeMessageCount == largeMessageCount { FreedMemory.giveBack() }
        }
    }
}
