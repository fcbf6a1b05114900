import AnabranchCore
import AnabranchProtocol
import AnabranchReplica
import AnabranchServer
import AnabranchTesting

// The messages of clients, and their reactions to errors.

extension Simulation {
    // MARK: Messages

    /// - Returns: whether the client had something to say.
    func speak(_ client: SimulatedClient) throws -> Bool {
        guard let link = client.process?.link, link.toServer.count < 1_000 || faultsAreOff else { return false }
        let message: EncodedMessage
        var versions: [ClientVersion] = []
        switch client.process?.connection?.next(at: clock.now) {
        case nil: return false
        case .ping(let ping)?: message = ping
        case .session?:
            guard var process = client.process else { return false }
            let next = Result { try process.session.next(&process.replica) }
            client.process = process
            guard let next = try next.get() else { return true }
            if case .mark(_, let request) = next { client.marks[request] = logEnds[client.file] }
            if case .upload(_, let sent) = next {
                let changesets = sent.upload.changesets
                versions = changesets.map(\.cursor.clientVersion)
                if let last = changesets.last { hostile.record(changeset: last.changeset) }
            }
            guard let encoded = client.process?.connection?.encode(next) else { return false }
            message = encoded
            schedule(client)
        }
        log(message.bytes, "client \(client.number) says")
        record(message: "say", client, message.bytes)
        hostile.record(message.bytes)
        link.send(message.bytes, versions: versions) {
            plan.partBytesMax == .max ? .max : 1 + random.below(plan.partBytesMax)
        }
        return true
    }

    /// Lets the client read the next message that has arrived.
    /// - Returns: whether there was anything.
    func hear(_ client: SimulatedClient) throws -> Bool {
        guard let output = client.process?.link?.nextOutput() else { return false }
        switch output {
        case .close(let code):
            log("client \(client.number) hears that the connection is closed, with \(code)")
            record("close", client, ["\(code)"])
            disconnect(client, code == 1000 ? .lost : .closeCode(code))
        case .message(let message):
            log(message.bytes, "client \(client.number) hears")
            record(message: "hear", client)
            try guardingDisk(of: client) { try hear(message.bytes, client) }
        }
        return true
    }

    func hear(_ message: [UInt8], _ client: SimulatedClient) throws {
        guard var process = client.process else { return }
        let event: ClientConnection.Event?
        do {
            event = try process.connection?.receive(message, at: clock.now, using: &random)
            client.process = process
        } catch {
            return try violation(error, client)
        }
        switch event {
        case .session(process.session.ident, let message)?: try carryOut(message, client)
        case .failed(let error)?:
            mark("error \(error.code.rawValue)", client)
            disconnect(client, .failed(error), error)
        case .session?, .log?, nil: break
        }
        schedule(client)
    }

    /// Handles a message that the server must not send.
    func violation(_ error: any Error, _ client: SimulatedClient) throws {
        guard client.isTwin else {
            throw SimulationFailure("client \(client.number) is told what may not be: \(error)")
        }
        mark("twin stopped", client)
        mark("copies meet", client)
        disconnect(client, .violation(.badMessageOrder))
    }

    func carryOut(_ message: ServerMessage, _ client: SimulatedClient) throws {
        recordCompensations(message)
        guard var process = client.process else { return }
        let event: ClientSession.Event?
        do {
            event = try process.session.receive(message, process.replica)
        } catch {
            return try violation(error, client)
        }
        client.process = process
        switch event {
        case .ident(let file)?:
            try client.process?.replica.identify(as: file)
        case .download(let download, let kind)?: try integrate(download, kind, client)
        case .marked(let request, let complete)?:
            try checkMark(request, client)
            if complete != nil { try client.process?.replica.subscriptionsMarked() }
            try client.process?.replica.downloaded()
            try endReset(of: client)
        case .queryRefused(let refusal)?:
            mark("query refused", client)
            try client.process?.replica.subscriptionsRefused(refusal.version, refusal.message)
        case .failed(let error)?: try react(to: error, client)
        case .downloadRefused(let code, let reason)?:
            try violation(SimulationFailure("download refused with \(code): \(reason)"), client)
        case .log?, .unbound?, nil: break
        }
    }

    func integrate(_ download: Download, _ kind: DownloadKind, _ client: SimulatedClient) throws {
        let hadLocal = client.process?.replica.isAcknowledged == false
        do {
            for part in client.process?.replica.parts(of: download, as: kind) ?? [] {
                try client.process?.replica.integrate(part, as: kind)
            }
        } catch let error as ReplicaError where error.code == .badDownload && canFail(client) {
            return refuse(error, client)
        } catch let error as ReplicaError where error.code != .storeFailed {
            return try violation(error, client)
        }
        if hadLocal, !download.changesets.isEmpty { mark("merge", client) }
        if case .bootstrap(_, let isLast) = kind { mark(isLast ? "bootstrap" : "part of a bootstrap", client) }
        _ = client.process?.session.integrated()
        recordProgress(of: client)
        try checkDigest(of: client)
    }

