import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchReplica
import AnabranchServer
import AnabranchTesting
import Synchronization

// Clocks that are wrong, and what remains of that once they are right again (`Spec/History.md`, section 6.2).

extension Simulation {
    /// The most by which a time may be later than what its author's clock shows, in milliseconds.
    private static let backstepMax: Int64 = 5_000

    /// Makes a device's clock go wrong, or sets it right.
    func changeClock(of client: SimulatedClient) {
        if !client.clock.isRight, clockRandom.isOne(in: 2) {
            client.clock.setRight()
            mark("clock right again", client)
        } else {
            client.clock.goWrong(at: clock.now, using: &clockRandom)
            mark(SimulationPlan.Fault.clientClock.rawValue, client)
        }
        log("the clock of client \(client.number) shows \(client.clock.time(at: clock.now))")
    }

    // MARK: At any time

    private func isTime(_ time: ChangesetTime, of clock: ChangesetTime) -> Bool {
        clock <= time && time <= clock + UInt64(Self.backstepMax)
    }

    /// Returns the time of a client's next write, and checks that it fits the client's clock.
    func writingTime(of client: SimulatedClient, _ replica: Replica<SimulatedDisk>) throws -> ChangesetTime {
        let shown = client.clock.time(at: clock.now), time = replica.writingTime(shown)
        try require(
            isTime(time, of: shown), "client \(client.number) writes at \(time), and its clock shows \(shown)")
        return time
    }

    /// Checks that a write of the server has the time that its clock showed when the write was requested. Entries of
    /// the server's that follow a client's belong to that, and those without a changeset compete with nothing.
    func checkTime(ofServerWrite commit: Commit, in file: Int) throws {
        guard let entry = commit.entries.first, entry.origin == 0, !entry.changeset.isEmpty else { return }
        let shown = serverWrites.filter { $0.file == file }.map(\.time)
        try require(
            shown.contains { isTime(entry.timestamp, of: $0) },
            "the server writes version \(entry.version) at \(entry.timestamp), and its clock has shown \(shown)")
    }

    /// Checks that no change that a client has recovered is dated in the future, by its clock and the bound.
    func checkTimesOfRecovery(of client: SimulatedClient) throws {
        let shown = client.clock.time(at: clock.now)
        for version in try client.disk.load().log {
            try require(
                version.timestamp <= shown + UInt64(Self.backstepMax),
                "client \(client.number) makes something again at \(version.timestamp), and its clock shows \(shown)")
        }
    }

    // MARK: In the end

    /// Checks that the last writer wins, whatever clocks have shown before.
    func compete() throws {
        guard plan.workload == .counted else { return }
        isCompeting = true
        if plan.isFlexible { try letAllSee() }
        for file in 0..<plan.fileCount { try compete(in: file) }
        try checkEnd()
    }

    /// Lets all clients ask for everything, and allows them all of it.
    private func letAllSee() throws {
        try claim("first of all", by: nil, in: 0)
        if roles.export != nil {
            try roles.allowAll()
            try recordRoles()
            for node in nodes { node.machine?.followExport() }
        }
        for client in clients {
            try client.process?.replica.subscribe([
                Subscription(CountedWrites.entry, "TRUEPREDICATE"), Subscription(CountedWrites.board),
            ])
            schedule(client)
        }
        try settle()
    }

    /// Lets an author write by a clock that is wrong. Once the clock is right again and all have that write, two
    /// authors who do not know of each other write, the second a little more than the bound later than the first.
    private func compete(in file: Int) throws {
        var authors: [SimulatedClient?] = clients.filter { $0.file == file }
        authors.append(nil)
        let wrong = clockRandom.pick(authors)
        if let wrong {
            wrong.clock.goWrong(at: clock.now, using: &clockRandom)
        } else {
            clock.serverOffset = clockRandom.pick([-86_400 * 400, 86_400 * 400])
            if clock.serverOffset > 0 { tally.mark("server's clock ahead") }
        }
        try claim("wrong", by: wrong, in: file)
        try settle()
        wrong?.clock.setRight()
        clock.serverOffset = 0

        let first = authors.remove(at: clockRandom.below(authors.count)), second = clockRandom.pick(authors)
        try claim("first", by: first, in: file)
        clock.advance(milliseconds: Self.backstepMax + 1 + Int64(clockRandom.below(1_000)))
        try claim("second", by: second, in: file)
        try settle()
        tally.mark(second == nil ? "server's last word" : "client's last word")
        let winner = try storedFile(file).withState(CountedWrites.claim) ?? "nobody"
        try require(
            winner == "second",
            """
            last write of file \(file): \(winner) wins, not \(name(second)), who wrote after \(name(first)); \
            the clock of \(name(wrong)) was wrong
            """)
    }

    /// - Parameter author: nil for the server.
    private func claim(_ claim: String, by author: SimulatedClient?, in file: Int) throws {
        log("\(name(author)) claims to be \(claim)")
        record("claim", ["\(author?.number ?? -1)", JSONText.quoted(claim)])
        if let author {
            guard let replica = author.process?.replica else { return }
            try author.process?.replica.write(at: writingTime(of: author, replica)) {
                try CountedWrites.claim(claim, $0)
            }
            recordPlace(of: author)
            return schedule(author)
        }
        let outcome = serverWrite(to: file, of: someNode(), nil) { try CountedWrites.claim(claim, $0) }
        while try takeTurns(100) {}
        recordServerWrites()
        let result = outcome.result.withLock { $0 }
        guard case .success = result else {
            throw SimulationFailure("the server cannot write: \(String(describing: result))")
        }
    }

    private func name(_ author: SimulatedClient?) -> String { author.map { "client \($0.number)" } ?? "the server" }
}
