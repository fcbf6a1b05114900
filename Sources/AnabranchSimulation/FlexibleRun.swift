import AnabranchCore
package import AnabranchHistory
import AnabranchQuery
import AnabranchRules
import AnabranchTesting
import Foundation

/// Random clients of a flexible file: each sees what its queries and its role let it see, changes what it sees and what
/// it may not, on and off line, and changes its queries meanwhile. The file forgets what nobody needs; a client that
/// was away for too long begins anew. In the end each has what the file says that it sees.
/// Everything follows from the seed.
package final class FlexibleRun {
    /// What is wrong.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    private struct Participant {
        var client: MemoryClient
        /// Of what it has made.
        var author: Int { Int(client.ident.rawValue) }
        /// Nil while it is away.
        var session: ViewSession?
        /// The set of queries that it has.
        var active: (version: UInt64, predicates: [String: String]) = (0, [:])
        /// Those that it has sent, or will send when it is back, in order.
        var pending: [(version: UInt64, predicates: [String: String])] = []
        var newestVersion: UInt64 = 0
    }

    private var store: any HistoryStore
    /// Opens the store anew, as after the end of a process.
    private let reopen: () throws -> any HistoryStore
    private var synced: SyncedFile
    private var file: FlexibleFile
    private var rules: RandomRules
    private var random: SeededRandom
    private let world: RandomWorld
    private var participants: [Participant] = []
    private var made = AuthoredInstructions()
    private var events = UploadedEvents()
    private let salts: UInt64
    private var time: UInt64 = 1_000
    private var policy = HistoryPolicy()
    /// The file is maintained after so many steps; in some runs after each.
    private let maintenanceInterval: Int
    private let hasAbsences: Bool
    /// No message is lost any more.
    private var isEnding = false
    /// What has happened: proves that it does.
    package private(set) var tally = FlexibleTally()

    /// - Parameter reopen: ends the use of the store, and opens it again; nil for stores that are gone then.
    package init(seed: UInt64, store: any HistoryStore, reopen: (() throws -> any HistoryStore)? = nil) throws {
        var random = SeededRandom(scrambling: seed)
        world = RandomWorld(&random)
        self.store = store
        self.reopen = reopen ?? { store }
        salts = random.next()
        synced = try Self.open(store, salts)
        try synced.write(at: 1) { try RandomWorld.begin($0) }
        rules = try RandomRules(&random)
        file = try FlexibleFile(synced)
        policy.sealEntries = UInt64(random.pick([1, 5, 20]))
        maintenanceInterval = random.pick([1, 5, 20])
        hasAbsences = random.isOne(in: 3)
        self.random = random
        for _ in 0..<4 {
            participants.append(try Self.participant(of: synced, at: time))
        }
    }

    private static func participant(of file: SyncedFile, at time: UInt64) throws -> Participant {
        Participant(client: MemoryClient(try file.allocateIdents(for: [nil], at: time)[0]))
    }

    private static func open(_ store: any HistoryStore, _ salts: UInt64) throws -> SyncedFile {
        try SyncedFile(path: VirtualPath("flexible"), store: store, randomness: SeededRandom(seed: salts))
    }

    /// - Throws: `Failure`, or what failed.
    package func run(steps: Int) throws {
        for _ in 0..<steps {
            time += 1
            try step(random.below(participants.count))
            if random.isOne(in: maintenanceInterval) { try maintain() }
        }
        isEnding = true
        // What one uploads concerns the others; after two rounds without news nobody has any.
        for _ in 0..<4 {
            for index in participants.indices where participants[index].session == nil { try connect(index) }
            for index in participants.indices { try exchange(index) }
        }
        for index in participants.indices { try check(index) }
        tally.ingested += try events.check(file)
        tally.rounds += 1
    }

    private func step(_ index: Int) throws {
        switch random.below(16) {
        case 0: if participants[index].session == nil { try connect(index) } else { leave(index) }
        case 1, 2: if participants[index].session == nil { try connect(index) }
        case 3: try changeQueries(index)
        case 4: try random.isOne(in: 3) ? changeRules() : serverWrite()
        case 5 where random.isOne(in: 4): try restart()
        case 6, 7: try exchange(index)
        case 8, 9: try upload(index, countMax: random.pick([1, 2, .max]))
        case 10, 11: try download(index)
        default: try write(index)
        }
    }

    // MARK: Writing

    private func write(_ index: Int) throws {
        let seed = random.next(), count = 1 + random.below(3)
        let timestamp = ChangesetTime(rawValue: time - UInt64(random.below(20)))
        guard participants[index].active.version > 0 || !participants[index].pending.isEmpty else { return }
        do {
            let client = participants[index].client, tag = OriginTag(timestamp: timestamp, ident: client.ident)
            try participants[index].client.write(
                at: timestamp,
                if: { changeset in
                    try isAllowed(changeset, by: Int(client.ident.rawValue), tag, on: client.download.serverVersion)
                }
            ) { transaction in
                for number in 0..<count { try world.edit(transaction, seed: seed &+ UInt64(number)) }
            }
        } catch is ApplyError {
            // It wanted what is not there.
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
            if written.version > version { made.noteUpload(by: 1, versions: [version.rawValue + 1]) }
        } catch is ApplyError {
            // It wanted what is not there.
        }
    }

    /// Whether the changeset is one of flexible sync, and the reference itself would converge.
    private func isAllowed(
        _ changeset: [UInt8], by author: Int, _ tag: OriginTag, on base: ServerVersion
    ) throws -> Bool {
        guard try Self.isFlexible(changeset) else { return false }
        return try made.add(changeset, by: author, tag: tag, base: base.rawValue) == nil
    }

    /// Flexible sync has no objects without primary keys, and takes no classes and columns away.
    private static func isFlexible(_ changeset: [UInt8]) throws -> Bool {
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

    // MARK: Sessions

    private func leave(_ index: Int) {
        participants[index].session = nil
        file.leave(participants[index].client.ident)
        tally.disconnections += 1
    }

    private func connect(_ index: Int) throws {
        var participant = participants[index]
        participant.client.startSession()
        var request = participant.client.identRequest
        request.subscriptions = try Self.subscriptions(participant.active)
        var session: ViewSession
        do throws(HistoryError) { session = try file.identify(request, rules: rules.rules(of: index)) } catch {
            guard error.code == .clientFileExpired, hasAbsences else { throw error }
            try reset(index)
            return try connect(index)
        }
        for set in participant.pending { try send(set, from: &participant, in: &session) }
        participant.session = session
        participants[index] = participant
    }

    private func reset(_ index: Int) throws {
        file.leave(participants[index].client.ident)
        tally.resets += 1
        participants[index] = try Self.participant(of: synced, at: time)
    }

    private static func subscriptions(
        _ set: (version: UInt64, predicates: [String: String])
    ) throws -> SubscriptionSet {
        let text = try JSONEncoder().encode(set.predicates)
        return SubscriptionSet(version: QueryVersion(rawValue: set.version), query: Array(text))
    }

    private func send(
        _ set: (version: UInt64, predicates: [String: String]), from participant: inout Participant,
        in session: inout ViewSession
    ) throws {
        tally.queries += 1
        guard try file.query(try Self.subscriptions(set), in: &session) != nil else { return }
        participant.pending.removeAll { $0.version == set.version }
        tally.refusedQueries += 1
    }

    private func changeQueries(_ index: Int) throws {
        var participant = participants[index]
        // The client uploads what it has made before.
        if participant.session != nil { try upload(index, countMax: .max) }
        participant = participants[index]
        participant.newestVersion += 1 + UInt64(random.below(2))
        let predicates = try synced.withState { try randomPredicates(in: $0) }
        let set = (version: participant.newestVersion, predicates: predicates)
        participant.pending.append(set)
        if var session = participant.session {
            try send(set, from: &participant, in: &session)
            participant.session = session
        }
        participants[index] = participant
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

    // MARK: Rules

    /// Views of clients that are away follow when they are back.
    private func changeRules() throws {
        try rules.change(&random)
        for (index, participant) in participants.enumerated() where participant.session != nil {
            try file.change(participant.client.ident, to: rules.rules(of: index))
        }
        tally.ruleChanges += 1
    }

    // MARK: Messages

    private func exchange(_ index: Int) throws {
        guard participants[index].session != nil else { return }
        try upload(index, countMax: .max)
        while try download(index) {}
        try upload(index, countMax: .max)
        while try download(index) {}
    }

    private func upload(_ index: Int, countMax: Int) throws {
        guard var session = participants[index].session else { return }
        while let upload = participants[index].client.nextUpload(countMax) {
            if let rest = try session.progress.accept(upload) {
                let before = synced.version
                let refused: [CompensatingWrite.Object]
                do throws(HistoryError) { refused = try file.integrate(rest, from: session.ident, at: time) } catch {
                    guard error.code == .writeNotAllowed else { throw error }
                    // It may not create objects of asymmetric classes, and has to begin anew.
                    return try reset(index)
                }
                try events.note(rest)
                let entries = try synced.log(after: before).filter { $0.origin == session.ident }
                made.noteUpload(by: participants[index].author, versions: entries.map(\.version.rawValue))
                tally.uploads += 1
                tally.refusedObjects += refused.count
            }
            if countMax < .max { break }
        }
        participants[index].session = session
    }

    @discardableResult
    private func download(_ index: Int) throws -> Bool {
        var participant = participants[index]
        guard var session = participant.session,
            let message = try file.download(for: &session, byteBudget: random.pick([0, 100, 10_000]))
        else { return false }
        participant.session = session
        // One message of ten is lost with its connection.
        if random.isOne(in: 10), !isEnding {
            leave(index)
            return false
        }
        try check(message, for: participant)
        do { try participant.client.integrate(message.download) } catch {
            throw Failure(description: "the client cannot take in \(message): \(error)")
        }
        if message.isBootstrap {
            if message.queryVersion > 0 {
                guard let set = participant.pending.first(where: { $0.version == message.queryVersion }) else {
                    throw Failure(description: "bootstrap of set \(message.queryVersion), which nobody waits for")
                }
                participant.active = set
            }
            participant.pending.removeAll { $0.version <= message.queryVersion }
            tally.bootstraps += 1
        }
        tally.compensations += message.compensations.count
        participants[index] = participant
        return true
    }

    /// What a client checks, and what the chapter promises.
    private func check(_ message: ViewDownload, for participant: Participant) throws {
        let cursor = message.download.progress.cursor, before = participant.client.download
        guard cursor.serverVersion >= before.serverVersion, cursor.clientVersion >= before.clientVersion else {
            throw Failure(description: "the download goes back from \(before) to \(cursor)")
        }
        var last = before.serverVersion
        for changeset in message.download.changesets {
            guard changeset.cursor.serverVersion >= last, changeset.cursor.serverVersion <= cursor.serverVersion else {
                throw Failure(description: "entry \(changeset.cursor) of a download from \(before) to \(cursor)")
            }
            last = changeset.cursor.serverVersion
            if changeset.tag.ident == participant.client.ident {
                throw Failure(description: "the client is sent its own changeset")
            }
        }
        if message.isBootstrap, message.download.changesets.isEmpty || !message.compensations.isEmpty {
            throw Failure(description: "a bootstrap without changesets, or with compensations")
        }
        for compensation in message.compensations
        where !message.download.changesets.contains(where: { $0.cursor.serverVersion == compensation.version }) {
            throw Failure(description: "compensation \(compensation.version) is not in the message that follows")
        }
        if !message.isBootstrap, message.queryVersion != participant.active.version {
            throw Failure(
                description: "set \(message.queryVersion) is said to be active, not \(participant.active.version)")
        }
    }

    // MARK: Maintenance, restarts and ends

    private func maintain() throws {
        if hasAbsences, random.isOne(in: 30) { time += policy.offlineDays * 86_400 }
        // It is noted who has identified himself.
        _ = try synced.allocateIdents(for: [], at: time)
        let connected = participants.filter { $0.session != nil }.map(\.client.ident)
        let report = try synced.maintain(at: time, policy, expires: hasAbsences, connected: Set(connected))
        file.forgetViews(of: report.expired.map(\.ident))
        tally.trimmed += Int(report.trimmedEntries)
        tally.expired += report.expired.count
    }

    private func restart() throws {
        for index in participants.indices { participants[index].session = nil }
        store = try reopen()
        synced = try Self.open(store, salts &+ time)
        file = try FlexibleFile(synced)
        tally.restarts += 1
    }

    private func check(_ index: Int) throws {
        let participant = participants[index]
        guard participant.client.isAcknowledged else { throw Failure(description: "an upload was not acknowledged") }
        guard participant.pending.isEmpty else { throw Failure(description: "a query was not answered") }
        let states = [
            try file.visibleState(to: participant.client.ident, by: rules.rules(of: index)), participant.client.state,
        ]
        guard try StateDigest(of: states[0]) != StateDigest(of: states[1]) else { return }
        let texts = try states.map { String(decoding: try $0.canonicalJSON(), as: UTF8.self) }
        throw Failure(
            description: "client \(participant.client.ident) has not what it sees:\n" + difference(texts[0], texts[1]))
    }

    private func difference(_ expected: String, _ found: String) -> String {
        let common = zip(expected, found).prefix { $0 == $1 }.count
        let start = max(0, common - 60)
        return "file:   …\(expected.dropFirst(start).prefix(160))\nclient: …\(found.dropFirst(start).prefix(160))"
    }
}
