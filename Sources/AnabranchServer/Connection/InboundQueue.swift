import AnabranchProtocol
import NIOCore

/// What a client has sent and the connection has not handled yet, and whether its socket is read.
///
/// Events are handled in their order, one by one, as long as there is room: while the connection's own requests to
/// synced files occupy too much memory nothing is handled, and while those of all connections do, no UPLOAD is. A
/// waiting message stays as it came, which is how it is smallest; and while one waits, the socket is not read. So a
/// client cannot make the server keep more than one reading of its socket (`Spec/Limits.md`, section 7).
struct InboundQueue: ~Copyable {
    /// An UPLOAD does not wait for the uploads of others if it and its connection's requests have no more bytes
    /// together: those who upload as much as they can would keep everybody else from uploading anything.
    static let shortUploadBytesMax = 256 << 10

    private let waitingBytesMax: Int
    private let budget: MemoryBudget
    /// The permit of a long message goes with it.
    private var events = CircularBuffer<(event: MessageAssembler.Event, permit: MemoryPermit?)>()
    /// What the event needs that is being handled.
    private var permits: [MemoryPermit] = []
    /// The cost of the connection's requests to synced files that are not done yet.
    private(set) var waitingBytes = 0
    /// Whether a reading of the socket is held back: the server does not read what the client may be sending.
    private(set) var isReadHeld = false
    /// The first event's place among those that wait for `budget`.
    private var wait: MemoryWait?
    /// What the budget has given for it.
    private var uploadPermit: MemoryPermit?

    /// - Parameters:
    ///   - waitingBytesMax: how much the connection's own requests may occupy, in bytes.
    ///   - budget: what the requests of all connections may occupy.
    init(waitingBytesMax: Int, budget: MemoryBudget) {
        self.waitingBytesMax = waitingBytesMax
        self.budget = budget
    }

    // MARK: Events

    /// - Parameter permit: kept until the event has been handled.
    mutating func append(_ event: MessageAssembler.Event, _ permit: MemoryPermit? = nil) {
        events.append((event, permit))
    }

    /// Removes the first event, if there is room for it. The one before has been handled, and its requests are with
    /// their files.
    /// - Parameter grant: called once, on any thread, when there is room for an UPLOAD that waits for the budget. The
    ///   caller then calls `take` and `next`, later than this returns.
    mutating func next(orElse grant: @escaping MemoryBudget.Grant) -> MessageAssembler.Event? {
        permits = []
        guard let (event, permit) = events.first, waitingBytes <= waitingBytesMax else { return nil }
        // PINGs are answered however much others upload.
        if case .message(let message) = event, Self.isUpload(message) {
            guard wait == nil else { return nil }
            let bytes = message.readableBytes
            guard let room = uploadPermit ?? permitForShort(message) ?? budget.permit(for: bytes) else {
                wait = budget.wait(for: bytes, then: grant)
                return nil
            }
            uploadPermit = nil
            permits = [room]
        }
        if let permit { permits.append(permit) }
        return events.removeFirst().event
    }

    private static func isUpload(_ message: ByteBuffer) -> Bool {
        message.withUnsafeReadableBytes { ClientMessage.Kind(of: $0) == .upload }
    }

    private func permitForShort(_ message: ByteBuffer) -> MemoryPermit? {
        let inflated = message.withUnsafeReadableBytes { ClientMessage.inflatedUploadBytes($0) }
        guard let inflated else { return nil }
        let bytes = max(message.readableBytes, inflated)
        return bytes <= Self.shortUploadBytesMax - waitingBytes ? budget.permitBeyondLimit(for: bytes) : nil
    }

    /// The budget has room for the first event.
    mutating func take(_ permit: MemoryPermit) {
        wait = nil
        if !events.isEmpty { uploadPermit = permit }
    }

    /// Nothing more is handled.
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
