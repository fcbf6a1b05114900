import AnabranchCore
import AnabranchHistory
import AnabranchProtocol

/// A job for a synced file, besides the requests of sessions.
struct FileJob: Sendable {
    /// True if the job waits until a merge of the file is committed.
    let comesAfterMerge: Bool
    /// The work, which is run once, without a file if the server has ended.
    let run: @Sendable (FileTurns?) -> Void
}

extension FileTurns {
    /// Expires a client file; the session that uses it ends.
    /// - Returns: whether it had not expired before.
    /// - Throws: `badClientFileIdent` if there is no such client file; a failure of the store.
    @discardableResult
    func expire(_ clientFile: ClientFileID) throws(HistoryError) -> Bool {
        let sessions = try openedSessions()
        do {
            return try sessions.expire(clientFile)
        } catch {
            if error.isTransient { close(because: error) }
            throw error
        }
    }

    /// Deletes the file, with everything stored of it. Its sessions end, and their clients reset.
    /// - Parameters:
    ///   - user: the file stays unless all its client files are this user's; nil to delete it in any case.
    ///   - complete: called with whether the file is gone, when that is durable; or with the error of the store.
    func delete(onlyOf user: String?, _ complete: @escaping (Result<Bool, any Error>) -> Void) {
        do throws(HistoryError) {
            let file = try openedSessions().file
            if let user, try !file.isUsed(onlyBy: user) { return afterDelivery { _ in complete(.success(false)) } }
            store(file.deletion()) { [self] _, failure in
                let error = failure.flatMap(resolved)
                if failure != nil, error == nil { return delete(onlyOf: user, complete) }
                if let error {
                    close(because: error)
                } else {
                    end(because: HistoryError(.badClientFileIdent, "the operator has deleted the file"))
                    environment.followers.record(0, of: path)
                }
                afterDelivery { _ in complete(error.map { .failure($0) } ?? .success(true)) }
            }
        } catch {
            environment.log.write(error, path: path)
            afterDelivery { _ in complete(.failure(error)) }
        }
    }

    /// Makes a write of the server itself, and announces it to the running sessions of the file.
    /// - Parameters:
    ///   - body: called again if another node has written in between.
    ///   - complete: called when the write is durable and announced, or with the error of `SyncedFile.write`.
    func write<Value>(
        idempotencyKey: String?, at timestamp: ChangesetTime, _ body: @escaping (WriteTransaction) throws -> Value,
        _ complete: @escaping (Result<CompletedWrite<Value?>, any Error>) -> Void
    ) {
        var value: Value?
        do {
            try environment.space.require()
            let sessions = try openedSessions()
            if let flexible = sessions.flexible {
                let made = try flexible.write(at: timestamp, idempotencyKey: idempotencyKey) { value = try body($0) }
                sessions.announce(until: environment.beginStep())
                let completed = CompletedWrite(made, value)
                return afterDelivery { complete($0.map { .failure($0) } ?? .success(completed)) }
            }
            let file = sessions.file
            let (commit, made) = try file.prepareWrite(idempotencyKey: idempotencyKey, at: timestamp) {
                value = try body($0)
            }
            let completed = CompletedWrite(made, value)
            guard let commit else { return afterDelivery { _ in complete(.success(completed)) } }
            store(commit, of: completed, complete) { [self] in
                write(idempotencyKey: idempotencyKey, at: timestamp, body, complete)
            }
        } catch {
            didNotWrite(because: error, complete) {
                write(idempotencyKey: idempotencyKey, at: timestamp, body, complete)
            }
        }
    }

