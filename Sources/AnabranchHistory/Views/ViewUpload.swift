import AnabranchCore

/// An upload on its way into a flexible file: merged with the log of its client's view, a window of its changesets at a
/// time and in steps. In between the view may go on; its new entries are met when the rest is done, so a long merge
/// delays only its own sender (`Spec/FlexibleSync.md`, section 3.4). Knows no state, and changes nothing.
///
///     idle ──▶ searching ──▶ reading ──▶ merging ──▶ merged ──integrated──▶ idle
///                  ▲────────────────────────────────────┘ the view has new entries
///
/// The entries of the view get the form that they have after a whole window. So a window is integrated as a whole, or
/// merged again with fewer changesets: whoever reads the view next, another node or a later process, merges what is not
/// integrated with the entries as they are stored.
final class ViewUpload {
    private enum Stage { case idle, searching, reading, merging, merged }

    /// The requests that it makes to the file.
    struct Source {
        /// Goes on with a search in the log, until the step is over.
        let search: (EntrySearch, StepLimit) throws(HistoryError) -> (EntrySearch, StepLimit, isOver: Bool)
        /// Reads the contents of entries of the view.
        let load: ([ViewEntry]) throws(HistoryError) -> [ViewEntry]
    }

    /// The approximate size at which a window ends, in bytes.
    private static let windowBytesMax = 256 << 10
    /// The bounds of the largest number of changesets in a window: as many as a short time takes in, which the first
    /// windows show.
    private static let windowCounts = 8...512
    private static let windowTime = (enough: Duration.milliseconds(4), tooLong: Duration.milliseconds(16))
    /// The approximate number of bytes of entries that are read at once.
    private static let readBytesMax = 256 << 10

    /// The number of bytes of entries that are read in the time of looking for a key; and the bytes that each entry
    /// counts for in addition to its changeset.
    private static let bytesOfKey = 16, entryBytes = 256

    let upload: Upload
    let check: WriteCheck
    private var merge: LogMerge
    /// The changesets that are not integrated.
    private var rest: ArraySlice<UploadedChangeset>
    /// The number of those that are in the window; and of the integrated ones that the merge still has.
    private(set) var windowCount = 0
    private var doneCount = 0
    private var windowCountMax: Int
    private var stage = Stage.idle
    /// The entries of the view that were decoded, by number.
    private var decoded: [UInt64: ChangesetIndex] = [:]
    /// The entries that the window is to meet, those of them that are not decoded, and whether it has met others.
    private var meeting: [UInt64] = []
    /// The search for those of them that are as they are in the log, and that the window can conflict with. Where they
    /// are few, and for those that no index knows, they are read without it, and then passed over unless they can
    /// conflict.
    private var search: EntrySearch?
    private var unsure: Set<UInt64> = []
    /// The conflict keys of entries that were passed over, by number.
    private var passed: [UInt64: [UInt64]] = [:]
    private var unread: ArraySlice<UInt64> = []
    private var isContinued = false
    /// The conflict keys of the changesets of the window, in all forms that they had when it met entries; and whether
    /// those of the present form are among them.
    private var keys = ConflictKeys(writes: [], reads: [])
    private var areKeysKnown = false
    /// The number of the last entry of the view that the window has met, or passed over; and of the one before the
    /// first that it looks for.
    private var metNumber: UInt64 = 0
    private var searchedNumber: UInt64 = 0
    /// The number of commits of the window that did not fit.
    private var lostCommits = 0

    /// - Parameters:
    ///   - file: the client file, as it is stored: changesets that it has uploaded before are passed over.
    ///   - view: what the client sees.
    ///   - check: the check of its changesets, one after the other.
    ///   - windowCountMax: the largest number of changesets in the first window; nil if it is not known how many fit.
    init(
        _ upload: Upload, from file: ClientFile, of view: ClientView, options: MergeOptions, _ check: WriteCheck,
        windowCountMax: Int? = nil
    ) {
        self.upload = upload
        self.check = check
        self.windowCountMax = windowCountMax ?? Self.windowCounts.lowerBound
        let integrated = file.uploadCursor.clientVersion
        rest = upload.changesets.drop { $0.cursor.clientVersion <= integrated }
        let incoming = rest.map { sent in
            var sent = sent
            sent.cursor.serverVersion = ServerVersion(rawValue: view.log.number(upTo: sent.cursor.serverVersion))
            return LogMerge.Incoming(sent, from: view.ident)
        }
        merge = LogMerge(incoming, strategy: options.strategy, memoryBytesMax: options.decodedBytesMax)
    }

    /// True once everything is integrated.
    var isDone: Bool { rest.isEmpty }

    /// The memory that the merge occupies in addition to the upload, in bytes.
    var memoryBytes: Int { merge.arena.memoryBytes }

    // MARK: Merging

