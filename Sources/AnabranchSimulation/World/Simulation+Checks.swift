import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchReplica
import AnabranchRules
import AnabranchServer
import AnabranchTesting

// What has to hold.

extension Simulation {
    /// Checks what has to hold at any time.
    func observe() throws {
        try recordCommits()
        for node in nodes {
            guard let machine = node.machine else { continue }
            if machine.waitingDownloadCount > 0 { tally.mark("waits for memory") }
            // One message may need more than the limit alone, where nothing smaller can be sent; and what some wait for
            // does not include the heads of their changesets.
            let unread = unreadBytes(of: node), others = unread.reduce(0, +) - (unread.max() ?? 0)
            try require(
                others <= plan.messageBytes * 3 / 2, "P6: besides the longest, messages occupy \(others) bytes")
        }
    }

    /// The memory that long messages of a node's process occupy which their clients have not read, in bytes.
    private func unreadBytes(of node: SimulatedNode) -> [Int] {
        let links = clients.compactMap(\.process?.link) + halfOpenLinks.map(\.link)
        var numbers: Set<UInt64> = []
        return links.filter {
            $0.node === node && $0.process == node.processCount && numbers.insert($0.number).inserted
        }
        .flatMap(\.toClient).map { output in
            guard case .message(let message) = output else { return 0 }
            return ServerMachine.bytesInUse(by: message)
        }
    }

    /// Records which client files expire, and checks that none does whose client is connected, as all are in the end.
    func recordExpiry(_ commit: Commit, of file: Int) throws {
        // A trim tells expired ones as well what has gone.
        guard commit.trim == nil else { return }
        if commit.clientFiles.contains(where: { $0.foundAway > 0 && !$0.isExpired }) { tally.mark("found away") }
        for expired in commit.clientFiles where expired.isExpired {
            let client = clients.first { $0.file == file && $0.process?.replica.ident == expired.ident }
            tally.mark("expired")
            record("expire", ["\(file)", client.map { "\($0.number)" } ?? "null"])
            let isConnected =
                client?.process?.link?.isOpenForServer == true && client?.process?.session.isRunning == true
            try require(
                !isConnected || !isCompeting || plan.isFlexible,
                "N4: the file of client \(client?.number ?? -1) expires, and it is connected")
        }
    }

    /// Checks that a log gets nothing of a user who could not write at any time since it has arrived (P8); in flexible
    /// sync, no new objects of a user who could not create any.
    func checkPermission(toWrite entry: LogEntry, in file: SyncedFileID) throws {
        let author = try content.read(file) { view throws(HistoryError) in try view.clientFile(entry.origin) }
        guard !entry.changeset.isEmpty, let author, let user = author.user else { return }
        try require(
            user != HostileClient.user,
            "P8: version \(entry.version) is what one has sent who may not write")
        if plan.isFlexible, try !entry.creates(CountedWrites.entry) { return }
        try permissionLedger.checkIntegration(
            of: entry.clientVersion, from: SaltedFileID(ident: author.ident, salt: author.salt), of: user,
            as: entry.version, at: clock.now)
    }

    /// Checks that a client is refused nothing that its user was permitted all the time (P8).
    func checkPermission(refusedBy error: ErrorMessage, _ client: SimulatedClient) throws {
        guard !plan.isFlexible, let link = client.process?.link, let user = client.user.user else { return }
        switch error.code {
        case .permissionDenied: try permissionLedger.checkDenial(of: user, since: link.moment, at: clock.now)
        case .writeNotAllowed:
            try permissionLedger.checkRefusal(
                of: error.rejection?.clientVersion ?? 0, by: link.number, of: user, at: clock.now)
        default: break
        }
    }

    /// Checks that a client that has everything up to a version has what the server had then (P4).
    func checkDigest(of client: SimulatedClient) throws {
        guard !plan.isFlexible, !client.isTwin, let process = client.process, process.old == nil else { return }
        let replica = process.replica, progress = replica.progress
        guard progress.isComplete, replica.newestChange <= progress.cursor.clientVersion,
            let expected = digests[client.file][progress.latest]
        else { return }
        tally.mark("digest compared")
        try require(
            try StateDigest(of: replica.state) == expected,
            "P4: client \(client.number) has another state at version \(progress.cursor.serverVersion)")
    }

