import NIOCore
import Synchronization

/// The requests of the connections of one event loop, on their way to their files. The requests of one pass of the loop
/// go together, so that many short messages to a file make one turn. Mere progress, which all readers of a file report
/// after each commit, waits for more of its kind. An outbox belongs to its event loop.
final class RequestOutbox {
    /// The time for which progress waits, unless another request comes, in milliseconds.
    static let progressMillisecondsMax = 4
    /// The most requests with progress that wait.
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
            // A task runs after all sockets with input have been read.
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

    /// The outbox of an event loop. To be called on that event loop.
    func outbox(of eventLoop: any EventLoop) -> RequestOutbox {
        outboxes.withLock { outboxes in
            let id = ObjectIdentifier(eventLoop)
            let outbox = outboxes[id] ?? NIOLoopBound(RequestOutbox(eventLoop, to: files), eventLoop: eventLoop)
            outboxes[id] = outbox
            return outbox
        }.value
    }
}
