import AnabranchProtocol
import NIOCore

/// The input of a client that the connection has not handled yet, and the decision to read its socket.
///
/// Events are handled in order, one by one, as long as there is room: while the connection's own requests to synced
/// files occupy too much memory, nothing is handled; while those of all connections do, no UPLOAD is, nor a message
/// with a long set of queries. A waiting message stays in the form in which it arrived, which is its smallest; and
/// while one waits, the socket is not read. So a client cannot make the server keep more than one reading of its socket
/// (`Spec/Limits.md`, section 7).
struct InboundQueue: ~Copyable {
    /// Called once, on any thread, when there is room for a message that waits for the budget, with the number of that
    /// wait.
    typealias Grant = @Sendable (MemoryPermit, Int) -> Void

    /// Such a message does not wait for those of others if, together with its connection's requests, it has no more
    /// bytes than this: otherwise clients that upload as much as they can would keep all others from uploading
    /// anything.
    static let shortUploadBytesMax = 256 << 10

    /// The length up to which a message with a set of queries needs no room, in bytes.
    private static let freeSetBytesMax = 4 << 10

    private let waitingBytesMax: Int
    private let budget: MemoryBudget
    /// The waiting events; long messages with their permits. Most connections never have more than one.
    private var events = CircularBuffer<(event: MessageAssembler.Event, permit: MemoryPermit?)>(initialCapacity: 1)
    /// The permits of the event that is being handled.
    private var permits: [MemoryPermit] = []
    /// The cost of the connection's requests to synced files that are not done yet.
    private(set) var waitingBytes = 0
    /// True while a reading of the socket is held back: the server does not read what the client may be sending.
    private(set) var isReadHeld = false
    /// The first event's place among those that wait for `budget`. The number distinguishes a permit that comes too
    /// late from the awaited one.
    private var wait: (number: Int, place: MemoryWait)?
    private var waitCount = 0
    /// The permit that the budget has given for it.
    private var uploadPermit: MemoryPermit?

    /// - Parameters:
    ///   - waitingBytesMax: the memory that the connection's own requests may occupy, in bytes.
    ///   - budget: the memory of the requests of all connections.
    init(waitingBytesMax: Int, budget: MemoryBudget) {
        self.waitingBytesMax = waitingBytesMax
        self.budget = budget
    }

    // MARK: Events

    /// - Parameter permit: kept until the event has been handled.
    mutating func append(_ event: MessageAssembler.Event, _ permit: MemoryPermit? = nil) {
        events.append((event, permit))
    }

    /// Removes the first event, if there is room for it. The event before has been handled, and its requests are with
    /// their files.
    /// - Parameter grant: once it is called, the caller calls `take` and `next`, after this function has returned.
    mutating func next(orElse grant: @escaping Grant) -> MessageAssembler.Event? {
        permits = []
        guard let (event, permit) = events.first, waitingBytes <= waitingBytesMax else { return nil }
        // Other messages need no room, and wait only for such a message before them.
        if case .message(let message) = event, let kind = ClientMessage.Kind(of: message),
            kind == .upload || kind.hasSet && message.readableBytes > Self.freeSetBytesMax
        {
            guard let room = room(for: message, kind, orElse: grant) else { return nil }
            permits = [room]
        }
        if let permit { permits.append(permit) }
        return events.removeFirst().event
    }

    /// - Returns: nil if the message has to wait. It may count as short later, when less is waiting before it.
    private mutating func room(
        for message: ByteBuffer, _ kind: ClientMessage.Kind, orElse grant: @escaping Grant
    ) -> MemoryPermit? {
        if let permit = uploadPermit ?? permitForShort(message, kind) {
            (wait, uploadPermit) = (nil, nil)
            return permit
        }
        let bytes = message.readableBytes
        guard wait == nil else { return nil }
        if let permit = budget.permit(for: bytes) { return permit }
        waitCount += 1
        let number = waitCount
        wait = (number, budget.wait(for: bytes) { permit in grant(permit, number) })
        return nil
    }

    private func permitForShort(_ message: ByteBuffer, _ kind: ClientMessage.Kind) -> MemoryPermit? {
        let inflated =
            kind == .upload ? message.withUnsafeReadableBytes { ClientMessage.inflatedUploadBytes($0) } : 0
        guard let inflated else { return nil }
        let bytes = max(message.readableBytes, inflated)
        return bytes <= Self.shortUploadBytesMax - waitingBytes ? budget.permitBeyondLimit(for: bytes) : nil
    }

    /// Takes the permit for the first event. A permit that comes too late ends here.
    mutating func take(_ permit: MemoryPermit, ofWait number: Int) {
        guard wait?.number == number else { return }
        (wait, uploadPermit) = (nil, permit)
    }

    /// Drops all events: nothing more is handled.
    mutating func removeAll() {
        events.removeAll()
        permits = []
        wait = nil
        uploadPermit = nil
    }

    // MARK: Requests to synced files

    mutating func requestWaits(_ cost: Int) { waitingBytes += cost }

    mutating func requestsDone(_ cost: Int) { waitingBytes -= cost }

    // MARK: Reading

    /// True if the socket may be read now. If not, `resumesReading` says when.
    /// - Parameter isDraining: whether the connection reads nothing more at all.
    mutating func allowsReading(isDraining: Bool) -> Bool {
        isReadHeld = isDraining || !events.isEmpty || waitingBytes > waitingBytesMax
        return !isReadHeld
    }

    /// True if a reading that was held back is to happen now. Reading resumes when half of the limit is free, not after
    /// every single request.
    mutating func resumesReading() -> Bool {
        guard isReadHeld, events.isEmpty, waitingBytes <= waitingBytesMax / 2 else { return false }
        isReadHeld = false
        return true
    }
}

extension ClientMessage.Kind {
    /// The kind of a message, without generic code: each passes through here several times.
    init?(of message: ByteBuffer) {
        guard let kind = message.withUnsafeReadableBytes({ ClientMessage.Kind(of: $0) }) else { return nil }
        self = kind
    }

    /// True if a message can have a set of queries, which its file keeps until it comes to it.
    fileprivate var hasSet: Bool { self == .ident || self == .query }
}
