import AnabranchCore
import AnabranchProtocol
import AnabranchReplica
import AnabranchServer
import AnabranchTesting

// What clients write.

extension Simulation {
    // MARK: Writing

    func write(_ client: SimulatedClient) throws {
        guard client.process != nil, client.process?.old == nil else { return }
        if plan.isFlexible, random.isOne(in: 5) || client.process?.replica.record.subscriptions?.latest.version == 0 {
            return try guardingDisk(of: client) { try subscribe(client) }
        }
        switch plan.workload {
        case .counted: try writeCounted(client)
        case .anything: try writeAnything(client)
        }
        schedule(client)
    }

    func writeCounted(_ client: SimulatedClient) throws {
        guard let replica = client.process?.replica else { return }
        let token = ledger.begin(by: client.number, in: client.file, as: replica.version + 1)
        if client.isTwin { ledger.doubt(client.number) }
        let time = try writingTime(of: client, replica)
        var isDone = false
        try guardingDisk(of: client) {
            try client.process?.replica.write(at: time) { transaction in
                try CountedWrites.write(token, by: client.number, &random, transaction)
            }
            isDone = true
        }
        // A process that has ended in between does not know whether it has written.
        if !isDone { ledger.undone(token) }
        log("client \(client.number) writes \(token)")
        if isDone { record("write", client) }
        recordPlace(of: client)
    }

    func writeAnything(_ client: SimulatedClient) throws {
        guard let replica = client.process?.replica, replica.file != nil else { return }
        let seed = random.next(), time = try writingTime(of: client, replica)
        let tag = OriginTag(timestamp: time, ident: replica.ident)
        do {
            try client.process?.replica.write(
                at: time,
                if: { [self] changeset in
                    try authored[client.file].add(
                        changeset, by: Int(replica.ident.rawValue), tag: tag,
                        base: replica.progress.cursor.serverVersion.rawValue)
                        == nil
                }
            ) { transaction in
                if replica.state.classes.isEmpty { try RandomWorld.begin(transaction) }
                try world.edit(transaction, seed: seed)
            }
            record("write", client)
            recordPlace(of: client)
        } catch is ApplyError {
            // The edit needed something that is not there.
        }
    }

    func subscribe(_ client: SimulatedClient) throws {
        let owner = random.below(plan.clientCount)
        let query = random.pick([
            "TRUEPREDICATE", "TRUEPREDICATE", "owner == \(client.number)", "owner == \(owner)", "count > 0",
            "_id < \(random.below(100))", "text == \"\"", "nonsense ==",
        ])
        tally.mark("query")
        try client.process?.replica.subscribe([
            Subscription(CountedWrites.entry, query), Subscription(CountedWrites.board),
        ])
        log("client \(client.number) asks for \(query)")
        record("ask", client, [JSONText.quoted(query)])
    }
}
