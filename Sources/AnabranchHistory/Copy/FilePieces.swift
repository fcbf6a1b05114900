import AnabranchCore

/// Everything that a store keeps of a synced file, read in pieces of some megabytes: commits that make the same file in
/// an empty store, one after the other. The numbers of shared stores (`ClientFile.revision` and the like) are left out.
package struct FilePieces {
    private static let pageCount = 1_000, largePageCount = 100
    private static let pageBytes = 1 << 20, pieceBytesMax = 4 << 20

    private let store: any CopyableStore
    private let path: VirtualPath
    private let id: SyncedFileID
    private var piece: Commit
    private var copied = CopiedParts()

    /// - Parameter id: the store's number for the file, which nobody needs to have open.
    package init(of path: VirtualPath, _ id: SyncedFileID, in store: any CopyableStore) {
        (self.store, self.path, self.id) = (store, path, id)
        piece = Commit(file: id, lease: Lease(0), head: FileHead())
    }

    /// Calls `body` with one piece after the other: file, lease and head are for the caller to fill in.
    /// - Returns: the head of the file.
    /// - Throws: `storeDamaged` for whatever is not what was written, but for the state; errors of `body`.
    package mutating func forEach(
        _ body: (Commit) throws(HistoryError) -> Void
    ) throws(HistoryError) -> FileHead {
        let head = try read { view throws(HistoryError) in try view.head() }
        try readLog(head, body)
        try readClientFiles(head, body)
        try readSegments(body)
        try readRecords(body)
        try readState(body)
        copied.stateVersion = head.stateVersion
        try handOver(body)
        return head
    }

    private func read<Result: Sendable>(
        _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try store.read(id, body)
    }

    /// Hands over what was read, unless more fits into the piece.
    private mutating func handOverIfLarge(
        _ body: (Commit) throws(HistoryError) -> Void
    ) throws(HistoryError) {
        if piece.byteCount + copied.byteCount >= Self.pieceBytesMax { try handOver(body) }
    }

    private mutating func handOver(_ body: (Commit) throws(HistoryError) -> Void) throws(HistoryError) {
        piece.copied = copied
        try body(piece)
        piece = Commit(file: id, lease: Lease(0), head: FileHead())
        copied = CopiedParts()
    }

    // MARK: Log

    private mutating func readLog(
        _ head: FileHead, _ body: (Commit) throws(HistoryError) -> Void
    ) throws(HistoryError) {
        let base = try store.logBeginning(of: id)
        let (rows, salt) = try read { view throws(HistoryError) in
            let rows = try view.sealedEnd() ?? base
            return (rows, try view.entryWithoutChangeset(rows.version)?.salt ?? head.baseSalt)
        }
        copied.beginning = CopiedParts.Beginning(base: base, baseSalt: head.baseSalt, rows: rows, rowsSalt: salt)
        var last = rows.version
        while last < head.version {
            let range = VersionRange(after: last, through: min(last + UInt64(Self.pageCount), head.version))
            let entries = try read { view throws(HistoryError) in try Self.entries(in: range, of: view) }
            piece.entries += entries
            piece.conflictKeys += try LogEntry.conflictKeys(of: entries)
            last = entries.last?.version ?? range.last
            try handOverIfLarge(body)
        }
        var version = head.baseVersion
        while let newest = try readReceived(after: version) {
            version = newest
            try handOverIfLarge(body)
        }
    }

    /// The first entries of a range, including empty ones: all of them, or about as many bytes as a page has.
    private static func entries(
        in range: VersionRange, of view: any FileView
    ) throws(HistoryError) -> [LogEntry] {
        let filled = try view.entries(in: range, excludingOrigin: nil, byteBudget: pageBytes)
        let isWhole = filled.reduce(0) { $0 + $1.byteCount } <= pageBytes
        let last = isWhole ? range.last : filled.last?.version ?? range.last
        var entries: [LogEntry] = [], next = filled[...]
        for number in range.base.rawValue + 1...last.rawValue {
            let version = ServerVersion(rawValue: number)
            if next.first?.version == version {
                entries.append(next.removeFirst())
            } else {
                entries.append(try view.requiredEntry(version))
            }
        }
        return entries
    }

    /// - Returns: the version of the last one; nil if there are no more.
    private mutating func readReceived(after version: ServerVersion) throws(HistoryError) -> ServerVersion? {
        let received = try store.received(of: id, after: version, countMax: Self.largePageCount)
        piece.received += received
        return received.last?.version
    }

    private mutating func readSegments(_ body: (Commit) throws(HistoryError) -> Void) throws(HistoryError) {
        let generations = try read { view throws(HistoryError) in try view.generations() }
        let kinds: [CopiedSegment.Kind] = [.log, .archive] + generations.map { .generation($0.version) }
        for kind in kinds {
            var last: ServerVersion = 0
            while let segment = try store.segment(of: id, kind, after: last) {
                copied.segments.append(segment)
                last = segment.last
                try handOverIfLarge(body)
            }
        }
        copied.generations = generations
    }

    // MARK: Client files

    private mutating func readClientFiles(
        _ head: FileHead, _ body: (Commit) throws(HistoryError) -> Void
    ) throws(HistoryError) {
        var last = ClientFileID(rawValue: UInt64(ClientFile.reserved.count) - 1)
        while last + 1 < head.nextIdent {
            let page = try read { [last] view throws(HistoryError) in
                try view.clientFiles(after: last, countMax: Self.pageCount)
            }
            guard let newest = page.last else {
                throw HistoryError(.storeDamaged, "client file \(last + 1) is missing")
            }
            for var file in page {
                (file.revision, file.session, file.foundAway) = (0, 0, 0)
                piece.clientFiles.append(file)
            }
            try handOverIfLarge(body)
            for file in page where !file.isExpired { try readParts(of: file, body) }
            last = newest.ident
        }
        let fields = try store.viewFields(of: id)
        piece.viewFields += fields.sorted { left, right in
            (left.className + [0] + (left.name ?? [])).lexicographicallyPrecedes(
                right.className + [0] + (right.name ?? []))
        }
    }

    private mutating func readParts(
        of file: ClientFile, _ body: (Commit) throws(HistoryError) -> Void
    ) throws(HistoryError) {
        let ident = file.ident
        let (reciprocals, schema) = try read { view throws(HistoryError) in
            let whole = VersionRange(after: 0, through: .largest)
            return (try view.reciprocals(of: ident, in: whole), try view.withheldSchema(of: ident))
        }
        if !reciprocals.isEmpty || !schema.isEmpty {
            piece.reciprocals += reciprocals.map { ReciprocalChange(ident: ident, reciprocal: $0) }
            if !schema.isEmpty { piece.withheldSchemas[ident] = schema }
            try handOverIfLarge(body)
        }
        switch file.lineage {
        case .view, .none: if let view = try store.view(of: id, ident) { try readEntries(of: view, body) }
        case .log, .generation, .copy: break
        }
    }

    private mutating func readEntries(
        of view: StoredView, _ body: (Commit) throws(HistoryError) -> Void
    ) throws(HistoryError) {
        let record = view.record, logged = Set(record.logged.map(\.number))
        var rows = view.log.filter { !logged.contains($0.number) }[...], entries: [ViewEntry] = [], bytes = 0
        while let first = rows.popFirst() {
            var last = first.number, size = first.sentBytes
            while let next = rows.first, next.number == last + 1, size < Self.pageBytes {
                (last, size) = (next.number, size + next.sentBytes)
                rows.removeFirst()
            }
            entries += try store.viewEntries(of: id, record.ident, first.number...last)
            bytes += size
            // One piece has a view once.
            if bytes >= Self.pageBytes, !rows.isEmpty {
                piece.views.append(ViewChange(copied: record, entries))
                try handOver(body)
                (entries, bytes) = ([], 0)
            }
        }
        piece.views.append(ViewChange(copied: record, entries))
        try handOverIfLarge(body)
    }

    // MARK: The rest

    private mutating func readRecords(_ body: (Commit) throws(HistoryError) -> Void) throws(HistoryError) {
        for total in try store.recordTotals(of: path) {
            var range = RecordRange(space: total.space, kind: total.kind), records: [DoorRecord] = []
            repeat {
                records = try read { [range] view throws(HistoryError) in
                    try view.records(in: range, countMax: Self.largePageCount, isReversed: false)
                }
                piece.records += records.map {
                    RecordChange(place: $0.place, value: $0.value, expiresAt: $0.expiresAt)
                }
                if let last = records.last { range.lower = last.place.key + [0] }
                try handOverIfLarge(body)
            } while records.count == Self.largePageCount
        }
        var number: UInt64 = 0
        while case let objects = try store.ingested(
            of: id, after: number, countMax: Self.pageCount, byteBudget: Self.pageBytes), let last = objects.last
        {
            piece.ingested += objects
            number = last.number
            try handOverIfLarge(body)
        }
        number = 0
        while case let keys = try store.idempotencyKeys(of: id, after: number, countMax: Self.pageCount),
            let last = keys.last
        {
            copied.idempotencyKeys += keys.map(\.key)
            number = last.number
            try handOverIfLarge(body)
        }
    }

    private mutating func readState(_ body: (Commit) throws(HistoryError) -> Void) throws(HistoryError) {
        var last: RowAddress?
        while case let rows = try store.stateRows(
            of: id, after: last, countMax: Self.pageCount, byteBudget: Self.pageBytes), let newest = rows.last
        {
            copied.stateRows += rows
            last = newest.address
            try handOverIfLarge(body)
        }
    }
}
