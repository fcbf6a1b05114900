import AnabranchCore

/// A changeset in the form in which it enters the log.
struct MergedChangeset {
    /// 0, with client version 0, for one that puts nulls back (`Spec/History.md`, section 16.3).
    var origin: ClientFileID
    var clientVersion: ClientVersion
    var timestamp: ChangesetTime
    var changeset: [UInt8]
    /// The conflict keys under which it is found later.
    var writes: [UInt64]
    /// The version on which it was made; nil for one of the server's own.
    var base: ServerVersion?
    /// The changeset as it was received, if merging has changed it.
    var received: [UInt8]?
}

/// The merge of one client's changesets with the log entries that the client had not seen (`Spec/History.md`, section
/// 6, steps 3 to 7): finds the entries for a `LogMerge`, and applies its result.
///
/// It goes run by run, a run being changesets that the client made on one base, and each run piece by piece:
///
///     begin ─▶ search ─▶ share ─▶ read ─▶ merge ─▶ apply ─▶ begin …
///
/// `advance` returns in between when its step is over. It keeps nothing that depends on the view of the log.
struct ClientMerge: ~Copyable {
    private enum Stage { case begin, search, share, read, merge, apply }

    enum Progress {
        /// The step is over.
        case paused
        /// All changesets are merged, or as many as the commit takes.
        case merged
        /// Only the given number of changesets can be merged; the objects of all of them need too much memory.
        case onlyFirst(Int)
    }

    /// With fewer entries than this to merge with, they are decoded for the client alone.
    private static let sharedEntriesMin = 16

    let ident: ClientFileID
    private var merge: LogMerge
    private var reader: EntryReader
    private(set) var merged: [MergedChangeset] = []
    private(set) var skippedInstructions = SkippedInstructions()
    private let options: MergeOptions
    /// True if the upload is merged with the log alone, whose entries others may meet as well.
    private let isOfLog: Bool

    private var stage = Stage.begin
    /// The conflict keys of the run's changesets.
    private var keys: [ConflictKeys] = []
    /// Looks for the entries that the run meets.
    private var search = EntrySearch(for: [], in: VersionRange(after: 0, through: 0))
    /// The entries that the run meets, ascending.
    private var versions: [ServerVersion] = []
    /// The part of `versions` that was not read yet.
    private var unread: ArraySlice<ServerVersion> = []
    /// The versions that were not yet read into the cache that clients share.
    private var unshared: ArraySlice<ServerVersion> = []
    /// The version after which the run looks for entries, and the one up to which it has met them, or is about to.
    private var searchedAfter: ServerVersion = 0
    private(set) var metVersion: ServerVersion = 0
    /// True if the run has met all entries but those that others have committed since.
    private var isContinued = false
    /// The steps that the run has taken to meet the entries that it looks for, and those that it took the time before.
    private var stepCount = 0, stepCountBefore = Int.max
    /// The number of steps for which others wait at most: who also writes what the run has to meet could hold them up.
    private static let heldStepsMax = 64
    /// True if others add entries about as fast as the run meets them.
    private(set) var isOvertaken = false
    /// The last changeset that is merged.
    private(set) var mergedThrough: UploadCursor?

    init(
        of changesets: ArraySlice<UploadedChangeset>, from ident: ClientFileID, options: MergeOptions, isOfLog: Bool
    ) {
        self.ident = ident
        self.options = options
        self.isOfLog = isOfLog
        merge = LogMerge(
            changesets.map { LogMerge.Incoming($0, from: ident) }, strategy: options.strategy,
            memoryBytesMax: options.decodedBytesMax)
        reader = EntryReader(bytesMax: options.localBytesMax)
        merged.reserveCapacity(changesets.count)
    }

    /// The number of log entries that were decoded, or found decoded.
    var entriesVisited: Int { reader.count }

    /// The number of changesets in `merged` that put nulls back.
    var restoringCount: Int { reader.restored.count }

    /// The memory that the merge occupies in addition to the upload, in bytes.
    var memoryBytes: Int { merge.arena.memoryBytes }