    private func canFail(_ client: SimulatedClient) -> Bool {
        tally.marks[SimulationPlan.Fault.schemaConflict.rawValue] != nil || client.isSchemaRefused
    }

    /// Stops a client that cannot integrate, and reports the error to the server: its application has given a column
    /// two types, or has removed one that others use.
    func refuse(_ error: ReplicaError, _ client: SimulatedClient) {
        mark("refused by client", client)
        log("client \(client.number) cannot integrate: \(error)")
        client.process?.session.integrationFailed(.badChangeset, error.reason)
        client.process?.isStopped = true
    }

    func recordProgress(of client: SimulatedClient) {
        guard let process = client.process, process.old == nil else { return }
        let acknowledged = process.replica.progress.upload.clientVersion
        for _ in 0..<ledger.acknowledge(through: acknowledged, of: client.number) { tally.mark("acknowledged") }
        recordPlace(of: client)
        guard process.isRecovering, process.replica.isAcknowledged else { return }
        client.process?.isRecovering = false
        ledger.recovered(client.number)
    }

    // MARK: Errors

    func react(to error: ErrorMessage, _ client: SimulatedClient) throws {
        mark("error \(error.code.rawValue)", client)
        log("client \(client.number): \(error.message)")
        try checkRetry(because: error, client)
        try checkPermission(refusedBy: error, client)
        record("error", client, ["\(error.code.rawValue)", Recording.text(error.message)])
        if error.code == .invalidSchemaChange { client.isSchemaRefused = true }
        switch error.reaction {
        case .retry:
            let delay = client.process?.sessionRetry.next(after: error, using: &random)
            client.process?.resumesAt = delay.map { clock.now + $0 }
            if delay == nil { client.process?.isStopped = true }
        case .clientReset(let isRecoveryAllowed):
            try checkReset(because: error, client)
            try beginReset(of: client, recovers: isRecoveryAllowed && plan.workload == .counted && random.isOne(in: 2))
        case .refreshUser, .refreshLocation: client.process?.resumesAt = clock.now + 1_000
        case .stop, .deleteFile, .logOutUser: client.process?.isStopped = true
        }
    }

    func resume(_ client: SimulatedClient) throws {
        client.process?.resumesAt = nil
        client.process?.session.resume()
        // If that fails, the session begins on the next connection, before which they are dropped.
        try client.process?.replica.dropBootstrapParts()
        schedule(client)
    }

    func beginReset(of client: SimulatedClient, recovers: Bool) throws {
        mark("client reset", client)
        disconnect(client, .closedByClient)
        try client.beginReset(recovers: recovers, session: nextSession(), at: clock.now)
    }

    func endReset(of client: SimulatedClient) throws {
        guard let old = client.process?.old else { return }
        switch client.process?.replica.record.subscriptions?.latest.state {
        case .refused?:
            client.process?.isStopped = true
            return
        case .complete?, nil: break
        case .pending?, .bootstrapping?, .awaitingMark?: return
        }
        disconnect(client, .closedByClient)
        // If that fails, the application has to open its file again.
        client.process?.isStopped = true
        try client.endReset(session: nextSession(), at: clock.now)
        if old.recovers { try checkTimesOfRecovery(of: client) }
        if old.recovers, let latest = old.replica.record.subscriptions?.latest {
            tally.mark("subscriptions recovered")
            try require(
                client.process?.replica.record.subscriptions?.latest.subscriptions == latest.subscriptions,
                "P1: client \(client.number) has lost in a client reset what it had asked for last")
        }
        mark(old.recovers ? "recovered" : "discarded", client)
        if plan.isFlexible { ledger.recordUnreported(client.number) }
        ledger.reset(client.number, isRecovered: old.recovers)
        client.isTwin = false
        if client.process?.isRecovering == false { ledger.recovered(client.number) }
    }

    /// Starts a stopped client again, as its user does, and throws its file away if that does not help. Once nothing
    /// goes wrong any more, it has to help, unless the app itself has made a mistake: then writes may be lost.
    func restart(_ client: SimulatedClient) throws {
        client.stopCount += 1
        guard client.stopCount < 3 else {
            try require(
                !faultsAreOff || plan.isFlexible || canFail(client),
                "P1: client \(client.number) is stopped again and again, and loses what it has written")
            return throwAway(client)
        }
        log("client \(client.number) is started again")
        record("again", client)
        loseLink(of: client)
        client.process = nil
        client.startsAt = clock.now
    }

    /// Starts over with an empty file, as an application does.
    func throwAway(_ client: SimulatedClient) {
        log("client \(client.number) begins anew")
        record("anew", client)
        loseLink(of: client)
        ledger.reset(client.number, isRecovered: false)
        if plan.isFlexible { ledger.recordUnreported(client.number) }
        client.beginAnew()
        client.startsAt = clock.now
        mark("thrown away", client)
    }
}
