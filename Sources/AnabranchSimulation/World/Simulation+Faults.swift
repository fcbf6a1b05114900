import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchQuery
import AnabranchReplica
import AnabranchRules
import AnabranchServer
import AnabranchTesting

// What goes wrong.

extension Simulation {
    func happen(_ fault: SimulationPlan.Fault, to client: SimulatedClient) throws {
        switch fault {
        case .cut: cut(client)
        case .halfOpen: leaveHalfOpen(client)
        case .clog: clog(client)
        case .clientCrash: crash(client)
        case .clientStoreError: client.process?.replica.store.plan(.fails, after: random.below(6))
        case .serverCrash: crashServer()
        case .serverStoreError:
            let store = someNode().store
            random.isOne(in: 2)
                ? store.planSilence(after: random.below(10)) : store.plan(.fails, after: random.below(4))
        case .lateStoreError: someNode().store.plan(.failsLate, after: random.below(4))
        case .diskFull: fillDisk()
        case .slowStore: stall()
        case .restore: try restoreBackup()
        case .clone: try copyFile(of: client)
        case .clockJump: jump()
        case .absence: beAbsent()
        case .expiredToken: try expireToken(of: client)
        case .rights: changeRights(of: client)
        case .schemaConflict: try conflict(client)
        case .clientClock: changeClock(of: client)
        case .roles: try changeRoles()
        }
    }

    // MARK: The network

    /// Cuts a connection, perhaps in the middle of a message.
    private func cut(_ client: SimulatedClient) {
        guard let link = client.process?.link else { return }
        mark(SimulationPlan.Fault.cut.rawValue, client)
        drop(link, of: client, toServer: random.isOne(in: 2), toClient: random.isOne(in: 2))
        // Some of the parts still on their way arrive, and the last message may stay incomplete.
        while !link.toServer.isEmpty, !random.isOne(in: 4), let part = link.nextPart(), link.halfOpenSince == nil {
            receive(part, by: link, from: client)
        }
        disconnect(client, .lost)
    }

    /// Drops what is on its way between a client and the server, in the given directions.
    func drop(_ link: SimulatedLink, of client: SimulatedClient, toServer: Bool, toClient: Bool) {
        link.drop(toServer: toServer, toClient: toClient)
        if toServer || toClient { record("drop", client, ["\(toServer)", "\(toClient)"]) }
    }

    /// Leaves the client with a connection whose other end is gone, or cannot be reached any more, without the client's
    /// knowledge.
    private func leaveHalfOpen(_ client: SimulatedClient) {
        guard let link = client.process?.link, link.halfOpenSince == nil else { return }
        mark(SimulationPlan.Fault.halfOpen.rawValue, client)
        link.halfOpenSince = clock.now
        link.isOpenForServer = false
        if random.isOne(in: 2) {
            halfOpenLinks.append((link, clock.now))
        } else {
            link.node.machine?.disconnect(link.number)
        }
    }

    private func clog(_ client: SimulatedClient) {
        guard let link = client.process?.link else { return }
        mark(SimulationPlan.Fault.clog.rawValue, client)
        link.cloggedUntil = clock.now + Int64(random.pick([100, 5_000, 100_000]))
        record("clog", client, ["\(link.cloggedUntil)"])
    }

    // MARK: Processes and disks

    private func crash(_ client: SimulatedClient) {
        guard let process = client.process else { return }
        // The process ends between two calls of its disk, or in one.
        guard plan.workload == .counted, random.isOne(in: 2) else { return end(client) }
        process.replica.store.plan(random.isOne(in: 2) ? .ends : .endsBehind, after: random.below(6))
    }

    private func crashServer() {
        let node = someNode()
        guard node.machine != nil else { return }
        guard random.isOne(in: 3) else {
            return node.store.plan(random.isOne(in: 2) ? .ends : .endsBehind, after: random.below(6))
        }
        mark(SimulationPlan.Fault.serverCrash.rawValue)
        end(node, for: Int64(random.pick([0, 1_000, 60_000])))
    }

    private func fillDisk() {
        for node in nodes { node.store.fill(true) }
        diskIsFullUntil = clock.now + Int64(random.pick([1_000, 30_000]))
    }

    private func stall() {
        mark(SimulationPlan.Fault.slowStore.rawValue)
        someNode().isBusyUntil = clock.now + Int64(random.pick([100, 2_000, 20_000]))
    }

    /// Ends every fault whose time is over.
    func endFaults() throws {
        if let end = diskIsFullUntil, clock.now >= end {
            for node in nodes { node.store.fill(false) }
            diskIsFullUntil = nil
        }
        for node in nodes where node.machine == nil && clock.now >= node.startsAt { start(node) }
        halfOpenLinks.removeAll { halfOpen in
            let machine = halfOpen.link.node.machine
            let isSuperseded = machine?.isSuperseded(halfOpen.link.number) ?? false
            guard faultsAreOff || clock.now >= halfOpen.since + 180_000 || isSuperseded else { return false }
            if isSuperseded { mark("superseded") }
            machine?.disconnect(halfOpen.link.number)
            return true
        }
    }