    /// Checks that nobody has to start over but for a backup that was restored, a copied file, or because it has
    /// expired (P5); so not because it has changed nodes (N2).
    func checkReset(because error: ErrorMessage, _ client: SimulatedClient) throws {
        let codes: [ErrorCode] = [.badClientFileIdent, .badServerVersion, .badClientVersion, .divergingHistories]
        // A node that was paused tells what is lost also to clients that have begun anew.
        let hasLost =
            hasSeveralNodes
            ? tally.marks[SimulationPlan.Fault.restore.rawValue] != nil
            : client.process?.replica.store.isOlderThanRestoration == true
        if client.isTwin, codes.contains(error.code) { mark("copies meet", client) }
        guard !client.isTwin, !hasLost else { return }
        var isWithoutReason = codes.contains(error.code)
        if error.code == .clientFileExpired, let ident = client.process?.replica.ident {
            isWithoutReason = try storedFile(client.file).clientFile(ident)?.isExpired == false
        }
        try require(
            !isWithoutReason,
            "P5, N2: client \(client.number) has to start over with error \(error.code.rawValue) for nothing")
    }

    /// Records a report to a client of its undone writes.
    func recordCompensations(_ message: ServerMessage) {
        guard case .error(_, let error) = message, let rejection = error.rejection else { return }
        mark("compensating write")
        for update in rejection.updates {
            log("told that \(update.table) \(update.primaryKey) was undone: \(update.reason)")
            if case .int(let token)? = update.key, update.table == CountedWrites.entry { ledger.undone(token) }
        }
    }

    /// Checks what has to hold once nothing is left to do.
    func checkEnd() throws {
        for node in nodes {
            guard let bytes = node.machine?.bytesInUse else { continue }
            let unread = unreadBytes(of: node).reduce(0, +)
            try require(bytes.requests == 0, "P6: requests that are done occupy \(bytes.requests) bytes")
            try require(bytes.messages == unread, "P6: messages occupy \(bytes.messages) bytes, \(unread) are unread")
        }
        for file in 0..<plan.fileCount { try checkEnd(of: file) }
    }

    /// Returns a file as the store has it, in a copy, since opening the file would take it from the server.
    func storedFile(_ file: Int) throws -> SyncedFile {
        try SyncedFile(path: path(of: file), store: content.copy())
    }

    private func checkEnd(of file: Int) throws {
        let synced = try storedFile(file), end = logEnds[file]
        try require(synced.version == end, "P3: the log of file \(file) ends at \(synced.version), not \(end)")
        let state = try synced.withState { $0 }
        let flexible = plan.isFlexible ? try FlexibleFile(synced) : nil
        for client in clients where client.file == file {
            guard let replica = client.process?.replica else { continue }
            let expected = try flexible?.visibleState(to: replica.ident, by: try roles.rules(of: client.user)) ?? state
            guard try StateDigest(of: expected) != StateDigest(of: replica.state) else { continue }
            let texts = try [expected, replica.state].map { String(decoding: try $0.canonicalJSON(), as: UTF8.self) }
            let common = zip(texts[0], texts[1]).prefix { $0 == $1 }.count, start = max(0, common - 80)
            throw SimulationFailure(
                """
                P4: client \(client.number), ident \(replica.ident), has not what the server has
                server: …\(texts[0].dropFirst(start).prefix(200))
                client: …\(texts[1].dropFirst(start).prefix(200))
                """)
        }
        if plan.workload == .counted { try ledger.check(try WriteLedger.counts(in: state), of: file) }
        guard recording != nil else { return }
        for client in clients where client.file == file {
            guard let replica = client.process?.replica else { continue }
            let digest = JSONText.quoted("\(try StateDigest(of: replica.state))")
            record("same", client, ["\(end)", digest])
        }
    }
}

extension LogEntry {
    /// True if an object of a class is created.
    fileprivate func creates(_ className: String) throws -> Bool {
        var arena = ChangesetArena()
        let index = try decode(into: &arena)
        return arena.instructions(of: index).contains {
            $0.kind == .createObject && arena.bytes(of: $0.className).elementsEqual(className.utf8)
        }
    }
}
