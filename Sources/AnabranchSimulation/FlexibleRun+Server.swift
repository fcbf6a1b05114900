import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchTesting

// What the server's sessions do with a flexible file (`FileSessions` in the server), and what has to hold for it.

extension FlexibleRun {
    /// Answers a request of a session, and tells the sessions if the file then has something new.
    /// - Returns: whether there was a request, or something on its way to the session, which comes before any answer.
    func fileAnswers(_ index: Int) throws -> Bool {
        if deliverNews(to: index) { return true }
        let version = synced.version
        guard try participants[index].fileAnswers({ try answer($0, of: index) }) else { return false }
        if synced.version > version { announce() }
        return true
    }

    private func answer(_ request: SessionRequest, of index: Int) throws -> SessionEvent? {
        do { return try answerOrFail(request, of: index) } catch let error as HistoryError {
            // An upload that follows a refused one would leave a gap.
            leave(participants[index])
            participants[index].session = nil
            switch error.code {
            case .clientFileExpired: return .failed(ErrorMessage(.clientFileExpired, error.reason))
            case .writeNotAllowed: return .failed(ErrorMessage(.writeNotAllowed, error.reason))
            case .interruptedBootstrap:
                tally.interruptedBootstraps += 1
                return .failed(ErrorMessage(.sessionClosed))
            default: throw error
            }
        }
    }

    private func answerOrFail(_ request: SessionRequest, of index: Int) throws -> SessionEvent? {
        let participant = participants[index]
        switch request {
        case .open(let bind):
            return bind.needsFileIdent
                ? .fileIdentAllocated(try synced.allocateIdents(for: [nil], at: time)[0]) : nil
        case .identify(let claim, let hasRestarted):
            (participant.session, participant.unasked) = (nil, nil)
            var session = try file.beginSession(claim, rules: rules.rules(of: index), hasRestarted: hasRestarted)
            if file.isSearching(for: session.ident) {
                _ = try inSteps(of: index) { try file.advanceSearch(in: &session, until: $0) }
            }
            participant.session = session
            return .identAccepted(session.progress.download, exposedVersion: synced.version)
        case .query(let subscriptions):
            guard var session = participant.session else { return nil }
            try inSteps(of: index) { try file.beginQuery(subscriptions, in: session, until: $0) ? () : nil }
            let refusal = try inSteps(of: index) { try file.advanceSearch(in: &session, until: $0) }.refusal
            participant.session = session
            if refusal != nil { tally.refusedQueries += 1 }
            return refusal.map { .queryRefused(QueryRefusal(version: subscriptions.version, message: $0)) }
        case .integrate(let upload):
            try deferring { try integrate(upload.upload, of: index) }
            return nil
        case .clientVersion(let file):
            return .clientVersion(try self.file.file.clientFile(file.ident)?.uploadCursor.clientVersion ?? 0)
        case .newestVersion: return .newestVersion(synced.version)
        case .scan(let cursor), .scanBootstrap(_, _, let cursor):
            guard var session = participant.session else { return nil }
            if let before = participant.unasked?.before, cursor.serverVersion < session.sent.cursor.serverVersion {
                session.goBack(to: before)
            }
            participant.unasked = nil
            let byteBudget = random.pick([0, 100, 10_000])
            let made = try inSteps(of: index) { limit -> ViewDownload?? in
                let made = try file.download(
                    for: &session, participant.capabilities, byteBudget: byteBudget, isAnswer: true, until: limit)
                return made == nil && file.isCatchingUp(session.ident) ? nil : .some(made)
            }
            participant.session = session
            guard let made else { return nil }
            try check(made)
            return .flexibleDownload(FlexibleDownload(made))
        case .close:
            return nil
        }
    }

    private func integrate(_ upload: Upload, of index: Int) throws {
        let participant = participants[index]
        guard let rest = try participant.session?.progress.accept(upload), let ident = participant.session?.ident
        else { return }
        let before = synced.version
        let result = Result {
            try file.recordProgress(rest, from: ident, at: time)
                ? [] : try integrateInSteps(rest, from: ident, of: index)
        }
        // If it fails, or the server ends, a part of it may be integrated.
        let entries = try synced.log(after: before).filter { $0.origin == ident }
        try events.record(rest, through: entries.last?.clientVersion ?? 0)
        made.recordUpload(by: Int(ident.rawValue), versions: entries.map(\.version.rawValue))
        if case .failure(is ServerEnd) = result { tally.cutUploads += 1 }
        let refused = try result.get()
        tally.uploads += 1
        tally.refusedObjects += refused.count
        guard !refused.isEmpty else { return }
        participant.refusals.append((VersionRange(after: before, through: synced.version), refused))
    }

