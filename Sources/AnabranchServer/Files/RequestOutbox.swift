import NIOCore
import Synchronization

/// The requests of the connections of one event loop, on their way to their files: what a pass of the loop brings
/// goes together, so that many short messages to a file make one turn. Belongs to its event loop.
final class RequestOutbox {
    let files: FileQueues
    private let eventLoop: any EventLoop
    private var requests: [FileRequest] = []

    init(_ eventLoop: any EventLoop, to files: FileQueues) {
        self.eventLoop = eventLoop
        self.files = files
    }

    func append(_ request: FileRequest) {
        files.budget.reserve(request.cost)
        requests.append(request)
        // A task runs when all sockets have been read that have brought something.
        if requests.count == 1 { eventLoop.assumeIsolated().execute { [self] in flush() } }
    }

    private func flush() {
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
