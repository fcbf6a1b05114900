import AnabranchCore
import AnabranchHistory
import NIOPosix
import Synchronization

/// The replies of one turn to connections.
struct TurnReplies: Sendable {
    /// The replies, in order for each session.
    var replies: [FileReply] = []
    /// The requests that are done.
    var done: [RequestCharge] = []
}

/// The synced files of a server. Each has a queue of its own, and any of the worker threads takes its turns: none is
/// idle while a file is ready. The commit of a turn goes to the queue of its shard (`Committers`); the file has no
/// further turn until it is stored, and the worker goes on with another file.
final class FileQueues: Sendable {
    private struct State {
        var queues: [VirtualPath: FileQueue] = [:]
        /// The files with progress that is not written.
        var pathsWithProgress: Set<VirtualPath> = []
        var ready: ReadyFiles
        /// True while the store is asked which files other nodes have written.
        var isFollowing = false
        /// The number of files that are not idle.
        var busyCount = 0
        /// The caller that waits until no file is busy.
        var end: CheckedContinuation<Void, Never>?

        /// - Returns: whether nobody has begun to ask before.
        mutating func beginFollowing() -> Bool {
            defer { isFollowing = true }
            return !isFollowing
        }

        /// - Parameter phase: the phase that the file had before.
        /// - Returns: whether a worker is needed for it.
        mutating func didPut(to queue: FileQueue, in phase: FileQueue.Phase) -> Bool {
            switch phase {
            case .idle:
                busyCount += 1
                ready.append(queue, for: .short)
                return true
            case .ready(.long): return ready.promote(queue)
            case .ready(.short), .running, .committing: break
            }
            return false
        }
    }

    let environment: FileEnvironment
    private let deliver: @Sendable (TurnReplies) -> Void
    private let state: Mutex<State>
    private let workers: NIOThreadPool?

    /// The memory of the requests that are not done yet.
    var budget: MemoryBudget { environment.budget }
    /// The memory of long messages, from clients and to them.
    var messageMemory: MemoryBudget { environment.messageMemory }

    /// - Parameters:
    ///   - threads: the number of workers, of which one is left for short turns if there are several; nil if `takeTurn`
    ///     is called in their place.
    ///   - deliver: called on workers once everything that the replies report is durable.
    init(
        _ environment: FileEnvironment, threads: Int?, deliver: @escaping @Sendable (TurnReplies) -> Void
    ) {
        self.environment = environment
        self.deliver = deliver
        state = Mutex(State(ready: ReadyFiles(longTurnsMax: max(1, (threads ?? 1) - 1))))
        workers = threads.map { NIOThreadPool(numberOfThreads: $0) }
        workers?.start()
    }

    // MARK: Input

    func submit(_ request: FileRequest) {
        budget.reserve(request.cost)
        submitReserved([request])
    }

    /// Submits requests whose memory is taken into account already.
    func submitReserved(_ requests: [FileRequest]) {
        guard let path = requests.first?.path else { return }
        if requests.allSatisfy({ $0.path == path }) { return put(requests: requests, to: path) }
        for (path, requests) in Dictionary(grouping: requests, by: \.path) { put(requests: requests, to: path) }
    }

    /// - Parameter path: the path, in any spelling of its partition's value.
    func submit(_ job: FileJob, to path: VirtualPath) { put(jobs: [job], to: environment.names.file(at: path)) }

