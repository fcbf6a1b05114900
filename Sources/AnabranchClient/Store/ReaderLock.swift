import Foundation

/// Lets readers into a file, and keeps them out while another file is put in its place.
final class ReaderLock: Sendable {
    private let condition = NSCondition()
    // Both are used only while the condition is locked.
    nonisolated(unsafe) private var readerCount = 0
    nonisolated(unsafe) private var isClosing = false

    /// The locks that this thread or task has entered already: it may enter these once more, even when others may not.
    @TaskLocal private static var entered: [ObjectIdentifier] = []

    func read<Value>(_ body: () throws -> Value) rethrows -> Value {
        let identifier = ObjectIdentifier(self), isInside = Self.entered.contains(identifier)
        enter(mayNotWait: isInside)
        defer { leave() }
        if isInside { return try body() }
        return try Self.$entered.withValue(Self.entered + [identifier]) { try body() }
    }

    /// Begins a read, which `leave` ends.
    func enter(mayNotWait: Bool = false) {
        condition.lock()
        while isClosing, !mayNotWait { condition.wait() }
        readerCount += 1
        condition.unlock()
    }

    func leave() {
        condition.lock()
        readerCount -= 1
        condition.broadcast()
        condition.unlock()
    }

    /// Waits until nobody reads, and calls `body` while nobody can.
    func whileClosed<Value>(_ body: () throws -> Value) rethrows -> Value {
        condition.lock()
        isClosing = true
        while readerCount > 0 { condition.wait() }
        condition.unlock()
        defer {
            condition.lock()
            isClosing = false
            condition.broadcast()
            condition.unlock()
        }
        return try body()
    }
}
