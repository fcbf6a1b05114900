import AnabranchCore

/// An uploaded changeset in the form in which it enters the log.
struct MergedChangeset {
    var clientVersion: ClientVersion
    var timestamp: ChangesetTime
    var changeset: [UInt8]
    /// The hashes under which it is found later.
    var writes: [UInt64]
}

/// The merge of one client's changesets with the log entries that the client had not seen
/// (`Spec/History.md`, section 6, steps 3 to 7; `Spec/Transform.md`, section 11).
struct ClientMerge {
    /// A log entry that takes part ("ours"), and its place in the arena.
    private struct LocalEntry {
        var version: ServerVersion
        var place: Int
    }

    /// To merge with fewer entries than this, they are decoded for the client alone.
    private static let sharedEntriesMin = 16

    let ident: ClientFileID
    let strategy: MergeStrategy
    /// What the log entries that are decoded for the client may occupy, in bytes.
    let oursBytesMax: Int
    private var oursBytes = 0
    private var arena = ChangesetArena()
    /// How many changesets at the arena's start are shared ones, as they are in the log.
    private var sharedCount = 0
    /// The log entries that take part, in order. They stay as a run leaves them, dirty flags included, until the last
    /// run.
    private var ours: [LocalEntry] = []
    /// The stored reciprocal changesets above the lowest base, by version; nil before the first run.
    private var reciprocals: [ServerVersion: [UInt8]]?
    private(set) var merged: [MergedChangeset] = []
    private var encoder = ChangesetEncoder()
    private(set) var entriesVisited = 0
    private(set) var mootInstructions = MootInstructions()

    init(ident: ClientFileID, strategy: MergeStrategy, oursBytesMax: Int) {
        self.ident = ident
        self.strategy = strategy
        self.oursBytesMax = oursBytesMax
    }

    /// Merges all changesets and applies them to the state, if one is kept, run by run: a run is what the client made
    /// on one base.
    mutating func merge(
        _ changesets: ArraySlice<UploadedChangeset>, past log: PendingLog, sharing decoded: inout DecodedEntries,
        into state: inout PendingState?
    ) throws(HistoryError) {
        merged.reserveCapacity(changesets.count)
        var rest = changesets
        while let base = rest.first?.cursor.serverVersion {
            let run = rest.prefix { $0.cursor.serverVersion == base }
            try merge(run, base: base, past: log, &decoded, &state)
            rest = rest[run.endIndex...]
        }
    }

    /// The log entries that the merge changed, as the client has to see them from now on.
    mutating func reciprocals(after base: ServerVersion) -> [ReciprocalChangeset] {
        ours.filter { $0.version > base && arena.isDirty($0.place) }
            .map { ReciprocalChangeset(version: $0.version, changeset: encoder.encode($0.place, of: arena)) }
    }

    private mutating func merge(
        _ run: ArraySlice<UploadedChangeset>, base: ServerVersion, past log: PendingLog,
        _ decoded: inout DecodedEntries,
        _ state: inout PendingState?
    ) throws(HistoryError) {
        var incoming = try decode(run)
        let touches = incoming.map { arena.conflictKeys(of: $0) }
        if base < log.version {
            let versions = try candidates(for: touches, after: base, in: log)
            if try share(versions, from: log, &decoded) { incoming = try decode(run) }
            let local = try places(of: versions, after: base, from: log, decoded)
            do {
                try arena.merge(local: local, incoming: incoming, strategy: strategy)
            } catch {
                throw HistoryError(.badChangeset, "a changeset cannot be merged: \(error.reason)")
            }
        }
        if let moot = try state?.apply(incoming, of: &arena, from: ident, on: base, past: log) {
            mootInstructions.append(moot)
        }
        for ((changeset, index), touches) in zip(zip(run, incoming), touches) {
            merged.append(
                MergedChangeset(
                    clientVersion: changeset.cursor.clientVersion, timestamp: changeset.timestamp,
                    changeset: encoder.encode(index, of: arena),
                    writes: arena.isDirty(index) ? arena.conflictKeys(of: index).writes : touches.writes))
        }
    }