    /// Restores the server's store from the last backup, or makes a backup. One node ends for that; if there are
    /// several, others may be paused during it and continue afterwards as if nothing had happened.
    private func restoreBackup() throws {
        guard let backup, random.isOne(in: 2) else { return backup = content.copy() }
        mark(SimulationPlan.Fault.restore.rawValue)
        for node in nodes {
            guard hasSeveralNodes, nodeRandom.isOne(in: 2) else {
                end(node, for: 1_000)
                continue
            }
            mark("restored under a node")
            node.isBusyUntil = clock.now + Int64(nodeRandom.pick([0, 1_000, 60_000]))
        }
        let restored = backup.copy()
        restored.renewSalts(using: &random)
        content = restored
        for node in nodes { node.store.restore(restored) }
        for client in clients { client.recordRestoration() }
        for file in 0..<plan.fileCount {
            let opened = try restored.open(path(of: file))
            logEnds[file] = opened.head.version
            let newest = SaltedVersion(version: opened.head.version, salt: opened.head.versionSalt)
            digests[file][newest] = try StateDigest(of: try restored.state(of: opened.id))
            ledger.restored(file, with: Set(try WriteLedger.counts(in: try restored.state(of: opened.id)).keys))
        }
        record("restore", logEnds.map { "\($0)" })
    }

    // MARK: People

    /// Copies a client's file to another device, of the same user or of somebody else, who is refused.
    private func copyFile(of client: SimulatedClient) throws {
        guard client.process?.old == nil, !client.isTwin else { return }
        let others = clients.filter { $0 !== client && $0.file == client.file && !$0.isTwin && $0.process?.old == nil }
        guard !others.isEmpty else { return }
        let other = random.pick(others)
        mark(SimulationPlan.Fault.clone.rawValue, client)
        throwAway(other)
        other.copyFile(of: client, takesUser: random.isOne(in: 2))
        for twin in [client, other] {
            twin.isTwin = true
            ledger.doubt(twin.number)
        }
    }

    /// Sets the server's clock forward or back.
    private func jump() {
        mark(SimulationPlan.Fault.clockJump.rawValue)
        clock.serverOffset += Int64(random.pick([-3_600, 3_600, 86_400 * 400, -86_400 * 400]))
    }

    /// Lets so much time pass that client files can expire, with one client away.
    private func beAbsent() {
        mark(SimulationPlan.Fault.absence.rawValue)
        let milliseconds = Int64(random.pick([8, 61])) * 86_400_000
        let away = random.pick(clients)
        if away.process != nil { end(away) }
        clock.advance(milliseconds: milliseconds)
        away.startsAt = clock.now + Int64(random.pick([0, 10_000, 500_000]))
    }

    private func changeRights(of client: SimulatedClient) {
        mark(SimulationPlan.Fault.rights.rawValue, client)
        setPermission(random.pick([.none, .read, .read, .write]), of: client)
        for node in nodes { node.machine?.recheckPermissions() }
    }

    /// Sets a user's permission, which the server follows by itself in what it does next.
    func setPermission(_ permission: Permission, of client: SimulatedClient) {
        guard let user = client.user.user else { return }
        permissions.set(permission, of: user)
        if !plan.isFlexible { record(permission, of: user) }
    }

    private func record(_ permission: Permission, of user: String) {
        guard permissionLedger.permissions(of: user, since: .max) != [permission] else { return }
        permissionLedger.set(permission, of: user, at: clock.now)
        log("\(user) has the permission '\(permission)'")
    }

    /// Records what the roles permit now.
    func recordRoles() throws {
        for client in clients {
            let access = try roles.rules(of: client.user).access(ofClass: CountedWrites.entry)
            if let user = client.user.user { record(access.insert == .always(false) ? .read : .write, of: user) }
        }
    }

    private func changeRoles() throws {
        mark(SimulationPlan.Fault.roles.rawValue)
        let changed = try roles.change(&random)
        log("roles: \(changed)")
        try recordRoles()
        for node in nodes { node.machine?.followExport() }
    }

    /// Lets an application add a column that others have, or will have, with another type.
    private func conflict(_ client: SimulatedClient) throws {
        guard let replica = client.process?.replica, client.process?.old == nil else { return }
        mark(SimulationPlan.Fault.schemaConflict.rawValue, client)
        let asText = client.number.isMultiple(of: 2)
        do {
            try client.process?.replica.write(at: writingTime(of: client, replica)) { transaction in
                try CountedWrites.declare(transaction)
                try CountedWrites.declareConflict(transaction, asText: asText)
            }
        } catch is ApplyError {
            // The column exists already.
        } catch {
            guard client.process?.replica.store.takeHappened() != nil else { throw error }
            end(client)
        }
    }
}
