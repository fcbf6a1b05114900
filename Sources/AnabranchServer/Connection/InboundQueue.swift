import AnabranchProtocol
import NIOCore

/// What a client has sent and the connection has not handled yet, and whether its socket is read.
///
/// Events are handled in their order, one by one, as long as there is room: while the connection's own requests to
/// synced files occupy too much memory nothing is handled, and while those of all connections do, no UPLOAD is. A
/// waiting message stays as it came, which is how it is smallest; and while one waits, the socket is not read. So a
/// client cannot make the server keep more than one reading of its socket (`Spec/Limits.md`, section 7).
struct InboundQueue: ~Copyable {
    private let waitingBytesMax: Int
    private let budget: UploadMemoryBudget
    private var events = CircularBuffer<MessageAssembler.Event>()
    /// The cost of the connection's requests to synced files that are not done yet.
    private(set) var waitingBytes = 0
    /// Whether a reading of the socket is held back: the server does not read what the client may be sending.
    private(set) var isReadHeld = false
    /// Whether the first event waits for `budget`, which calls back.
    private var isAwaitingBudget = false

    /// - Parameters:
    ///   - waitingBytesMax: how much the connection's own requests may occupy, in bytes.
    ///   - budget: what the requests of all connections may occupy.
    init(waitingBytesMax: Int, budget: UploadMemoryBudget) {
        self.waitingBytesMax = waitingBytesMax
        self.budget = budget
    }

    // MARK: Events

    mutating func append(_ event: MessageAssembler.Event) { events.append(event) }

    /// Removes the first event, if there is room for it.
    /// - Parameter retry: called once, on any thread, when an UPLOAD that waits for the budget may have room. The
    ///   caller then calls `budgetHasRoom` and `next`.
    mutating func next(orElse retry: @escaping @Sendable () -> Void) -> MessageAssembler.Event? {
        guard let event = events.first, waitingBytes <= waitingBytesMax else { return nil }
        // PINGs are answered however much others upload.
        if case .message(let message) = event, ClientMessage.Kind(of: message.readableBytesView) == .upload {
            guard !isAwaitingBudget else { return nil }
            isAwaitingBudget = !budget.hasRoom(orElse: retry)
            guard !isAwaitingBudget else { return nil }
        }
        return events.removeFirst()
    }

    mutating func budgetHasRoom() { isAwaitingBudget = false }

    mutating func removeAll() { events.removeAll() }

    // MARK: Requests to synced files

    mutating func requestWaits(_ cost: Int) { waitingBytes += cost }

    mutating func requestsDone(_ cost: Int) { waitingBytes -= cost }

    // MARK: Reading

    /// Whether the socket may be read now. If not, `resumesReading` says when.
    /// - Parameter isDraining: whether nothing more is to be read at all.
    mutating func allowsReading(isDraining: Bool) -> Bool {
        isReadHeld = isDraining || !events.isEmpty || waitingBytes > waitingBytesMax
        return !isReadHeld
    }

    /// Whether a reading that was held back is to happen now. It resumes when half of the limit is free, not at every
    /// single request that is done.
    mutating func resumesReading() -> Bool {
        guard isReadHeld, events.isEmpty, waitingBytes <= waitingBytesMax / 2 else { return false }
        isReadHeld = false
        return true
    }
}
