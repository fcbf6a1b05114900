import AnabranchHistory
import Synchronization

/// What a turn of a file is for (`FileTurns`).
enum TurnKind { case short, long }

/// What a file is told to do because all files share something.
enum FileNotice: Hashable { case writeProgress, releaseCaches, dropMerge, noteConnected }

/// The serial queue of one synced file: what comes in waits for the file's next turn, and at most one thread at a time
/// works on it. Phases change under the lock of `FileQueues`.
///
///     idle ──submit──▶ ready ──▶ running ──commit──▶ committing ──stored or failed──▶ ready
///      ▲                 ▲          │
///      └─ nothing waits ─┴──────────┘
final class FileQueue: Sendable {
    enum Phase: Equatable {
        case idle
        case ready(TurnKind)
        case running
        case committing
    }

    fileprivate struct Inbox: Sendable {
        var phase = Phase.idle
        var jobs: [FileJob] = []
        var requests: [FileRequest] = []
        var notices: Set<FileNotice> = []
        /// What has become of the commit of the last turn: nil in it, if it is stored.
        var outcome: HistoryError??

        var isEmpty: Bool { jobs.isEmpty && requests.isEmpty && notices.isEmpty }
    }

    let path: VirtualPath
    private let inbox = Mutex(Inbox())
    /// Only the worker takes the lock whose turn it is. It is there to show the
    /// compiler that nobody else uses what is in it.
    let turns: Mutex<FileTurns>

    init(_ turns: sending FileTurns) {
        path = turns.path
        self.turns = Mutex(turns)
    }

    // MARK: What comes in

    /// Takes something in; the file is ready for a short turn now, unless it is running or committing.
    /// - Returns: the phase before.
    func put(_ jobs: [FileJob] = [], _ requests: [FileRequest] = [], notice: FileNotice? = nil) -> Phase {
        inbox.withLock { inbox in
            inbox.jobs += jobs
            inbox.requests += requests
            if let notice { inbox.notices.insert(notice) }
            let phase = inbox.phase
            if phase == .idle || phase == .ready(.long) { inbox.phase = .ready(.short) }
            return phase
        }
    }

    // MARK: A turn

    /// A worker begins a turn.
    func begin() -> Turn {
        inbox.withLock { inbox in
            defer {
                inbox = Inbox()
                inbox.phase = .running
            }
            return Turn(queue: self, inbox: inbox)
        }
    }

    /// A turn that has begun.
    struct Turn: Sendable {
        let queue: FileQueue
        fileprivate let inbox: Inbox
    }

    /// What a turn comes to.
    struct Outcome: Sendable {
        /// What is to be stored before the next one.
        var commit: Commit?
        /// For what there is another one at once.
        var next: TurnKind?
        /// Whether something is kept that is to be written within a second.
        var hasUnwrittenProgress = false
        /// The file is closed.
        var isOver: Bool
    }

    fileprivate func take(_ inbox: Inbox) -> Outcome {
        turns.withLock { turns in
            if let failure = inbox.outcome { turns.finishCommit(failure) }
            turns.take(inbox.jobs, inbox.requests, inbox.notices)
            let commit = turns.takeTurn(inbox.phase == .ready(.long) ? .long : .short)
            return Outcome(
                commit: commit, next: turns.nextTurn, hasUnwrittenProgress: turns.hasUnwrittenProgress,
                isOver: turns.isOver)
        }
    }

    fileprivate func fail(_ inbox: Inbox) {
        turns.withLock { turns in
            if let failure = inbox.outcome { turns.finishCommit(failure) }
            turns.failJobs()
        }
        for job in inbox.jobs { job.run(nil) }
    }

    /// The turn is over, and its commit is on its way.
    func beginCommit() { inbox.withLock { $0.phase = .committing } }

    /// The commit is stored, or has failed; the file is ready for a short turn.
    func finishCommit(_ failure: HistoryError?) {
        inbox.withLock { inbox in
            inbox.outcome = .some(failure)
            inbox.phase = .ready(.short)
        }
    }

    /// The turn is over, and nothing is on its way.
    /// - Returns: for what kind of turn the file is ready now; nil if nothing waits.
    func end(_ outcome: Outcome) -> TurnKind? {
        inbox.withLock { inbox in
            let next = inbox.isEmpty ? outcome.next : .short
            inbox.phase = next.map { .ready($0) } ?? .idle
            return next
        }
    }
}

extension FileQueue.Turn {
    func take() -> FileQueue.Outcome { queue.take(inbox) }

    /// In place of the turn, when the server has ended.
    func fail() { queue.fail(inbox) }
}
