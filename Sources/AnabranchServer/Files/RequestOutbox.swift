import NIOCore
import Synchronization

/// The requests of the connections of one event loop, on their way to store threads: what a pass of the loop brings
/// goes together, so that many short messages wake a thread once. Belongs to its event loop.
final class RequestOutbox {
    let files: StoreThreads
    private let eventLoop: any EventLoop
    private var requests: [FileRequest] = []

    init(_ eventLoop: any EventLoop, to files: StoreThreads) {
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
    let files: StoreThreads
    private let outboxes = Mutex<[ObjectIdentifier: NIOLoopBound<RequestOutbox>]>([:])

    init(to files: StoreThreads) { self.files = files }

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
