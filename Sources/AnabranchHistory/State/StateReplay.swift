public import AnabranchCore
import Dispatch
import Synchronization

/// A piece of a log that is applied to a state step by step, so that memory is bounded however long it is.
package struct LogReplay {
    /// The bytes of entries that a step reads, exceeded by at most one entry.
    private let stepBytes: Int

    /// The versions that were not applied yet.
    package private(set) var rest: VersionRange

    package init(_ range: VersionRange, stepBytes: Int = 1 << 20) {
        rest = range
        self.stepBytes = stepBytes
    }

    package var isDone: Bool { rest.isEmpty }

    /// The next entries that are not empty, perhaps none; they are removed from the rest.
    package mutating func next(from view: any FileView) throws(HistoryError) -> [LogEntry] {
        let entries = try view.entries(in: rest, excludingOrigin: nil, byteBudget: stepBytes)
        let isLast = entries.reduce(0) { $0 + $1.byteCount } <= stepBytes
        rest.base = isLast ? rest.last : entries.last?.version ?? rest.last
        return entries
    }
}

extension SyncedFile {
    /// Brings a state that is behind its log up to date, as after a time as a relay. Each step is a commit, so that an
    /// interruption loses little.
    func replayLog() throws(HistoryError) {
        while true {
            do throws(HistoryError) { return try replayRest() } catch {
                // Another node has done a part of it.
                guard error.code == .conflict else { throw error }
                head = try store.read(id) { view throws(HistoryError) in try view.head() }
                tail = tail.map { _ in LogTail(at: head, bytesMax: tailBytesMax) }
                (state, hasConflict) = (try store.state(of: id), false)
            }
        }
    }

    private func replayRest() throws(HistoryError) {
        guard head.stateVersion <= head.version, head.stateVersion >= head.baseVersion else {
            throw HistoryError(
                .storeDamaged, "the state is of version \(head.stateVersion), the log ends at \(head.version)")
        }
        var replay = LogReplay(VersionRange(after: head.stateVersion, through: head.version))
        while !replay.isDone, let before = try currentState() {
            let entries = try read { view throws(HistoryError) in try replay.next(from: view) }
            var after = before
            let changes = try after.replay(entries).changes
            var commit = Commit(file: id, lease: lease, head: head)
            commit.state = StateUpdate(version: replay.rest.base, after: after, changes: changes)
            try self.commit(commit)
        }
    }
}

extension FileView {
    /// The state at a version, in memory as a whole: made from the newest bootstrap generation up to it, or else from
    /// the beginning of the log, or of an archive that lacks nothing (`Spec/Explain.md`, section 4).
    ///
    /// - Throws: `badServerVersion` if none of these is there, or the log ends before the version.
    package func state(at version: ServerVersion) throws(HistoryError) -> ObjectGraph {
        let head = try head()
        guard version <= head.version else {
            throw HistoryError(.badServerVersion, "the log ends at version \(head.version)")
        }
        var state = ObjectGraph()
        let generations = try generations(), range = VersionRange(after: 0, through: version)
        if let generation = generations.last(where: { $0.version <= version }) {
            try LineageView(generation, in: self).replay(range, on: &state)
        } else if head.baseVersion == 0 {
            try replay(range, on: &state)
        } else {
            let segments = try archivedSegments(upTo: min(version, head.baseVersion))
            guard let segments else {
                let oldest = generations.first.map { "from version \($0.version) on" } ?? "at version \(head.version)"
                throw HistoryError(
                    .badServerVersion,
                    "the log begins after version \(head.baseVersion): the state is known \(oldest)")
            }
            for end in segments { try state.replay(try archivedEntries(upTo: end)) }
            try replay(VersionRange(after: head.baseVersion, through: version), on: &state)
        }
        return state
    }

    private func replay(_ range: VersionRange, on state: inout ObjectGraph) throws(HistoryError) {
        // Small steps take less memory, and what they read stays in the processor's caches.
        var replay = LogReplay(range, stepBytes: 64 << 10)
        let appliedBeside = ReplayBeside(on: state)
        state = ObjectGraph()
        while !replay.isDone { appliedBeside.apply(try ReplayStep(try replay.next(from: self))) }
        state = try appliedBeside.finish()
    }

    /// The last versions of the segments of an archive up to a version, in order; nil if it does not have all.
    private func archivedSegments(upTo version: ServerVersion) throws(HistoryError) -> [ServerVersion]? {
        var ends: [ServerVersion] = [], next = version
        while next > 0 {
            let entries = try archivedEntries(upTo: next)
            guard let first = entries.first, let last = entries.last, last.version == next,
                UInt64(entries.count) == last.version.rawValue - first.version.rawValue + 1
            else { return nil }
            ends.append(last.version)
            next = first.version - 1
        }
        return ends.reversed()
    }
}

extension ObjectGraph {
    /// Applies log entries, which follow the version whose state this is.
    ///
    /// Instructions that cannot be applied are skipped, so that every log has a state. Only a log that was written
    /// without a state can hold some: integration refuses them.
    ///
    /// - Returns: What was changed, and how many instructions were skipped.
    /// - Throws: `storeDamaged` if an entry cannot be decoded, `storeFailed` if objects cannot be read. The state is
    ///   of no more use then.
    @discardableResult
    public mutating func replay(
        _ entries: [LogEntry]
    ) throws(HistoryError) -> (changes: StateChanges, skippedCount: Int) {
        try replay(ReplayStep(entries))
    }

    fileprivate mutating func replay(
        _ entries: consuming ReplayStep
    ) throws(HistoryError) -> (changes: StateChanges, skippedCount: Int) {
        var skippedCount = 0
        do {
            let changes = try applyTransactions(
                entries.changesets, of: &entries.arena, refusing: [], inPlace: true
            ) { _ in
                skippedCount += 1
                return true
            }
            return (changes, skippedCount)
        } catch {
            throw HistoryError(readingStateFailed: error)
        }
    }
}

/// The changesets of log entries that are not empty.
private struct ReplayStep: Sendable {
    var arena = ChangesetArena()
    private(set) var changesets: [ChangesetIndex] = []

    init(_ entries: [LogEntry]) throws(HistoryError) {
        for entry in entries where !entry.changeset.isEmpty { changesets.append(try entry.decode(into: &arena)) }
    }
}

/// A state to which a thread of its own applies entries while the caller's reads and decodes the next ones.
private final class ReplayBeside: Sendable {
    private let state: Mutex<Result<ObjectGraph, HistoryError>>
    private let queue = DispatchQueue(label: "replay")
    /// Room for the entries that are applied and the next ones.
    private let room = DispatchSemaphore(value: 2)

    init(on state: ObjectGraph) { self.state = Mutex(.success(state)) }

    /// Begins to apply entries, after those that came before.
    func apply(_ entries: ReplayStep) {
        room.wait()
        queue.async { [self] in
            state.withLock { result in
                guard case .success(var graph) = result else { return }
                // The only reference is the variable, so that nothing is copied.
                result = .success(ObjectGraph())
                do throws(HistoryError) {
                    _ = try graph.replay(entries)
                    result = .success(graph)
                } catch {
                    result = .failure(error)
                }
            }
            room.signal()
        }
    }

    /// The state with all entries.
    /// - Throws: as `ObjectGraph.replay`.
    func finish() throws(HistoryError) -> ObjectGraph {
        try queue.sync { state.withLock { $0 } }.get()
    }
}
