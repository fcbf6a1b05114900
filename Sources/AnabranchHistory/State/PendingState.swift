import AnabranchCore

/// A state as it will be: what the store has, changed by what a commit in the making adds to the log
/// (`Spec/History.md`, section 16).
struct PendingState {
    private var graph: ObjectGraph
    private var changes = StateChanges()
    private let objectBytesMax: Int

    /// - Parameter objectBytesMax: how large uploads can make an object.
    init(_ stored: ObjectGraph, objectBytesMax: Int) {
        self.objectBytesMax = objectBytesMax
        graph = stored
    }

    func update(to version: ServerVersion) -> StateUpdate {
        StateUpdate(version: version, after: graph, changes: changes)
    }

    /// What became of a run.
    struct Outcome {
        var skipped = SkippedInstructions()
        /// What is to follow the run, because its last changeset has taken nulls out of sets
        /// (`Spec/History.md`, section 16.3).
        var nullInsertions: [UInt8]?
    }

    /// Applies the changesets of a run, and takes out of them the instructions that are skipped. If it throws, the
    /// state is of no use any more.
    ///
    /// - Parameters:
    ///   - ident: the client file that they come from.
    ///   - base: the last server version that their author had integrated.
    /// - Throws: `badChangeset` for what cannot be applied, `storeFailed` when objects cannot be read.
    mutating func apply(
        _ run: [ChangesetIndex], of arena: inout ChangesetArena, from ident: ClientFileID, on base: ServerVersion,
        past log: PendingLog
    ) throws(HistoryError) -> Outcome {
        var erasures = ErasureSearch(in: log, after: base, notBy: ident)
        do {
            return try apply(run, of: &arena, &erasures)
        } catch {
            guard error.code != .unavailable else { throw HistoryError(readingStateFailed: error) }
            let version = error.changeset.map { arena.version(of: $0) } ?? 0
            throw HistoryError(.badChangeset, "changeset \(version) cannot be applied: \(error)")
        }
    }

    private mutating func apply(
        _ run: [ChangesetIndex], of arena: inout ChangesetArena, _ erasures: inout ErasureSearch
    ) throws(ApplyError) -> Outcome {
        do {
            return Outcome(skipped: try applyAll(run, of: &arena, &erasures))
        } catch {
            guard error.code == .nullErasure, let last = run.last, error.changeset == last else { throw error }
            var outcome = Outcome(skipped: try applyAll(run.dropLast(), of: &arena, &erasures))
            let restored = try graph.applyTransactionRestoringNulls(
                last, of: &arena, objectBytesMax: objectBytesMax
            ) { error throws(ApplyError) in try erasures.explain(error, countingIn: &outcome.skipped) }
            changes.append(restored.changes)
            outcome.nullInsertions = restored.insertions
            return outcome
        }
    }

    /// Applies changesets, all of them or none.
    private mutating func applyAll(
        _ run: [ChangesetIndex], of arena: inout ChangesetArena, _ erasures: inout ErasureSearch
    ) throws(ApplyError) -> SkippedInstructions {
        var skipped = SkippedInstructions()
        let applied = try graph.applyTransactions(
            run, of: &arena, refusing: .nullErasures, objectBytesMax: objectBytesMax
        ) { error throws(ApplyError) in try erasures.explain(error, countingIn: &skipped) }
        changes.append(applied)
        return skipped
    }
}

/// Finds out whether an instruction cannot be applied because somebody else has erased its class or column.
private struct ErasureSearch {
    private let log: PendingLog
    private let base: ServerVersion
    private let ident: ClientFileID
    /// By the conflict keys that were looked for.
    private var answers: [[UInt64]: Bool] = [:]

    init(in log: PendingLog, after base: ServerVersion, notBy ident: ClientFileID) {
        self.log = log
        self.base = base
        self.ident = ident
    }

    /// Whether an instruction is skipped, which is then counted.
    mutating func explain(
        _ error: ApplyError, countingIn skipped: inout SkippedInstructions
    ) throws(ApplyError) -> Bool {
        guard error.code != .nullErasure, error.code != .objectTooLarge, try explain(error) else { return false }
        skipped.append(error)
        return true
    }

    /// Whether the class of the instruction, or a column on its path, was erased since its author looked. A class or
    /// column of that name may exist again.
    private mutating func explain(_ error: ApplyError) throws(ApplyError) -> Bool {
        guard error.object != nil, let className = error.className else { return false }
        let keys = [ConflictKeys.erasure(ofClass: className)] + error.columns.map { ConflictKeys.erasure(of: $0) }
        if let answer = answers[keys] { return answer }
        do {
            let answer = try !log.versions(writing: keys, after: base, excludingOrigin: ident).isEmpty
            answers[keys] = answer
            return answer
        } catch {
            throw .unavailable(error.reason)
        }
    }
}