    /// Runs a job with a file, before the requests that wait. When the call returns, its results have been announced to
    /// the sessions.
    /// - Throws: what the job throws; `storeFailed` if the server has ended.
    func run<Result: Sendable>(
        on path: VirtualPath, _ job: @escaping @Sendable (FileTurns) throws -> Result
    ) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            let job = FileJob(comesAfterMerge: false) { file in
                guard let file else { return continuation.resume(throwing: HistoryError.serverHasEnded) }
                let outcome = Swift.Result { try job(file) }
                file.afterDelivery { continuation.resume(with: $0.map { .failure($0) } ?? outcome) }
            }
            submit(job, to: path)
        }
    }

    /// Makes a write of the server itself, after the commit of a merge of uploads that has begun. When the call
    /// returns, the write has been announced to the sessions: a client that learns of it in another way, and sends a
    /// MARK, does not get the answer too early.
    /// - Throws: what `SyncedFile.write` throws; `storeFailed` if the server has ended.
    func write<Value: Sendable>(
        to path: VirtualPath, idempotencyKey: String?, at timestamp: ChangesetTime,
        _ body: @escaping @Sendable (WriteTransaction) throws -> Value
    ) async throws -> CompletedWrite<Value?> {
        try await withCheckedThrowingContinuation { continuation in
            let job = FileJob(comesAfterMerge: true) { file in
                guard let file else { return continuation.resume(throwing: HistoryError.serverHasEnded) }
                file.write(idempotencyKey: idempotencyKey, at: timestamp, body) { continuation.resume(with: $0) }
            }
            submit(job, to: path)
        }
    }

    /// Makes writes at the head of a file in one commit, after the commit of a merge that has begun.
    /// - Returns: for each write the version that it made or found, or what its body threw.
    /// - Throws: a failure of the store, after which all may be repeated; `storeFailed` if the server has ended.
    func write(_ writes: [HeadWrite], to path: VirtualPath) async throws -> [Result<ServerVersion, any Error>] {
        try await withCheckedThrowingContinuation { continuation in
            let job = FileJob(comesAfterMerge: true) { file in
                guard let file else { return continuation.resume(throwing: HistoryError.serverHasEnded) }
                file.write(writes) { continuation.resume(with: $0) }
            }
            submit(job, to: path)
        }
    }

    /// Repeats a change that a device has not uploaded, as `write` makes a write of the server.
    func make(
        _ position: Int, of changes: DeviceChanges, in path: VirtualPath, at now: ChangesetTime
    ) async throws -> ServerWrite {
        try await withCheckedThrowingContinuation { continuation in
            let job = FileJob(comesAfterMerge: true) { file in
                guard let file else { return continuation.resume(throwing: HistoryError.serverHasEnded) }
                do {
                    try changes.prepare(position, in: try file.openedSessions().file, at: now)
                } catch {
                    return continuation.resume(throwing: error)
                }
                file.write(
                    idempotencyKey: changes.changes[position].idempotencyKey,
                    at: changes.time(of: position, at: now)
                ) {
                    try changes.make(position, on: $0)
                } _: { outcome in
                    let outcome = outcome.map { ServerWrite(version: $0.version, isRepetition: $0.isRepetition) }
                    if case .success(let made) = outcome { changes.record(made, of: position) }
                    continuation.resume(with: outcome)
                }
            }
            submit(job, to: path)
        }
    }

    /// Deletes a synced file. When the call returns, it is gone, and its sessions have been informed.
    /// - Parameter user: the file stays unless all its client files are this user's; nil to delete it in any case.
    /// - Returns: whether it is gone.
    /// - Throws: what the store throws; `storeFailed` if the server has ended.
    func delete(_ path: VirtualPath, onlyOf user: String?) async throws -> Bool {
        let environment = environment, path = environment.names.file(at: path)
        return try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Bool, any Error>) in
            let job = FileJob(comesAfterMerge: false) { file in
                guard let file else { return continuation.resume(throwing: HistoryError.serverHasEnded) }
                file.delete(onlyOf: user) { outcome in
                    if case .success(true) = outcome {
                        environment.names.remove(path)
                        environment.options.onDeletion(path)
                    }
                    continuation.resume(with: outcome)
                }
            }
            submit(job, to: path)
        }
    }

    /// Begins a round of maintenance that looks at everything in a synced file.
    /// - Returns: the report of the round, when it is over.
    /// - Throws: the error that ended it; `storeFailed` if the server has ended.
    func maintain(_ path: VirtualPath) async throws -> MaintenanceReport {
        try await withCheckedThrowingContinuation { continuation in
            let job = FileJob(comesAfterMerge: false) { file in
                guard let file else { return continuation.resume(throwing: HistoryError.serverHasEnded) }
                file.maintain { continuation.resume(with: $0) }
            }
            submit(job, to: path)
        }
    }

    /// Makes all open files note that clients with sessions are seen.
    func updateConnected() {
        for path in state.withLock({ Array($0.queues.keys) }) { notify(path, .updateConnected) }
    }

    /// Makes all files write the progress of their clients that they keep in memory.
    func writeProgress() {
        for path in state.withLock(\.pathsWithProgress) { notify(path, .writeProgress) }
    }

    /// Makes the open files that other nodes have written take that in: wake-ups may be missing or lost. Files that
    /// somebody follows are opened for it. The store is asked about all of them at once, on a worker.
    func follow() {
        guard let workers, environment.store.isShared, state.withLock({ $0.beginFollowing() }) else { return }
        workers.submit { [self] workerState in
            if case .active = workerState { followChanged() }
            state.withLock { $0.isFollowing = false }
        }
    }

    private func followChanged() {
        let queues = state.withLock(\.queues)
        var heads: [SyncedFileID: FileHead] = [:], paths: [SyncedFileID: VirtualPath] = [:]
        for (path, queue) in queues {
            if let known = queue.known { (heads[known.file], paths[known.file]) = (known.head, path) }
        }
        // A store that fails is asked again a second later.
        for file in (try? environment.store.changed(since: heads)) ?? [] {
            if let path = paths[file] { notify(path, .follow) }
        }
        for path in environment.followers.paths where queues[path] == nil {
            submit(FileJob(comesAfterMerge: false) { _ = try? $0?.existingFile() }, to: path)
        }
    }

    private func put(jobs: [FileJob] = [], requests: [FileRequest] = [], to path: VirtualPath) {
        let isReady = state.withLock { state in
            let queue = state.queues[path] ?? makeQueue(path)
            state.queues[path] = queue
            return state.didPut(to: queue, in: queue.put(jobs, requests))
        }
        if isReady { wakeWorker() }
    }

    /// Gives a notice to a file, unless it is closed.
    func notify(_ path: VirtualPath, _ notice: FileNotice) {
        let isReady = state.withLock { state in
            guard let queue = state.queues[path] else { return false }
            return state.didPut(to: queue, in: queue.put(notice: notice))
        }
        if isReady { wakeWorker() }
    }

    /// The queue of a file; nil if the file is closed and nothing waits for it.
    func queue(of path: VirtualPath) -> FileQueue? { state.withLock { $0.queues[path] } }

    private func makeQueue(_ path: VirtualPath) -> FileQueue {
        let memory = DownloadMemory(
            budget: messageMemory, shortBytesMax: environment.options.shortBodyBytesMax
        ) { [weak self] in self?.submitReserved([$0]) }
        let turns = FileTurns(
            path, environment, memory: memory,
            notify: { [weak self] path, notice in self?.notify(path, notice) }, deliver: deliver)
        return FileQueue(turns)
    }

    // MARK: Turns

    /// Wakes a worker for a file that has become ready. To be called without the lock: if the threads have ended, the
    /// file's jobs fail at once.
    private func wakeWorker() {
        workers?.submit { [self] state in
            if case .active = state { takeTurn() } else { failNext() }
        }
    }

    /// Takes the turn of the next file.
    /// - Returns: whether there was one.
    @discardableResult
    func takeTurn() -> Bool {
        guard let turn = beginTurn() else { return false }
        // The turn holds the input: it must not last until the commit is stored.
        let queue = turn.queue, outcome = turn.take()
        recordProgress(of: queue, outcome)
        if let commit = outcome.commit { store(commit, of: queue) } else { end(queue, outcome) }
        return true
    }

    private func recordProgress(of queue: FileQueue, _ outcome: FileQueue.Outcome) {
        let isWorkerNeeded = state.withLock { state in
            if outcome.hasUnwrittenProgress {
                state.pathsWithProgress.insert(queue.path)
            } else if !state.pathsWithProgress.isEmpty {
                state.pathsWithProgress.remove(queue.path)
            }
            return state.ready.didEndTurn(of: queue)
        }
        if isWorkerNeeded { wakeWorker() }
    }

    private func store(_ commit: Commit, of queue: FileQueue) {
        if let committers = environment.committers {
            queue.beginCommit()
            return committers.store([commit]) { [self] in finishCommit(of: queue, $0) }
        }
        do throws(HistoryError) {
            try environment.store.commit([commit])
            finishCommit(of: queue, nil)
        } catch {
            finishCommit(of: queue, error)
        }
    }

    private func beginTurn() -> FileQueue.Turn? {
        state.withLock { state in
            defer { environment.readyCount.store(state.ready.shortCount, ordering: .relaxed) }
            return state.ready.popFirst()?.begin()
        }
    }

    private func finishCommit(of queue: FileQueue, _ failure: HistoryError?) {
        state.withLock { state in
            queue.finishCommit(failure)
            state.ready.append(queue, for: .short)
        }
        wakeWorker()
    }

    private func end(_ queue: FileQueue, _ outcome: FileQueue.Outcome) {
        let (isReady, waiter) = state.withLock { state in
            if let next = queue.end(outcome) {
                state.ready.append(queue, for: next)
                return (true, nil as CheckedContinuation<Void, Never>?)
            }
            if outcome.isOver { state.queues[queue.path] = nil }
            state.busyCount -= 1
            return (false, state.busyCount == 0 ? state.end.take() : nil)
        }
        waiter?.resume()
        if isReady { wakeWorker() }
    }

    // MARK: The end

    /// Gives up merges that take longer than a turn, also those that have begun: their sessions fail, and the clients
    /// send again what was not committed. Maintenance ends before its next step.
    func endLongMerges() { environment.end() }

    /// Handles everything submitted, except long merges, and ends the threads.
    func shutDown() async throws {
        endLongMerges()
        writeProgress()
        // It waits even if the task is cancelled.
        await withCheckedContinuation { continuation in
            state.withLock { state in
                if state.busyCount == 0 { continuation.resume() } else { state.end = continuation }
            }
        }
        environment.followers.end()
        try await environment.committers?.shutDown()
        try await workers?.shutdownGracefully()
    }

    /// Fails the next turn. Called for input that is submitted after the threads have ended.
    private func failNext() {
        guard let turn = beginTurn() else { return }
        let outcome = FileQueue.Outcome(isOver: true)
        turn.fail()
        recordProgress(of: turn.queue, outcome)
        end(turn.queue, outcome)
    }
}

extension HistoryError {
    fileprivate static let serverHasEnded = HistoryError(.storeFailed, "the server has ended")
}
