public import AnabranchCore

/// All changes that one transaction makes to one synced file. Integration computes them without side effects; a store
/// applies them entirely or not at all.
public struct Commit: Sendable {
    /// The file to change.
    public var file: SyncedFileID
    /// The right to change it: the lease with which it was opened.
    public var lease: Lease
    /// The head that the file has before the commit; a store compares the versions, a shared one the `dependencies`.
    public var head: FileHead
    /// New log entries with the versions `head.version + 1`, `+ 2` ….
    public var entries: [LogEntry] = []
    /// The conflict keys that the new entries write, in the order of the entries.
    public var conflictKeys: [ConflictKeyEntry] = []
    /// Client files as they are afterwards, in ascending order of ident; an ident not stored yet is a new row and has
    /// to be the next one. Reciprocal changesets up to the row's `uploadCursor.serverVersion` are removed, and all of
    /// them if the row is expired.
    public var clientFiles: [ClientFile] = []
    /// Reciprocal changesets that are new or replace a stored one, sorted by client file and version.
    public var reciprocals: [ReciprocalChange] = []
    /// Changesets of new entries as they were received, where the merge has changed them; in the order of the entries.
    /// A store may forget them.
    public var received: [ReceivedChangeset] = []
    /// The withheld schemas of client files, as they are afterwards (`FileView.withheldSchema`); no bytes if nothing is
    /// withheld any more. That of a client file that expires is removed.
    public var withheldSchemas: [ClientFileID: [UInt8]] = [:]
    /// Entries that are sealed; nil if none are. Only for stores whose views have a `sealedEnd`.
    package var sealed: SealedEntries?
    /// Views as they are afterwards. Only for stores that keep some.
    package var views: [ViewChange] = []
    /// The fields that views use and that none has used before, or not for a long time. All later entries say how they
    /// were before (`BeforeImage`), whoever commits them.
    package var viewFields: [ViewField] = []
    /// New objects of asymmetric classes, in the order of their numbers. Only for such stores.
    package var ingested: [IngestedObject] = []
    /// The number up to which older ones are removed; 0 if none are.
    package var freedIngested: UInt64 = 0
    /// Records of doors as they are afterwards, sorted by place, each once.
    public var records: [RecordChange] = []
    /// The last entry that the observers of records have seen already. It is not stored.
    package var observedThrough: ServerVersion = 0
    /// The change to a bootstrap generation; nil if there is none. Only for stores whose files have a `frozenState`.
    package var generation: GenerationChange?
    /// The rows of another store that are copied as they are; nil if there are none. Only for a `CopyableStore`.
    package var copied: CopiedParts?
    /// True if a client file gets its lineage, which the beginning of the log and the generations have decided.
    public var choosesLineage = false
    /// The change to the stored state; nil if it stays as it is.
    public var state: StateUpdate?
    /// The beginning of the log afterwards; nil if it stays. A commit with a trim has no new entries, and the client
    /// files whose entries go know of them (`ClientFile.baseClientVersion`).
    public var trim: Trim?
    /// The idempotency key, if this is a write of the server's own with one.
    public var idempotencyKey: IdempotencyKey?
    /// True if the commit deletes the file, with all that is stored of it; then it contains nothing else. Afterwards
    /// there is no file at the path until a new one is made.
    public var deletesFile = false

    /// Creates a commit that changes nothing yet.
    public init(file: SyncedFileID, lease: Lease, head: FileHead) {
        self.file = file
        self.lease = lease
        self.head = head
    }

    /// The head that the file has after the commit.
    public var newHead: FileHead { newHead(after: head) }

    /// The head that the file has after the commit.
    /// - Parameter head: the stored head: in a shared store, what the commit does not depend on may have changed.
    package func newHead(after head: FileHead) -> FileHead {
        var result = head
        if let copied { copied.move(&result) }
        if let last = entries.last {
            result.version = last.version
            result.versionSalt = last.salt
            result.cumulativeSize = last.cumulativeSize
        }
        if let trim {
            result.baseVersion = trim.version
            result.baseSalt = trim.salt
            result.baseCumulativeSize = trim.cumulativeSize
        }
        if let state { result.stateVersion = state.version }
        if let last = clientFiles.last { result.nextIdent = max(result.nextIdent, last.ident + 1) }
        if changesBounds, head.bounds > 0 { result.bounds += 1 }
        return result
    }

    /// The reciprocal changesets of one client file after the other.
    var reciprocalsByFile: [(ident: ClientFileID, reciprocals: [ReciprocalChangeset])] {
        var files: [(ident: ClientFileID, reciprocals: [ReciprocalChangeset])] = []
        var changes = reciprocals[...]
        while let ident = changes.first?.ident {
            let ofOneFile = changes.prefix { $0.ident == ident }
            files.append((ident, ofOneFile.map(\.reciprocal)))
            changes = changes[ofOneFile.endIndex...]
        }
        return files
    }

    /// True if nothing is changed.
    public var isEmpty: Bool {
        entries.isEmpty && clientFiles.isEmpty && reciprocals.isEmpty && state == nil && idempotencyKey == nil
            && trim == nil && sealed == nil && generation == nil && views.isEmpty && viewFields.isEmpty
            && ingested.isEmpty && freedIngested == 0 && withheldSchemas.isEmpty && records.isEmpty && copied == nil
            && !deletesFile
    }
}

/// The parts of a file that a commit to a shared store was made of, so that they must not have changed since its author
/// has read them. Client files are compared by themselves (`ClientFile.revision`).
public struct CommitDependencies: OptionSet, Sendable {
    /// The sum of the numbers of its members.
    public let rawValue: UInt8

