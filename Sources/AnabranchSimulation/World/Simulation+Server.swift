import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchReplica
import AnabranchServer
import AnabranchTesting
import Synchronization

// What happens between clients and the server, and in the server.

extension Simulation {
    /// Moves parts of messages in both directions.
    func moveLink(of client: SimulatedClient) throws {
        guard let link = client.process?.link, !link.isClogged(at: clock.now) else { return }
        if random.isOne(in: 2) || faultsAreOff {
            deliver(link, of: client, partsMax: faultsAreOff ? .max : random.pick([1, 5, 100]))
        }
        guard link.halfOpenSince == nil else { return }
        for _ in 0..<(faultsAreOff ? 1_000 : random.pick([0, 1, 3, 10])) {
            guard client.process?.link === link, try hear(client) else { return }
        }
    }

    private func deliver(_ link: SimulatedLink, of client: SimulatedClient, partsMax: Int) {
        guard link.halfOpenSince == nil, link.isOpenForServer else { return }
        var count = 0
        while count < partsMax, let part = link.nextPart() {
            receive(part, by: link, from: client)
            count += 1
        }
        hasMoved = hasMoved || count > 0
    }

    /// Lets a node receive a part of a message. The server asks for the permission when an UPLOAD is whole.
    func receive(_ part: SimulatedLink.Part, by link: SimulatedLink, from client: SimulatedClient) {
        _ = permissions.takeAnswer()
        link.node.machine?.receive(part.bytes, isFirst: part.isFirst, isLast: part.isLast, from: link.number)
        if part.isLast { record(message: "arrive", client) }
        guard !part.versions.isEmpty, link.isOpenForServer, let user = client.user.user,
            let file = client.process?.replica.file
        else { return }
        let upload = PermissionLedger.Upload(
            client: client.number, clientFile: file, versions: part.versions, node: link.node.number,
            connection: link.number, since: plan.isFlexible ? link.node.followedRoles : permissionLedger.moment,
            answer: permissions.takeAnswer())
        permissionLedger.arrived(upload, of: user, at: clock.now)
        if permissionLedger.permissions(of: user, since: .max) != [.write] { mark("upload without permission", client) }
    }

    /// - Returns: whether there may be more to do.
    @discardableResult
    func takeTurns(_ countMax: Int) throws -> Bool {
        var isAtWork = false
        for node in nodesAtWork { if try takeTurns(countMax, of: node) { isAtWork = true } }
        return isAtWork
    }

    private func takeTurns(_ countMax: Int, of node: SimulatedNode) throws -> Bool {
        guard clock.now >= node.isBusyUntil else { return false }
        deliverWakes(to: node)
        var count = 0
        while count < countMax, let machine = node.machine {
            node.store.beginTurn()
            guard machine.takeTurn() else { break }
            count += 1
            try recordCommits()
            guard !node.store.hasEnded else {
                end(node, for: Int64(random.pick([0, 1_000, 60_000])))
                break
            }
        }
        // It has nothing left to do.
        if count < countMax, node.machine != nil { node.followedRoles = permissionLedger.moment }
        return count == countMax
    }

    /// Sends what the server has to say, as far as there is room.
    func send(to client: SimulatedClient, countMax: Int) throws {
        guard let link = client.process?.link, let machine = link.node.machine, link.isOpenForServer,
            clock.now >= link.node.isBusyUntil
        else { return }
        if machine.isSuperseded(link.number) {
            mark("superseded", client)
            if client.isTwin { mark("copies meet", client) }
            machine.disconnect(link.number)
            return link.close()
        }
        let messages = machine.messages(to: link.number, countMax: min(countMax, 20 - min(20, link.toClient.count)))
        let mayRead = permissions.permission(for: client.user, on: []) > .none || plan.isFlexible
        for case .message(let message) in messages {
            let isDownload = message.head.starts(with: "download ".utf8)
            try require(mayRead || !isDownload, "P8: client \(client.number) is sent what its user may not read")
            record(message: "tell", client, message.bytes)
        }
        link.send(messages)
        hasMoved = hasMoved || !messages.isEmpty
        if link.node.store.hasEnded { end(link.node, for: 1_000) }
    }

    // MARK: Its own writes

    func serverWrite() {
        let node = someNode()
        guard node.machine != nil else { return }
        let file = random.below(plan.fileCount)
        switch plan.workload {
        case .counted:
            let token = ledger.begin(by: -1, in: file, as: nil), seed = random.next()
            serverWrite(to: file, of: node, token) { transaction in
                var random = SeededRandom(seed: seed)
                try CountedWrites.write(token, by: -1, &random, transaction)
            }
        case .anything: return
        }
    }

    @discardableResult
    func serverWrite(
        to file: Int, of node: SimulatedNode, _ token: Int64?,
        _ body: @escaping @Sendable (WriteTransaction) throws -> Void
    ) -> PendingWrite.Outcome {
        let time = clock.serverTime, outcome = PendingWrite.Outcome()
        node.machine?.write(to: path(of: file), at: time, body) { result in outcome.result.withLock { $0 = result } }
        serverWrites.append(PendingWrite(file: file, node: node, time: time, token: token, outcome: outcome))
        return outcome
    }

    func recordServerWrites() {
        serverWrites.removeAll { write in
            switch write.outcome.result.withLock({ $0 }) {
            case nil: return false
            case .success?:
                tally.mark("server write")
                if let token = write.token { ledger.acknowledge(token) }
            case .failure?: if let token = write.token { ledger.undone(token) }
            }
            return true
        }
    }

    // MARK: Commits

    /// Checks and records what the store has committed: versions follow without gaps, and none is by a user who could
    /// not write.
    func recordCommits() throws {
        for node in nodes {
            for happened in node.store.takeHappened() { mark(happened) }
            for (path, commit) in node.store.takeCommits() {
                guard let file = file(at: path) else { continue }
                try log(commit, of: file)
                wakeOthers(than: node, path)
            }
        }
        recordServerWrites()
    }

    private func log(_ commit: Commit, of file: Int) throws {
        try checkTime(ofServerWrite: commit, in: file)
        for entry in commit.entries {
            try require(
                entry.version == logEnds[file] + 1,
                "P3: version \(entry.version) of file \(file) follows \(logEnds[file])")
            try checkPermission(toWrite: entry, in: commit.file)
            logEnds[file] = entry.version
            log(entry.changeset, "version \(entry.version), salt \(entry.salt), by \(entry.origin)")
        }
        record(commit, of: file)
        try recordExpiry(commit, of: file)
        if commit.sealed != nil { tally.mark("sealed") }
        if commit.trim != nil { tally.mark("trimmed") }
        if commit.generation != nil { tally.mark("generation") }
        recordAuthors(commit, of: file)
        guard !commit.entries.isEmpty else { return }
        if plan.isFlexible {
            return ledger.stored(try WriteLedger.counts(in: try content.state(of: commit.file)).keys)
        }
        let head = commit.newHead
        digests[file][SaltedVersion(version: head.version, salt: head.versionSalt)] =
            try StateDigest(of: try content.state(of: commit.file))
    }

    private func recordAuthors(_ commit: Commit, of file: Int) {
        guard plan.workload == .anything else { return }
        for entry in commit.entries where entry.origin > 0 {
            authored[file].recordUpload(by: Int(entry.origin.rawValue), versions: [entry.version.rawValue])
        }
    }
}
