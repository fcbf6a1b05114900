import AnabranchCore

/// One state of a synced file: what its tail has, from memory, and anything else from the store. Both agree, so an
/// answer does not depend on how much the tail keeps.
struct TailView: FileView {
    /// The way in which the store is read.
    enum Stored {
        /// In one reading.
        case open(any FileView)
        /// In a reading for each miss, for callers that hardly miss anything.
        case closed(any HistoryStore, SyncedFileID)
    }

    private let tail: LogTail
    private let source: Stored

    init(_ tail: LogTail, _ source: Stored) {
        self.tail = tail
        self.source = source
    }

    private func stored<Result: Sendable>(
        _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        switch source {
        case .open(let view): try body(view)
        case .closed(let store, let id):
            try store.read(id) { [head = tail.head] view throws(HistoryError) in
                if store.isShared { try view.requireHead(head, of: id) }
                return try body(view)
            }
        }
    }

    func head() -> FileHead { tail.head }

    func clientFile(_ ident: ClientFileID) throws(HistoryError) -> ClientFile? {
        if let file = tail.clientFile(ident) { return file }
        let file = try stored { view throws(HistoryError) in try view.clientFile(ident) }
        if let file { tail.keep(file) }
        return file
    }

    func clientFiles(after ident: ClientFileID, countMax: Int) throws(HistoryError) -> [ClientFile] {
        try stored { view throws(HistoryError) in try view.clientFiles(after: ident, countMax: countMax) }
    }

    func clientFile(pinnedBelow version: ServerVersion) throws(HistoryError) -> ClientFileID? {
        try stored { view throws(HistoryError) in try view.clientFile(pinnedBelow: version) }
    }

    func generations() throws(HistoryError) -> [Generation] {
        try stored { view throws(HistoryError) in try view.generations() }
    }

    func readGeneration<Result: Sendable>(
        _ version: ServerVersion, _ body: (GenerationEntries) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try stored { view throws(HistoryError) in try view.readGeneration(version, body) }
    }

    func clientFile(ofGeneration version: ServerVersion) throws(HistoryError) -> ClientFileID? {
        try stored { view throws(HistoryError) in try view.clientFile(ofGeneration: version) }
    }

    func leftoverGeneration() throws(HistoryError) -> ServerVersion? {
        try stored { view throws(HistoryError) in try view.leftoverGeneration() }
    }

    func trimEnd(near version: ServerVersion, upTo last: ServerVersion) throws(HistoryError) -> ServerVersion? {
        try stored { view throws(HistoryError) in try view.trimEnd(near: version, upTo: last) }
    }

    func newestReceipts(in range: VersionRange) throws(HistoryError) -> [ClientFileID: Receipt] {
        try stored { view throws(HistoryError) in try view.newestReceipts(in: range) }
    }

    func entry(_ version: ServerVersion) throws(HistoryError) -> LogEntry? {
        if version > tail.head.version { return nil }
        if version > tail.base { return tail.entry(version) }
        return try stored { view throws(HistoryError) in try view.entry(version) }
    }

    func entryWithoutChangeset(_ version: ServerVersion) throws(HistoryError) -> LogEntry? {
        if version > tail.base { return try entry(version)?.withoutChangeset }
        return try stored { view throws(HistoryError) in try view.entryWithoutChangeset(version) }
    }

    func salt(of version: ServerVersion) throws(HistoryError) -> Salt? {
        if version > tail.head.version { return nil }
        if version > tail.base { return tail.entry(version).salt }
        return try stored { view throws(HistoryError) in try view.salt(of: version) }
    }

    func received(_ version: ServerVersion) throws(HistoryError) -> ReceivedChangeset? {
        try stored { view throws(HistoryError) in try view.received(version) }
    }

    func entries(
        in range: VersionRange, excludingOrigin origin: ClientFileID?, byteBudget: Int
    ) throws(HistoryError) -> [LogEntry] {
        var found: [LogEntry] = []
        let (older, newer) = split(range)
        if !older.isEmpty {
            found = try stored { view throws(HistoryError) in
                try view.entries(in: older, excludingOrigin: origin, byteBudget: byteBudget)
            }
        }
        let bytes = found.reduce(0) { $0 + $1.byteCount }
        if bytes <= byteBudget {
            found += tail.entries(in: newer, excludingOrigin: origin, byteBudget: byteBudget - bytes)
        }
        return found
    }

