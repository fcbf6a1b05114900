package import AnabranchCore

/// One state of a synced file whose older entries are in segments: the answers of `FileView` must not depend on that.
package struct SealedView<Rows: FileView>: FileView {
    /// The view of everything that has rows: all but the sealed entries, for which it is never asked.
    package let rows: Rows
    private let sealed: SealedLog

    package init(_ rows: Rows, after sealed: SealedLog) { (self.rows, self.sealed) = (rows, sealed) }

    package func head() throws(HistoryError) -> FileHead { try rows.head() }

    package func clientFile(_ ident: ClientFileID) throws(HistoryError) -> ClientFile? { try rows.clientFile(ident) }

    package func entry(_ version: ServerVersion) throws(HistoryError) -> LogEntry? {
        version > sealed.range.last ? try rows.entry(version) : try sealed.entry(version)
    }

    package func entryWithoutChangeset(_ version: ServerVersion) throws(HistoryError) -> LogEntry? {
        version > sealed.range.last
            ? try rows.entryWithoutChangeset(version) : try sealed.entryWithoutChangeset(version)
    }

    package func salt(of version: ServerVersion) throws(HistoryError) -> Salt? {
        version > sealed.range.last ? try rows.salt(of: version) : try sealed.salt(of: version)
    }

    package func received(_ version: ServerVersion) throws(HistoryError) -> ReceivedChangeset? {
        try rows.received(version)
    }

    package func entries(
        in range: VersionRange, excludingOrigin origin: ClientFileID?, byteBudget: Int
    ) throws(HistoryError) -> [LogEntry] {
        var found = try sealed.entries(in: range, excludingOrigin: origin, byteBudget: byteBudget)
        let left = byteBudget - found.reduce(0) { $0 + $1.byteCount }, newer = unsealed(range)
        if left >= 0, !newer.isEmpty {
            found += try rows.entries(in: newer, excludingOrigin: origin, byteBudget: left)
        }
        return found
    }

    package func versions(
        in range: VersionRange, excludingOrigin origin: ClientFileID
    ) throws(HistoryError) -> [ServerVersion] {
        let newer = unsealed(range)
        return try sealed.versions(in: range, excludingOrigin: origin)
            + (newer.isEmpty ? [] : try rows.versions(in: newer, excludingOrigin: origin))
    }

    package func receipts(from ident: ClientFileID, in range: VersionRange) throws(HistoryError) -> [Receipt] {
        let newer = unsealed(range)
        return try sealed.receipts(from: ident, in: range)
            + (newer.isEmpty ? [] : try rows.receipts(from: ident, in: newer))
    }

    /// The client file itself has its newest receipt: for a client that is not far behind, no segment is read.
    package func lastReceipt(
        from ident: ClientFileID, upTo version: ServerVersion
    ) throws(HistoryError) -> Receipt? {
        if version > sealed.range.last, let receipt = try rows.lastReceipt(from: ident, upTo: version) {
            return receipt
        }
        guard let newest = try rows.clientFile(ident)?.newestReceipt, newest.version > sealed.range.base else {
            return nil
        }
        return newest.version <= version ? newest : try sealed.lastReceipt(from: ident, upTo: version)
    }

    package func versions(
        writing keys: [UInt64], in range: VersionRange, excludingOrigin origin: ClientFileID
    ) throws(HistoryError) -> [ServerVersion] {
        let newer = unsealed(range)
        return try sealed.versions(writing: keys, in: range, excludingOrigin: origin)
            + (newer.isEmpty ? [] : try rows.versions(writing: keys, in: newer, excludingOrigin: origin))
    }

    package func version(ofWrite key: [UInt8]) throws(HistoryError) -> ServerVersion? {
        try rows.version(ofWrite: key)
    }

    package func withheldSchema(of ident: ClientFileID) throws(HistoryError) -> [UInt8] {
        try rows.withheldSchema(of: ident)
    }

    package func record(at place: RecordPlace) throws(HistoryError) -> DoorRecord? { try rows.record(at: place) }

    package func records(
        in range: RecordRange, countMax: Int, isReversed: Bool
    ) throws(HistoryError) -> [DoorRecord] {
        try rows.records(in: range, countMax: countMax, isReversed: isReversed)
    }

    package func reciprocals(
        of ident: ClientFileID, in range: VersionRange
    ) throws(HistoryError) -> [ReciprocalChangeset] {
        try rows.reciprocals(of: ident, in: range)
    }

    // MARK: Trimming

    package func clientFiles(after ident: ClientFileID, countMax: Int) throws(HistoryError) -> [ClientFile] {
        try rows.clientFiles(after: ident, countMax: countMax)
    }

    package func clientFile(pinnedBelow version: ServerVersion) throws(HistoryError) -> ClientFileID? {
        try rows.clientFile(pinnedBelow: version)
    }

    package func generations() throws(HistoryError) -> [Generation] { try rows.generations() }

    package func readGeneration<Result: Sendable>(
        _ version: ServerVersion, _ body: (GenerationEntries) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try rows.readGeneration(version, body)
    }

    package func clientFile(ofGeneration version: ServerVersion) throws(HistoryError) -> ClientFileID? {
        try rows.clientFile(ofGeneration: version)
    }

    package func leftoverGeneration() throws(HistoryError) -> ServerVersion? { try rows.leftoverGeneration() }

    package func newestReceipts(in range: VersionRange) throws(HistoryError) -> [ClientFileID: Receipt] {
        let newer = unsealed(range)
        return try sealed.newestReceipts(in: range).merging(
            newer.isEmpty ? [:] : rows.newestReceipts(in: newer)
        ) { $1 }
    }

    package func trimEnd(
        near version: ServerVersion, upTo last: ServerVersion
    ) throws(HistoryError) -> ServerVersion? {
        version > sealed.range.last
            ? try rows.trimEnd(near: version, upTo: last) : try sealed.trimEnd(near: version, upTo: last)
    }

    package func sealedEnd() throws(HistoryError) -> LogPlace? { try rows.sealedEnd() }

    package func archivedEntries(upTo version: ServerVersion) throws(HistoryError) -> [LogEntry] {
        try rows.archivedEntries(upTo: version)
    }

    package func archivedBytes() throws(HistoryError) -> UInt64 { try rows.archivedBytes() }

    private func unsealed(_ range: VersionRange) -> VersionRange {
        VersionRange(after: max(range.base, sealed.range.last), through: range.last)
    }
}
