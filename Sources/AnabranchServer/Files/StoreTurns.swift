import AnabranchHistory
import AnabranchProtocol
import NIOCore

/// Something to be done with the files of a store thread beside the requests of sessions.
struct StoreJob: Sendable {
    /// The file that it is about.
    let path: VirtualPath
    /// Whether it waits until a merge of the file is committed.
    let comesAfterMerge: Bool
    /// Is run once, without files if the thread has ended.
    /// - Returns: what is to be called when the sessions have been told.
    let run: @Sendable (FileRegistry?) -> () -> Void
}

/// What waits for one store thread, and its files. It works in turns, and each part of a turn takes one step of time
/// (`FileRegistry.stepMillisecondsMax`) and what is left of one job, request or merge then:
///
/// 1. jobs;
/// 2. requests but for the following;
/// 3. scans of sessions that ask for what has just come;
/// 4. merges of new uploads, and one commit for all;
/// 5. a step of one long merge;
/// 6. scans of sessions that catch up.
///
/// What is not done then stays for the next turn. So those who do what costs little never wait for more than a few
/// steps, however much others ask for.
final class StoreTurns {
    let registry: FileRegistry
    private let budget: MemoryBudget
    private let deliver: ([ConnectionReplies]) -> Void
    private var jobs = CircularBuffer<StoreJob>()
    private var requests = FairQueue()
    private var liveScans = FairQueue()
    private var catchUps = FairQueue()

    /// - Parameters:
    ///   - budget: the memory of the requests, which is released when they are done.
    ///   - deliver: called with what has become durable.
    init(
        _ registry: sending FileRegistry, _ budget: MemoryBudget,
        deliver: @escaping ([ConnectionReplies]) -> Void
    ) {
        self.registry = registry
        self.budget = budget
        self.deliver = deliver
    }

    var hasWork: Bool {
        !jobs.isEmpty || !requests.isEmpty || !liveScans.isEmpty || !catchUps.isEmpty || registry.hasMerges
    }

    func take(_ jobs: [StoreJob], _ requests: [FileRequest]) {
        self.jobs.append(contentsOf: jobs)
        for request in requests {
            guard case .scan = request.request else {
                self.requests.append(request)
                continue
            }
            if registry.isLive(request) { liveScans.append(request) } else { catchUps.append(request) }
        }
    }

    /// - Parameter isEnding: nobody waits for long merges any more.
    func takeTurn(isEnding: Bool) {
        runJobs()
        handle(&requests)
        handle(&liveScans)
        tell(registry.commit())
        tell(isEnding ? registry.dropLongMerges() : registry.advanceLongMerge())
        handle(&catchUps)
    }

    private func runJobs() {
        let limit = registry.beginStep()
        var deferred: [StoreJob] = [], completions: [() -> Void] = []
        while let job = jobs.popFirst() {
            if job.comesAfterMerge, registry.isMerging(job.path) {
                deferred.append(job)
                continue
            }
            completions.append(job.run(registry))
            if limit.isOver { break }
        }
        jobs = CircularBuffer(deferred + jobs)
        guard !completions.isEmpty else { return }
        tell(registry.takeReplies())
        for complete in completions { complete() }
    }

    private func handle(_ queue: inout FairQueue) {
        guard !queue.isEmpty else { return }
        tell(registry.handle(until: registry.beginStep()) { queue.popFirst() })
    }

    private func tell(_ replies: [FileReply]) {
        let done = registry.takeDone()
        guard !replies.isEmpty || !done.isEmpty else { return }
        var batches: [ConnectionID: ConnectionReplies] = [:]
        for reply in replies {
            let connection = reply.session.connection
            batches[connection, default: ConnectionReplies(connection: connection)].replies.append(reply)
        }
        for charge in done {
            batches[charge.connection, default: ConnectionReplies(connection: charge.connection)].doneBytes +=
                charge.bytes
        }
        deliver(Array(batches.values))
        budget.release(done.reduce(0) { $0 + $1.bytes })
    }
}
