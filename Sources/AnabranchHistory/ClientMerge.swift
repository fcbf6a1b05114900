import AnabranchCore

/// An uploaded changeset in the form in which it enters the log.
struct MergedChangeset {
    var clientVersion: UInt64
    var timestamp: UInt64
    var changeset: [UInt8]
    /// The hashes under which it is found later.
    var posted: [UInt64]
}

/// The merge of one client's changesets with the log entries that the client had not seen
/// (`Spec/History.md`, section 6, steps 3 to 7; `Spec/Transform.md`, section 11).
struct ClientMerge {
    let ident: UInt64
    private var pool = ChangesetPool()
    /// The log entries that take part ("ours"), as places in the pool. They stay as a run leaves them, dirty flags
    /// included, until the last run.
    private var ours: [UInt64: Int] = [:]
    /// The stored reciprocal changesets above the lowest base, by version; nil before the first run.
    private var reciprocals: [UInt64: [UInt8]]?
    private(set) var merged: [MergedChangeset] = []
    private(set) var entriesVisited = 0

    init(ident: UInt64) { self.ident = ident }

    /// Merges all changesets, run by run: a run is what the client made on one base.
    mutating func merge(_ changesets: ArraySlice<UploadedChangeset>, past log: PendingLog) throws(HistoryError) {
        merged.reserveCapacity(changesets.count)
        var rest = changesets
        while let base = rest.first?.cursor.serverVersion {
            let run = rest.prefix { $0.cursor.serverVersion == base }
            try merge(run, base: base, past: log)
            rest = rest[run.endIndex...]
        }
    }

    /// The log entries that the merge changed, as the client has to see them from now on.
    func reciprocals(after base: UInt64) -> [ReciprocalChangeset] {
        ours.filter { $0.key > base && pool.isDirty($0.value) }
            .sorted { $0.key < $1.key }
            .map { ReciprocalChangeset(version: $0.key, changeset: pool.encoded($0.value)) }
    }

    private mutating func merge(
        _ run: ArraySlice<UploadedChangeset>, base: UInt64, past log: PendingLog
    ) throws(HistoryError) {
        var incoming: [Int] = []
        incoming.reserveCapacity(run.count)
        for changeset in run { incoming.append(try decode(changeset)) }
        let touches = incoming.map { pool.touches(of: $0) }
        if base < log.version {
            let versions = try candidates(for: touches, after: base, in: log)
            if !versions.isEmpty {
                var local: [Int] = []
                for version in versions { local.append(try load(version, from: log)) }
                do {
                    try pool.merge(local: local, incoming: incoming)
                } catch {
                    throw HistoryError(.badChangeset, "a changeset cannot be merged: \(error.reason)")
                }
            }
        }
        for ((changeset, index), touches) in zip(zip(run, incoming), touches) {
            merged.append(
                MergedChangeset(
                    clientVersion: changeset.cursor.clientVersion, timestamp: changeset.timestamp,
                    changeset: pool.encoded(index),
                    posted: pool.isDirty(index) ? pool.touches(of: index).posted : touches.posted))
        }
    }

    private mutating func decode(_ changeset: UploadedChangeset) throws(HistoryError) -> Int {
        let version = changeset.cursor.clientVersion
        do {
            return try pool.decode(
                changeset.changeset, version: version, tag: OriginTag(timestamp: changeset.timestamp, ident: ident))
        } catch {
            throw HistoryError(.badChangeset, "changeset \(version) at byte \(error.offset): \(error.reason)")
        }
    }

    /// The versions above `base` that can meet the run, ascending. Beside those that the touch index finds these are the
    /// entries whose form for this client differs from the log: that form can contain instructions which the log entry
    /// lacks (`Spec/Transform.md`, rule R8), so the index does not know it.
    private mutating func candidates(
        for touches: [Touches], after base: UInt64, in log: PendingLog
    ) throws(HistoryError) -> [UInt64] {
        var versions: [UInt64]
        if touches.contains(where: \.seeksEverything) {
            versions = try log.versions(after: base, notFrom: ident)
        } else {
            let sought = touches.count == 1 ? touches[0].sought : touches.flatMap(\.sought).sortedWithoutDuplicates()
            versions = try log.versions(postedUnder: sought, after: base, notFrom: ident)
        }
        if reciprocals == nil {
            let range = VersionRange(after: base, through: log.head.version)
            let stored = try log.view.reciprocals(of: ident, in: range)
            reciprocals = Dictionary(stored.map { ($0.version, $0.changeset) }, uniquingKeysWith: { $1 })
        }
        if let reciprocals { versions += reciprocals.keys.filter { $0 > base } }
        for (version, index) in ours where version > base && pool.isDirty(index) { versions.append(version) }
        return versions.sortedWithoutDuplicates()
    }

    /// The place of a log entry in the pool, in the newest form for this client.
    private mutating func load(_ version: UInt64, from log: PendingLog) throws(HistoryError) -> Int {
        if let index = ours[version] { return index }
        let entry = try log.entry(version)
        entriesVisited += 1
        do {
            let index = try pool.decode(
                reciprocals?[version] ?? entry.changeset, version: version,
                tag: OriginTag(timestamp: entry.timestamp, ident: entry.originOnWire))
            ours[version] = index
            return index
        } catch {
            throw HistoryError(.storeDamaged, "log entry \(version) at byte \(error.offset): \(error.reason)")
        }
    }
}
