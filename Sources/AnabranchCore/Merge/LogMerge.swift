/// Merges the changesets that a peer sends with those entries of the receiver's log that the peer had not seen when it
/// made them (`Spec/Transform.md`, section 11).
///
/// A server merges a client's uploads like this, and a client its downloads. Only the numbers differ:
///
/// | | a server takes in an UPLOAD | a client takes in a DOWNLOAD |
/// |---|---|---|
/// | the version of a changeset | client version | server version |
/// | its base | the server version that the client had integrated | the client version that the server had integrated |
/// | the entries it meets | what others have made | what the client itself has made |
/// | their changed form is for | the client | the server |
///
/// The value has no log and no state. It says which entries it needs, and returns their merged form:
///
///     var merge = LogMerge(changesets)
///     while try merge.beginRun() {
///         let versions = …  // the entries above `merge.base` that the run can meet
///         try merge.begin(meeting: versions) { version, arena in try arena.decode(…) }
///         while try !merge.advance(pairs: 100_000) { /* do something else for a while */ }
///         …  // apply `merge.incoming` to the state
///     }
///     …  // store `merge.changedEntries()`
///
/// As with `Merge` the size of the steps changes no byte of the result, and a merge can be dropped between two steps.
package struct LogMerge: ~Copyable, Sendable {
    /// A changeset as the peer has sent it.
    package struct Incoming: Sendable {
        /// The version that the changeset produced on the peer.
        package var version: UInt64
        /// The last version of the receiver's log that the peer had integrated before.
        package var base: UInt64
        /// When and where it was made.
        package var tag: OriginTag
        /// The changeset, encoded.
        package var changeset: [UInt8]

        /// A changeset that a server receives from the client file `ident`.
        package init(_ uploaded: UploadedChangeset, from ident: ClientFileID) {
            version = uploaded.cursor.clientVersion.rawValue
            base = uploaded.cursor.serverVersion.rawValue
            tag = OriginTag(timestamp: uploaded.timestamp, ident: ident)
            changeset = uploaded.changeset
        }

        /// A changeset that a client receives.
        package init(_ downloaded: DownloadedChangeset) {
            version = downloaded.cursor.serverVersion.rawValue
            base = downloaded.cursor.clientVersion.rawValue
            tag = downloaded.tag
            changeset = downloaded.changeset
        }
    }

    /// A changeset of the peer cannot be decoded.
    package struct DecodingError: Error {
        /// The version of the changeset.
        package let version: UInt64
        /// The reason why it cannot be decoded.
        package let error: ChangesetError
    }

    /// An entry of the log that takes part.
    fileprivate struct Entry: Sendable {
        var version: UInt64
        var index: ChangesetIndex
    }

    /// Holds the changesets of the run and the entries. While a run is merged, nothing else may change it.
    package var arena = ChangesetArena()
    /// The changesets that follow the run.
    private var rest: ArraySlice<Incoming>
    /// The changesets that are merged together, as they came: the peer made them on one base.
    package private(set) var run: ArraySlice<Incoming> = []
    /// Those of the run in the arena, in the same order.
    package private(set) var incoming: [ChangesetIndex] = []
    /// The entries above the base of the run that take part, or did in an earlier run, in the order of the log. They
    /// stay as the last run left them, dirty flags included.
    private var entries: [Entry] = []
    /// Those that took part in earlier runs and are not above the base any more.
    private var passedEntries: [Entry] = []
    /// The merges of all runs share its limit.
    private var merge: Merge
    private var encoder = ChangesetEncoder()
    private let memoryBytesMax: Int

    /// - Parameters:
    ///   - changesets: The changesets that the peer sends, in its order; their bases never go back.
    ///   - memoryBytesMax: The most memory that each of them may occupy, in bytes.
    package init(
        _ changesets: [Incoming], strategy: MergeStrategy = .indexed, pairsMax: Int = Merge.pairVisitsMax,
        memoryBytesMax: Int = .max
    ) {
        rest = changesets[...]
        self.memoryBytesMax = memoryBytesMax
        merge = Merge(strategy: strategy, pairsMax: pairsMax)
    }

    // MARK: Runs

    /// The base of the run: the peer has seen the entries up to this one.
    package var base: UInt64 { run.first?.base ?? 0 }

    /// True if any entry of the log takes part, or took part in an earlier run.
    package var hasEntries: Bool { !entries.isEmpty || !passedEntries.isEmpty }

    /// Decodes the next changesets of one base.
    ///
    /// - Returns: Whether there are any.
    package mutating func beginRun() throws(DecodingError) -> Bool {
        try beginRun(bytesMax: .max, overheadBytes: 0) { _, _ in false }
    }

    /// The same, but the run may end before the next base: where it ends does not matter for the result. The changesets
    /// after the end are not decoded yet.
    ///
    /// - Parameters:
    ///   - bytesMax: The run ends after the changeset with which it reaches this number of bytes.
    ///   - overheadBytes: The number of bytes that is counted for each changeset in addition to its own.
    ///   - isLast: Whether it ends after a changeset for another reason.
    package mutating func beginRun(
        bytesMax: Int, overheadBytes: Int,
        endingBehind isLast: (ChangesetIndex, borrowing ChangesetArena) -> Bool
    ) throws(DecodingError) -> Bool {
        let waiting = rest
        incoming.removeAll(keepingCapacity: true)
        var bytes = 0
        while let next = rest.first, next.base == waiting.first?.base, bytes < bytesMax {
            rest.removeFirst()
            bytes += next.changeset.count + overheadBytes
            incoming.append(try decode(next))
            if isLast(incoming[incoming.count - 1], arena) { break }
        }
        run = waiting[..<rest.startIndex]
        return !run.isEmpty
    }

    /// Switches to an arena that already holds entries of the log. Nothing happens if the merge has entries of its own.
    ///
    /// - Parameter arena: An arena that no merge has changed.
    package mutating func continueRun(in arena: ChangesetArena) throws(DecodingError) {
        guard !hasEntries else { return }
        self.arena = arena
        incoming.removeAll(keepingCapacity: true)
        for sent in run { incoming.append(try decode(sent)) }
    }

    private mutating func decode(_ sent: Incoming) throws(DecodingError) -> ChangesetIndex {
        do {
            return try arena.decode(
                sent.changeset, version: sent.version, tag: sent.tag, memoryBytesMax: memoryBytesMax)
        } catch {
            throw DecodingError(version: sent.version, error: error)
        }
    }

    // MARK: Merging

    /// Begins to merge the run with entries of the log.
    ///
    /// Entries that an earlier run has changed take part in any case: they can hold instructions that the log does not
    /// know (`Spec/Transform.md`, rule R8).
    ///
    /// - Parameters:
    ///   - versions: The entries above `base` that the run can meet, in any order.
    ///   - decode: Decodes an entry into the arena, in the form that it has for the peer. It is called once for each
    ///     entry that has not taken part before.
    /// - Throws: The error of `decode`. The merge must be dropped then.
    package mutating func begin<Failure: Error>(
        meeting versions: [UInt64],
        decode: (_ version: UInt64, _ arena: inout ChangesetArena) throws(Failure) -> ChangesetIndex
    ) throws(Failure) {
        var indices: [ChangesetIndex] = []
        indices.reserveCapacity(versions.count)
        var known = entries.drop { $0.version <= base }
        passedEntries += entries[..<known.startIndex]
        var joined: [Entry] = []
        joined.reserveCapacity(known.count + versions.count)
        for version in (versions + changedVersions).sortedUnique() {
            while let entry = known.first, entry.version < version { joined.append(known.removeFirst()) }
            if let entry = known.first, entry.version == version {
                joined.append(known.removeFirst())
            } else {
                joined.append(Entry(version: version, index: try decode(version, &arena)))
            }
            indices.append(joined[joined.count - 1].index)
        }
        entries = joined + known
        merge.begin(local: indices, incoming: incoming, in: arena)
    }

    /// Begins to merge the rest of a run, after it has met all other entries, with those that have been added since.
    ///
    /// - Parameters:
    ///   - count: The number of its changesets that are done; they do not meet the entries.
    ///   - versions: The entries that the rest can meet, in the order of the log.
    ///   - decode: As for `begin(meeting:decode:)`.
    /// - Throws: The error of `decode`. The merge must be dropped then.
    package mutating func continueRun<Failure: Error>(
        after count: Int, meeting versions: [UInt64],
        decode: (_ version: UInt64, _ arena: inout ChangesetArena) throws(Failure) -> ChangesetIndex
    ) throws(Failure) {
        run = run.dropFirst(count)
        incoming.removeFirst(count)
        let known = entries.count
        for version in versions { entries.append(Entry(version: version, index: try decode(version, &arena))) }
        merge.begin(local: entries[known...].map(\.index), incoming: incoming, in: arena)
    }

    /// The versions of the entries above the base that are changed and can still meet something.
    private var changedVersions: [UInt64] {
        entries.filter { $0.version > base && arena.isDirty($0.index) && !arena.isEmpty($0.index) }.map(\.version)
    }

    /// Goes on with the merge of the run, like `Merge.advance`.
    ///
    /// - Parameter pairs: About how many pairs of instructions to visit, at least one.
    /// - Returns: Whether the run is merged.
    /// - Throws: `TransformError`; the merge must be dropped then.
    package mutating func advance(pairs: Int = .max) throws(TransformError) -> Bool {
        try merge.advance(in: &arena, pairs: pairs)
    }

    // MARK: Going back

    /// A merge whose run is merged, as it was then.
    package struct Checkpoint: Sendable {
        fileprivate let arena: ChangesetArena
        fileprivate let rest, run: ArraySlice<Incoming>
        fileprivate let incoming: [ChangesetIndex]
        fileprivate let entries, passedEntries: [Entry]
    }

    /// The merge as it is now, to go back to. To be called when a run is merged.
    package var checkpoint: Checkpoint {
        Checkpoint(
            arena: arena, rest: rest, run: run, incoming: incoming, entries: entries, passedEntries: passedEntries)
    }

    /// Undoes all that has happened to the arena and to the run since.
    package mutating func goBack(to checkpoint: Checkpoint) {
        arena = checkpoint.arena
        (rest, run, incoming) = (checkpoint.rest, checkpoint.run, checkpoint.incoming)
        (entries, passedEntries) = (checkpoint.entries, checkpoint.passedEntries)
    }

    // MARK: Results

    /// How the runs to come are merged.
    package var strategy: MergeStrategy {
        get { merge.strategy }
        set { merge.strategy = newValue }
    }

    /// The effects that rules had in the runs that were merged by the recorded strategy.
    package var outcomes: [RuleOutcome] { merge.outcomes }

    /// The version of an entry in the arena; nil if the changeset does not take part.
    package func version(ofEntry changeset: ChangesetIndex) -> UInt64? {
        (passedEntries + entries).first { $0.index == changeset }?.version
    }

    /// The bytes of a changeset of the run, or of an entry, as it is now.
    package mutating func encoded(_ changeset: ChangesetIndex) -> [UInt8] { encoder.encode(changeset, of: arena) }

    /// The entries that the merge has changed, in the order of the log: the form in which they meet what the peer sends
    /// later. Some are empty, which is not the same as unchanged. To be called after the last run.
    ///
    /// - Parameter base: Entries up to this one are left out: nothing that the peer sends later has a lower base.
    package mutating func changedEntries(after base: UInt64 = 0) -> [(version: UInt64, changeset: [UInt8])] {
        var changed: [(version: UInt64, changeset: [UInt8])] = []
        for entry in passedEntries + entries where entry.version > base && arena.isDirty(entry.index) {
            changed.append((entry.version, encoder.encode(entry.index, of: arena)))
        }
        return changed
    }
}