    /// Merges changesets and applies them to the state, if one is kept, until the step is over or the commit full.
    mutating func advance(
        past log: PendingLog, sharing shared: inout DecodedEntryCache, into state: inout PendingState?,
        room: inout CommitRoom, until limit: inout StepLimit
    ) throws(HistoryError) -> Progress {
        stepCount += 1
        while true {
            switch stage {
            case .begin:
                guard room.isLeft(beside: state) || merged.isEmpty,
                    try beginRun(past: log, bytesMax: max(1, room.bytes), keepsState: state != nil)
                else { return .merged }
                state?.fetchAhead(merge.incoming, in: merge.arena)
            case .search:
                guard try search.advance(past: log, excludingOrigin: ident, until: &limit) else { return .paused }
                try endSearch(past: log, sharing: &shared)
            case .share:
                guard try share(from: log, &shared, until: &limit) else { return .paused }
                stage = .read
            case .read:
                guard try read(from: log, until: &limit) else { return .paused }
                try meet(from: log)
            case .merge:
                guard try merge.advance(until: &limit) else { return .paused }
                stage = .apply
            case .apply:
                if log.version > metVersion {
                    isOvertaken = isOvertaken || stepCount > stepCountBefore / 2 && stepCount <= Self.heldStepsMax
                    (stepCount, stepCountBefore) = (0, stepCount)
                    beginMeeting(after: metVersion, through: log.version)
                    continue
                }
                if let count = try applyRun(past: log, into: &state) { return .onlyFirst(count) }
                stage = .begin
                let bytes = merge.run.reduce(0) { $0 + $1.changeset.count + UploadQueue.overheadBytes }
                room.bytes -= bytes
                if limit.isOver(after: bytes) { return .paused }
            }
        }
    }

    /// The version on which the changesets of the run were made.
    private var base: ServerVersion { ServerVersion(rawValue: merge.base) }

    /// The number of changesets that are merged, and applied to the state.
    var mergedCount: Int { merged.count - restoringCount }

    /// True if a run is merged in part.
    var isWithinRun: Bool { stage != .begin }

    /// - Returns: whether there is a run.
    private mutating func beginRun(
        past log: PendingLog, bytesMax: Int, keepsState: Bool
    ) throws(HistoryError) -> Bool {
        do {
            // Anything that follows a changeset which may have taken nulls out of sets is a run of its own: it has to
            // be merged with the entry that puts them back.
            let hasRun = try merge.beginRun(
                bytesMax: bytesMax, overheadBytes: UploadQueue.overheadBytes
            ) { index, arena in
                keepsState && arena.holdsNullErasure && arena.erasesNull(in: index)
            }
            guard hasRun else { return false }
        } catch {
            throw HistoryError(error)
        }
        for index in merge.incoming { try merge.arena.checkErasures(in: index, by: options.destructiveSchema) }
        keys = merge.incoming.map { merge.arena.conflictKeys(of: $0) }
        isContinued = false
        (stepCount, stepCountBefore, isOvertaken) = (0, .max, false)
        if base < log.version || restoringCount > 0 {
            beginMeeting(after: base, through: log.version)
        } else {
            metVersion = log.version
            stage = .apply
        }
        return true
    }

    /// Begins to merge the run with the entries above a version: all that it has to meet, or those that others have
    /// committed since it met the rest. Those it meets as it is now.
    private mutating func beginMeeting(after base: ServerVersion, through newest: ServerVersion) {
        if base > self.base {
            isContinued = true
            for (place, index) in merge.incoming.enumerated() where merge.arena.isDirty(index) {
                keys[place].merge([merge.arena.conflictKeys(of: index)])
            }
        }
        search = EntrySearch(for: keys, in: VersionRange(after: base, through: newest))
        (searchedAfter, metVersion) = (base, newest)
        stage = .search
    }

    /// Prepares to go on after others have used the cache that clients share.
    mutating func resume(sharing shared: DecodedEntryCache) {
        guard stage == .share else { return }
        unshared = versions.filter { !reader.hasOwnForm(of: $0) && shared.indices[$0.rawValue] == nil }[...]
    }

    /// Applies the run when it is merged.
    /// - Returns: nil; or how many changesets can be merged, if the run needs too much memory.
    private mutating func applyRun(past log: PendingLog, into state: inout PendingState?) throws(HistoryError) -> Int? {
        let applied = try state?.apply(merge.incoming, of: &merge.arena, from: ident, on: base, past: log)
        if let count = applied?.countInMemory { return mergedCount + count }
        if applied != nil, !options.allowsReplacedClasses {
            for index in merge.incoming { try merge.arena.checkReplacedClasses(in: index) }
        }
        finishRun()
        if let applied {
            skippedInstructions.append(applied.skipped)
            if let insertions = applied.nullInsertions { try restoreNulls(insertions, past: log) }
        }
        return nil
    }

    /// Makes the entry that puts nulls back. It has the time of the changeset that it follows.
    private mutating func restoreNulls(_ insertions: [UInt8], past log: PendingLog) throws(HistoryError) {
        let version = log.version + UInt64(merged.count + 1)
        let timestamp = merged.last?.timestamp ?? 0
        var arena = ChangesetArena()
        let entry = LogEntry(
            version: version, salt: 0, origin: 0, clientVersion: 0, timestamp: timestamp, cumulativeSize: 0,
            changeset: insertions)
        let index = try entry.decode(into: &arena)
        reader.restored[version] = entry
        merged.append(
            MergedChangeset(
                origin: 0, clientVersion: 0, timestamp: timestamp, changeset: arena.encoded(index),
                writes: arena.conflictKeys(of: index).writes))
    }

