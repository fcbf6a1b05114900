#if canImport(CLibPQ)
import AnabranchCore
import AnabranchHistory

/// A file with the sealed part of its log. Where that begins is known when something is read, not before: most turns
/// read nothing.
struct WholeFile: DistantView {
    let file: PostgresFile

    private func whole<Result>(
        _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try file.reading.attempt { () throws(HistoryError) in
            guard let sealed = file.sealedLog else { return try body(file) }
            return try body(SealedView(file, after: sealed))
        }
    }

    func readGeneration<Result: Sendable>(
        _ version: ServerVersion, _ body: (GenerationEntries) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        // Before `body` is called, something has been read.
        try whole { file throws(HistoryError) in try file.readGeneration(version, body) }
    }

    func head() throws(HistoryError) -> FileHead {
        try whole { file throws(HistoryError) in try file.head() }
    }

    func clientFile(_ ident: ClientFileID) throws(HistoryError) -> ClientFile? {
        try whole { file throws(HistoryError) in try file.clientFile(ident) }
    }

    func expect(_ head: FileHead) throws(HistoryError) { try file.reading.expect(head) }

    func rows(of idents: [ClientFileID]) throws(HistoryError) -> [ClientFile] {
        try file.reading.attempt { () throws(HistoryError) in try file.clientFiles(idents) }
    }

    func clientFiles(after ident: ClientFileID, countMax: Int) throws(HistoryError) -> [ClientFile] {
        try whole { file throws(HistoryError) in try file.clientFiles(after: ident, countMax: countMax) }
    }

    func clientFile(pinnedBelow version: ServerVersion) throws(HistoryError) -> ClientFileID? {
        try whole { file throws(HistoryError) in try file.clientFile(pinnedBelow: version) }
    }

    func generations() throws(HistoryError) -> [Generation] {
        try whole { file throws(HistoryError) in try file.generations() }
    }

    func clientFile(ofGeneration version: ServerVersion) throws(HistoryError) -> ClientFileID? {
        try whole { file throws(HistoryError) in try file.clientFile(ofGeneration: version) }
    }

    func leftoverGeneration() throws(HistoryError) -> ServerVersion? {
        try whole { file throws(HistoryError) in try file.leftoverGeneration() }
    }

    func entry(_ version: ServerVersion) throws(HistoryError) -> LogEntry? {
        try whole { file throws(HistoryError) in try file.entry(version) }
    }

    func salt(of version: ServerVersion) throws(HistoryError) -> Salt? {
        try whole { file throws(HistoryError) in try file.salt(of: version) }
    }

    func received(_ version: ServerVersion) throws(HistoryError) -> ReceivedChangeset? {
        try whole { file throws(HistoryError) in try file.received(version) }
    }

    func entries(
        in range: VersionRange, excludingOrigin origin: ClientFileID?, byteBudget: Int
    ) throws(HistoryError) -> [LogEntry] {
        try whole { file throws(HistoryError) in
            try file.entries(in: range, excludingOrigin: origin, byteBudget: byteBudget)
        }
    }

    func versions(
        in range: VersionRange, excludingOrigin origin: ClientFileID
    ) throws(HistoryError) -> [ServerVersion] {
        try whole { file throws(HistoryError) in try file.versions(in: range, excludingOrigin: origin) }
    }

    func receipts(from ident: ClientFileID, in range: VersionRange) throws(HistoryError) -> [Receipt] {
        try whole { file throws(HistoryError) in try file.receipts(from: ident, in: range) }
    }

    func newestReceipts(in range: VersionRange) throws(HistoryError) -> [ClientFileID: Receipt] {
        try whole { file throws(HistoryError) in try file.newestReceipts(in: range) }
    }

    func trimEnd(near version: ServerVersion, upTo last: ServerVersion) throws(HistoryError) -> ServerVersion? {
        try whole { file throws(HistoryError) in try file.trimEnd(near: version, upTo: last) }
    }

    func lastReceipt(from ident: ClientFileID, upTo version: ServerVersion) throws(HistoryError) -> Receipt? {
        try whole { file throws(HistoryError) in try file.lastReceipt(from: ident, upTo: version) }
    }

    func versions(
        writing keys: [UInt64], in range: VersionRange, excludingOrigin origin: ClientFileID
    ) throws(HistoryError) -> [ServerVersion] {
        try whole { file throws(HistoryError) in try file.versions(writing: keys, in: range, excludingOrigin: origin) }
    }

    func version(ofWrite key: [UInt8]) throws(HistoryError) -> ServerVersion? {
        try whole { file throws(HistoryError) in try file.version(ofWrite: key) }
    }

    func reciprocals(of ident: ClientFileID, in range: VersionRange) throws(HistoryError) -> [ReciprocalChangeset] {
        try whole { file throws(HistoryError) in try file.reciprocals(of: ident, in: range) }
    }

    func withheldSchema(of ident: ClientFileID) throws(HistoryError) -> [UInt8] {
        try whole { file throws(HistoryError) in try file.withheldSchema(of: ident) }
    }

    func record(at place: RecordPlace) throws(HistoryError) -> DoorRecord? {
        try whole { file throws(HistoryError) in try file.record(at: place) }
    }

    func records(in range: RecordRange, countMax: Int, isReversed: Bool) throws(HistoryError) -> [DoorRecord] {
        try whole { file throws(HistoryError) in
            try file.records(in: range, countMax: countMax, isReversed: isReversed)
        }
    }

    func sealedEnd() throws(HistoryError) -> LogPlace? {
        try whole { file throws(HistoryError) in try file.sealedEnd() }
    }

    func archivedEntries(upTo version: ServerVersion) throws(HistoryError) -> [LogEntry] {
        try whole { file throws(HistoryError) in try file.archivedEntries(upTo: version) }
    }

    func archivedBytes() throws(HistoryError) -> UInt64 {
        try whole { file throws(HistoryError) in try file.archivedBytes() }
    }
}
#endif