    /// - Throws: `ServerEnd` now and then, when a part of the upload is integrated.
    private func integrateInSteps(
        _ upload: Upload, from ident: ClientFileID, of index: Int
    ) throws -> [CompensatingWrite.Object] {
        file.enqueue(upload, from: ident, at: time)
        let first = upload.changesets.first?.cursor.clientVersion ?? ClientVersion(rawValue: .max)
        try inSteps(of: index) { limit -> Void? in
            let outcomes =
                file.hasNewUploads
                ? try file.integrateNew(until: limit) : try file.integrateLong(until: limit).map { [$0] } ?? []
            for outcome in outcomes { integrated[outcome.ident] = outcome }
            guard file.hasUploads(of: ident) else { return () }
            let isCut = try synced.clientFile(ident)?.uploadCursor.clientVersion ?? 0 >= first
            if isCut, !losesNothing, !synced.defersCommits, random.isOne(in: 3) { throw ServerEnd() }
            return nil
        }
        guard let outcome = integrated.removeValue(forKey: ident) else { return [] }
        if let refusal = outcome.refusal { throw refusal }
        return outcome.refusals.objects
    }

    /// Does something for a client in steps, with other clients going on in between.
    /// - Parameter step: nil if there is more to be done.
    private func inSteps<Result>(of index: Int, _ step: (StepLimit) throws -> Result?) throws -> Result {
        let others = participants.indices.filter { $0 != index && !integrating.contains($0) }
        integrating.insert(index)
        defer { integrating.remove(index) }
        while true {
            if let result = try step(steps.begin()) { return result }
            // What others do would be stored, or forgotten, with it.
            guard !synced.defersCommits, let other = others.randomElement(using: &random) else { continue }
            if random.isOne(in: 8) { _ = try fileAnswers(other) }
        }
    }

    /// Checks that a bootstrap has a version of its own, and that what was refused has left no trace in the log.
    private func check(_ made: ViewDownload) throws {
        if case .bootstrap(_, let isLast) = made.kind {
            tally.bootstraps += isLast ? 1 : 0
            tally.parts += isLast ? 0 : 1
            let version = made.download.progress.cursor.serverVersion
            let entry = try entry(version)
            try require(
                entry.map { $0.origin == 0 && $0.changeset.isEmpty } ?? true, "a bootstrap shares version \(version)")
        }
        for write in made.compensations {
            guard let entry = try entry(write.version) else { continue }
            var arena = ChangesetArena()
            let tag = OriginTag(timestamp: entry.timestamp, ident: entry.origin)
            let changeset = try arena.decode(entry.changeset, version: entry.version.rawValue, tag: tag)
            let touched = arena.touchedObjects(of: changeset)
            for object in write.objects {
                let isLeft = touched.contains { $0.className == object.className && $0.key == object.key }
                try require(!isLeft, "version \(write.version) has what was refused: \(object.reason)")
            }
        }
    }

    /// Returns an entry of the log; nil if it was trimmed.
    private func entry(_ version: ServerVersion) throws -> LogEntry? {
        guard version > synced.head.baseVersion else { return nil }
        return try synced.log(after: version - 1).first
    }

    /// Checks that each refusal is reported to the client, and never again once the client has integrated the undoing.
    func checkCompensations(_ index: Int) throws {
        let participant = participants[index], told = participant.client.compensations.compactMap(\.rejection)
        tally.compensations += told.count
        let release = participant.client.release
        guard release >= CoreVersion(12, 1) else { return }
        for (versions, objects) in participant.refusals {
            let updates = told.filter { versions.contains($0.serverVersion ?? 0) }.flatMap(\.updates)
            for object in objects {
                let isTold = updates.contains { $0.reason == object.reason && $0.key == object.key }
                try require(isTold, "client \(index) was not told: \(object.reason)")
            }
        }
        let versions = told.compactMap(\.serverVersion)
        guard release >= CoreVersion(13, 2) else { return }
        try require(zip(versions, versions.dropFirst()).allSatisfy(<), "client \(index) was told of \(versions)")
    }
}

extension FlexibleDownload {
    init(_ made: ViewDownload) {
        self.init(
            progress: made.download.progress, body: EncodedBody(made.download.changesets, limits: Limits()),
            kind: made.kind, estimate: made.estimate, compensations: made.compensations.map { ErrorMessage($0) })
    }
}

extension ErrorMessage {
    /// Creates the message that the server sends.
    fileprivate init(_ write: CompensatingWrite) {
        self.init(.compensatingWrite)
        rejection = Rejection(
            clientVersion: write.clientVersion, serverVersion: write.version,
            updates: write.objects.map { object in
                Rejection.Update(
                    reason: object.reason, table: String(decoding: object.className, as: UTF8.self), key: object.key)
            })
    }
}
