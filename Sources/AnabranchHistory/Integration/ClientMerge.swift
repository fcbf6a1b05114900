import AnabranchCore

/// An uploaded changeset in the form in which it enters the log.
struct MergedChangeset {
    var clientVersion: ClientVersion
    var timestamp: ChangesetTime
    var changeset: [UInt8]
    /// The conflict keys under which it is found later.
    var writes: [UInt64]
}

/// The merge of one client's changesets with the log entries that the client had not seen
/// (`Spec/History.md`, section 6, steps 3 to 7; `Spec/Transform.md`, section 11).
struct ClientMerge: ~Copyable {
    /// A log entry that takes part, and its index in the arena.
    private struct LocalEntry {
        var version: ServerVersion
        var index: ChangesetIndex
    }

    /// To merge with fewer entries than this, they are decoded for the client alone.
    private static let sharedEntriesMin = 16

    let ident: ClientFileID
    private let options: MergeOptions
    /// What the log entries that were decoded for the client occupy, in bytes.
    private var localBytes = 0
    private var arena = ChangesetArena()
    /// The merges of all runs share its limit.
    private var core: Merge
    /// How many changesets at the arena's start are shared ones, as they are in the log.
    private var sharedCount = 0
    /// The log entries that take part, in order. They stay as a run leaves them, dirty flags included, until the last
    /// run.
    private var local: [LocalEntry] = []
    /// The stored reciprocal changesets above the lowest base, by version; nil before the first run.
    private var reciprocals: [ServerVersion: [UInt8]]?
    private(set) var merged: [MergedChangeset] = []
    private var encoder = ChangesetEncoder()
    private(set) var entriesVisited = 0
    private(set) var skippedInstructions = SkippedInstructions()

    init(ident: ClientFileID, options: MergeOptions) {
        self.ident = ident
        self.options = options
        core = Merge(strategy: options.strategy)
    }

    /// Merges all changesets and applies them to the state, if one is kept, run by run: a run is what the client made
    /// on one base.
    mutating func merge(
        _ changesets: ArraySlice<UploadedChangeset>, past log: PendingLog, sharing shared: inout DecodedEntryCache,
        into state: inout PendingState?
    ) throws(HistoryError) {
        merged.reserveCapacity(changesets.count)
        var rest = changesets
        while let base = rest.first?.cursor.serverVersion {
            let run = rest.prefix { $0.cursor.serverVersion == base }
            try merge(run, base: base, past: log, &shared, &state)
            rest = rest[run.endIndex...]
        }
    }

    /// The log entries that the merge changed, as the client has to see them from now on.
    mutating func reciprocals(after base: ServerVersion) -> [ReciprocalChangeset] {
        local.filter { $0.version > base && arena.isDirty($0.index) }
            .map { ReciprocalChangeset(version: $0.version, changeset: encoder.encode($0.index, of: arena)) }
    }

    private mutating func merge(
        _ run: ArraySlice<UploadedChangeset>, base: ServerVersion, past log: PendingLog,
        _ shared: inout DecodedEntryCache, _ state: inout PendingState?
    ) throws(HistoryError) {
        var incoming = try decode(run)
        let keys = incoming.map { arena.conflictKeys(of: $0) }
        if base < log.version {
            let versions = try candidates(for: keys, after: base, in: log)
            if try share(versions, from: log, &shared) { incoming = try decode(run) }
            let local = try indices(of: versions, after: base, from: log, shared)
            do {
                try core.run(local: local, incoming: incoming, in: &arena)
            } catch {
                throw HistoryError(.badChangeset, "a changeset cannot be merged: \(error.reason)")
            }
        }
        if let skipped = try state?.apply(incoming, of: &arena, from: ident, on: base, past: log) {
            skippedInstructions.append(skipped)
        }
        for ((changeset, index), keys) in zip(zip(run, incoming), keys) {
            merged.append(
                MergedChangeset(
                    clientVersion: changeset.cursor.clientVersion, timestamp: changeset.timestamp,
                    changeset: encoder.encode(index, of: arena),
                    writes: arena.isDirty(index) ? arena.conflictKeys(of: index).writes : keys.writes))
        }
    }

    private mutating func decode(_ run: ArraySlice<UploadedChangeset>) throws(HistoryError) -> [ChangesetIndex] {
        var indices: [ChangesetIndex] = []
        indices.reserveCapacity(run.count)
        for changeset in run { indices.append(try decode(changeset)) }
        return indices
    }

