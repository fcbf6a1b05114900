public import AnabranchCore

/// A bootstrap generation: the state at one version, written as entries for clients that begin with nothing
/// (`Spec/BoundedHistory.md`, section 2).
public struct Generation: Equatable, Sendable {
    /// The version whose state it is, and that of its last entry. It tells a generation from the others of its file.
    public var version: ServerVersion
    /// The number of its entries: at least 1, at most as many as there are versions up to its own.
    public var entryCount: UInt64
    /// The size of their changesets, in bytes.
    public var bytes: UInt64
    /// The cumulative size of the log at its version, in bytes.
    public var cumulativeSize: UInt64

    /// Creates a generation, to be published in a file or returned by its store.
    public init(version: ServerVersion, entryCount: UInt64, bytes: UInt64, cumulativeSize: UInt64) {
        self.version = version
        self.entryCount = entryCount
        self.bytes = bytes
        self.cumulativeSize = cumulativeSize
    }

    /// True if one of its entries has the version: they have 1, 2, 3 …, but the last one has `version`.
    package func has(_ version: ServerVersion) -> Bool {
        version == self.version || version > 0 && version.rawValue < entryCount
    }

    /// True if a client can have integrated the entries up to the version: none, some, or all of them and maybe more.
    package func canEnd(at version: ServerVersion) -> Bool { version == 0 || has(version) || version >= self.version }
}

/// A change that a commit makes to a bootstrap generation.
package enum GenerationChange: Sendable {
    /// Adds the next entries to a generation in the making: a segment whose last version is `last`. Nobody uses them
    /// yet.
    case append(to: ServerVersion, last: ServerVersion, block: [UInt8])
    /// Completes a generation: from now on client files can have it as lineage.
    case publish(Generation)
    /// Removes a generation for everybody, and as many of its entries as one commit takes away. The next commit takes
    /// more, while `FileView.leftoverGeneration` says that there are some.
    case remove(ServerVersion)

    /// The largest number of segments that one commit takes away.
    package static let removedSegmentsMax = 32
}

extension Checksum {
    /// The checksum that the segments of a generation are keyed with, so that none can be taken for that of another.
    /// The receiver is where the chain of the file begins.
    package func start(ofGeneration version: ServerVersion) -> Checksum { keyed([version.rawValue], []) }
}

/// The entries of a bootstrap generation, within one reading.
public struct GenerationEntries {
    let generation: Generation
    /// The stored entries, with the versions 1, 2, 3 … to the last one.
    private let sealed: SealedLog

    /// - Parameters:
    ///   - start: where the chain of the file begins.
    ///   - source: where its segments are; to be usable for as long as this value is.
    package init(
        _ generation: Generation, of file: SyncedFileID, _ start: Checksum, in source: any SegmentSource,
        keptBy cache: SegmentCache
    ) {
        self.generation = generation
        sealed = SealedLog(
            of: file, start.start(ofGeneration: generation.version), generation: generation.version,
            range: VersionRange(after: 0, through: ServerVersion(rawValue: generation.entryCount)), in: source,
            keptBy: cache)
    }

    private var last: ServerVersion { ServerVersion(rawValue: generation.entryCount) }

    private func stored(_ version: ServerVersion) -> ServerVersion {
        version >= generation.version ? last : min(version, last - 1)
    }

    private func stored(_ range: VersionRange) -> VersionRange {
        VersionRange(after: stored(range.base), through: stored(range.last))
    }

    private func clientVisible(_ version: ServerVersion) -> ServerVersion {
        version == last ? generation.version : version
    }

    /// An entry as it is sent to a client. Its cumulative size leads up to that of the log, as if the generation stood
    /// in place of the log up to its version; it can begin below 0, and wraps around then.
    private func clientVisible(_ entry: LogEntry) -> LogEntry {
        var entry = entry
        entry.version = clientVisible(entry.version)
        entry.cumulativeSize = generation.cumulativeSize &- generation.bytes &+ entry.cumulativeSize
        return entry
    }

    func entry(_ version: ServerVersion) throws(HistoryError) -> LogEntry? {
        guard generation.has(version) else { return nil }
        return try sealed.entry(stored(version)).map(clientVisible)
    }

    func entries(in range: VersionRange, byteBudget: Int) throws(HistoryError) -> [LogEntry] {
        try sealed.entries(in: stored(range), excludingOrigin: nil, byteBudget: byteBudget).map(clientVisible)
    }

    /// - Parameter origin: never that of an entry.
    func versions(in range: VersionRange, excludingOrigin origin: ClientFileID) throws(HistoryError) -> [ServerVersion]
    {
        try sealed.versions(in: stored(range), excludingOrigin: origin).map(clientVisible)
    }

    func versions(
        writing keys: [UInt64], in range: VersionRange, excludingOrigin origin: ClientFileID
    ) throws(HistoryError) -> [ServerVersion] {
        try sealed.versions(writing: keys, in: stored(range), excludingOrigin: origin).map(clientVisible)
    }
}
