public import AnabranchCore

/// The outcome of a write by the server itself.
public struct ServerWrite: Equatable, Sendable {
    /// The log entry that it became; the version that the file had if nothing was changed.
    public var version: ServerVersion
    /// The write had been made before, under the same key; nothing happened now.
    public var isRepetition: Bool

    /// Creates the outcome of a write.
    public init(version: ServerVersion, isRepetition: Bool) {
        self.version = version
        self.isRepetition = isRepetition
    }
}

extension SyncedFile {
    /// Writes to the file's state in the name of the server: a transaction that clients download like any other
    /// (`Spec/History.md`, section 17). It is durable when the call returns.
    ///
    /// - Parameters:
    ///   - idempotencyKey: names the write. A second one of the same name does nothing, also after a restart, unless
    ///     `IdempotencyKey.countMax` other names came in between. Nil: the write has no name.
    ///   - timestamp: the wall clock. The entry gets it, or the time of the entry before if that is a little later.
    ///   - body: makes the transaction. Nothing is written if it throws. In a shared store it is called again when
    ///     another node has written in between.
    /// - Throws: what `body` throws; `ApplyError` with the place for an operation that makes no sense, also in an
    ///   assignment; `HistoryError` if the store fails, after which the write may be repeated, with its key.
    @discardableResult
    public func write(
        idempotencyKey: String? = nil, at timestamp: ChangesetTime, _ body: (WriteTransaction) throws -> Void
    ) throws -> ServerWrite {
        try repeating {
            let (commit, made) = try prepareWrite(idempotencyKey: idempotencyKey, at: timestamp, body)
            if let commit { try self.commit(commit) }
            return made
        }
    }

    /// Calls `body`, and once more whenever others have written in between.
    private func repeating<Result>(_ body: () throws -> Result) throws -> Result {
        for _ in 0..<Self.triesMax {
            do { return try body() } catch let error as HistoryError where error.code == .conflict { try follow() }
        }
        throw HistoryError.othersWriteAlways
    }

    /// Prepares the commit of `write`, and the result that it returns once that is durable.
    /// - Returns: no commit if there is nothing to store.
    /// - Throws: as `write`.
    package func prepareWrite(
        idempotencyKey: String?, at timestamp: ChangesetTime, _ body: (WriteTransaction) throws -> Void
    ) throws -> (commit: Commit?, made: ServerWrite) {
        // An integration under way would follow the write.
        dropIntegration()
        let key = idempotencyKey.map { Array($0.utf8) }
        let (head, made, newest) = try retrying { () throws(HistoryError) in
            try read(missesTail: key != nil) { view throws(HistoryError) in
                let head = try view.head()
                let made = if let key { try view.version(ofWrite: key) } else { nil as ServerVersion? }
                return (head, made, try view.entry(head.version)?.timestamp ?? 0)
            }
        }
        // The store may hold a commit whose success was never reported: its head counts.
        self.head = head
        if let made { return (nil, ServerWrite(version: made, isRepetition: true)) }
        guard let before = try currentState() else { throw HistoryError.withoutState }
        var after = before
        let (changeset, changes) = try after.writeAsServer(objectBytesMax: mergeOptions.objectBytesMax, body)

        var commit = Commit(file: id, lease: lease, head: head)
        if let (entry, _) = try append(changeset, at: timestamp, after: newest, to: &commit) {
            commit.state = StateUpdate(version: entry.version, after: after, changes: changes)
        }
        let version = commit.newHead.version
        commit.idempotencyKey = key.map { IdempotencyKey(key: $0, version: version) }
        return (commit, ServerWrite(version: version, isRepetition: false))
    }

    /// Calls `body` with the state at the newest version, which must not be used after the next commit. In a shared
    /// store it is called again, with a newer state, when another node has written while it read.
    /// - Throws: what `body` throws; `storeUnusable` if the file is open as a relay; a failure of the store.
    public func withState<Result>(_ body: (ObjectGraph) throws -> Result) throws -> Result {
        try repeating {
            guard let state = try currentState() else { throw HistoryError.withoutState }
            do { return try body(state) } catch let error as ApplyError where error.isOutdated {
                throw HistoryError(readingStateFailed: error)
            }
        }
    }

    /// Reads the state at the newest version, through the handles of a transaction that refuses to write.
    /// - Parameter body: is passed the transaction, and the version.
    /// - Throws: what `body` throws; `storeUnusable` if the file is open as a relay; a failure of the store.
    package func readState<Result>(_ body: (WriteTransaction, SaltedVersion) throws -> Result) throws -> Result {
        guard let state = try currentState() else { throw HistoryError.withoutState }
        let version = SaltedVersion(version: head.version, salt: head.versionSalt)
        do {
            return try state.read { try body($0, version) }
        } catch let error as ApplyError where error.code == .unavailable {
            throw HistoryError(readingStateFailed: error)
        }
    }

    /// The same as `readState`. In a shared store, `body` is called again if another node has written meanwhile.
    package func readNewestState<Result>(_ body: (WriteTransaction, SaltedVersion) throws -> Result) throws -> Result {
        try repeating { try readState(body) }
    }

    /// Adds the log entry of a transaction of the server's own to a commit.
    /// - Parameters:
    ///   - timestamp: the wall clock.
    ///   - newest: the time of the entry before.
    /// - Returns: the entry, and what it touches if there are observers; nil if the changeset has no instruction, and
    ///   so nothing is added.
    func append(
        _ recorded: consuming [UInt8], at timestamp: ChangesetTime, after newest: ChangesetTime, to commit: inout Commit
    ) throws(HistoryError) -> (entry: LogEntry, touched: RecordStep.Touched?)? {
        let head = commit.newHead, version = head.version + 1, time = timestamp.following(newest)
        var arena = ChangesetArena()
        arena.reserve(changesets: 1, byteCount: recorded.count)
        let index: ChangesetIndex
        do {
            let tag = OriginTag(timestamp: time, ident: .server)
            index = try arena.decode(recorded, version: version.rawValue, tag: tag)
        } catch {
            throw HistoryError(.badChangeset, "the write cannot be recorded: \(error.reason)")
        }
        // It is as long as the changeset that is encoded from it.
        _ = consume recorded
        guard !arena.isEmpty(index) else { return nil }
        try arena.checkReplacedClasses(in: index)
        let changeset = arena.encoded(index)
        let entry = LogEntry(
            version: version, salt: versionSalt, origin: 0, clientVersion: 0, timestamp: time,
            cumulativeSize: head.cumulativeSize + UInt64(changeset.count), changeset: changeset)
        commit.entries.append(entry)
        commit.conflictKeys += arena.conflictKeys(of: index).writes.map {
            ConflictKeyEntry(key: $0, version: version, origin: 0)
        }
        return (entry, observers.isEmpty ? nil : arena.touched(by: index))
    }
}

extension HistoryError {
    static let withoutState = HistoryError(.storeUnusable, "the file is open as a relay, without a state")
}

extension ObjectGraph {
    /// A transaction of a replica that keeps no objects of asymmetric classes.
    mutating func writeAsServer(
        objectBytesMax: Int, _ body: (WriteTransaction) throws -> Void
    ) throws -> (changeset: [UInt8], changes: StateChanges) {
        do {
            var written = try write(as: .server, objectBytesMax: objectBytesMax, body)
            written.changes.append(try eraseAsymmetricObjects())
            return (written.changeset, written.changes)
        } catch let error as ApplyError where error.code == .unavailable {
            throw HistoryError(readingStateFailed: error)
        }
    }
}
