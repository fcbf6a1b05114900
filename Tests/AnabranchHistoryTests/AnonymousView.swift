import AnabranchCore

@testable import AnabranchExplain
@testable import AnabranchHistory

/// A synced file whose log and uploads have other names, keys and values, so that its history can be merged again.
struct AnonymousView: FileView {
    let file: any FileView
    let anonymizer: Anonymizer

    func entry(_ version: ServerVersion) throws(HistoryError) -> LogEntry? {
        guard let entry = try file.entry(version) else { return nil }
        return try anonymizer.entry(entry)
    }

    func received(_ version: ServerVersion) throws(HistoryError) -> ReceivedChangeset? {
        guard var upload = try file.received(version) else { return nil }
        do { upload.changeset = try anonymizer.changeset(upload.changeset) } catch {
            throw HistoryError(.storeDamaged, error.reason)
        }
        return upload
    }

    func entries(
        in range: VersionRange, excludingOrigin: ClientFileID?, byteBudget: Int
    ) throws(HistoryError) -> [LogEntry] {
        var entries: [LogEntry] = []
        for entry in try file.entries(in: range, excludingOrigin: excludingOrigin, byteBudget: byteBudget) {
            entries.append(try anonymizer.entry(entry))
        }
        return entries
    }

    /// All versions: the index knows the true names.
    func versions(
        writing keys: [UInt64], in range: VersionRange, excludingOrigin: ClientFileID
    ) throws(HistoryError) -> [ServerVersion] {
        try file.versions(in: range, excludingOrigin: excludingOrigin)
    }

    // MARK: Passed on unchanged

    func head() throws(HistoryError) -> FileHead { try file.head() }
    func clientFile(_ ident: ClientFileID) throws(HistoryError) -> ClientFile? { try file.clientFile(ident) }
    func clientFiles(after ident: ClientFileID, countMax: Int) throws(HistoryError) -> [ClientFile] {
        try file.clientFiles(after: ident, countMax: countMax)
    }
    func clientFile(pinnedBelow version: ServerVersion) throws(HistoryError) -> ClientFileID? {
        try file.clientFile(pinnedBelow: version)
    }
    func generations() throws(HistoryError) -> [Generation] { try file.generations() }
    func readGeneration<Result: Sendable>(
        _ version: ServerVersion, _ body: (GenerationEntries) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try file.readGeneration(version, body)
    }
    func clientFile(ofGeneration version: ServerVersion) throws(HistoryError) -> ClientFileID? {
        try file.clientFile(ofGeneration: version)
    }
    func leftoverGeneration() throws(HistoryError) -> ServerVersion? { try file.leftoverGeneration() }
    func salt(of version: ServerVersion) throws(HistoryError) -> Salt? { try file.salt(of: version) }
    func versions(in range: VersionRange, excludingOrigin: ClientFileID) throws(HistoryError) -> [ServerVersion] {
        try file.versions(in: range, excludingOrigin: excludingOrigin)
    }
    func receipts(from ident: ClientFileID, in range: VersionRange) throws(HistoryError) -> [Receipt] {
        try file.receipts(from: ident, in: range)
    }
    func newestReceipts(in range: VersionRange) throws(HistoryError) -> [ClientFileID: Receipt] {
        try file.newestReceipts(in: range)
    }
    func trimEnd(near version: ServerVersion, upTo last: ServerVersion) throws(HistoryError) -> ServerVersion? {
        try file.trimEnd(near: version, upTo: last)
    }
    func lastReceipt(from ident: ClientFileID, upTo version: ServerVersion) throws(HistoryError) -> Receipt? {
        try file.lastReceipt(from: ident, upTo: version)
    }
    func version(ofWrite key: [UInt8]) throws(HistoryError) -> ServerVersion? { try file.version(ofWrite: key) }
    func reciprocals(of ident: ClientFileID, in range: VersionRange) throws(HistoryError) -> [ReciprocalChangeset] {
        try file.reciprocals(of: ident, in: range)
    }
    func record(at place: RecordPlace) throws(HistoryError) -> DoorRecord? { try file.record(at: place) }
    func records(in range: RecordRange, countMax: Int, isReversed: Bool) throws(HistoryError) -> [DoorRecord] {
        try file.records(in: range, countMax: countMax, isReversed: isReversed)
    }
}
