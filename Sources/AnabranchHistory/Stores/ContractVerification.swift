import AnabranchCore

/// The check of one synced file by what its store answers, for stores that compare all that they read with its
/// checksum: an answer is what was written, or `storeDamaged`. Whether the answers agree with each other is found here
/// (`Spec/Durability.md`, section 4).
package final class ContractVerification {
    private let store: any ViewStore & HistoryCatalog
    private let id: SyncedFileID
    private var result: VerifiedFile
    private var head = FileHead()
    private var clientFiles: [ClientFileID: ClientFile] = [:]
    /// The newest client version in the log so far, by origin.
    private var received: [ClientFileID: ClientVersion] = [:]

    /// - Parameter id: the store's number for the file, which nobody needs to have open.
    package init(of path: VirtualPath, _ id: SyncedFileID, in store: any ViewStore & HistoryCatalog) {
        (self.store, self.id, result) = (store, id, VerifiedFile(path: path))
    }

    /// - Returns: what was found. If the record of the file is damaged, nothing else is.
    /// - Throws: `storeFailed` if the store cannot be read.
    package func run() throws(HistoryError) -> VerifiedFile {
        try check(.checksum, "record of the file") { () throws(HistoryError) in
            head = try read { view throws(HistoryError) in try view.head() }
        }
        guard result.damages.isEmpty else { return result }
        result.entryCount = Int(clamping: head.version.rawValue - min(head.version, head.baseVersion).rawValue)
        result.logBytes = head.logBytes
        try checkClientFiles()
        try check(.checksum, "log", checkLog)
        try check(.checksum, "log", checkReceipts)
        try checkArchive()
        try check(.generation, "generations", checkGenerations)
        try checkParts()
        try check(.value, "ingested objects", checkIngested)
        try check(.checksum, "records of doors", checkRecords)
        try check(.state, "state", checkState)
        return result
    }

    /// Runs a part of the check, which ends with the first damage that is met in reading.
    private func check(
        _ kind: StoreDamage.Kind, _ place: String, _ part: () throws(HistoryError) -> Void
    ) throws(HistoryError) {
        do throws(HistoryError) { try part() } catch {
            guard error.code == .storeDamaged else { throw error }
            expect(false, kind, place, error.reason)
        }
    }

    private func expect(
        _ holds: Bool, _ kind: StoreDamage.Kind, _ place: @autoclosure () -> String,
        _ finding: @autoclosure () -> String
    ) {
        if !holds { result.damages.append(StoreDamage(kind: kind, place: place(), finding: finding())) }
    }

    private func read<Result: Sendable>(
        _ body: (any FileView) throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        try store.read(id, body)
    }

    private static let pageCount = 1_000, pageBytes = 1 << 20

    // MARK: Client files

    private func checkClientFiles() throws(HistoryError) {
        var last: ClientFileID = 0
        while last + 1 < head.nextIdent {
            let page = try clientFiles(after: last)
            for file in page {
                expect(file.ident == last + 1, .continuity, "client files", "client file \(last + 1) is missing")
                last = file.ident
                check(file)
                clientFiles[file.ident] = file
            }
            guard !page.isEmpty else {
                return expect(false, .continuity, "client files", "there are \(last + 1), not \(head.nextIdent)")
            }
        }
        result.clientFileCount = clientFiles.count { $0.key >= ClientFileID(rawValue: 2) }
        try check(.cursor, "client files") { () throws(HistoryError) in
            let lost = try read { [head] view throws(HistoryError) in
                try view.clientFile(pinnedBelow: head.baseVersion)
            }
            expect(
                lost == nil, .cursor, "client file \(lost ?? 0)",
                "it needs entries that the log, which begins after version \(head.baseVersion), does not have")
        }
    }

    /// - Returns: the next ones; without those that are damaged.
    private func clientFiles(after last: ClientFileID) throws(HistoryError) -> [ClientFile] {
        do throws(HistoryError) {
            return try read { view throws(HistoryError) in
                try view.clientFiles(after: last, countMax: Self.pageCount)
            }
        } catch {
            guard error.code == .storeDamaged else { throw error }
        }
        var files: [ClientFile] = []
        let end = min(head.nextIdent.rawValue, last.rawValue + 1 + UInt64(Self.pageCount))
        for number in last.rawValue + 1..<end {
            try check(.checksum, "client file \(number)") { () throws(HistoryError) in
                let ident = ClientFileID(rawValue: number)
                files += [try read { view throws(HistoryError) in try view.clientFile(ident) }].compactMap(\.self)
            }
        }
        return files
    }

    private func check(_ file: ClientFile) {
        let place = "client file \(file.ident)", cursor = file.uploadCursor
        expect(file.ident < 2 ? file.salt == 0 : file.salt.isProof, .value, place, "the salt is \(file.salt)")
        expect(cursor.isConsistent, .cursor, place, "client version 0 with base \(cursor.serverVersion)")
        expect(
            max(cursor.serverVersion, file.lockedVersion) <= head.version, .cursor, place,
            "base \(cursor.serverVersion) or locked version \(file.lockedVersion) is beyond the log")
    }

    /// The parts that single client files have.
    private func checkParts() throws(HistoryError) {
        for (ident, file) in clientFiles.sorted(by: { $0.key < $1.key }) where ident >= 2 && !file.isExpired {
            try check(.checksum, "client file \(ident)") { () throws(HistoryError) in
                let (reciprocals, _) = try read { view throws(HistoryError) in
                    let whole = VersionRange(after: 0, through: .largest)
                    return (try view.reciprocals(of: ident, in: whole), try view.withheldSchema(of: ident))
                }
                result.reciprocalCount += reciprocals.count
                for reciprocal in reciprocals {
                    expect(
                        reciprocal.version > file.uploadCursor.serverVersion && reciprocal.version <= head.version,
                        .reciprocal, "reciprocal changeset of client file \(ident), version \(reciprocal.version)",
                        "it is not above base \(file.uploadCursor.serverVersion) in the log")
                }
            }
            guard case .view = file.lineage else { continue }
            let place = "view of client file \(ident)"
            try check(.view, place) { () throws(HistoryError) in
                guard let view = try store.view(of: id, ident) else {
                    return expect(false, .view, place, "it is missing")
                }
                let newest = max(view.record.changed, view.record.projected, view.log.last?.version ?? 0)
                expect(newest <= head.version, .view, place, "it is further than the log")
            }
        }
    }

    // MARK: Log

    private func checkLog() throws(HistoryError) {
        expect((head.baseSalt == 0) == (head.baseVersion == 0), .value, "log", "the base salt is \(head.baseSalt)")
        var replay = LogReplay(VersionRange(after: head.baseVersion, through: head.version), stepBytes: Self.pageBytes)
        while !replay.isDone {
            let entries = try read { view throws(HistoryError) in try replay.next(from: view) }
            try check(keys: entries.map { entry in (entry.version, check(entry)) })
        }
    }

    /// - Returns: the conflict keys that it writes.
    private func check(_ entry: LogEntry) -> [UInt64] {
        let place = "log entry \(entry.version)", origin = clientFiles[entry.origin]
        expect(entry.salt.isProof, .value, place, "the salt is \(entry.salt)")
        expect(
            (entry.origin == 0) == (entry.clientVersion == 0), .cursor, place,
            "client version \(entry.clientVersion) of origin \(entry.origin)")
        if entry.origin > 0 {
            expect(entry.origin > 1 && origin != nil, .cursor, place, "there is no client file \(entry.origin)")
            expect(
                entry.clientVersion > received[entry.origin] ?? origin?.baseClientVersion ?? 0
                    && origin.map { entry.clientVersion <= $0.uploadCursor.clientVersion } ?? true, .cursor, place,
                "client version \(entry.clientVersion) is out of order")
            received[entry.origin] = entry.clientVersion
        }
        var arena = ChangesetArena()
        do {
            let index = try arena.decode(entry.changeset, version: entry.version.rawValue, tag: entry.tag)
            expect(!arena.isEmpty(index), .changeset, place, "it has bytes but no instruction")
            return arena.conflictKeys(of: index).writes
        } catch {
            expect(false, .changeset, place, "\(error)")
            return []
        }
    }

    /// The largest number of questions about the conflict keys of a piece of the log.
    private static let questionsMax = 16

    /// Asks for the keys of each entry apart from each other: an entry is found as long as one of them is there.
    private func check(keys entries: [(version: ServerVersion, keys: [UInt64])]) throws(HistoryError) {
        guard let first = entries.first, let last = entries.last else { return }
        let range = VersionRange(after: first.version - 1, through: last.version)
        for number in 0..<min(Self.questionsMax, entries.map(\.keys.count).max() ?? 0) {
            let keys = entries.flatMap { entry in
                stride(from: number, to: entry.keys.count, by: Self.questionsMax).map { entry.keys[$0] }
            }.sortedUnique()
            let found = Set(
                try read { view throws(HistoryError) in
                    // Nothing comes from the server's own client file.
                    try view.versions(writing: keys, in: range, excludingOrigin: .server)
                })
            for entry in entries where entry.keys.count > number {
                expect(
                    found.contains(entry.version), .conflictKeys, "log entry \(entry.version)",
                    "it is not found under one of its conflict keys")
            }
        }
    }

    private func checkReceipts() throws(HistoryError) {
        let newest = try read { [head] view throws(HistoryError) in
            try view.newestReceipts(in: VersionRange(after: head.baseVersion, through: head.version))
        }
        for (ident, file) in clientFiles where ident >= 2 {
            expect(
                file.newestReceipt == newest[ident], .cursor, "client file \(ident)",
                "its newest log entry is another one")
        }
    }

    // MARK: Older states

    private func checkArchive() throws(HistoryError) {
        var next = head.baseVersion
        while next > 0 {
            let last = next
            next = 0
            try check(.archive, "archive up to entry \(last)") { () throws(HistoryError) in
                let entries = try read { view throws(HistoryError) in try view.archivedEntries(upTo: last) }
                guard let first = entries.first?.version, let newest = entries.last?.version else { return }
                expect(
                    newest.rawValue - first.rawValue + 1 == UInt64(entries.count), .archive,
                    "archive up to entry \(newest)", "it lacks entries after \(first)")
                _ = try LogEntry.conflictKeys(of: entries)
                result.archivedCount += entries.count
                next = first - 1
            }
        }
    }

    private func checkGenerations() throws(HistoryError) {
        let generations = try read { view throws(HistoryError) in try view.generations() }
        for generation in generations {
            let place = "generation of version \(generation.version)"
            try check(.generation, place) { () throws(HistoryError) in
                let bytes = try read { view throws(HistoryError) in
                    try view.readGeneration(generation.version) { entries throws(HistoryError) in
                        try entries.checkedBytes(pieceBytes: Self.pageBytes)
                    }
                }
                expect(bytes == generation.bytes, .generation, place, "it has \(bytes) bytes")
            }
            expect(
                generation.version <= head.version && generation.entryCount <= generation.version.rawValue, .generation,
                place, "there are not so many versions")
        }
        for (ident, file) in clientFiles where !file.isExpired {
            guard case .generation(let version) = file.lineage else { continue }
            expect(
                generations.contains { $0.version == version }, .generation, "client file \(ident)",
                "its generation, of version \(version), is missing")
        }
    }

    // MARK: The rest

    private func checkIngested() throws(HistoryError) {
        var last: UInt64 = 0
        while true {
            let objects = try store.ingested(
                of: id, after: last, countMax: Self.pageCount, byteBudget: Self.pageBytes)
            guard let newest = objects.last?.number else { return }
            expect(
                newest / IngestedObject.countMax <= head.version.rawValue, .value, "ingested object \(newest)",
                "the log has no such version")
            last = newest
        }
    }

    private func checkRecords() throws(HistoryError) {
        for total in try store.recordTotals(of: result.path) {
            var range = RecordRange(space: total.space, kind: total.kind), count = Self.pageCount
            while count == Self.pageCount {
                let records = try read { view throws(HistoryError) in
                    try view.records(in: range, countMax: Self.pageCount, isReversed: false)
                }
                count = records.count
                if let last = records.last { range.lower = last.place.key + [0] }
            }
        }
    }

    private func checkState() throws(HistoryError) {
        let version = head.stateVersion
        guard version >= head.baseVersion, version <= head.version else {
            return expect(false, .state, "state", "it is of version \(version), which is not in the log")
        }
        do {
            let stored = try store.state(of: id)
            // The beginning of a log that was trimmed is not known.
            if head.baseVersion == 0 {
                let replayed = try replayedState(at: version)
                expect(
                    try StateDigest(of: stored) == StateDigest(of: replayed), .state, "state",
                    "it is not what the log makes of it")
            }
            expect(try !stored.hasDamagedLinks(), .state, "state", "the rows of links are not those of its objects")
        } catch let error as HistoryError {
            throw error
        } catch {
            expect(false, .state, "state", "\(error)")
        }
    }

    private func replayedState(at version: ServerVersion) throws(HistoryError) -> ObjectGraph {
        var replay = LogReplay(VersionRange(after: 0, through: version), stepBytes: Self.pageBytes)
        var state = ObjectGraph()
        while !replay.isDone {
            let entries = try read { view throws(HistoryError) in try replay.next(from: view) }
            result.skippedCount += try state.replay(entries).skippedCount
        }
        return state
    }
}

extension GenerationEntries {
    /// The size of all changesets, each of which can be decoded, in bytes.
    fileprivate func checkedBytes(pieceBytes: Int) throws(HistoryError) -> UInt64 {
        var base: ServerVersion = 0, bytes: UInt64 = 0
        while base < generation.version {
            let entries = try entries(
                in: VersionRange(after: base, through: generation.version), byteBudget: pieceBytes)
            guard let last = entries.last?.version else { break }
            _ = try LogEntry.conflictKeys(of: entries)
            bytes += entries.reduce(0) { $0 + UInt64($1.changeset.count) }
            base = last
        }
        return bytes
    }
}
