package import AnabranchCore

/// A synced file as a client file sees it whose lineage is a generation: its log consists of the entries of the
/// generation, followed by those of the log after it (`Spec/BoundedHistory.md`, section 3).
package struct LineageView: FileView {
    private let file: any FileView
    private let generation: Generation

    package init(_ generation: Generation, in file: any FileView) {
        self.file = file
        self.generation = generation
    }

    /// The version of the generation.
    var version: ServerVersion { generation.version }

    /// The part of a range that is in the generation, and the part that is in the log.
    private func split(_ range: VersionRange) -> (older: VersionRange, newer: VersionRange) {
        (
            VersionRange(after: range.base, through: min(range.last, generation.version)),
            VersionRange(after: max(range.base, generation.version), through: range.last)
        )
    }

    private func readGeneration<Result: Sendable>(
        _ body: (GenerationEntries) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try file.readGeneration(generation.version, body)
    }

    // MARK: The log

    package func entry(_ version: ServerVersion) throws(HistoryError) -> LogEntry? {
        if version > generation.version { return try file.entry(version) }
        return try readGeneration { entries throws(HistoryError) in try entries.entry(version) }
    }

    package func entries(
        in range: VersionRange, excludingOrigin origin: ClientFileID?, byteBudget: Int
    ) throws(HistoryError) -> [LogEntry] {
        let (older, newer) = split(range)
        var found: [LogEntry] = []
        if !older.isEmpty {
            found = try readGeneration { entries throws(HistoryError) in
                try entries.entries(in: older, byteBudget: byteBudget)
            }
        }
        let left = byteBudget - found.reduce(0) { $0 + $1.byteCount }
        if left >= 0, !newer.isEmpty {
            found += try file.entries(in: newer, excludingOrigin: origin, byteBudget: left)
        }
        return found
    }

    package func versions(in range: VersionRange, excludingOrigin origin: ClientFileID) throws(HistoryError)
        -> [ServerVersion]
    {
        let (older, newer) = split(range)
        var found: [ServerVersion] = []
        if !older.isEmpty {
            found = try readGeneration { entries throws(HistoryError) in
                try entries.versions(in: older, excludingOrigin: origin)
            }
        }
        return found + (newer.isEmpty ? [] : try file.versions(in: newer, excludingOrigin: origin))
    }

    package func versions(
        writing keys: [UInt64], in range: VersionRange, excludingOrigin origin: ClientFileID
    ) throws(HistoryError) -> [ServerVersion] {
        let (older, newer) = split(range)
        var found: [ServerVersion] = []
        if !older.isEmpty {
            found = try readGeneration { entries throws(HistoryError) in
                try entries.versions(writing: keys, in: older, excludingOrigin: origin)
            }
        }
        return found + (newer.isEmpty ? [] : try file.versions(writing: keys, in: newer, excludingOrigin: origin))
    }

    // MARK: Receipts, which a generation does not have

    package func receipts(from ident: ClientFileID, in range: VersionRange) throws(HistoryError) -> [Receipt] {
        let newer = split(range).newer
        return newer.isEmpty ? [] : try file.receipts(from: ident, in: newer)
    }

    package func lastReceipt(from ident: ClientFileID, upTo version: ServerVersion) throws(HistoryError) -> Receipt? {
        version > generation.version ? try file.lastReceipt(from: ident, upTo: version) : nil
    }

    // MARK: Passed on unchanged

    package func head() throws(HistoryError) -> FileHead { try file.head() }

    package func clientFile(_ ident: ClientFileID) throws(HistoryError) -> ClientFile? { try file.clientFile(ident) }

    package func clientFiles(after ident: ClientFileID, countMax: Int) throws(HistoryError) -> [ClientFile] {
        try file.clientFiles(after: ident, countMax: countMax)
    }

    package func clientFile(pinnedBelow version: ServerVersion) throws(HistoryError) -> ClientFileID? {
        try file.clientFile(pinnedBelow: version)
    }

    package func salt(of version: ServerVersion) throws(HistoryError) -> Salt? { try file.salt(of: version) }

    package func received(_ version: ServerVersion) throws(HistoryError) -> ReceivedChangeset? {
        try file.received(version)
    }

    package func newestReceipts(in range: VersionRange) throws(HistoryError) -> [ClientFileID: Receipt] {
        try file.newestReceipts(in: range)
    }

    package func version(ofWrite key: [UInt8]) throws(HistoryError) -> ServerVersion? { try file.version(ofWrite: key) }

    package func withheldSchema(of ident: ClientFileID) throws(HistoryError) -> [UInt8] {
        try file.withheldSchema(of: ident)
    }

    package func record(at place: RecordPlace) throws(HistoryError) -> DoorRecord? { try file.record(at: place) }

    package func records(
        in range: RecordRange, countMax: Int, isReversed: Bool
    ) throws(HistoryError) -> [DoorRecord] {
        try file.records(in: range, countMax: countMax, isReversed: isReversed)
    }

    package func reciprocals(of ident: ClientFileID, in range: VersionRange) throws(HistoryError)
        -> [ReciprocalChangeset]
    {
        try file.reciprocals(of: ident, in: range)
    }

    package func generations() throws(HistoryError) -> [Generation] { try file.generations() }
}