    /// The log entries that the merge changed, as the client has to see them from now on.
    mutating func reciprocals(after base: ServerVersion) -> [ReciprocalChangeset] {
        merge.changedEntries(after: base.rawValue).map {
            ReciprocalChangeset(version: ServerVersion(rawValue: $0.version), changeset: $0.changeset)
        }
    }

    /// The versions above the base that can conflict with the run. Besides those that the conflict keys find, these are
    /// the entries whose form for this client differs from the log: that form can contain instructions which the log
    /// entry lacks (`Spec/Transform.md`, rule R8), so the index does not know it.
    private mutating func endSearch(
        past log: PendingLog, sharing shared: inout DecodedEntryCache
    ) throws(HistoryError) {
        let base = searchedAfter, reciprocals = try reader.reciprocals(of: ident, after: base, in: log)
        // An empty changeset meets nothing.
        let changed = reciprocals.filter { $0 > base.rawValue && !$1.isEmpty }.keys.map { ServerVersion(rawValue: $0) }
        versions = (search.found + changed + reader.restored.keys.filter { $0 > base }).sortedUnique()
        unread = versions[...]
        stage = .read
        guard isOfLog, !isContinued, !merge.hasEntries, versions.count >= Self.sharedEntriesMin else { return }
        let unchanged = versions.filter { !reader.hasOwnForm(of: $0) }
        guard unchanged.count * 2 > versions.count, shared.beginLoading(unchanged.count) else { return }
        unshared = unchanged[...]
        stage = .share
    }

    /// Switches to a copy of the entries decoded for all clients, if it holds all of `versions` that have no reciprocal
    /// form. The client's own arena holds no log entry yet.
    /// - Returns: whether it has switched, or cannot because they are too large.
    private mutating func share(
        from log: PendingLog, _ shared: inout DecodedEntryCache, until limit: inout StepLimit
    ) throws(HistoryError) -> Bool {
        while let version = unshared.popFirst() {
            let before = shared.arena.memoryBytes
            guard try shared.load(version, from: log) else { return true }
            if limit.isOver(after: 64 + shared.arena.memoryBytes - before) { return false }
        }
        reader.shared = shared.indices
        do { try merge.continueRun(in: shared.arena) } catch { throw HistoryError(error) }
        unread = versions.filter { reader.hasOwnForm(of: $0) }[...]
        return true
    }

    /// - Returns: whether all entries are read.
    private mutating func read(from log: PendingLog, until limit: inout StepLimit) throws(HistoryError) -> Bool {
        while let version = unread.popFirst() {
            let before = merge.arena.memoryBytes
            _ = try reader.index(of: version, from: log, into: &merge.arena)
            if limit.isOver(after: 64 + merge.arena.memoryBytes - before) { return false }
        }
        return true
    }

    private mutating func meet(from log: PendingLog) throws(HistoryError) {
        var reader = reader
        defer { self.reader = reader }
        func index(of version: UInt64, _ arena: inout ChangesetArena) throws(HistoryError) -> ChangesetIndex {
            reader.count += 1
            return try reader.index(of: ServerVersion(rawValue: version), from: log, into: &arena)
        }
        let met = versions.map(\.rawValue)
        if isContinued {
            try merge.continueRun(after: 0, meeting: met, decode: index)
        } else {
            try merge.begin(meeting: met, decode: index)
        }
        stage = .merge
    }

    private mutating func finishRun() {
        for ((sent, index), keys) in zip(zip(merge.run, merge.incoming), keys) {
            let isDirty = merge.arena.isDirty(index)
            merged.append(
                MergedChangeset(
                    origin: ident, clientVersion: ClientVersion(rawValue: sent.version), timestamp: sent.tag.timestamp,
                    changeset: merge.encoded(index),
                    writes: isDirty ? merge.arena.conflictKeys(of: index).writes : keys.writes,
                    base: base, received: isDirty ? sent.changeset : nil))
        }
        mergedThrough = merge.run.last.map {
            UploadCursor(clientVersion: ClientVersion(rawValue: $0.version), serverVersion: base)
        }
    }
}

extension HistoryError {
    /// An uploaded changeset cannot be decoded.
    init(_ failure: LogMerge.DecodingError) { self.init(failure.error, inChangeset: failure.version) }

    init(_ error: ChangesetError, inChangeset version: UInt64) {
        self.init(
            error.rule == .tooLarge ? .tooLarge : .badChangeset,
            "changeset \(version) at byte \(error.offset): \(error.reason)")
    }
}
