import AnabranchCore

/// A state as it will be: what the store has, changed by what a commit in the making adds to the log
/// (`Spec/History.md`, section 16).
struct PendingState {
    private let stored: ObjectGraph
    private var graph: ObjectGraph
    private var changes = StateChanges()

    init(_ stored: ObjectGraph) {
        self.stored = stored
        graph = stored
    }

    func update(to version: ServerVersion) -> StateUpdate {
        StateUpdate(version: version, before: stored, after: graph, changes: changes)
    }

    /// Applies the changesets of a run, all of them or none, and takes out of them the instructions that are skipped.
    ///
    /// - Parameters:
    ///   - ident: the client file that they come from.
    ///   - base: the last server version that their author had integrated.
    /// - Throws: `badChangeset` for what cannot be applied, `storeFailed` when objects cannot be read.
    mutating func apply(
        _ run: [ChangesetIndex], of arena: inout ChangesetArena, from ident: ClientFileID, on base: ServerVersion,
        past log: PendingLog
    ) throws(HistoryError) -> SkippedInstructions {
        var erasures = ErasureSearch(in: log, after: base, notBy: ident)
        var skipped = SkippedInstructions()
        do {
            let applied = try graph.applyTransactions(run, of: &arena) { error throws(ApplyError) in
                guard try erasures.explain(error) else { return false }
                skipped.append(error)
                return true
            }
            changes.append(applied)
        } catch {
            guard error.code != .unavailable else { throw HistoryError(readingStateFailed: error) }
            let version = error.changeset.map { arena.version(of: $0) } ?? 0
            throw HistoryError(.badChangeset, "changeset \(version) cannot be applied: \(error)")
        }
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

    /// Whether the class of the instruction, or a column on its path, was erased since its author looked. A class or
    /// column of that name may exist again.
    mutating func explain(_ error: ApplyError) throws(ApplyError) -> Bool {
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
