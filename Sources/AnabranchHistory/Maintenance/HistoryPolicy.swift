import AnabranchCore

/// How much of the past synced files keep (`Spec/BoundedHistory.md`, sections 6 to 8). Days have 86,400 seconds.
public struct HistoryPolicy: Equatable, Sendable {
    /// What becomes of the entries that nobody needs any more when they go from the log.
    public enum Keep: String, CaseIterable, Sendable {
        /// They are gone.
        case drop
        /// The store keeps their segments as an archive, which nobody is served from.
        case archive
    }

    /// Entries are sealed when there are so many that are not: a segment of 768 takes about 11 bytes a small
    /// transaction, and one that is much shorter takes more.
    public var sealEntries: UInt64 = 768
    /// Or when they have so many bytes of changesets, so that a segment is decoded in about a millisecond.
    public var sealBytes: UInt64 = 256 << 10
    /// A bootstrap generation is made when the log behind the newest one has more than so many bytes of changesets.
    public var generationBytes: UInt64 = 4 << 20
    /// And more than so many times those of the newest one, which is about the size of the state.
    public var generationRatio: Double = 2
    /// A client file that keeps entries from going expires when its client was not seen for so many days.
    public var offlineDays: UInt64 = 60
    /// Or when it keeps more than so many bytes of changesets, and its client was not seen for a day.
    public var pinnedBytes: UInt64 = 1 << 30
    /// Or when its client began with a bootstrap, has uploaded nothing, and was not seen for so many days:
    /// no write of it is lost with the file.
    public var bootstrapDays: UInt64 = 7
    /// What becomes of the entries that go.
    public var keep = Keep.drop
    /// What the log of a file may hold, in bytes of changesets. While one holds more, a server refuses changes of its
    /// clients with code 201, which they repeat later. A log of more than half as many is looked at more often, and
    /// gets a bootstrap generation as soon as enough of it can go then.
    public var logBytesMax = UInt64.max

    /// At about how many bytes an entry of a generation ends.
    package var generationEntryBytes = BootstrapChangesets.usualBytes

    /// The defaults.
    public init() {}

    /// Whether a file may have something to be done; if not, it need not be opened for that.
    package func mayBeDue(for head: FileHead) -> Bool {
        head.version.rawValue - head.baseVersion.rawValue >= sealEntries
            || head.logBytes >= sealBytes && head.logBytes > 0 || isLong(head)
    }

    /// Whether nothing may be added to the log of a file. A single entry always stays, so it does not count as full.
    package func isFull(_ head: FileHead) -> Bool {
        head.logBytes > logBytesMax && head.version > head.baseVersion + 1
    }

    /// The first generation is made when the log has more than so many bytes: before, nothing can go.
    package var firstGenerationBytes: UInt64 { min(generationBytes, logBytesMax / 2) }

    /// Whether the log of a file is on its way to be full.
    func isLong(_ head: FileHead) -> Bool { head.logBytes > logBytesMax / 2 }

    /// So many bytes have to go from a long log for a generation to be worth it. After so many the next round is due.
    var worthwhileBytes: UInt64 { max(1, logBytesMax / 8) }
}

/// Why a client file has expired.
public enum ExpiryReason: String, CaseIterable, Sendable {
    /// It was not seen for `HistoryPolicy.offlineDays`.
    case offline
    /// It kept more than `HistoryPolicy.pinnedBytes`.
    case pinnedBytes = "pinned_bytes"
    /// It never got further than its bootstrap.
    case bootstrap
}

/// Which client files are to expire, at one moment.
struct Expiry {
    let policy: HistoryPolicy
    /// In seconds since 1970.
    let time: UInt64
    /// Whose clients are connected: they are seen now.
    let connected: Set<ClientFileID>
    /// Up to where entries may go if nobody keeps them.
    let limit: ServerVersion
    /// Who keeps entries at or below it keeps more than `HistoryPolicy.pinnedBytes`; nil if nobody can.
    let heavyVersion: ServerVersion?

    private static let day: UInt64 = 86_400

    /// - Parameter pin: of the file.
    /// - Returns: nil if it stays.
    func reason(for file: ClientFile, pin: ServerVersion) -> ExpiryReason? {
        guard pin < limit, !connected.contains(file.ident) else { return nil }
        // A time to come is that of a clock that was ahead once.
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
    /// The newest version from which to `limit` there are more than so many bytes of changesets; nil if the log has
    /// not so many.
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
