import AnabranchCore

/// The rules for how much history synced files keep (`Spec/BoundedHistory.md`, sections 6 to 8). Days have 86,400
/// seconds.
public struct HistoryPolicy: Equatable, Sendable {
    /// The fate of trimmed entries.
    public enum Keep: String, CaseIterable, Sendable {
        /// They are deleted.
        case drop
        /// The store keeps their segments as an archive, from which no client is served.
        case archive
    }

    /// The number of unsealed entries with which they are sealed: a segment of 768 takes about 11 bytes for each small
    /// transaction, and a much shorter one takes more.
    public var sealEntries: UInt64 = 768
    /// The size of the changesets of unsealed entries with which they are sealed as well, in bytes, so that a segment
    /// is decoded in about a millisecond.
    public var sealBytes: UInt64 = 256 << 10
    /// A bootstrap generation is made when the log after the newest one has more bytes of changesets than this ...
    public var generationBytes: UInt64 = 4 << 20
    /// ... and more than this many times those of the newest one, which is about the size of the state.
    public var generationRatio: Double = 2
    /// A client file that keeps entries from being trimmed expires when its client was not seen for this many days.
    public var offlineDays: UInt64 = 60
    /// It also expires when it keeps more bytes of changesets than this, and its client was not seen for a day.
    public var pinnedBytes: UInt64 = 1 << 30
    /// It also expires when its client began with a bootstrap, has uploaded nothing, and was not seen for this many
    /// days: no write of the client is lost with the file.
    public var bootstrapDays: UInt64 = 7
    /// The fate of trimmed entries.
    public var keep = Keep.drop
    /// The largest size of a file's log, in bytes of changesets. While a log is larger, a server refuses changes of its
    /// clients with code 201, and they repeat them later. A log of more than half this size is maintained more often,
    /// and gets a bootstrap generation as soon as enough of it can then be trimmed.
    public var logBytesMax = UInt64.max

    /// The approximate size with which an entry of a generation ends, in bytes.
    package var generationEntryBytes = BootstrapChangesets.usualBytes

    /// Creates the default policy.
    public init() {}

    /// True if a file may have maintenance due; if not, it need not be opened for that.
    package func mayBeDue(for head: FileHead) -> Bool {
        head.version.rawValue - head.baseVersion.rawValue >= sealEntries
            || head.logBytes >= sealBytes && head.logBytes > 0 || isLong(head)
    }

    /// True if nothing may be added to the log of a file. A single entry always stays, so it does not count as full.
    package func isFull(_ head: FileHead) -> Bool {
        head.logBytes > logBytesMax && head.version > head.baseVersion + 1
    }

    /// The size of the log above which the first generation is made, in bytes: before that, nothing can be trimmed.
    package var firstGenerationBytes: UInt64 { min(generationBytes, logBytesMax / 2) }

    /// True if the log of a file is on its way to becoming full.
    func isLong(_ head: FileHead) -> Bool { head.logBytes > logBytesMax / 2 }

    /// The bytes that a generation must free in a long log to be worthwhile. After that many more the next round is
    /// due.
    var worthwhileBytes: UInt64 { max(1, logBytesMax / 8) }
}

/// The reason why a client file has expired.
public enum ExpiryReason: String, CaseIterable, Sendable {
    /// It was not seen for `HistoryPolicy.offlineDays`.
    case offline
    /// It kept more than `HistoryPolicy.pinnedBytes`.
    case pinnedBytes = "pinned_bytes"
    /// It never got further than its bootstrap.
    case bootstrap
}

/// Decides which client files expire, at one moment.
struct Expiry {
    let policy: HistoryPolicy
    /// In seconds since 1970.
    let time: UInt64
    /// The client files whose clients are connected: they are seen now.
    let connected: Set<ClientFileID>
    /// The version up to which entries may be trimmed if no client file needs them.
    let limit: ServerVersion
    /// The version at or below which a pin keeps more than `HistoryPolicy.pinnedBytes`; nil if none can.
    let heavyVersion: ServerVersion?

    private static let day: UInt64 = 86_400
    /// The days between finding a client file of a shared store away and its expiry. Each node looks at its sessions
    /// once a day, and a jump of the clock by a day may not be noticed.
    static let daysFoundAway: UInt64 = 3

    /// - Parameter pin: of the file.
    /// - Returns: nil if the file stays.
    func reason(for file: ClientFile, pin: ServerVersion) -> ExpiryReason? {
        guard pin < limit, !connected.contains(file.ident) else { return nil }
        if file.foundAway > 0, time < file.foundAway + Self.daysFoundAway * Self.day { return nil }
        // A time in the future comes from a clock that was once ahead.
        let days = (time - min(time, file.lastSeen)) / Self.day
        switch file.lineage {
        case .generation, .copy, .view:
            let hasUploaded = file.uploadCursor != UploadCursor() || file.newestReceipt != nil
            if !hasUploaded, days >= max(1, policy.bootstrapDays) { return .bootstrap }
        case .none, .log: break
        }
        if days >= max(1, policy.offlineDays) { return .offline }
        if let heavyVersion, pin <= heavyVersion, days >= 1 { return .pinnedBytes }
        return nil
    }
}

extension FileView {
    /// The newest version from which to `limit` there are more than `bytes` bytes of changesets; nil if the log has
    /// fewer.
    func version(moreThan bytes: UInt64, before limit: ServerVersion) throws(HistoryError) -> ServerVersion? {
        let head = try head(), end = try cumulativeSize(at: limit)
        guard limit > head.baseVersion, end > bytes, head.baseCumulativeSize < end - bytes else { return nil }
        var low = head.baseVersion.rawValue, high = min(limit, head.version).rawValue
        while high - low > 1 {
            let middle = low + (high - low) / 2
            if try cumulativeSize(at: ServerVersion(middle)) < end - bytes { low = middle } else { high = middle }
        }
        return ServerVersion(low)
    }
}
