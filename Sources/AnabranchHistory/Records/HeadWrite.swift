package import AnabranchCore

/// A write at the head of the log: what it does depends on the state there and on the door's records
/// (`Spec/Doors.md`, section 4).
package struct HeadWrite: Sendable {
    /// The transaction. It may read, and throw: then nothing of it is written. It returns the door's own note on the
    /// author, for observers.
    package typealias Body = @Sendable (WriteTransaction, inout PendingRecords) throws -> [UInt8]

    package let timestamp: ChangesetTime
    package let body: Body

    /// - Parameter timestamp: the wall clock. The entry is not older than the one before it.
    package init(at timestamp: ChangesetTime, _ body: @escaping Body) {
        self.timestamp = timestamp
        self.body = body
    }
}

/// The commit of several writes at the head, and for each the version that it made, or the one that it found if it
/// changed no object; or what its body threw.
package struct PreparedWrites {
    package let commit: Commit
    package let outcomes: [Result<ServerVersion, any Error>]
}

extension SyncedFile {
    /// Reads the state at the head and the records there.
    /// - Throws: what `body` throws; `storeUnusable` if the file is open as a relay; a failure of the store.
    package func readHead<Value: Sendable>(
        _ body: (WriteTransaction, PendingRecords) throws -> Value
    ) throws -> Value {
        let outcome = try retrying { () throws(HistoryError) in
            try read { view throws(HistoryError) in
                try Result {
                    try readState { transaction, _ in try body(transaction, PendingRecords(over: view)) }
                }
                .throwingConflicts()
            }
        }
        return try outcome.get()
    }

    /// Prepares one commit with an entry for each write that changes something, in their order.
    /// - Throws: `storeUnusable` if the file is open as a relay; a failure of the store, after which all may be
    ///   repeated.
    package func prepare(_ writes: [HeadWrite]) throws -> PreparedWrites {
        // An integration under way would follow the writes.
        dropIntegration()
        let outcome = try retrying { () throws(HistoryError) in
            guard let state = try currentState() else { throw HistoryError.withoutState }
            return try read { view throws(HistoryError) -> Result<PreparedWrites, any Error> in
                let head = try view.head()
                self.head = head
                var builder = HeadCommit(Commit(file: id, lease: lease, head: head), state, view)
                return try Result { try builder.prepare(writes, in: self) }.throwingConflicts()
            }
        }
        return try outcome.get()
    }
}

extension SyncedFile {
    /// The time of the newest entry, which may be long and is read once.
    fileprivate func newestTime(_ view: any FileView, _ version: ServerVersion) throws(HistoryError) -> ChangesetTime {
        if let newestTime, newestTime.version == version { return newestTime.time }
        let time = try view.entry(version)?.timestamp ?? 0
        newestTime = (version, time)
        return time
    }
}

/// A commit of writes at the head in the making.
private struct HeadCommit {
    var commit: Commit
    var state: ObjectGraph
    var records: PendingRecords
    var changes = StateChanges()
    private let view: any FileView
    /// The time of the newest entry; nil until there is one to follow it.
    private var newest: ChangesetTime?

    init(_ commit: Commit, _ state: ObjectGraph, _ view: any FileView) {
        self.commit = commit
        self.state = state
        self.view = view
        records = PendingRecords(over: view)
    }

    mutating func prepare(_ writes: [HeadWrite], in file: SyncedFile) throws -> PreparedWrites {
        var outcomes: [Result<ServerVersion, any Error>] = []
        for write in writes {
            do {
                outcomes.append(.success(try add(write, in: file)))
            } catch let error as HistoryError where error.isTransient {
                throw error
            } catch {
                outcomes.append(.failure(error))
            }
        }
        if let last = commit.entries.last {
            commit.state = StateUpdate(version: last.version, after: state, changes: changes)
            commit.observedThrough = last.version
        }
        commit.records = records.sortedChanges
        return PreparedWrites(commit: commit, outcomes: outcomes)
    }

    private mutating func add(_ write: HeadWrite, in file: SyncedFile) throws -> ServerVersion {
        var after = state, set = records, author: [UInt8] = []
        let (recorded, made) = try after.writeAsServer(objectBytesMax: file.mergeOptions.objectBytesMax) {
            author = try write.body($0, &set)
        }
        if recorded.isEmpty {
            records = set
            return commit.newHead.version
        }
        let before = try newest ?? file.newestTime(view, commit.head.version)
        let appended = try file.append(consume recorded, at: write.timestamp, after: before, to: &commit)
        if let (entry, touched) = appended {
            file.observe(
                RecordStep(entry: entry, author: author, before: state, after: after, known: touched), &set)
            newest = entry.timestamp
            changes.append(made)
            state = after
        }
        records = set
        return commit.newHead.version
    }
}

extension Result {
    /// The same, unless it is a conflict with another node, after which the work is done again.
    fileprivate func throwingConflicts() throws(HistoryError) -> Self {
        if case .failure(let error) = self, let conflict = error as? HistoryError, conflict.code == .conflict {
            throw conflict
        }
        return self
    }
}
