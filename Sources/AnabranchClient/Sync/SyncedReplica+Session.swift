import AnabranchCore
import AnabranchProtocol
import AnabranchReplica

// The calls of a `SyncClient` to a replica. Every call is one turn: nothing else happens in between.

extension SyncedReplica {
    /// The size of the largest transaction that the server has not acknowledged.
    var largestUnsentBytes: Int? { replica.largestUnsentBytes }

    /// Ties the replica to the origin with which it is about to be synchronized. Once the server knows it, this is
    /// final: its changes belong there, and would otherwise be recovered elsewhere.
    func claim(_ origin: String) throws {
        let known = try replica.store.origin()
        guard !known.hasBytes(of: origin) else { return }
        if let known, replica.file != nil {
            throw SyncError(
                .notSynchronized, "the file belongs to \(known), and cannot be synchronized with \(origin)")
        }
        try replica.store.store(origin: origin)
    }

    /// - Throws: `SyncError` if it has a session: a file has one at a time.
    func begin(
        _ session: ClientSession, within space: ReplicaSpace, for account: String? = nil,
        wake: @escaping @Sendable () -> Void
    ) throws(SyncError) {
        guard self.session == nil else {
            throw SyncError(.notSynchronized, "the replica is synchronized already: remove it first")
        }
        self.session = session
        self.space = space
        self.account = account
        self.wake = wake
        updateStatus()
    }

    /// Begins the session on a new connection.
    func connected(_ version: ProtocolVersion, isFast: Bool) throws {
        guard session?.isFinished == false else { return }
        try replica.dropBootstrapParts()
        transfers.connectionIssue = nil
        lastSync.hasHeard = false
        session?.connected(version, isFast: isFast)
        if session?.isWaitingToResume == false { set(.connecting) }
    }

    /// Records that the connection was lost.
    func disconnected() {
        storeSync(isLast: true)
        session?.disconnected()
        transfers.disconnected()
        switch status {
        case .connecting, .running: set(.offline)
        case .offline, .waiting, .resetting, .stopped: updateStatus()
        }
    }

    /// Resumes the session after an error.
    func resume() throws {
        do { try replica.dropBootstrapParts() } catch {
            // The connection is closed now. The session begins on the next one, before which the parts are dropped.
            session?.disconnected()
            session?.resume()
            throw error
        }
        session?.resume()
        set(session?.isRunning == true ? .running : session?.isConnected == true ? .connecting : .offline)
        wake?()
    }

    func wait(because error: SyncError) { set(.waiting(error)) }

    /// Stops the session; waiting tasks get the error.
    func stop(_ error: SyncError) {
        set(.stopped(error))
        waiters.fail(error)
    }

    func end(_ error: SyncError) {
        storeSync(isLast: true)
        (session, wake, account) = (nil, nil, nil)
        transfers.disconnected()
        transfers.connectionIssue = nil
        set(.offline)
        waiters.fail(error)
    }

    /// Ends the session for the application; UNBIND is sent if there is a connection.
    /// - Returns: whether the session is over.
    func unbind() -> Bool {
        session?.unbind()
        wake?()
        return session?.isFinished ?? true
    }

    var isFinished: Bool { session?.isFinished ?? true }

    func set(_ status: SyncStatus) {
        guard status != self.status else { return updateStatus() }
        self.status = status
        updateStatus()
        tell(.status(status))
    }

    // MARK: Messages

    /// The next message of the session.
    func nextMessage() throws -> ClientMessage? {
        let message = try session?.next(&replica)
        if case .ident? = message { set(.running) }
        return message
    }

    /// Carries out a message of the server.
    /// - Returns: an error with which the server has ended the session.
    /// - Throws: `ProtocolError` if the message is not allowed; `ReplicaError` if the disk fails. Then the connection
    ///   has to be closed.
    func receive(_ message: ServerMessage) throws -> ErrorMessage? {
        defer { updateStatus() }
        do {
            return try carryOut(message)
        } catch {
            // A failure cannot be repaired on this connection: the session may do nothing more on it.
            session?.disconnected()
            throw error
        }
    }

    private func carryOut(_ message: ServerMessage) throws -> ErrorMessage? {
        switch try session?.receive(message, replica) {
        case .ident(let file)?:
            try replica.identify(as: file)
            publish(isLocal: false)
            items.forgetLog()
            transfers.count(replica.unacknowledged)
        case .download(let download, let kind)?:
            if case .download(_, let message) = message { transfers.came(message) }
            try integrate(download, as: kind)
            lastSync.hasHeard = true
        case .marked(let request, let complete)?:
            if complete != nil { try replica.subscriptionsMarked() }
            try replica.downloaded()
            lastSync.hasHeard = true
            // Before the waiting tasks go on, so that they find the new status.
            updateStatus()
            waiters.release { $0 == .subscriptionNews || $0.isMarked(by: request) }
        case .queryRefused(let refusal)?:
            try replica.subscriptionsRefused(refusal.version, refusal.message)
            waiters.release { $0 == .subscriptionNews }
        case .failed(let error)?: return error
        case .downloadRefused(_, let reason)?: stop(SyncError(.violation, reason))
        case .log, .unbound, nil: break
        }
        return nil
    }

    private func integrate(_ download: Download, as kind: DownloadKind) throws {
        // A shortage concerns only this device: the application can make room, and start again.
        if !download.changesets.isEmpty, let reason = space.shortage(at: path) {
            return refuse(.otherSessionError, reason, .storageFull)
        }
        let acknowledgedBefore = replica.progress.upload.clientVersion
        do {
            let parts = replica.parts(of: download, as: kind)
            for (number, part) in parts.enumerated() {
                let changes = try replica.integrate(part, as: kind)
                if number == parts.count - 1 {
                    for undone in session?.integrated() ?? [] { tell(.writesUndone(undone)) }
                }
                let overruled = replica.overruled
                if !part.changesets.isEmpty { changed(changes, isLocal: false) }
                if !overruled.isEmpty { tell(.mergedAway(overruled)) }
            }
        } catch let error as ReplicaError where error.code == .badDownload {
            refuse(.badChangeset, error.reason)
        } catch let error as ReplicaError where error.code == .changesetTooLarge {
            refuse(.badChangesetSize, error.reason)
        }
        let acknowledged = replica.progress.upload.clientVersion
        if acknowledged > acknowledgedBefore {
            transfers.count(replica.unacknowledged)
            updateStatus()
        }
        waiters.release { $0.isUploaded(by: acknowledged) }
    }

    /// Tells the server that a download is refused. It may then ask for a client reset; until it does, or there is
    /// another connection, nothing more is downloaded.
    private func refuse(_ code: ErrorCode, _ reason: String, _ own: SyncError.Code = .violation) {
        session?.integrationFailed(code, reason)
        stop(SyncError(own, reason))
    }
}
