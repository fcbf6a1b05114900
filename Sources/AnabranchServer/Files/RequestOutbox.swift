import NIOCore
import Synchronization

/// The requests of the connections of one event loop, on their way to their files: what a pass of the loop brings
/// goes together, so that many short messages to a file make one turn. What only says how far clients have come, which
/// all readers of a file say after each commit, waits for more of the like. Belongs to its event loop.
final class RequestOutbox {
    /// How long that waits, unless another request comes.
    static let progressMillisecondsMax = 4
    /// How many of the like wait at most.
    static let progressCountMax = 64
    let files: FileQueues
    private let eventLoop: any EventLoop
    private var requests: [FileRequest] = []
    private var isUrgent = false
    private var timer: Scheduled<Void>?

    init(_ eventLoop: any EventLoop, to files: FileQueues) {
        self.eventLoop = eventLoop
        self.files = files
    }

    func append(_ request: FileRequest) {
        files.budget.reserve(request.cost)
        requests.append(request)
        guard !isUrgent else { return }
        if !request.saysOnlyProgress || requests.count >= Self.progressCountMax {
            isUrgent = true
            // A task runs when all sockets have been read that have brought something.
            eventLoop.assumeIsolated().execute { [self] in flush() }
        } else if timer == nil {
            let delay = TimeAmount.milliseconds(Int64(Self.progressMillisecondsMax))
            timer = eventLoop.assumeIsolated().scheduleTask(in: delay) { [self] in flush() }
        }
    }

    private func flush() {
        timer?.cancel()
        timer = nil
        isUrgent = false
        guard !requests.isEmpty else { return }
        files.submitReserved(requests)
        requests.removeAll(keepingCapacity: true)
    }
}

/// An outbox for each event loop.
final class RequestOutboxes: Sendable {
    let files: FileQueues
    private let outboxes = Mutex<[ObjectIdentifier: NIOLoopBound<RequestOutbox>]>([:])

    init(to files: FileQueues) { self.files = files }

    /// To be called on the event loop.
    func outbox(of eventLoop: any EventLoop) -> RequestOutbox {
        outboxes.withLock { outboxes in
            let id = ObjectIdentifier(eventLoop)
            let outbox = outboxes[id] ?? NIOLoopBound(RequestOutbox(eventLoop, to: files), eventLoop: eventLoop)
            outboxes[id] = outbox
            return outbox
        }.value
    }
}
