package import AnabranchCore

/// The stored data of a `ClientView` apart from its log.
package struct ViewRecord: Sendable, Equatable {
    package var ident: ClientFileID
    package var predicates: Predicates
    /// `ViewRole.text`.
    package var role: String
    package var queryVersion: UInt64
    package var changed: ServerVersion
    package var projected: ServerVersion
    /// The numbers of the first and the last entry that there are; none if the first is higher.
    package var firstNumber: UInt64
    package var lastNumber: UInt64
    /// The entries among them that are as they are in the log, in the order of their numbers.
    package var logged: [LoggedEntry]

    package init(
        ident: ClientFileID, predicates: Predicates, role: String, queryVersion: UInt64, changed: ServerVersion,
        projected: ServerVersion, firstNumber: UInt64, lastNumber: UInt64, logged: [LoggedEntry] = []
    ) {
        self.ident = ident
        self.predicates = predicates
        self.role = role
        self.queryVersion = queryVersion
        self.changed = changed
        self.projected = projected
        self.firstNumber = firstNumber
        self.lastNumber = lastNumber
        self.logged = logged
    }
}

/// All that is stored of a `ClientView`.
package struct StoredView: Sendable, Equatable {
    package var record: ViewRecord
    /// All entries in the order of their numbers; the contents may be missing.
    package var log: [ViewEntry]

    /// - Parameter rows: the entries that are not `record.logged` alone.
    package init(record: ViewRecord, rows: [ViewEntry]) {
        self.record = record
        var entries = Dictionary(uniqueKeysWithValues: record.logged.map { ($0.number, ViewEntry($0)) })
        for entry in rows { entries[entry.number] = entry }
        log = entries.values.sorted { $0.number < $1.number }
    }

    /// True if it has all entries that it names.
    package var isWhole: Bool {
        record.firstNumber &+ UInt64(log.count) == record.lastNumber &+ 1
            && zip(record.firstNumber..., log).allSatisfy { $0 == $1.number }
    }

    /// Applies what a commit changes.
    mutating func apply(_ change: ViewChange) {
        let newer = Set(change.entries.map(\.number)), record = change.record
        let rows = log.filter { $0.number >= record.firstNumber && $0.logged == nil && !newer.contains($0.number) }
        self = StoredView(record: record, rows: rows + change.entries)
    }
}

/// A change that a commit makes to a view.
package struct ViewChange: Sendable {
    /// The view as it is afterwards. Entries with lower numbers than it names are removed.
    package let record: ViewRecord
    /// The entries that are new, or have another form now, in the order of their numbers, with their contents; except
    /// those that are as they are in the log.
    package let entries: [ViewEntry]
    /// In a shared store, the client's session at the node that makes the change (`ClientFile.session`): views belong
    /// to the node of the newest one. Otherwise 0.
    package let session: UInt64

    /// A view, and some of its entries, as another store has them. Its client has had no session yet.
    init(copied record: ViewRecord, _ entries: [ViewEntry]) {
        (self.record, self.entries, session) = (record, entries, 0)
    }

    /// - Parameter before: the view as it is stored; nil if it is new.
    init(from before: ClientView?, to view: ClientView, session: UInt64) {
        self.session = session
        record = ViewRecord(
            ident: view.ident, predicates: view.queries.predicates, role: view.role.text,
            queryVersion: view.queryVersion, changed: view.changed, projected: view.projected,
            firstNumber: view.log.firstNumber, lastNumber: view.log.lastNumber,
            logged: view.log.entries.compactMap(\.logged))
        var old = before?.log.entries(after: view.log.firstNumber - 1)[...] ?? []
        entries = view.log.entries.filter { entry in
            let before = old.popFirst()
            // An entry without contents is stored already.
            guard entry.logged == nil, let contents = entry.contents else { return false }
            return before == nil || contents.merged != before?.contents?.merged
        }
    }

    /// A change followed by another one of the same view.
    init(_ first: ViewChange, followedBy second: ViewChange) {
        (record, session) = (second.record, second.session)
        var newer = Dictionary(uniqueKeysWithValues: second.entries.map { ($0.number, $0) })
        let older = first.entries.filter { $0.number >= second.record.firstNumber }
            .map { newer.removeValue(forKey: $0.number) ?? $0 }
        entries = (older + newer.values).sorted { $0.number < $1.number }
    }

    /// The approximate size of its writes, in bytes.
    var byteCount: Int {
        entries.reduce(512 + 8 * record.logged.count) {
            $0 + 256 + ($1.isInLog || $1.share?.isKnown ?? false ? 0 : $1.sentBytes) + ($1.mergedBytes ?? 0)
        }
    }
}

extension ClientView {
    init(_ stored: StoredView, _ queries: ViewQueries, _ role: ViewRole) {
        let record = stored.record
        self.init(of: record.ident, role: role)
        self.queries = queries
        queryVersion = record.queryVersion
        (changed, projected) = (record.changed, record.projected)
        log = ViewLog(stored)
    }
}

/// A store that keeps views of flexible files: a commit can change some (`Commit.views`).
package protocol ViewStore: HistoryStore {
    /// The views of a file, with what they were sent and have not confirmed, in the order of their client files. The
    /// contents of entries may be missing.
    func views(of file: SyncedFileID) throws(HistoryError) -> [StoredView]

    /// The view of a client file; nil if there is none. The contents of entries may be missing.
    func view(of file: SyncedFileID, _ ident: ClientFileID) throws(HistoryError) -> StoredView?

    /// The classes and properties that views use; none if all views were stored before these were recorded.
    func viewFields(of file: SyncedFileID) throws(HistoryError) -> [ViewField]

    /// Entries of a view with their contents, but for the changesets of those that are in the log. None of them is
    /// one of `ViewRecord.logged`.
    ///
    /// - Throws: `storeDamaged` if one is missing, or is not what was written.
    func viewEntries(
        of file: SyncedFileID, _ ident: ClientFileID, _ numbers: ClosedRange<UInt64>
    ) throws(HistoryError) -> [ViewEntry]

    /// The objects of asymmetric classes after a number, in order, until there are `countMax` or they have `byteBudget`
    /// bytes.
    func ingested(
        of file: SyncedFileID, after number: UInt64, countMax: Int, byteBudget: Int
    ) throws(HistoryError) -> [IngestedObject]

    /// The space that all of them occupy, in bytes, by user.
    func ingestedBytes(of file: SyncedFileID) throws(HistoryError) -> [ExactString?: UInt64]
}