    /// Merges a window with all that the view has, until the step is over.
    /// - Parameters:
    ///   - view: as it is now.
    /// - Returns: whether the window is merged, to be integrated before anything else happens to the view.
    func advance(
        _ view: ClientView, until limit: inout StepLimit, asking source: Source
    ) throws(HistoryError) -> Bool {
        while true {
            switch stage {
            case .idle:
                guard try beginWindow(view) else { return true }
            case .searching:
                guard try search(view, until: &limit, source) else { return false }
                stage = .reading
            case .reading:
                guard try read(view, until: &limit, source) else { return false }
                try meet()
            case .merging:
                guard try merge.advance(until: &limit) else { return false }
                stage = .merged
            case .merged:
                guard view.log.lastNumber > metNumber else { return true }
                beginMeeting(view, after: metNumber)
                isContinued = true
            }
        }
    }

    /// - Returns: false if nothing is left.
    private func beginWindow(_ view: ClientView) throws(HistoryError) -> Bool {
        guard !rest.isEmpty else { return false }
        do {
            var count = 0
            _ = try merge.beginRun(bytesMax: Self.windowBytesMax, overheadBytes: 64) { [windowCountMax] _, _ in
                count += 1
                return count >= windowCountMax
            }
        } catch {
            throw HistoryError(error)
        }
        for index in merge.incoming { try merge.arena.checkSchema(in: index) }
        windowCount = merge.incoming.count
        doneCount = 0
        keys = ConflictKeys(writes: [], reads: [])
        areKeysKnown = false
        isContinued = false
        beginMeeting(view, after: merge.base)
        return true
    }

    private func beginMeeting(_ view: ClientView, after number: UInt64) {
        if !areKeysKnown {
            keys.merge(merge.incoming.dropFirst(doneCount).map { merge.arena.conflictKeys(of: $0) })
            areKeysKnown = true
        }
        let waiting = view.log.entries(after: number)
        var loggedBytes = 0, range: VersionRange?
        for entry in waiting where entry.isOnlyInLog {
            loggedBytes += Self.entryBytes + entry.sentBytes
            range = VersionRange(after: range?.base ?? entry.version - 1, through: entry.version)
        }
        let isLittle = loggedBytes < keys.reads.count * Self.bytesOfKey
        unsure = Set(waiting.lazy.filter { isLittle || !$0.isOnlyInLog }.map(\.number))
        search = isLittle ? nil : range.map { EntrySearch(for: [keys], in: $0) }
        searchedNumber = number
        metNumber = view.log.lastNumber
        stage = .searching
    }

    /// Finds the entries that the window is to meet: those of the log that it can conflict with, and all others that
    /// are not empty, since no index knows them.
    /// - Returns: whether all are found.
    private func search(
        _ view: ClientView, until limit: inout StepLimit, _ source: Source
    ) throws(HistoryError) -> Bool {
        var isOver = true
        if let begun = search { (search, limit, isOver) = try source.search(begun, limit) }
        guard isOver else { return false }
        let found = Set(search?.found ?? [])
        meeting = view.log.entries(after: searchedNumber).prefix { $0.number <= metNumber }
            .filter { entry in
                if let writes = passed[entry.number], !writes.contains(where: keys.isRead) { return false }
                guard entry.isOnlyInLog else { return entry.mergedBytes ?? entry.sentBytes > 0 }
                return unsure.contains(entry.number) || found.contains(entry.version)
            }
            .map(\.number)
        unread = meeting.filter { decoded[$0] == nil }[...]
        search = nil
        return true
    }

    /// - Returns: whether everything that the upload has to meet is decoded.
    private func read(
        _ view: ClientView, until limit: inout StepLimit, _ source: Source
    ) throws(HistoryError) -> Bool {
        while !unread.isEmpty {
            var entries: [ViewEntry] = [], bytes = 0
            for number in unread {
                guard bytes < Self.readBytesMax, let entry = view.log.entries(after: number - 1).first else { break }
                entries.append(entry)
                bytes += 256 + entry.sentBytes
            }
            for entry in try source.load(entries) {
                unread.removeFirst()
                let work = try read(entry)
                if limit.isOver(after: 64 + work) { return unread.isEmpty }
            }
        }
        return true
    }

    /// Decodes an entry; one that is not sure to be met first apart, so that it takes no memory if it is not.
    /// - Returns: the bytes that it takes decoded.
    private func read(_ entry: ViewEntry) throws(HistoryError) -> Int {
        if unsure.contains(entry.number) {
            var arena = ChangesetArena()
            let index = try arena.decode(entry), writes = arena.conflictKeys(of: index).writes
            guard writes.contains(where: keys.isRead) else {
                passed[entry.number] = writes
                return arena.memoryBytes
            }
        }
        let before = merge.arena.memoryBytes
        decoded[entry.number] = try merge.arena.decode(entry)
        return merge.arena.memoryBytes - before
    }

