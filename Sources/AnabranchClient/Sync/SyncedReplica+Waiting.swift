import AnabranchCore
import AnabranchProtocol
import AnabranchReplica

// Waiting until something is synchronized.

extension SyncedReplica {
    /// Waits until the server has acknowledged everything that was written here before the call.
    /// - Throws: `SyncError` if the wait would never end; `CancellationError`.
    public func waitForUpload() async throws {
        let version = replica.newestChange
        guard version > replica.progress.upload.clientVersion else { return }
        try await wait(for: .uploaded(version))
    }

    /// Waits until everything is here that the server had when the call reached it.
    /// - Throws: `SyncError` if the wait would never end; `CancellationError`.
    public func waitForDownload() async throws {
        try checkSynchronizes()
        guard let request = session?.requestMark() else { return }
        wake?()
        try await wait(for: .marked(request))
    }

    /// Waits until the newest subscription set is complete: its objects are here.
    /// - Throws: `SyncError` with the code `subscriptionsRefused` if the server refuses it; another code if the
    ///   wait would never end; `CancellationError`.
    public func waitForSubscriptions() async throws {
        guard let version = replica.record.subscriptions?.latest.version else { return }
        while let entry = replica.record.subscriptions?.entry(version), entry.state != .complete {
            if case .refused(let reason) = entry.state { throw SyncError(.subscriptionsRefused, reason) }
            try await wait(for: .subscriptionNews)
        }
    }

    private func checkSynchronizes() throws(SyncError) {
        if case .stopped(let error) = status { throw error }
        if session == nil { throw SyncError(.notSynchronized, "no client synchronizes the store: add it to one") }
    }

    private func wait(for goal: Waiters.Goal) async throws {
        try checkSynchronizes()
        let number = waiters.nextNumber()
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                if Task.isCancelled {
                    continuation.resume(throwing: CancellationError())
                } else {
                    waiters.add(number, goal, continuation)
                }
            }
        } onCancel: {
            Task { await self.cancelWaiter(number) }
        }
    }

    private func cancelWaiter(_ number: Int) { waiters.cancel(number) }
}

/// The tasks that wait until something is synchronized.
struct Waiters {
    /// The goal for which a task waits.
    enum Goal: Equatable {
        case uploaded(ClientVersion)
        case marked(UInt64)
        /// A new state of a subscription set.
        case subscriptionNews

        func isUploaded(by acknowledged: ClientVersion) -> Bool {
            if case .uploaded(let version) = self { version <= acknowledged } else { false }
        }

        func isMarked(by answered: UInt64) -> Bool {
            if case .marked(let request) = self { request <= answered } else { false }
        }
    }

    private var waiting: [Int: (goal: Goal, continuation: CheckedContinuation<Void, any Error>)] = [:]
    private var lastNumber = 0

    mutating func nextNumber() -> Int {
        lastNumber += 1
        return lastNumber
    }

    mutating func add(_ number: Int, _ goal: Goal, _ continuation: CheckedContinuation<Void, any Error>) {
        waiting[number] = (goal, continuation)
    }

    mutating func release(_ isReached: (Goal) -> Bool) {
        for (number, waiter) in waiting where isReached(waiter.goal) {
            waiting[number] = nil
            waiter.continuation.resume()
        }
    }

    /// Makes all tasks that wait for an upload wait for this version.
    mutating func waitForUpload(of version: ClientVersion) {
        for (number, waiter) in waiting {
            if case .uploaded = waiter.goal { waiting[number]?.goal = .uploaded(version) }
        }
    }

    mutating func fail(_ error: any Error) {
        for waiter in waiting.values { waiter.continuation.resume(throwing: error) }
        waiting = [:]
    }

    mutating func cancel(_ number: Int) {
        waiting.removeValue(forKey: number)?.continuation.resume(throwing: CancellationError())
    }
}
