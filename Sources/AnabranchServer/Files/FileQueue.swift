import AnabranchHistory
import Synchronization

/// The kind of a file's turn (`FileTurns`).
enum TurnKind { case short, long }

/// A task that a file gets because all files, or all nodes, share something.
enum FileNotice: Hashable {
    case writeProgress, releaseCaches, dropMerge, updateConnected
    /// Another node may have written to the file.
    case follow
}

/// The serial queue of one synced file: input waits for the file's next turn, and at most one thread at a time works on
/// it. Phases change under the lock of `FileQueues`.
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
        /// The outcome of the last turn's commit, if there was one: a failure, or an inner nil if it is stored.
        var outcome: HistoryError??

        var isEmpty: Bool { jobs.isEmpty && requests.isEmpty && notices.isEmpty }
    }

    let path: VirtualPath
    private let inbox = Mutex(Inbox())
    /// The work on the file. Only the worker whose turn it is takes the lock, which shows the compiler that nobody else
    /// uses the contents.
    let turns: Mutex<FileTurns>
    private let knownFile = Mutex<(file: SyncedFileID, head: FileHead)?>(nil)

    /// `FileTurns.known`, as of the last turn.
    var known: (file: SyncedFileID, head: FileHead)? { knownFile.withLock { $0 } }

    init(_ turns: sending FileTurns) {
        path = turns.path
        self.turns = Mutex(turns)
    }

    // MARK: Input

    /// Adds to the input; the file is ready for a short turn now, unless it is running or committing.
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

    /// Begins a turn, on a worker.
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

    /// The outcome of a turn.
    struct Outcome: Sendable {
        /// The commit to store before the next turn.
        var commit: Commit?
        /// The kind of turn that the file needs at once; nil if nothing waits.
        var next: TurnKind?
        /// True if there is progress to write within a second.
        var hasUnwrittenProgress = false
        /// True if the file is closed.
        var isOver: Bool
    }

    fileprivate func take(_ inbox: Inbox) -> Outcome {
        turns.withLock { turns in
            if let failure = inbox.outcome { turns.finishCommit(failure) }
            turns.take(inbox.jobs, inbox.requests, inbox.notices)
            let commit = turns.takeTurn(inbox.phase == .ready(.long) ? .long : .short), known = turns.known
            knownFile.withLock { $0 = known }
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

    /// Ends a turn whose commit is on its way.
    func beginCommit() { inbox.withLock { $0.phase = .committing } }

    /// Records that the commit is stored, or has failed; the file is ready for a short turn.
    func finishCommit(_ failure: HistoryError?) {
        inbox.withLock { inbox in
            inbox.outcome = .some(failure)
            inbox.phase = .ready(.short)
        }
    }

    /// Ends a turn without a commit.
    /// - Returns: the kind of turn that the file is ready for; nil if nothing waits.
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

    /// Fails the jobs of the turn, in place of taking it, when the server has ended.
    func fail() { queue.fail(inbox) }
}
