import AnabranchCore

/// The state after a commit in the making: the stored one, changed by what that adds to the log (`Spec/History.md`,
/// section 16).
struct PendingState {
    private(set) var graph: ObjectGraph
    private var changes = StateChanges()
    private let limits: ApplyLimits
    private let loadedBytesBefore: Int
    /// The bytes that were read up to the last run: copies count together.
    private var readBytes: Int

    /// - Parameter limits: of a run.
    init(_ stored: ObjectGraph, within limits: ApplyLimits) {
        self.limits = limits
        loadedBytesBefore = stored.loadedBytes
        readBytes = stored.readBytes
        graph = stored
    }

    /// The bytes that were read into memory, or written there.
    var loadedBytes: Int { max(0, graph.loadedBytes - loadedBytesBefore) }

    /// The state as it is, once all later copies are given up: what they have read is no longer in memory.
    func restored() -> PendingState {
        graph.forgetReads(beyond: readBytes)
        return self
    }

    /// Has the objects fetched that changesets are about, together with what is read next.
    func fetchAhead(_ run: [ChangesetIndex], in arena: ChangesetArena) { graph.fetchAhead(run, in: arena) }

    func update(to version: ServerVersion) -> StateUpdate {
        StateUpdate(version: version, after: graph, changes: changes)
    }

    /// The outcome of a run.
    struct Outcome {
        var skipped = SkippedInstructions()
        /// The changeset that is to follow the run, because the last changeset of the run has taken nulls out of sets
        /// (`Spec/History.md`, section 16.3).
        var nullInsertions: [UInt8]?
        /// The number of changesets that fit into memory, if the run needs too much and so nothing was applied.
        var countInMemory: Int?
    }

    /// Applies the changesets of a run, and takes out of them the instructions that are skipped. If it throws, the
    /// state must not be used any more.
    ///
    /// - Parameters:
    ///   - ident: the client file that they come from.
    ///   - base: the last server version that their author had integrated.
    /// - Throws: `badChangeset` for a changeset that cannot be applied; `tooLarge` if that is not the author's fault;
    ///   `storeFailed` if objects cannot be read.
    mutating func apply(
        _ run: [ChangesetIndex], of arena: inout ChangesetArena, from ident: ClientFileID, on base: ServerVersion,
        past log: PendingLog
    ) throws(HistoryError) -> Outcome {
        var causes = CauseSearch(in: log, after: base, notBy: ident)
        do {
            let outcome = try apply(run, of: &arena, &causes)
            readBytes = graph.readBytes
            return outcome
        } catch {
            if error.code == .loadsTooMuch, let count = run.firstIndex(where: { $0 == error.changeset }), count > 0 {
                return Outcome(countInMemory: count)
            }
            throw try causes.refusal(because: error, in: arena)
        }
    }

    /// Applies a changeset to a part of its objects, to see what becomes of these: the state is of no other use. Throws
    /// as `apply` does.
    mutating func preview(
        _ part: [Int], of objects: ChangesetObjects, in arena: ChangesetArena, from ident: ClientFileID,
        on base: ServerVersion, past log: PendingLog
    ) throws(HistoryError) {
        var causes = CauseSearch(in: log, after: base, notBy: ident), skipped = SkippedInstructions()
        do {
            try graph.preview(
                part, of: objects, in: arena, refusing: .nullErasures, within: limits
            ) { error throws(ApplyError) in
                // It has nulls put back (`Outcome.nullInsertions`), or the whole changeset fails for it.
                guard error.code != .nullErasure else { return true }
                return try causes.explain(error, countingIn: &skipped)
            }
        } catch {
            throw try causes.refusal(because: error, in: arena)
        }
    }

    private mutating func apply(
        _ run: [ChangesetIndex], of arena: inout ChangesetArena, _ causes: inout CauseSearch
    ) throws(ApplyError) -> Outcome {
        do {
            return Outcome(skipped: try applyAll(run, of: &arena, &causes))
        } catch {
            guard error.code == .nullErasure, let last = run.last, error.changeset == last else { throw error }
            var outcome = Outcome(skipped: try applyAll(run.dropLast(), of: &arena, &causes))
            let restored = try graph.applyTransactionRestoringNulls(
                last, of: &arena, within: limits
            ) { error throws(ApplyError) in try causes.explain(error, countingIn: &outcome.skipped) }
            changes.append(restored.changes)
            outcome.nullInsertions = restored.insertions
            return outcome
        }
    }

    /// Applies changesets, all of them or none.
    private mutating func applyAll(
        _ run: [ChangesetIndex], of arena: inout ChangesetArena, _ causes: inout CauseSearch
    ) throws(ApplyError) -> SkippedInstructions {
        var skipped = SkippedInstructions()
        let applied = try graph.fetchingAhead(run, of: &arena) { [limits] graph, arena throws(ApplyError) in
            try graph.applyTransactions(
                run, of: &arena, refusing: .nullErasures, within: limits
            ) { error throws(ApplyError) in try causes.explain(error, countingIn: &skipped) }
        }
        changes.append(applied)
        return skipped
    }
}

/// Finds out whether an instruction cannot be applied because of a change by somebody else, who erased its class or
/// column, or made its object larger.
private struct CauseSearch {
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

    /// True if an instruction is skipped, which is then counted.
    mutating func explain(
        _ error: ApplyError, countingIn skipped: inout SkippedInstructions
    ) throws(ApplyError) -> Bool {
        switch error.code {
        case .nullErasure, .objectTooLarge, .loadsTooMuch: return false
        case .invalid, .rejected, .undefined, .unavailable: break
        }
        guard try explain(error) else { return false }
        skipped.append(error)
        return true
    }

    /// The error for changesets that cannot be applied.
    mutating func refusal(because error: ApplyError, in arena: ChangesetArena) throws(HistoryError) -> HistoryError {
        guard error.code != .unavailable else { return HistoryError(readingStateFailed: error) }
        let version = error.changeset.map { arena.version(of: $0) } ?? 0
        let isTooLarge = if error.code == .loadsTooMuch { true } else { try isGrownByOthers(error, in: arena) }
        return HistoryError(
            isTooLarge ? .tooLarge : .badChangeset, "changeset \(version) cannot be applied: \(error)")
    }

    /// True if an object has become too large only together with concurrent changes by others: the author could not
    /// know, and a reset would not help.
    private func isGrownByOthers(_ error: ApplyError, in arena: ChangesetArena) throws(HistoryError) -> Bool {
        guard error.code == .objectTooLarge, let changeset = error.changeset, let number = error.instruction else {
            return false
        }
        let key = arena.conflictKey(ofObjectIn: changeset, at: number)
        return try !log.versions(writing: [key], after: base, excludingOrigin: ident).isEmpty
    }

    /// True if the class of the instruction, or a column on its path, was erased since its author looked. A class or
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