    private mutating func decode(_ changeset: UploadedChangeset) throws(HistoryError) -> ChangesetIndex {
        let version = changeset.cursor.clientVersion
        do {
            return try arena.decode(
                changeset.changeset, version: version.rawValue,
                tag: OriginTag(timestamp: changeset.timestamp, ident: ident))
        } catch {
            throw HistoryError(.badChangeset, "changeset \(version) at byte \(error.offset): \(error.reason)")
        }
    }

    /// The versions above `base` that can conflict with the run, ascending. Beside those that the conflict keys find
    /// these are the entries whose form for this client differs from the log: that form can contain instructions which
    /// the log entry lacks (`Spec/Transform.md`, rule R8), so the index does not know it.
    private mutating func candidates(
        for keys: [ConflictKeys], after base: ServerVersion, in log: PendingLog
    ) throws(HistoryError) -> [ServerVersion] {
        var versions: [ServerVersion]
        if keys.contains(where: \.readsEverything) {
            versions = try log.versions(after: base, excludingOrigin: ident)
        } else {
            let reads = keys.count == 1 ? keys[0].reads : keys.flatMap(\.reads).sortedUnique()
            versions = try log.versions(writing: reads, after: base, excludingOrigin: ident)
        }
        if reciprocals == nil {
            let range = VersionRange(after: base, through: log.head.version)
            let stored = try log.view.reciprocals(of: ident, in: range)
            reciprocals = Dictionary(stored.map { ($0.version, $0.changeset) }, uniquingKeysWith: { $1 })
        }
        // What is empty meets nothing.
        if let reciprocals { versions += reciprocals.filter { $0 > base && !$1.isEmpty }.keys }
        for entry in local where entry.version > base && arena.isDirty(entry.index) && !arena.isEmpty(entry.index) {
            versions.append(entry.version)
        }
        return versions.sortedUnique()
    }

    /// Goes over to a copy of what is decoded already, if the client's own arena holds no log entry yet.
    ///
    /// - Returns: Whether it did so: the arena then has nothing of the client.
    private mutating func share(
        _ versions: [ServerVersion], from log: PendingLog, _ shared: inout DecodedEntryCache
    ) throws(HistoryError) -> Bool {
        guard local.isEmpty, versions.count >= Self.sharedEntriesMin else { return false }
        let unchanged = reciprocals?.isEmpty ?? true ? versions : versions.filter { reciprocals?[$0] == nil }
        guard unchanged.count * 2 > versions.count, try shared.load(unchanged, from: log) else { return false }
        arena = shared.arena
        sharedCount = arena.count
        return true
    }

    /// Makes the versions part of `local`, each in its newest form for this client, and says where they are.
    private mutating func indices(
        of versions: [ServerVersion], after base: ServerVersion, from log: PendingLog, _ shared: DecodedEntryCache
    ) throws(HistoryError) -> [ChangesetIndex] {
        var indices: [ChangesetIndex] = []
        indices.reserveCapacity(versions.count)
        var known = local.drop { $0.version <= base }
        var joined: [LocalEntry] = []
        joined.reserveCapacity(known.count + versions.count)
        for version in versions {
            while let entry = known.first, entry.version < version {
                joined.append(entry)
                known.removeFirst()
            }
            if let entry = known.first, entry.version == version {
                joined.append(entry)
                known.removeFirst()
            } else {
                joined.append(LocalEntry(version: version, index: try load(version, from: log, shared)))
            }
            indices.append(joined[joined.count - 1].index)
        }
        local = joined + known
        return indices
    }

    private mutating func load(
        _ version: ServerVersion, from log: PendingLog, _ shared: DecodedEntryCache
    ) throws(HistoryError) -> ChangesetIndex {
        entriesVisited += 1
        let reciprocal = reciprocals?[version]
        if reciprocal == nil, let index = shared.index(of: version), index.position < sharedCount { return index }
        let before = arena.memoryBytes
        let index = try log.entry(version).decode(as: reciprocal, into: &arena)
        localBytes += arena.memoryBytes - before
        try require(
            localBytes <= options.localBytesMax, .badChangeset, "it meets too much of the log to be merged with it")
        return index
    }
}
