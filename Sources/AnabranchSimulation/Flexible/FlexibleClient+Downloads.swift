import AnabranchCore
import AnabranchProtocol
import AnabranchTesting

/// The parts of a bootstrap that have arrived (`Spec/FlexibleSync.md`, section 2.2).
struct PendingBootstrap {
    /// The size of the largest changeset that can be stored, in bytes.
    static let changesetBytes = 16 << 20

    let version: QueryVersion
    /// The number of the connection of the first part.
    let link: Int
    var changesets: [DownloadedChangeset] = []
}

extension FlexibleClient {
    /// True while the client has parts of a bootstrap, but not all of them.
    package var hasParts: Bool { pendingBootstrap != nil }

    mutating func receive(_ message: DownloadMessage) throws {
        guard let batch = message.batch else { throw ProtocolViolation("1.5", "DOWNLOAD of partition-based sync") }
        let download = message.download
        try check(download)
        guard 0...1 ~= batch.estimate else { throw ProtocolViolation("4", "progress \(batch.estimate)") }
        let active = subscriptions.active
        if !readsBatchStates, batch.state == .steady {
            throw ProtocolViolation("1.5", "batch state 2 to an old release")
        }
        if batch.state == .steady || !readsBatchStates && batch.state == .last && batch.version == active {
            try integrateSteady(download)
        } else {
            if !readsBatchStates, batch.version == active {
                throw ProtocolViolation("2.2", "a part of a bootstrap of the active set")
            }
            try store(download, batch)
        }
    }

    // MARK: Steady state

    private mutating func integrateSteady(_ download: Download) throws {
        try integrate(download)
        guard let first = download.changesets.first?.cursor.serverVersion,
            let last = download.changesets.last?.cursor.serverVersion
        else { return }
        while let version = waitingCompensations.first?.rejection?.serverVersion, version <= last {
            guard version >= first else {
                throw ProtocolViolation("13", "error 231 of version \(version) comes with versions from \(first) on")
            }
            compensations.append(waitingCompensations.removeFirst())
        }
    }

    private mutating func integrate(_ download: Download) throws {
        do {
            try file?.integrate(download)
        } catch {
            throw ProtocolViolation("10", "cannot integrate a DOWNLOAD: \(error)")
        }
        progress = download.progress
    }

    // MARK: Bootstraps

    private mutating func store(_ download: Download, _ batch: QueryBatch) throws {
        try subscriptions.bootstrapCame(batch.version)
        var bootstrap = PendingBootstrap(version: batch.version, link: link?.number ?? 0)
        if let pending = pendingBootstrap, pending.version == batch.version {
            if isStale(pending) {
                throw ProtocolViolation("9", "set \(batch.version) has parts of an earlier connection")
            }
            bootstrap = pending
        }
        guard download.changesets.allSatisfy({ $0.changeset.count <= PendingBootstrap.changesetBytes }) else {
            throw ProtocolViolation("2.2", "a changeset too large to be stored")
        }
        bootstrap.changesets += download.changesets
        pendingBootstrap = bootstrap
        guard batch.state == .last else { return }
        guard !bootstrap.changesets.isEmpty else {
            throw ProtocolViolation("1", "bootstrap of set \(batch.version) without a changeset")
        }
        pendingBootstrap = nil
        try integrate(Download(progress: download.progress, changesets: bootstrap.changesets))
        subscriptions.bootstrapped(batch.version, isComplete: completesAtOnce(batch.version))
    }

    // MARK: Checks

    /// Checks a DOWNLOAD by the rules in `Spec/Protocol.md`, section 5.2. Parts of a bootstrap, too, are compared with
    /// the integrated progress.
    private func check(_ download: Download) throws(ProtocolViolation) {
        let new = download.progress
        func require(_ number: Int, _ isTrue: Bool) throws(ProtocolViolation) {
            if !isTrue { throw ProtocolViolation("Protocol 5.2.\(number)", "progress \(new) after \(progress)") }
        }
        try require(1, new.latest.version >= progress.latest.version)
        try require(2, new.upload.clientVersion >= progress.upload.clientVersion)
        try require(2, new.upload.clientVersion <= file?.version ?? 0)
        try require(3, new.cursor.serverVersion >= progress.cursor.serverVersion)
        try require(3, new.cursor.serverVersion <= new.latest.version)
        try require(4, new.cursor.clientVersion >= progress.cursor.clientVersion)
        try require(4, new.cursor.clientVersion <= new.upload.clientVersion)
        try require(5, new.cursor.serverVersion >= new.upload.serverVersion)
        try require(9, new.upload.serverVersion == 0 || new.upload.serverVersion >= progress.upload.serverVersion)
        var last = progress.cursor
        for changeset in download.changesets {
            let cursor = changeset.cursor
            try require(6, cursor.serverVersion > 0 && cursor.serverVersion >= last.serverVersion)
            try require(6, cursor.serverVersion <= new.cursor.serverVersion)
            try require(7, cursor.clientVersion >= last.clientVersion)
            try require(7, cursor.clientVersion <= new.cursor.clientVersion)
            try require(8, changeset.tag.ident > 0 && changeset.tag.ident != file?.ident)
            last = cursor
        }
    }

    // MARK: Errors

    /// - Parameter isOfConnection: whether the error names no session.
    mutating func receive(_ error: ErrorMessage, isOfConnection: Bool) throws(ProtocolViolation) {
        guard error.code.isSendable || !error.code.isKnown else {
            throw ProtocolViolation("18", "error \(error.code), which ends the process of the client")
        }
        if isOfConnection {
            lastError = error
            return disconnect()
        }
        if error.code == .compensatingWrite { return try receive(compensation: error) }
        switch link?.phase {
        case .unbound, .suspended, .failed, .finished, nil:
            throw ProtocolViolation("Protocol 8.2", "error \(error.code) for a session that is over")
        case .deactivating:
            link?.phase = .finished
        case .waitingForIdent, .identifying, .running:
            lastError = error
            link?.phase = .failed
        }
    }

    private mutating func receive(compensation error: ErrorMessage) throws(ProtocolViolation) {
        guard link?.phase == .running else { return }
        guard release >= CoreVersion(12, 1) else {
            throw ProtocolViolation("Protocol 6", "error 231 to an old release")
        }
        guard let version = error.rejection?.serverVersion else {
            throw ProtocolViolation("12", "error 231 without version")
        }
        for update in error.rejection?.updates ?? [] where update.key == nil {
            throw ProtocolViolation("2.7", "error 231 with a bad key: \(update.primaryKey)")
        }
        guard release >= CoreVersion(13, 2) else { return compensations.append(error) }
        guard version >= waitingCompensations.last?.rejection?.serverVersion ?? 0 else {
            throw ProtocolViolation("13", "error 231 of version \(version) after that of a newer one")
        }
        waitingCompensations.append(error)
    }
}
