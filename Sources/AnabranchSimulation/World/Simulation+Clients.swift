import AnabranchCore
import AnabranchProtocol
import AnabranchReplica
import AnabranchServer
import AnabranchTesting

// The processes of clients, and their connections.

extension Simulation {
    // MARK: Processes

    /// Lets a client take its next step.
    func advance(_ client: SimulatedClient) throws {
        if let renewsAt = client.renewsTokenAt, clock.now >= renewsAt { renewToken(of: client) }
        guard client.process != nil else {
            guard clock.now >= client.startsAt else { return }
            try client.start(at: clock.now, session: nextSession())
            // The last process may have ended before its progress was noted.
            recordProgress(of: client)
            record("start", client)
            return log("client \(client.number) starts")
        }
        if client.process?.isStopped == true, random.isOne(in: 10) { return try restart(client) }
        try guardingDisk(of: client) {
            if let resumesAt = client.process?.resumesAt, clock.now >= resumesAt { try resume(client) }
            if client.process?.connection?.isOverdue(at: clock.now) == true { disconnect(client, .pongTimeout) }
            if client.process?.connection == nil { try connect(client) }
            for _ in 0..<(faultsAreOff ? 100 : random.pick([1, 3, 10])) { guard try speak(client) else { break } }
        }
    }

    /// Runs `body`, and handles faults of the disk: a failure ends the connection, and a crash ends the process.
    func guardingDisk(of client: SimulatedClient, _ body: () throws -> Void) throws {
        do { try body() } catch {
            let disks = [client.process?.replica.store, client.process?.old?.replica.store]
            guard let happened = disks.compactMap({ $0?.takeHappened() }).first else { throw error }
            switch happened {
            case .fails:
                mark(SimulationPlan.Fault.clientStoreError.rawValue, client)
                disconnect(client, .lost)
            case .ends, .endsBehind: end(client)
            }
        }
    }

    /// Ends the process of a client.
    func end(_ client: SimulatedClient) {
        mark(SimulationPlan.Fault.clientCrash.rawValue, client)
        log("client \(client.number) ends")
        record("end", client)
        loseLink(of: client)
        client.process = nil
        client.startsAt = clock.now + Int64(random.pick([0, 1_000, 100_000]))
    }

    // MARK: Connections

    func connect(_ client: SimulatedClient) throws {
        guard let connectsAt = client.process?.connectsAt, clock.now >= connectsAt,
            client.process?.isStopped == false
        else { return }
        let node = node(for: client)
        guard let machine = node.machine else { return retry(client, after: .unreachable) }
        if client.hasExpiredToken { return try refuseToken(of: client, machine) }
        let number = nextConnection()
        let version = try machine.connect(
            number, offer: ClientHandshake(client.mode, in: client.dialect).offer, in: client.dialect, by: client.user)
        let isFast = client.process?.lastConnected.map { clock.now - $0 <= ClientTimers().fastReconnectMilliseconds }
        client.process?.connection = ClientConnection(version, client.mode, openedAt: clock.now, using: &random)
        client.process?.link = SimulatedLink(number, to: node, at: permissionLedger.moment)
        client.process?.openedAt = clock.now
        client.process?.connectsAt = nil
        try client.process?.replica.dropBootstrapParts()
        client.process?.session.connected(version, isFast: isFast ?? false)
        schedule(client)
        log("client \(client.number) connects as \(number)")
        record("connect", client)
    }

    func retry(_ client: SimulatedClient, after end: ConnectionEnd, _ error: ErrorMessage? = nil) {
        let delay = client.process?.retry.next(after: end, error: error, using: &random)
        client.process?.connectsAt = delay.map { clock.now + $0 }
        if delay == nil { client.process?.isStopped = true }
    }

    func schedule(_ client: SimulatedClient) {
        if let session = client.process?.session.ident { client.process?.connection?.schedule(session) }
    }

    /// Ends the connection at the client's end.
    func disconnect(_ client: SimulatedClient, _ end: ConnectionEnd, _ error: ErrorMessage? = nil) {
        guard client.process?.connection != nil else { return }
        loseLink(of: client)
        client.process?.connection = nil
        client.process?.session.disconnected()
        client.process?.lastConnected = clock.now
        let opened = client.process?.openedAt ?? 0
        client.process?.retry.connectionHeld(milliseconds: clock.now - opened)
        log("client \(client.number) disconnects")
        record("disconnect", client)
        switch end.reaction(isRouteVerified: true) {
        case .stop, .deleteFile: client.process?.isStopped = true
        case .clientReset, .retry, .refreshUser, .refreshLocation, .logOutUser: retry(client, after: end, error)
        }
    }

    /// Takes the link from the client; the server learns of it now or later.
    func loseLink(of client: SimulatedClient) {
        guard let link = client.process?.link else { return }
        link.isOpenForClient = false
        client.process?.link = nil
        guard link.isOpenForServer else { return }
        if !faultsAreOff, random.isOne(in: 3) {
            halfOpenLinks.append((link, clock.now))
        } else {
            link.node.machine?.disconnect(link.number)
        }
    }
}
