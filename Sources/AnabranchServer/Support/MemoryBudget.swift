import NIOCore
import Synchronization

/// A limit for memory that all connections share. Parts of it are held by permits, which are given at once or when
/// there is room, in the order in which they were asked for.
///
/// Nobody waits for ever: what a permit is held for needs no second permit to come to its end, and a permit for more
/// than the whole budget is given when nothing else is in use.
final class MemoryBudget: Sendable {
    /// Is called once, on any thread, when there is room.
    typealias Grant = @Sendable (MemoryPermit) -> Void

    private struct State {
        var bytesInUse = 0
        var waiting = CircularBuffer<(bytes: Int, grant: Grant)>()
        /// Whether a thread is giving permits to those that wait; no second one does so at the same time.
        var isGranting = false
    }

    private let bytesMax: Int
    private let onWait: @Sendable () -> Void
    private let state = Mutex(State())

    /// - Parameters:
    ///   - bytesMax: what may be in use. `reserve` does not heed it, nor quite `permitBeyondLimit`.
    ///   - onWait: called when somebody has to wait.
    init(bytesMax: Int, onWait: @escaping @Sendable () -> Void = {}) {
        self.bytesMax = bytesMax
        self.onWait = onWait
    }

    var bytesInUse: Int { state.withLock { $0.bytesInUse } }

    var waitingCount: Int { state.withLock { $0.waiting.count } }

    /// Whether a permit for so many bytes would be given at once.
    func hasRoom(for bytes: Int) -> Bool { state.withLock { hasRoom(for: bytes, $0) } }

    /// - Parameter grant: gets the permit later, if there is no room now.
    /// - Returns: the permit; nil if `grant` gets it.
    func permit(for bytes: Int, orElse grant: @escaping Grant) -> MemoryPermit? {
        let isGranted = state.withLock { state in
            let hasRoom = hasRoom(for: bytes, state)
            if hasRoom { state.bytesInUse += bytes } else { state.waiting.append((bytes, grant)) }
            return hasRoom
        }
        if isGranted { return MemoryPermit(bytes, of: self) }
        onWait()
        return nil
    }

    /// - Returns: nil if there is no room, or others wait for it.
    func permitAtOnce(for bytes: Int) -> MemoryPermit? {
        let isGranted = state.withLock { state in
            let hasRoom = hasRoom(for: bytes, state)
            if hasRoom { state.bytesInUse += bytes }
            return hasRoom
        }
        return isGranted ? MemoryPermit(bytes, of: self) : nil
    }

    /// For what needs little and is done soon: it passes those that wait, and may exceed the limit by an eighth.
    /// - Returns: nil if there is no room even so.
    func permitBeyondLimit(for bytes: Int) -> MemoryPermit? {
        let isGranted = state.withLock { state in
            guard state.bytesInUse - bytesMax <= bytesMax / 8 - bytes else { return false }
            state.bytesInUse += bytes
            return true
        }
        return isGranted ? MemoryPermit(bytes, of: self) : nil
    }

    private func hasRoom(for bytes: Int, _ state: State) -> Bool { state.waiting.isEmpty && fits(bytes, state) }

    private func fits(_ bytes: Int, _ state: State) -> Bool {
        state.bytesInUse <= 0 || bytes <= bytesMax - state.bytesInUse
    }

    /// Takes memory into account that is in use whether or not there is room.
    func reserve(_ bytes: Int) { state.withLock { $0.bytesInUse += bytes } }

    /// Gives back what was reserved. As many of those that wait go on as there is room for.
    func release(_ bytes: Int) {
        let grants = state.withLock { state in
            state.bytesInUse -= bytes
            guard !state.isGranting, !state.waiting.isEmpty else { return false }
            state.isGranting = true
            return true
        }
        // A permit that ends while it is given comes here again, and only changes the number.
        while grants, let next = nextGrant() { next.grant(MemoryPermit(next.bytes, of: self)) }
    }

    private func nextGrant() -> (bytes: Int, grant: Grant)? {
        state.withLock { state in
            guard let first = state.waiting.first, fits(first.bytes, state) else {
                state.isGranting = false
                return nil
            }
            state.bytesInUse += first.bytes
            return state.waiting.removeFirst()
        }
    }
}

/// A part of a memory budget, for as long as the permit is kept.
final class MemoryPermit: Sendable {
    private let budget: MemoryBudget
    private let size: Mutex<Int>

    /// - Parameter bytes: are taken into account already.
    fileprivate init(_ bytes: Int, of budget: MemoryBudget) {
        self.budget = budget
        size = Mutex(bytes)
    }

    var bytes: Int { size.withLock { $0 } }

    /// What was needed has turned out to be less, or more.
    func resize(to bytes: Int) {
        let surplus = size.withLock { size in
            defer { size = bytes }
            return size - bytes
        }
        if surplus != 0 { budget.release(surplus) }
    }

    deinit { budget.release(bytes) }
}