    private mutating func decode(_ run: ArraySlice<UploadedChangeset>) throws(HistoryError) -> [Int] {
        var places: [Int] = []
        places.reserveCapacity(run.count)
        for changeset in run { places.append(try decode(changeset)) }
        return places
    }

    private mutating func decode(_ changeset: UploadedChangeset) throws(HistoryError) -> Int {
        let version = changeset.cursor.clientVersion
        do {
            return try arena.decode(
                changeset.changeset, version: version.rawValue,
                tag: OriginTag(timestamp: changeset.timestamp, ident: ident))
        } catch {
            throw HistoryError(.badChangeset, "changeset \(version) at byte \(error.offset): \(error.reason)")
        }
    }

    /// The versions above `base` that can meet the run, ascending. Beside those that the touch index finds these are
    /// the entries whose form for this client differs from the log: that form can contain instructions which the log
    /// entry lacks (`Spec/Transform.md`, rule R8), so the index does not know it.
    private mutating func candidates(
        for touches: [ConflictKeys], after base: ServerVersion, in log: PendingLog
    ) throws(HistoryError) -> [ServerVersion] {
        var versions: [ServerVersion]
        if touches.contains(where: \.readsEverything) {
            versions = try log.versions(after: base, excludingOrigin: ident)
        } else {
            let sought = touches.count == 1 ? touches[0].reads : touches.flatMap(\.reads).sortedUnique()
            versions = try log.versions(postedUnder: sought, after: base, excludingOrigin: ident)
        }
        if reciprocals == nil {
            let range = VersionRange(after: base, through: log.head.version)
            let stored = try log.view.reciprocals(of: ident, in: range)
            reciprocals = Dictionary(stored.map { ($0.version, $0.changeset) }, uniquingKeysWith: { $1 })
        }
        // What is empty meets nothing.
        if let reciprocals { versions += reciprocals.filter { $0 > base && !$1.isEmpty }.keys }
        for entry in ours where entry.version > base && arena.isDirty(entry.place) && !arena.isEmpty(entry.place) {
            versions.append(entry.version)
        }
        return versions.sortedUnique()
    }

    /// Goes over to a copy of what is decoded already, if the client's own arena holds no log entry yet.
    ///
    /// - Returns: Whether it did so: the arena then has nothing of the client.
    private mutating func share(
        _ versions: [ServerVersion], from log: PendingLog, _ decoded: inout DecodedEntries
    ) throws(HistoryError) -> Bool {
        guard ours.isEmpty, versions.count >= Self.sharedEntriesMin else { return false }
        let unchanged = reciprocals?.isEmpty ?? true ? versions : versions.filter { reciprocals?[$0] == nil }
        guard unchanged.count * 2 > versions.count, try decoded.load(unchanged, from: log) else { return false }
        arena = decoded.arena
        sharedCount = arena.count
        return true
    }

    /// Makes the versions part of `ours`, each in its newest form for this client, and says where they are.
    private mutating func places(
        of versions: [ServerVersion], after base: ServerVersion, from log: PendingLog, _ decoded: DecodedEntries
    ) throws(HistoryError) -> [Int] {
        var places: [Int] = []
        places.reserveCapacity(versions.count)
        var known = ours.drop { $0.version <= base }
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
                joined.append(LocalEntry(version: version, place: try load(version, from: log, decoded)))
            }
            places.append(joined[joined.count - 1].place)
        }
        ours = joined + known
        return places
    }

    private mutating func load(
        _ version: ServerVersion, from log: PendingLog, _ decoded: DecodedEntries
    ) throws(HistoryError) -> Int {
        entriesVisited += 1
        let reciprocal = reciprocals?[version]
        if reciprocal == nil, let place = decoded.place(of: version), place < sharedCount { return place }
        let before = arena.memoryBytes
        let place = try log.decode(version, as: reciprocal, into: &arena)
        oursBytes += arena.memoryBytes - before
        try require(oursBytes <= oursBytesMax, .badChangeset, "it meets too much of the log to be merged with it")
        return place
    }
}
