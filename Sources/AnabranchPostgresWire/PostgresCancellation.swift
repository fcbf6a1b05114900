#if canImport(CLibPQ)
import CLibPQ

/// Cancels the statement that runs in a connection, from any thread.
public final class PostgresCancellation: @unchecked Sendable {
    // Immutable once it is made.
    private let handle: OpaquePointer

    init(_ handle: OpaquePointer) { self.handle = handle }

    deinit { PQfreeCancel(handle) }

    /// Asks the server to cancel. The statement throws if it is not done before; nothing else tells.
    public func cancel() {
        var text = [CChar](repeating: 0, count: 256)
        PQcancel(handle, &text, Int32(text.count))
    }
}
#endif
