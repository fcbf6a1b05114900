package import AnabranchCore

/// A store whose files can be copied into another one as they are, and that takes such copies (`StoreCopy`): it gives
/// out, in pieces, what neither clients nor servers ask for, and accepts `Commit.copied`.
package protocol CopyableStore: ViewStore, HistoryCatalog {
    /// The place before the first entry of the log.
    func logBeginning(of file: SyncedFileID) throws(HistoryError) -> LogPlace

    /// The first segment of a kind above a version; nil if there is none.
    func segment(
        of file: SyncedFileID, _ kind: CopiedSegment.Kind, after last: ServerVersion
    ) throws(HistoryError) -> CopiedSegment?

    /// The changesets that are kept as they were received, above a version and in order.
    func received(
        of file: SyncedFileID, after version: ServerVersion, countMax: Int
    ) throws(HistoryError) -> [ReceivedChangeset]

    /// The idempotency keys of a file, from the oldest one on, above a number that tells how old they are.
    func idempotencyKeys(
        of file: SyncedFileID, after number: UInt64, countMax: Int
    ) throws(HistoryError) -> [(number: UInt64, key: IdempotencyKey)]

    /// The rows of a file's state in the order of their addresses, above one of them, until there are `countMax` or
    /// they have `byteBudget` bytes. They are not checked.
    func stateRows(
        of file: SyncedFileID, after address: RowAddress?, countMax: Int, byteBudget: Int
    ) throws(HistoryError) -> [(address: RowAddress, bytes: [UInt8])]
}

/// A block of entries as a store keeps it.
package struct CopiedSegment: Sendable {
    /// The part of a file that a segment belongs to.
    package enum Kind: Equatable, Sendable {
        case log
        case archive
        /// The bootstrap generation of a version.
        case generation(ServerVersion)
    }

    package let kind: Kind
    /// The version of its last entry.
    package let last: ServerVersion
    package let block: [UInt8]

    package init(kind: Kind, last: ServerVersion, block: [UInt8]) {
        (self.kind, self.last, self.block) = (kind, last, block)
    }
}

/// The part of a commit that only copies of files have: rows that no server writes in this form.
package struct CopiedParts: Sendable {
    /// The beginning of a log, and of its entries that have rows.
    package struct Beginning: Sendable {
        package let base: LogPlace
        package let baseSalt: Salt
        /// The place before the first entry that has a row; the same if nothing of the log is in segments.
        package let rows: LogPlace
        package let rowsSalt: Salt
    }

    /// The beginning of the log, in the first commit of a file.
    package var beginning: Beginning?
    package var segments: [CopiedSegment] = []
    /// Generations whose segments are copied as well.
    package var generations: [Generation] = []
    /// Keys of the file's writes, the oldest one first.
    package var idempotencyKeys: [IdempotencyKey] = []
    package var stateRows: [(address: RowAddress, bytes: [UInt8])] = []
    /// The version whose state the rows are, once all of them are there.
    package var stateVersion: ServerVersion?

    /// Changes the head of a file as the rows do.
    func move(_ head: inout FileHead) {
        if let beginning {
            (head.baseVersion, head.baseSalt) = (beginning.base.version, beginning.baseSalt)
            head.baseCumulativeSize = beginning.base.cumulativeSize
            (head.version, head.versionSalt) = (beginning.rows.version, beginning.rowsSalt)
            head.cumulativeSize = beginning.rows.cumulativeSize
        }
        if let stateVersion { head.stateVersion = stateVersion }
    }

    /// The approximate size of its writes, in bytes.
    var byteCount: Int {
        segments.reduce(256 * (generations.count + idempotencyKeys.count)) { $0 + $1.block.count + 256 }
            + stateRows.reduce(0) { $0 + $1.bytes.count + 256 }
    }
}