    func versions(
        in range: VersionRange, excludingOrigin origin: ClientFileID
    ) throws(HistoryError) -> [ServerVersion] {
        var found: [ServerVersion] = []
        let (older, newer) = split(range)
        if !older.isEmpty {
            found = try stored { view throws(HistoryError) in try view.versions(in: older, excludingOrigin: origin) }
        }
        return found + tail.versions(in: newer, excludingOrigin: origin)
    }

    func receipts(from ident: ClientFileID, in range: VersionRange) throws(HistoryError) -> [Receipt] {
        var found: [Receipt] = []
        let (older, newer) = split(range)
        if !older.isEmpty {
            found = try stored { view throws(HistoryError) in try view.receipts(from: ident, in: older) }
        }
        return found + tail.receipts(from: ident, in: newer)
    }

    func lastReceipt(from ident: ClientFileID, upTo version: ServerVersion) throws(HistoryError) -> Receipt? {
        if let receipt = tail.lastReceipt(from: ident, upTo: version) { return receipt }
        let base = tail.base
        guard version >= base else {
            return try stored { view throws(HistoryError) in try view.lastReceipt(from: ident, upTo: version) }
        }
        if case .known(let receipt) = tail.olderReceipt(of: ident) { return receipt }
        let receipt = try stored { view throws(HistoryError) in try view.lastReceipt(from: ident, upTo: base) }
        tail.keep(receipt, of: ident)
        return receipt
    }

    func versions(
        writing keys: [UInt64], in range: VersionRange, excludingOrigin origin: ClientFileID
    ) throws(HistoryError) -> [ServerVersion] {
        var found: [ServerVersion] = []
        let (older, newer) = split(range)
        if !older.isEmpty {
            found = try stored { view throws(HistoryError) in
                try view.versions(writing: keys, in: older, excludingOrigin: origin)
            }
        }
        tail.collect(keys, in: newer, excludingOrigin: origin, into: &found)
        return found.sortedUnique()
    }

    func version(ofWrite key: [UInt8]) throws(HistoryError) -> ServerVersion? {
        try stored { view throws(HistoryError) in try view.version(ofWrite: key) }
    }

    func sealedEnd() throws(HistoryError) -> LogPlace? {
        try stored { view throws(HistoryError) in try view.sealedEnd() }
    }

    func archivedEntries(upTo version: ServerVersion) throws(HistoryError) -> [LogEntry] {
        try stored { view throws(HistoryError) in try view.archivedEntries(upTo: version) }
    }

    func archivedBytes() throws(HistoryError) -> UInt64 {
        try stored { view throws(HistoryError) in try view.archivedBytes() }
    }

    func withheldSchema(of ident: ClientFileID) throws(HistoryError) -> [UInt8] {
        try stored { view throws(HistoryError) in try view.withheldSchema(of: ident) }
    }

    func record(at place: RecordPlace) throws(HistoryError) -> DoorRecord? {
        try stored { view throws(HistoryError) in try view.record(at: place) }
    }

    func records(
        in range: RecordRange, countMax: Int, isReversed: Bool
    ) throws(HistoryError) -> [DoorRecord] {
        try stored { view throws(HistoryError) in
            try view.records(in: range, countMax: countMax, isReversed: isReversed)
        }
    }

    func reciprocals(of ident: ClientFileID, in range: VersionRange) throws(HistoryError) -> [ReciprocalChangeset] {
        let kept = tail.reciprocals(of: ident)
        if case .known(let all) = kept { return all.filter { range.contains($0.version) } }
        guard case .unknown = kept, tail.clientFile(ident) != nil else {
            return try stored { view throws(HistoryError) in try view.reciprocals(of: ident, in: range) }
        }
        let whole = VersionRange(after: 0, through: .largest)
        let all = try stored { view throws(HistoryError) in try view.reciprocals(of: ident, in: whole) }
        tail.keep(all, of: ident)
        return all.filter { range.contains($0.version) }
    }

    /// The parts of a range before the tail and in it.
    private func split(_ range: VersionRange) -> (older: VersionRange, newer: VersionRange) {
        (
            VersionRange(after: range.base, through: min(range.last, tail.base)),
            VersionRange(after: max(range.base, tail.base), through: range.last)
        )
    }
}
