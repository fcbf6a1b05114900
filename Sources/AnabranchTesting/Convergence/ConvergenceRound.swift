import AnabranchCore
import AnabranchHistory

/// Replicas that write offline, around a server in memory that merges them: they end in one state, or the round fails.
package final class ConvergenceRound {
    private let plan: RoundPlan
    private let file: SyncedFile
    private var clients: [MemoryClient] = []
    private var made = AuthoredInstructions()
    package private(set) var tally = RoundTally()
    /// The events of the round, in words; empty unless `printsTrace`.
    package private(set) var trace: [String] = []
    private let printsTrace: Bool

    package init(_ plan: RoundPlan, printsTrace: Bool = false) throws {
        self.plan = plan
        self.printsTrace = printsTrace
        file = try SyncedFile(path: VirtualPath("round"), store: InMemoryStore(), destructiveSchema: .allow)
        let idents = try file.allocateIdents(for: Array(repeating: nil, count: plan.replicas), at: 1)
        // Every other one is of an old release, for which changesets have another form.
        clients = idents.enumerated().map { number, ident in
            let isNew = number.isMultiple(of: 2)
            return MemoryClient(
                ident, capabilities: ClientCapabilities(erasesAbsentEntries: isNew, overwritesDanglingLinks: isNew))
        }
    }

    /// Runs the round.
    ///
    /// - Returns: The failure, in words; nil if all replicas and the server's log lead to one state.
    package func run() -> String? {
        do {
            try prepare()
            for event in plan.events { try carryOut(event) }
            for replica in clients.indices { try upload(replica) }
            for replica in clients.indices { try download(replica) }
            tally.rounds = 1
            return try difference()
        } catch {
            log("\(error)")
            return "\(error)"
        }
    }

    // MARK: Events

    /// The first replica writes the schema and a few objects, and all others get them.
    private func prepare() throws {
        try clients[0].write(at: 1) { try RandomWorld.begin($0) }
        for replica in clients.indices {
            try clients[replica].upload(to: file)
            try clients[replica].download(from: file)
        }
    }

    private func carryOut(_ event: RoundPlan.Event) throws {
        switch event {
        case .write(let replica, let timestamp, let modifications):
            try write(replica, timestamp, modifications)
        case .upload(let replica, let countMax): try upload(replica, countMax)
        case .download(let replica): try download(replica)
        }
    }

    /// Writes a transaction, unless it would lead to a known divergence or be refused.
    private func write(_ replica: Int, _ timestamp: ChangesetTime, _ modifications: [UInt64]) throws {
        let base = clients[replica].download.serverVersion
        let tag = OriginTag(timestamp: timestamp, ident: clients[replica].ident)
        var refused = 0
        var divergence: KnownDivergence?
        var replacesClass = false
        try clients[replica].write(
            at: timestamp,
            if: { changeset in
                replacesClass = try Self.replacesClass(changeset)
                guard !replacesClass else { return false }
                divergence = try made.add(changeset, by: replica, tag: tag, base: base.rawValue)
                if divergence == nil { try log(changeset, by: replica, tag) }
                return divergence == nil
            },
            { transaction in
                for seed in modifications {
                    var editor = RandomEditor(transaction, on: plan.hotSpot, seed: seed)
                    do { try editor.edit() } catch is ApplyError { refused += 1 }
                }
            })
        if replacesClass {
            tally.refused += modifications.count
        } else if let divergence {
            tally.avoided[divergence, default: 0] += 1
        } else {
            tally.refused += refused
            tally.modifications += modifications.count - refused
        }
    }

    /// True if the changeset replaces a class, for which the server would refuse it (`Spec/History.md`, section 16.2).
    private static func replacesClass(_ changeset: [UInt8]) throws -> Bool {
        var arena = ChangesetArena()
        let index = try arena.decode(changeset, version: 1, tag: OriginTag(timestamp: 1, ident: 1))
        return arena.firstUseOfReplacedClass(in: index) != nil
    }

    private func upload(_ replica: Int, _ countMax: Int = .max) throws {
        let before = file.version.rawValue
        log("replica \(replica) uploads")
        try clients[replica].upload(countMax, to: file)
        let entries = try file.log(after: ServerVersion(before)).filter { $0.origin == clients[replica].ident }
        tally.changesets += entries.count
        made.recordUpload(by: replica, versions: entries.map(\.version.rawValue))
    }

    private func download(_ replica: Int) throws {
        log("replica \(replica) downloads up to version \(file.version)")
        try clients[replica].download(from: file)
        made.forget(knownToAllAt: clients.map(\.download.serverVersion.rawValue).min() ?? 0)
    }

    // MARK: The end

    private func difference() throws -> String? {
        let states = try [stateOfLog()] + clients.map(\.state)
        let digests = try states.map { try StateDigest(of: $0) }
        guard let other = digests.firstIndex(where: { $0 != digests[0] }) else { return nil }
        let texts = try [0, other].map { String(decoding: try states[$0].canonicalJSON(), as: UTF8.self) }
        let start = zip(texts[0].utf8, texts[1].utf8).prefix { $0 == $1 }.count
        let parts = texts.map { String(decoding: $0.utf8.dropFirst(max(0, start - 60)).prefix(160), as: UTF8.self) }
        return "replica \(other - 1) differs from the server's log:\n  \(parts[0])\n  \(parts[1])"
    }

    /// The state of a client that knows nothing but the server's log.
    private func stateOfLog() throws -> ObjectGraph {
        var state = ObjectGraph()
        for entry in try file.log() {
            var arena = ChangesetArena()
            let changeset = try arena.decode(entry.changeset, version: entry.version.rawValue, tag: entry.tag)
            for instruction in arena.instructions(of: changeset) { tally.kinds[Int(instruction.kind.rawValue)] += 1 }
            try state.apply(changeset, of: arena)
        }
        _ = try state.eraseAsymmetricObjects()
        return state
    }

    // MARK: Trace

    private func log(_ text: @autoclosure () -> String) { if printsTrace { trace.append(text()) } }

    private func log(_ changeset: [UInt8], by replica: Int, _ tag: OriginTag) throws {
        guard printsTrace else { return }
        var arena = ChangesetArena()
        let number = try arena.decode(changeset, version: 1, tag: tag)
        let lines = arena.instructions(of: number).map { "    \(arena.text(of: $0))" }
        trace += ["replica \(replica) writes at \(tag.timestamp)"] + lines
    }
}

/// The totals of a number of rounds.
package struct RoundTally: RunTally {
    package var rounds = 0
    package var modifications = 0
    /// Modifications that the recorder refused: they made no sense where they were tried.
    package var refused = 0
    package var changesets = 0
    /// The number of transactions that were not made, by the known divergence that they would have led to.
    package var avoided: [KnownDivergence: Int] = [:]
    /// The number of instructions of each kind in the server's logs.
    package var kinds = Array(repeating: 0, count: InstructionKind.allCases.count)
    /// The seeds of the rounds that failed.
    package var failures: [UInt64] = []

    package init() {}

    package var hasFailed: Bool { !failures.isEmpty }

    package mutating func add(_ other: RoundTally) {
        rounds += other.rounds
        modifications += other.modifications
        refused += other.refused
        changesets += other.changesets
        avoided.merge(other.avoided, uniquingKeysWith: +)
        for kind in kinds.indices { kinds[kind] += other.kinds[kind] }
        failures += other.failures
    }
}
