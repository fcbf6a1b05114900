public import AnabranchCore

/// The beginning of a log after its oldest entries have gone (`Spec/BoundedHistory.md`, section 6). Conflict keys,
/// receipts and changesets as received go with their entries; the part that clients need for ever is in
/// `ClientFile.baseClientVersion`.
public struct Trim: Equatable, Sendable {
    /// The version of the last entry to remove: the new base of the log.
    public var version: ServerVersion
    /// The salt of that version.
    public var salt: Salt
    /// The cumulative size there, in bytes.
    public var cumulativeSize: UInt64
    /// The fate of the entries. An archive has segments only: so all that goes there has been sealed.
    public var keep: HistoryPolicy.Keep

    /// Creates a trim that ends with a version.
    public init(
        version: ServerVersion, salt: Salt, cumulativeSize: UInt64, keep: HistoryPolicy.Keep = .drop
    ) {
        self.version = version
        self.salt = salt
        self.cumulativeSize = cumulativeSize
        self.keep = keep
    }

    /// Creates a trim of everything up to and including an entry.
    public init(through entry: LogEntry, keep: HistoryPolicy.Keep = .drop) {
        self.init(version: entry.version, salt: entry.salt, cumulativeSize: entry.cumulativeSize, keep: keep)
    }
}

extension ClientFile {
    /// The version after which the file may still need all entries of its lineage; nil if it needs none.
    /// - Parameter generation: the version of its generation. If it is not known, the file keeps everything.
    package func pin(generation: ServerVersion?) -> ServerVersion? {
        if isExpired || salt == 0 { return nil }
        return switch lineage {
        case .none: nil
        case .log: min(uploadCursor.serverVersion, lockedVersion)
        case .generation: generation ?? 0
        case .copy(let version), .view(let version): max(version, min(uploadCursor.serverVersion, lockedVersion))
        }
    }

    /// The same, for a file whose generation is there.
    var pin: ServerVersion? {
        if case .generation(let version) = lineage { pin(generation: version) } else { pin(generation: nil) }
    }

    /// The same, for a caller that knows which generations there are.
    func pin(among generations: Set<ServerVersion>) -> ServerVersion? {
        guard case .generation(let version) = lineage else { return pin(generation: nil) }
        return pin(generation: generations.contains(version) ? version : nil)
    }

    /// Records that the entries up to `version` have gone.
    /// - Parameter newest: the newest receipt of the file among them.
    mutating func trim(through version: ServerVersion, newest: Receipt) {
        baseClientVersion = max(baseClientVersion, newest.clientVersion)
        if let receipt = newestReceipt, receipt.version <= version { newestReceipt = nil }
    }
}

extension FileView {
    /// The pin of a client file; nil if it needs nothing.
    package func pin(of file: ClientFile) throws(HistoryError) -> ServerVersion? {
        guard case .generation = file.lineage else { return file.pin(generation: nil) }
        return file.pin(among: Set(try generations().map(\.version)))
    }

    /// Refuses a trim after which something would be missing. Call this within the commit, when its client files are
    /// stored and the entries are still there.
    /// - Throws: `storeFailed` with what is wrong.
    package func check(_ trim: Trim, of head: FileHead) throws(HistoryError) {
        guard trim.version > head.baseVersion, trim.version <= min(head.version, head.stateVersion),
            try trimEnd(near: trim.version, upTo: trim.version) == trim.version,
            let last = try entry(trim.version), Trim(through: last, keep: trim.keep) == trim
        else {
            throw HistoryError(.storeFailed, "the log cannot begin at version \(trim.version)")
        }
        if trim.keep == .archive, try sealedEnd()?.version ?? 0 < trim.version {
            throw HistoryError(.storeFailed, "the log up to version \(trim.version) has not been sealed")
        }
        if let ident = try clientFile(pinnedBelow: trim.version) {
            throw HistoryError(.storeFailed, "client file \(ident) still needs the log up to version \(trim.version)")
        }
        let range = VersionRange(after: head.baseVersion, through: trim.version)
        for (ident, receipt) in try newestReceipts(in: range) {
            guard let file = try clientFile(ident), file.baseClientVersion >= receipt.clientVersion,
                file.newestReceipt.map({ $0.version > trim.version }) ?? true
            else {
                throw HistoryError(.storeFailed, "client file \(ident) does not know what went of it")
            }
        }
    }
}