    /// Creates a set from such a sum.
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The version of the log, its salt, and the version of the state.
    public static let log = CommitDependencies(rawValue: 1)
    /// `FileHead.bounds`.
    public static let bounds = CommitDependencies(rawValue: 2)
    /// `FileHead.nextIdent`: the first new client file has it, if there is one.
    public static let idents = CommitDependencies(rawValue: 4)
}

extension Commit {
    /// The parts that a shared store compares before it accepts the commit: new client files, progress, expiry and
    /// maintenance do not conflict with uploads.
    public var dependencies: CommitDependencies {
        var found: CommitDependencies = []
        let hasOwnRecords = !records.isEmpty && trim == nil
        if !entries.isEmpty || state != nil || idempotencyKey != nil || !reciprocals.isEmpty || hasOwnRecords {
            found = [.log, .bounds]
        }
        if changesBounds || choosesLineage { found.insert(.bounds) }
        // A file may be deleted because of whose client files it has.
        if clientFiles.contains(where: { $0.revision == 1 }) || deletesFile { found.insert(.idents) }
        return found
    }

    /// True if a shared store raises `FileHead.bounds` with the commit.
    public var changesBounds: Bool { trim != nil || sealed != nil || generation != nil || !viewFields.isEmpty }
}

extension Commit {
    /// Adds a commit that was made on top of this one, so that one transaction stores both. Neither of them trims,
    /// seals, makes generations or deletes the file, and only one has an idempotency key.
    mutating func append(_ later: Commit) {
        entries += later.entries
        conflictKeys += later.conflictKeys
        received += later.received
        withheldSchemas.merge(later.withheldSchemas) { $1 }
        choosesLineage = choosesLineage || later.choosesLineage
        ingested += later.ingested
        freedIngested = max(freedIngested, later.freedIngested)
        let changed = Set(later.records.map(\.place))
        records = (records.filter { !changed.contains($0.place) } + later.records).sorted { $0.place < $1.place }
        observedThrough = max(observedThrough, later.observedThrough)
        idempotencyKey = later.idempotencyKey ?? idempotencyKey
        var files = Dictionary(uniqueKeysWithValues: clientFiles.map { ($0.ident, $0) })
        for file in later.clientFiles { files[file.ident] = file }
        clientFiles = files.values.sorted { $0.ident < $1.ident }
        let replaced = Set(later.reciprocals.map(ReciprocalPlace.init))
        reciprocals = (reciprocals.filter { !replaced.contains(ReciprocalPlace($0)) } + later.reciprocals)
            .sorted { ($0.ident, $0.reciprocal.version) < ($1.ident, $1.reciprocal.version) }
        if !later.views.isEmpty {
            let places = Dictionary(uniqueKeysWithValues: views.indices.map { (views[$0].record.ident, $0) })
            for change in later.views {
                if let place = places[change.record.ident] {
                    views[place] = ViewChange(views[place], followedBy: change)
                } else {
                    views.append(change)
                }
            }
        }
        viewFields += later.viewFields
        if let update = later.state { state = state.map { StateUpdate($0, followedBy: update) } ?? update }
    }

    /// The approximate size of its writes, in bytes: changesets, blocks, and 256 bytes for each row.
    package var byteCount: Int {
        let rows = entries.count + conflictKeys.count + clientFiles.count + reciprocals.count + received.count + 1
        let sealed = sealed.map { $0.block.count + 256 * ($0.count + $0.conflictKeys.count) } ?? 0
        let generated = if case .append(_, _, let block) = generation { block.count } else { 0 }
        return entries.reduce(256 * rows + sealed + generated) { $0 + $1.byteCount }
            + received.reduce(0) { $0 + $1.changeset.count }
            + reciprocals.reduce(0) { $0 + $1.reciprocal.changeset.count }
            + views.reduce(0) { $0 + $1.byteCount } + withheldSchemas.values.reduce(0) { $0 + $1.count + 256 }
            + records.reduce(0) { $0 + $1.place.key.count + ($1.value?.count ?? 0) + 256 } + (copied?.byteCount ?? 0)
    }
}

/// The reciprocal changeset that a change is about.
private struct ReciprocalPlace: Hashable {
    let ident: ClientFileID
    let version: ServerVersion

    init(_ change: ReciprocalChange) { (ident, version) = (change.ident, change.reciprocal.version) }
}

/// A changeset to be stored in the reciprocal history of a client file.
public struct ReciprocalChange: Equatable, Sendable {
    /// The client file whose form of the entry this is.
    public var ident: ClientFileID
    /// The log entry in its form for the client.
    public var reciprocal: ReciprocalChangeset

    /// Creates a change of one reciprocal changeset.
    public init(ident: ClientFileID, reciprocal: ReciprocalChangeset) {
        self.ident = ident
        self.reciprocal = reciprocal
    }
}

/// The name under which the server itself has written to a file, and the version that the write made
/// (`Spec/History.md`, section 17).
public struct IdempotencyKey: Equatable, Sendable {
    /// The number of newest keys of a file that a store keeps at least.
    public static let countMax = 10_000

    /// A text in UTF-8, compared byte by byte.
    public var key: [UInt8]
    /// The version that the file had after the write.
    public var version: ServerVersion

    /// Creates the key of a write.
    public init(key: [UInt8], version: ServerVersion) {
        self.key = key
        self.version = version
    }
}
