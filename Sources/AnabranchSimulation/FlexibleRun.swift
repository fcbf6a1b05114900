import AnabranchCore
package import AnabranchHistory
import AnabranchProtocol
import AnabranchQuery
import AnabranchRules
import AnabranchTesting
import Foundation

/// Random clients of a flexible file, of several releases, and the server's side of their connections. Each client sees
/// what its queries and its role let it see, changes what it sees and what it may not change, online and offline, and
/// changes its queries as it goes. None meets anything that a real client would not survive, and whenever there is
/// nothing more to say to a client, it has what it sees according to the file. The file forgets what nobody needs, and
/// a client that was away for too long starts over. Everything follows from the seed.
package final class FlexibleRun {
    /// A violation that a run has found.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    /// The end of the server's process between two parts of an upload.
    struct ServerEnd: Error {}

    private(set) var store: any HistoryStore
    /// Reopens the store, as after the end of a process.
    private let reopen: () throws -> any HistoryStore
    var synced: SyncedFile
    var file: FlexibleFile
    var rules: RandomRules
    var random: SeededRandom
    let steps: RandomSteps
    private let world: RandomWorld
    var participants: [FlexibleConversation] = []
    var made = AuthoredInstructions()
    private let salts: UInt64
    var time: UInt64 = 1_000
    var events = UploadedEvents()
    /// The clients whose upload is on its way into the file, and the outcomes of uploads that have been integrated.
    var integrating: Set<Int> = []
    var integrated: [ClientFileID: FlexibleFile.UploadOutcome] = [:]
    private var policy = HistoryPolicy()
    /// The average number of steps after which the file is maintained; 1 in some runs.
    private let maintenanceInterval: Int
    private let hasAbsences: Bool
    /// The size of the parts of bootstraps, in bytes: so small in most runs that bootstraps come in several parts.
    private let partBytes: Int
    /// True once all messages arrive.
    private(set) var losesNothing = false
    /// The counts of events, as proof that they occur.
    package internal(set) var tally = FlexibleTally()

    /// - Parameter reopen: closes the store and opens it again; nil for a store that does not outlive its process.
    package init(seed: UInt64, store: any HistoryStore, reopen: (() throws -> any HistoryStore)? = nil) throws {
        var random = SeededRandom(scrambling: seed)
        world = RandomWorld(&random)
        self.store = store
        self.reopen = reopen ?? { store }
        salts = random.next()
        steps = RandomSteps(seed: random.next())
        synced = try Self.open(store, salts)
        try synced.write(at: 1) { try RandomWorld.begin($0) }
        rules = try RandomRules(&random)
        partBytes = random.pick([4 << 20, 1, 60, 300])
        file = try Self.open(synced, partBytes, steps)
        policy.sealEntries = UInt64(random.pick([1, 5, 20]))
        maintenanceInterval = random.pick([1, 5, 20])
        hasAbsences = random.isOne(in: 3)
        self.random = random
        let releases = FlexibleConversation.releases
        participants = try (0..<4).map { _ in
            let (release, version) = self.random.pick(releases)
            return try FlexibleConversation(release, version)
        }
    }

    private static func open(_ store: any HistoryStore, _ salts: UInt64) throws -> SyncedFile {
        try SyncedFile(path: VirtualPath("flexible"), store: store, randomness: SeededRandom(seed: salts))
    }

    private static func open(_ synced: SyncedFile, _ partBytes: Int, _ steps: RandomSteps) throws -> FlexibleFile {
        let file = try FlexibleFile(synced)
        file.partBytes = partBytes
        file.longRangeBytes = partBytes / 2
        file.checkedCount = partBytes.isMultiple(of: 60) ? 1 + partBytes / 60 : 256
        file.quota = ViewQuota(isUsedUp: { _ in false }, charge: { _, _ in }, step: { steps.begin() })
        // A run is the same however long anything takes.
        file.instant = { [instant = ContinuousClock.now] in instant }
        return file
    }

    /// - Throws: `Failure`, or the error that stopped the run.
    package func run(steps: Int) throws {
        for _ in 0..<steps {
            time += 1
            do { try step(random.below(participants.count)) } catch is ServerEnd { try restart() }
            if random.isOne(in: maintenanceInterval) { try maintain() }
        }
        losesNothing = true
        for participant in participants where !participant.isConnected { try participant.connect(isFast: false) }
        while try participants.indices.reduce(false, { try goOn($1) || $0 }) {}
        for index in participants.indices {
            try check(index)
            try checkCompensations(index)
        }
        tally.ingested += try events.check(file)
        tally.rounds += 1
    }

    private func step(_ index: Int) throws {
        let participant = participants[index]
        switch random.below(20) {
        case 0, 1, 2:
            if !participant.isConnected { try participant.connect(isFast: random.isOne(in: 3)) }
        case 3: try lose(index)
        case 4: try changeQueries(index)
        case 5: try random.isOne(in: 3) ? changeRules() : deferring(serverWrite)
        case 6 where random.isOne(in: 4): try restart()
        case 7 where random.isOne(in: 4):
            leave(participant)
            participant.restart()
        case 8, 9:
            while try goOn(index) {}
            if participant.client.isRunning, random.isOne(in: 4) { try check(index) }
        case 10...15: try speak(index)
        default: try write(index)
        }
    }

    // MARK: Writing

    private func write(_ index: Int) throws {
        let seed = random.next(), count = 1 + random.below(3)
        let timestamp = ChangesetTime(rawValue: time - UInt64(random.below(20)))
        guard let client = participants[index].client.file else { return }
        do {
            let tag = OriginTag(timestamp: timestamp, ident: client.ident)
            try participants[index].client.write(
                at: timestamp,
                if: { changeset in
                    try isAllowed(changeset, by: Int(client.ident.rawValue), tag, on: client.download.serverVersion)
                }
            ) { transaction in
                // Its schema is older than what it has downloaded.
                if client.version == 1 { try RandomWorld.declare(transaction) }
                for number in 0..<count { try world.edit(transaction, seed: seed &+ UInt64(number)) }
            }
        } catch is ApplyError {
            // The edit needed something that is not there.
        }
    }

    private func serverWrite() throws {
        let seed = random.next(), world = world
        do {
            let tag = OriginTag(timestamp: ChangesetTime(rawValue: time), ident: .server), version = synced.version
            let written = try file.write(
                at: tag.timestamp,
                if: { changeset in try isAllowed(changeset, by: 1, tag, on: version) },
                { try world.edit($0, seed: seed) })
            guard written.version > version else { return }
            made.recordUpload(by: 1, versions: [version.rawValue + 1])
            announce()
        } catch is ApplyError {
            // The edit needed something that is not there.
        }
    }

    /// True if the changeset is one that flexible sync allows, and the reference itself would converge.
    private func isAllowed(
        _ changeset: [UInt8], by author: Int, _ tag: OriginTag, on base: ServerVersion
    ) throws -> Bool {
        guard try Self.isFlexible(changeset) else { return false }
        return try made.add(changeset, by: author, tag: tag, base: base.rawValue) == nil
    }

    /// True if flexible sync allows the changeset: it has no objects without primary keys, and removes no classes and
    /// columns.
    static func isFlexible(_ changeset: [UInt8]) throws -> Bool {
        var arena = ChangesetArena()
        let index = try arena.decode(changeset, version: 1, tag: OriginTag(timestamp: 1, ident: .server))
        return arena.instructions(of: index).allSatisfy { instruction in
            switch instruction.kind {
            case .eraseTable, .eraseColumn: return false
            case .addTable: return instruction.type != .globalKey
            case .addColumn: return true
            default:
                if case .globalKey = arena.primaryKey(of: instruction.object).key { return false }
                return true
            }
        }
    }

    // MARK: Clients

    private func changeQueries(_ index: Int) throws {
        let predicates = try synced.withState { try randomPredicates(in: $0) }
        _ = try participants[index].client.subscribe(String(decoding: Self.query(predicates), as: UTF8.self))
        tally.queries += 1
    }

    /// The text of a query: the same in every process.
    static func query(_ predicates: [String: String]) throws -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        return Array(try encoder.encode(predicates))
    }

    private func randomPredicates(in state: ObjectGraph) throws -> [String: String] {
        var predicates: [String: String] = [:]
        for name in ["Task", "Note"] where !random.isOne(in: 8) {
            guard let schema = state.schema(ofClass: Array(name.utf8)) else { continue }
            var query = RandomQuery(seed: random.next(), about: schema, of: state, .all)
            predicates[name] =
                switch random.below(8) {
                case 0: "TRUEPREDICATE"
                case 1 where name == "Task": "counter == \(random.below(4)) or title == \"a\""
                case 2 where name == "Task": "title IN {\"a\", \"b\"} or _id == \(random.below(4))"
                default: query.nextSubscription(in: state)
                }
        }
        return predicates
    }

    /// Moves some messages from and to a client.
    private func speak(_ index: Int) throws {
        for _ in 0..<random.below(12) {
            switch random.below(4) {
            case 0: _ = try participants[index].clientSpeaks()
            case 1: _ = try fileAnswers(index)
            case 2: _ = participants[index].serverSpeaks()
            default: _ = try clientReads(index)
            }
        }
    }

    /// Takes one step towards the end of everything that is under way for a client.
    /// - Returns: whether anything was.
    private func goOn(_ index: Int) throws -> Bool {
        let participant = participants[index]
        if try participant.clientSpeaks() { return true }
        if try fileAnswers(index) { return true }
        if participant.serverSpeaks() { return true }
        return try clientReads(index)
    }

    /// Lets a client read a message. A client that has to start over does so at once.
    private func clientReads(_ index: Int) throws -> Bool {
        let participant = participants[index]
        guard try participant.clientReads() else { return false }
        // Between the parts of a bootstrap is the worst moment.
        if participant.client.hasParts, !losesNothing, random.isOne(in: 10) { try lose(index) }
        guard let error = participant.client.lastError else { return true }
        // The client begins its session again.
        if error.code == .sessionClosed { return true }
        let mayBe = error.code == .writeNotAllowed || hasAbsences && error.code == .clientFileExpired
        guard mayBe, participant.client.needsReset else {
            throw ProtocolViolation("1.6", "error \(error.code): \(error.message)")
        }
        leave(participant)
        tally.resets += 1
        participants[index] = try participant.begunAnew()
        try participants[index].connect(isFast: false)
        return true
    }

    func leave(_ participant: FlexibleConversation) {
        if let ident = participant.session?.ident { file.leave(ident) }
    }

    /// Drops the connection of a client; some of the client's last messages still take effect.
    private func lose(_ index: Int) throws {
        guard participants[index].isConnected else { return }
        while random.isOne(in: 2), try fileAnswers(index) {}
        leave(participants[index])
        participants[index].disconnect()
        tally.disconnections += 1
    }

    // MARK: The server

    func restart() throws {
        for participant in participants { participant.disconnect() }
        integrated = [:]
        store = try reopen()
        synced = try Self.open(store, salts &+ time)
        file = try Self.open(synced, partBytes, steps)
        tally.restarts += 1
    }

    /// Changes the rules. The views of clients that are away follow when they are back.
    private func changeRules() throws {
        try rules.change(&random)
        for (index, participant) in participants.enumerated() {
            if let ident = participant.session?.ident { file.change(ident, to: rules.rules(of: index)) }
        }
        _ = try file.changeLong(until: .none)
        announce()
        tally.ruleChanges += 1
    }

    private func maintain() throws {
        if hasAbsences, random.isOne(in: 30) { time += policy.offlineDays * 86_400 }
        // This stores which clients have identified themselves.
        _ = try synced.allocateIdents(for: [], at: time)
        let connected = Set(participants.compactMap { $0.session?.ident })
        let report = try synced.maintain(at: time, policy, expires: hasAbsences, connected: connected)
        file.forgetViews(of: report.expired.map(\.ident))
        tally.trimmed += Int(report.trimmedEntries)
        tally.expired += report.expired.count
    }

    // MARK: Requirements

    func require(_ holds: Bool, _ what: @autoclosure () -> String) throws {
        if !holds { throw Failure(description: what()) }
    }

    /// Checks a client to which there is nothing more to say.
    private func check(_ index: Int) throws {
        let client = participants[index].client
        try require(client.isRunning, "client \(index) has no session")
        try client.checkNothingIsMissing()
        guard let memory = client.file else { throw Failure(description: "client \(index) has no ident") }
        try require(memory.isAcknowledged, "an upload of client \(memory.ident) was not acknowledged")
        let states = [try file.visibleState(to: memory.ident, by: rules.rules(of: index)), memory.state]
        guard try StateDigest(of: states[0]) != StateDigest(of: states[1]) else { return }
        let texts = try states.map { String(decoding: try $0.canonicalJSON(), as: UTF8.self) }
        throw Failure(
            description: "client \(memory.ident) has not what it sees:\n" + difference(texts[0], texts[1]))
    }

    private func difference(_ expected: String, _ found: String) -> String {
        let common = zip(expected, found).prefix { $0 == $1 }.count
        let start = max(0, common - 60)
        return "file:   …\(expected.dropFirst(start).prefix(160))\nclient: …\(found.dropFirst(start).prefix(160))"
    }
}
