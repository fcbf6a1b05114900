import Synchronization

/// A limit for memory that all connections share. Parts of it are held by permits, which are given at once, or when
/// there is room, in the order of the requests.
///
/// Nobody waits for ever: the work of a permit needs no second permit of the same budget to finish, and a permit for
/// more than the whole budget is given when nothing else is in use. A long message keeps its user's turn while it waits
/// for its permit, and its permit while it waits for one of the budget for uploads, never the other way round. Clients
/// that hold permits while others wait lose their connection if they are slow (`MessageMemory`).
final class MemoryBudget: Sendable {
    /// Called once, on any thread, when there is room.
    typealias Grant = @Sendable (MemoryPermit) -> Void

    private struct State {
        var bytesInUse = 0
        /// The waiting requests, by numbers that ascend in order of arrival.
        var waiting: [Int: (bytes: Int, grant: Grant)] = [:]
        /// A number below which no request waits.
        var firstNumber = 0
        /// The number of the next request that has to wait.
        var nextNumber = 0
        /// True while a thread is giving permits to waiting requests; no second one does so at the same time.
        var isGranting = false
    }

    private let bytesMax: Int
    private let onWait: @Sendable () -> Void
    private let state = Mutex(State())

    /// - Parameters:
    ///   - bytesMax: the memory that may be in use, in bytes. `reserve` ignores it, and `permitBeyondLimit` may exceed
    ///     it somewhat.
    ///   - onWait: called when a request has to wait.
    init(bytesMax: Int, onWait: @escaping @Sendable () -> Void = {}) {
        self.bytesMax = bytesMax
        self.onWait = onWait
    }

    var bytesInUse: Int { state.withLock { $0.bytesInUse } }

    var waitingCount: Int { state.withLock { $0.waiting.count } }

    /// True if a permit for this number of bytes would be given at once.
    func hasRoom(for bytes: Int) -> Bool { state.withLock { hasRoom(for: bytes, $0) } }

    /// True if such a permit would be given at once, and leave half of the budget free.
    func hasMuchRoom(for bytes: Int) -> Bool { hasRoom(for: bytes + bytesMax / 2) }

    /// - Returns: nil if there is no room, or others wait for it.
    func permit(for bytes: Int) -> MemoryPermit? {
        let isGranted = state.withLock { state in
            let hasRoom = hasRoom(for: bytes, state)
            if hasRoom { state.bytesInUse += bytes }
            return hasRoom
        }
        return isGranted ? MemoryPermit(bytes, of: self) : nil
    }

    /// A permit for work that needs little and is done soon: it does not wait its turn, and may exceed the limit by an
    /// eighth.
    /// - Returns: nil if there is no room even so.
    func permitBeyondLimit(for bytes: Int) -> MemoryPermit? {
        let isGranted = state.withLock { state in
            guard state.bytesInUse - bytesMax <= bytesMax / 8 - bytes else { return false }
            state.bytesInUse += bytes
            return true
        }
        return isGranted ? MemoryPermit(bytes, of: self) : nil
    }

    /// Waits for a permit that `permit` has not given.
    /// - Parameter grant: gets the permit, perhaps before this returns.
    /// - Returns: the place in the queue, to be kept until then. Releasing it earlier ends the wait, but a permit may
    ///   be on its way.
    func wait(for bytes: Int, then grant: @escaping Grant) -> MemoryWait {
        let number = state.withLock { state in
            defer { state.nextNumber += 1 }
            state.waiting[state.nextNumber] = (bytes, grant)
            return state.nextNumber
        }
        onWait()
        // Room may have become free in the meantime.
        release(0)
        return MemoryWait(number, for: self)
    }

    fileprivate func endWait(_ number: Int) {
        // The closure may hold the last reference to a permit, which must not end within the lock.
        let ended = state.withLock { $0.waiting.removeValue(forKey: number) }
        if ended != nil { release(0) }
    }

    private func hasRoom(for bytes: Int, _ state: State) -> Bool { state.waiting.isEmpty && fits(bytes, state) }

    private func fits(_ bytes: Int, _ state: State) -> Bool {
        state.bytesInUse <= 0 || bytes <= bytesMax - state.bytesInUse
    }

    /// Counts memory that is in use whether or not there is room.
    func reserve(_ bytes: Int) { state.withLock { $0.bytesInUse += bytes } }

    /// Gives back reserved memory. As many waiting requests go on as there is room for.
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
            while state.firstNumber < state.nextNumber, state.waiting[state.firstNumber] == nil {
                state.firstNumber += 1
            }
            guard let first = state.waiting[state.firstNumber], fits(first.bytes, state) else {
                state.isGranting = false
                return nil
            }
            state.bytesInUse += first.bytes
            return state.waiting.removeValue(forKey: state.firstNumber)
        }
    }
}

/// A place in the queue for a memory budget, for as long as it is kept.
final class MemoryWait: Sendable {
    private let budget: MemoryBudget
    private let number: Int

    fileprivate init(_ number: Int, for budget: MemoryBudget) {
        self.number = number
        self.budget = budget
    }

    deinit { budget.endWait(number) }
}

/// A part of a memory budget, for as long as the permit is kept.
final class MemoryPermit: Sendable {
    private let budget: MemoryBudget
    private let size: Mutex<Int>

    /// - Parameter bytes: the bytes, which are counted already.
    fileprivate init(_ bytes: Int, of budget: MemoryBudget) {
        self.budget = budget
        size = Mutex(bytes)
    }

    var bytes: Int { size.withLock { $0 } }

    /// Changes the permit to the need, which has turned out to be less, or more.
    func resize(to bytes: Int) {
        let surplus = size.withLock { size in
            defer { size = bytes }
            return size - bytes
        }
        if surplus != 0 { budget.release(surplus) }
    }

    deinit { budget.release(bytes) }
}