    /// Makes writes at the head, in one commit, and announces them to the running sessions of the file.
    /// - Parameter complete: called when all is durable and announced, with the outcome of each write; or with a
    ///   failure of the store, after which all of them may be repeated.
    func write(
        _ writes: [HeadWrite], _ complete: @escaping (Result<[Result<ServerVersion, any Error>], any Error>) -> Void
    ) {
        do {
            try environment.space.require()
            let sessions = try openedSessions()
            guard sessions.flexible == nil else { throw HistoryError.flexibleFile }
            let prepared = try sessions.file.prepare(writes)
            store(prepared.commit, of: prepared.outcomes, complete) { [self] in write(writes, complete) }
        } catch {
            didNotWrite(because: error, complete) { write(writes, complete) }
        }
    }

    /// Has the commit of a write stored, and tells the running sessions.
    /// - Parameter again: makes the write again, when another node has written in between.
    private func store<Made>(
        _ commit: Commit, of made: Made, _ complete: @escaping (Result<Made, any Error>) -> Void,
        again: @escaping () -> Void
    ) {
        store(commit) { [self] sessions, failure in
            var failure = failure
            if let conflict = failure {
                failure = resolved(conflict)
                if failure == nil { return again() }
            }
            if let failure {
                close(because: failure)
            } else {
                sessions.announce(until: environment.beginStep())
            }
            afterDelivery { _ in complete(failure.map { .failure($0) } ?? .success(made)) }
        }
    }

    /// - Parameter again: makes the write again, when another node has written in between.
    private func didNotWrite<Made>(
        because error: any Error, _ complete: @escaping (Result<Made, any Error>) -> Void, again: () -> Void
    ) {
        if let error = error as? HistoryError {
            if error.code == .conflict, resolved(error) == nil { return again() }
            // A write to a relay fails although its store has not, and one without room has not begun.
            if error.isTransient, ![.storeUnusable, .noRoom].contains(error.code) {
                close(because: error)
            } else {
                environment.log.write(error, path: path)
            }
        }
        afterDelivery { _ in complete(.failure(error)) }
    }

    /// Makes the file, if it is open, follow the export of its app, which has changed.
    func followExport() throws(HistoryError) {
        guard let sessions else { return }
        do { try sessions.followExport() } catch {
            close(because: error)
            throw error
        }
    }

    // MARK: Opening the file

    /// Opens the file only if there is one.
    func existingFile() throws(HistoryError) -> SyncedFile? {
        if sessions == nil, try !environment.store.contains(path) { return nil }
        return try openedSessions().file
    }

    /// - Returns: nil if the file is not open and the request does not open it: its session has ended by now.
    func sessions(for request: FileRequest) throws(HistoryError) -> FileSessions? {
        if let sessions { return sessions }
        guard case .open = request.request else { return nil }
        let opened = try openedSessions()
        if let user = request.user, opened.file.head == FileHead(bounds: opened.file.head.bounds) {
            environment.options.newFiles.count(user, now: now)
        }
        return opened
    }

    /// Opening an unknown path makes a file, and every new client of it makes a row: both stay. So a user can make a
    /// limited number of each per minute. Beyond the limit of files, only open ones can be used.
    func refusal(of request: FileRequest) throws(HistoryError) -> SessionRefusal? {
        guard case .open(let bind) = request.request else { return nil }
        let options = environment.options
        if sessions == nil {
            if let user = request.user, options.newFiles.isUsedUp(by: user, now: now) { return .files }
            let isLong = path.partition?.count ?? 0 > options.limits.newPartitionBytesMax
            if isLong, try !environment.store.contains(path) { return .partition }
        }
        guard bind.needsFileIdent else { return nil }
        // To read an existing file, a client needs an ident: the first time, and after a reset.
        if environment.space.shortage != nil, try !environment.store.contains(path) { return .space }
        if let user = request.user {
            if options.newClientFiles.isUsedUp(by: user, now: now) { return .clientFiles }
            options.newClientFiles.count(user, now: now)
        }
        return nil
    }

    private var now: Int64 { Int64(clamping: environment.unixSeconds()) }
}

extension HistoryError {
    fileprivate static let flexibleFile = HistoryError(.storeUnusable, "doors serve apps with partitions only")
}