    private func meet() throws(HistoryError) {
        meeting.removeAll { number in
            guard let index = self.decoded[number] else { return true }
            return unsure.contains(number) && !merge.arena.conflictKeys(of: index).writes.contains { keys.isRead($0) }
        }
        if !meeting.isEmpty {
            check.countMerge()
            areKeysKnown = false
        }
        let decoded = decoded
        func index(of number: UInt64, _ arena: inout ChangesetArena) throws(HistoryError) -> ChangesetIndex {
            guard let index = decoded[number] else {
                throw HistoryError(.storeDamaged, "entry \(number) is missing")
            }
            return index
        }
        if isContinued {
            try merge.continueRun(after: doneCount, meeting: meeting, decode: index)
            doneCount = 0
        } else {
            try merge.begin(meeting: meeting, decode: index)
        }
        stage = .merging
    }

    // MARK: Integrating

    /// The changesets of the window that are not integrated, in the form that the merge has given them.
    var window: Zip2Sequence<ArraySlice<UploadedChangeset>, ArraySlice<ChangesetIndex>> {
        zip(rest.prefix(windowCount), merge.incoming.dropFirst(doneCount))
    }

    var arena: ChangesetArena {
        get { merge.arena }
        _modify { yield &merge.arena }
    }

    /// Records that the first changeset of the window is integrated; the window ends with the last one.
    func didIntegrateFirst() {
        rest.removeFirst()
        windowCount -= 1
        doneCount += 1
        if windowCount == 0 { stage = .idle }
    }

    /// Merges what is left of the window with entries that its own changesets have brought into the view.
    func meetNewest(of view: ClientView) throws(HistoryError) {
        guard windowCount > 0, view.log.lastNumber > metNumber else { return }
        beginMeeting(view, after: metNumber)
        isContinued = true
        var limit = StepLimit.none
        let loaded = Source(search: { ($0, $1, isOver: true) }, load: { $0 })
        _ = try advance(view, until: &limit, asking: loaded)
    }

    /// A window that is merged and not integrated, as it was then.
    struct Checkpoint {
        fileprivate let merge: LogMerge.Checkpoint
        fileprivate let rest: ArraySlice<UploadedChangeset>
        fileprivate let windowCount, doneCount: Int
        fileprivate let decoded: [UInt64: ChangesetIndex]
        fileprivate let passed: [UInt64: [UInt64]]
        fileprivate let keys: (found: ConflictKeys, areKnown: Bool)
        fileprivate let metNumber: UInt64
    }

    /// The window as it is now, to go back to. To be called when it is merged.
    var checkpoint: Checkpoint {
        Checkpoint(
            merge: merge.checkpoint, rest: rest, windowCount: windowCount, doneCount: doneCount, decoded: decoded,
            passed: passed, keys: (keys, areKeysKnown), metNumber: metNumber)
    }

    /// Has the window as it was: what was integrated could not be committed, since others have written meanwhile.
    func goBack(to checkpoint: Checkpoint) {
        lostCommits += 1
        // The check is about a later changeset.
        if windowCount < checkpoint.windowCount { check.end() }
        merge.goBack(to: checkpoint.merge)
        (rest, windowCount, doneCount) = (checkpoint.rest, checkpoint.windowCount, checkpoint.doneCount)
        (decoded, passed) = (checkpoint.decoded, checkpoint.passed)
        (keys, areKeysKnown) = checkpoint.keys
        (metNumber, stage) = (checkpoint.metNumber, .merged)
    }

    /// The number of commits of one window that may not fit before it is made smaller.
    private static let lostCommitsMax = 4

    /// True if others are faster again and again, and a smaller window may be in time.
    var isTooSlow: Bool { lostCommits >= Self.lostCommitsMax && windowCount > 1 }

    /// Records how long it has taken to integrate the window.
    func didIntegrate(in time: Duration) {
        lostCommits = 0
        if time > Self.windowTime.tooLong {
            windowCountMax = max(Self.windowCounts.lowerBound / 8, windowCountMax / 2)
        } else if time < Self.windowTime.enough {
            windowCountMax = min(Self.windowCounts.upperBound, windowCountMax * 2)
        }
    }

    /// The forms that entries of the view have after all that was merged.
    func changedEntries() -> [(version: UInt64, changeset: [UInt8])] { merge.changedEntries() }
}

extension ChangesetArena {
    fileprivate mutating func decode(_ entry: ViewEntry) throws(HistoryError) -> ChangesetIndex {
        guard let contents = entry.contents else {
            throw HistoryError(.storeDamaged, "entry \(entry.number) is missing")
        }
        do throws(ChangesetError) {
            return try decode(contents.merged ?? contents.changeset, version: entry.number, tag: entry.tag)
        } catch {
            throw HistoryError(.storeDamaged, "entry \(entry.number) of a view cannot be decoded: \(error.reason)")
        }
    }

    /// Clients of a flexible file add classes with a primary key, and columns; they take nothing away.
    fileprivate func checkSchema(in changeset: ChangesetIndex) throws(HistoryError) {
        try checkErasures(in: changeset, by: .refuse)
        for instruction in instructions(of: changeset)
        where instruction.kind == .addTable && instruction.tableType != .embedded && instruction.type == .globalKey {
            let name = String(decoding: bytes(of: instruction.className), as: UTF8.self)
            throw HistoryError(.destructiveSchemaChange, "class \"\(name)\" needs a primary key")
        }
    }
}
