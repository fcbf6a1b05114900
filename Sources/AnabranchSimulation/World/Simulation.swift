import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchReplica
import AnabranchServer
import AnabranchTesting
import Synchronization

/// A whole world in one thread and in virtual time: the server's machine with its store, or several machines that have
/// one in common, and clients with their replicas, on a network that loses, cuts and delays. One seed decides
/// everything.
///
/// At first everything in the plan goes wrong, and what has to hold at any time is checked all the time
/// (`Spec/Durability.md`, P1 to P8). Then nothing goes wrong any more, and within a bounded time all clients have to
/// have what the server has, which is what was acknowledged.
package final class Simulation {
    package let plan: SimulationPlan
    var random: SeededRandom
    /// The random numbers for clocks, and for the check of what wrong clocks have left.
    var clockRandom: SeededRandom
    let clock = SimulatedClock()
    let permissions = SimulatedPermissions()
    var permissionLedger = PermissionLedger()
    let roles = SimulatedRoles()
    let steps: RandomSteps
    private let salts: SimulatedSalts
    /// The random numbers for what only happens to several nodes.
    var nodeRandom: SeededRandom
    let nodes: [SimulatedNode]
    /// The content of the store that all nodes have.
    var content: InMemoryStore
    var diskIsFullUntil: Int64?
    var backup: InMemoryStore?
    var clients: [SimulatedClient] = []
    let hostile: HostileClient
    var ledger = WriteLedger()
    var authored: [AuthoredInstructions]
    let world: RandomWorld
    /// For each file: the digest of the server's state at each version, and the end of the log.
    var digests: [[SaltedVersion: StateDigest]]
    var logEnds: [ServerVersion]
    var serverWrites: [PendingWrite] = []
    /// The connections that clients have lost without the server's knowledge, and since when.
    var halfOpenLinks: [(link: SimulatedLink, since: Int64)] = []
    private var lastConnection: UInt64 = 0
    private var lastSession: UInt64 = 0
    /// True once nothing goes wrong any more.
    var faultsAreOff = false
    /// True once all clients are connected and clocks go wrong again.
    var isCompeting = false
    /// True if anything has moved on a link since `goOn` last began.
    var hasMoved = false
    package var tally = SimulationTally()
    package private(set) var trace = TraceHash()
    /// Nil unless the world is recorded.
    var recording: Recording?
    /// The newest `place` events of the recording, by the numbers of their clients.
    var recordedPlaces: [Int: [String]] = [:]
    /// Receives a line for each event.
    package var printTrace: ((String) -> Void)?

    /// A write of the server whose outcome is not known yet.
    struct PendingWrite {
        let file: Int
        let node: SimulatedNode
        /// The time that the server's clock showed when the write was requested.
        let time: ChangesetTime
        let token: Int64?
        let outcome: Outcome

        final class Outcome: Sendable {
            let result = Mutex<Result<ServerVersion, any Error>?>(nil)
        }
    }

    /// - Parameters:
    ///   - faults: the only faults that occur; nil for those that the seed picks.
    ///   - nodeCount: the number of machines that have a store in common.
    package init(seed: UInt64, faults: Set<SimulationPlan.Fault>? = nil, nodeCount: Int = 1) throws {
        var random = SeededRandom(scrambling: seed)
        clockRandom = SeededRandom(scrambling: ~seed)
        nodeRandom = SeededRandom(scrambling: seed &+ 1 << 33)
        plan = SimulationPlan(&random, clocks: &clockRandom, faults: faults, nodeCount: nodeCount)
        hostile = HostileClient(seed: seed)
        // A step of a partition is over at once, or never.
        steps = RandomSteps(seed: random.next(), questions: plan.isFlexible ? RandomSteps.someQuestions : [0])
        salts = SimulatedSalts(seed: random.next())
        world = RandomWorld(&random)
        let content = InMemoryStore(isShared: nodeCount > 1), isInMemory = !plan.isOnDisk
        self.content = content
        nodes = (0..<nodeCount).map { SimulatedNode($0, SimulatedStore(content, isInMemory: isInMemory)) }
        digests = Array(repeating: [:], count: plan.fileCount)
        logEnds = Array(repeating: 0, count: plan.fileCount)
        authored = Array(repeating: AuthoredInstructions(), count: plan.fileCount)
        self.random = random
        // SDKs have random numbers of their own: the rest of a world is as it is with Realm's SDKs alone.
        var sdks = SeededRandom(scrambling: seed &+ 1 << 32)
        for number in 0..<plan.clientCount { addClient(number, sdks.isOne(in: 3) ? .barq : .realm) }
    }

    private func addClient(_ number: Int, _ dialect: WireDialect) {
        let file = number % plan.fileCount
        let offset = Int64(random.pick([0, 0, 1, -3_600, 31_536_000, -94_608_000])) * 1000
        clients.append(
            SimulatedClient(
                number, file: file,
                user: Principal(app: Self.app, user: "user\(number)", customData: #"{"number": \#(number)}"#),
                mode: plan.isFlexible ? .flexible : .partition, dialect: dialect,
                partition: Array((dialect.hasPlainPartitions ? "p\(file)" : "\"p\(file)\"").utf8),
                clock: DeviceClock(offset: offset)))
    }

    static let app = "sim"

    func path(of file: Int) -> VirtualPath {
        plan.isFlexible ? VirtualPath(app: Self.app) : VirtualPath(app: Self.app, partition: .string("p\(file)"))
    }

    func file(at path: VirtualPath) -> Int? { (0..<plan.fileCount).first { self.path(of: $0) == path } }

    func nextConnection() -> UInt64 {
        lastConnection += 1
        return lastConnection
    }

    func nextSession() -> UInt64 {
        lastSession += 1
        return lastSession
    }

    // MARK: The trace

    func log(_ event: @autoclosure () -> String) {
        let event = event()
        trace.add(event)
        printTrace?("\(Double(clock.now) / 1000) s: \(event)")
    }

    /// Records a message that is sent.
    func log(_ message: [UInt8], _ event: @autoclosure () -> String) {
        trace.add(message)
        guard let printTrace else { return }
        let head = message.prefix { $0 != UInt8(ascii: "\n") }.prefix(150)
        printTrace("\(Double(clock.now) / 1000) s: \(event()): \(String(decoding: head, as: UTF8.self))")
    }

    // MARK: The run

    /// - Throws: `SimulationFailure`, or an unexpected error.
    package func run() throws {
        log("\(plan)")
        for node in nodes { start(node) }
        for _ in 0..<plan.steps { try step() }
        try disableFaults()
        try settle()
        try checkEnd()
        try compete()
        tally.passed = 1
    }

    private func step() throws {
        clock.advance(milliseconds: Int64(random.pick([0, 1, 1, 5, 50, 500, random.isOne(in: 20) ? 60_000 : 20])))
        for fault in SimulationPlan.Fault.allCases where fault != .clientClock {
            if let interval = plan.rates[fault], random.isOne(in: interval) {
                try happen(fault, to: random.pick(clients))
            }
        }
        // Clocks have random numbers of their own: the rest of a world is as it is without them.
        if let interval = plan.rates[.clientClock], clockRandom.isOne(in: interval) {
            try happen(.clientClock, to: clockRandom.pick(clients))
        }
        happenToNodes()
        try endFaults()
        for _ in 0..<3 { try act() }
        try observe()
    }

    private func act() throws {
        let client = random.pick(clients)
        askForMark(client)
        switch random.below(20) {
        case 0..<2: try write(client)
        case 2..<6: try advance(client)
        case 6..<10: try moveLink(of: client)
        case 10..<15: try takeTurns(random.pick([1, 1, 3, 20]))
        case 15..<18: try send(to: client, countMax: random.pick([1, 2, 10]))
        case 18: try act(asServer: random.below(6))
        default: try hostile.act(in: self)
        }
    }

    /// Runs one action of the server's own: a write, maintenance of a file, or a tick.
    private func act(asServer number: Int) throws {
        switch number {
        case 0, 1: serverWrite()
        case 2: someNode().machine?.maintain(path(of: random.below(plan.fileCount)))
        default: someNode().machine?.tick()
        }
    }

    // MARK: The end

    /// Ends all faults, so that everything goes well from now on. Clients whose file was copied start over.
    private func disableFaults() throws {
        faultsAreOff = true
        record("calm")
        for node in nodes {
            node.store.heal()
            node.isBusyUntil = 0
        }
        steps.areShort = false
        diskIsFullUntil = nil
        clock.serverOffset = 0
        for client in clients { setPermission(.write, of: client) }
        for node in nodes { node.machine?.recheckPermissions() }
        hostile.leave(self)
        for client in clients {
            client.process?.link?.cloggedUntil = 0
            client.process?.replica.store.cancelPlan()
            client.process?.old?.replica.store.cancelPlan()
            renewToken(of: client)
            client.clock.setRight()
            client.startsAt = min(client.startsAt, clock.now)
            client.stopCount = 0
            if client.isTwin { throwAway(client) }
        }
    }

    /// Runs until nothing is left to do, for a day at most.
    func settle() throws {
        let end = clock.now + 86_400_000
        for _ in 0..<20_000 {
            // What a connection asks of its file in one round arrives in the next.
            if try goOn() || goOn() { continue }
            guard let next = nextMoment() else { return }
            guard next <= end else { break }
            clock.advance(milliseconds: max(1, next - clock.now))
        }
        let waiting = clients.filter { !isSettled($0) }.map(describe).joined(separator: "; ")
        throw SimulationFailure("it does not come to rest: \(waiting)")
    }

    private func describe(_ client: SimulatedClient) -> String {
        guard let process = client.process else { return "client \(client.number) has no process" }
        let replica = process.replica
        return """
            client \(client.number) \(process.session.isRunning ? "runs" : "does not run")\
            \(process.old == nil ? "" : ", in a reset")\
            \(process.session.isWaitingForMark ? ", waits for a MARK" : ""), \
            newest change \(replica.newestChange), \(replica.progress), file at \(logEnds[client.file]), \
            \(replica.record.subscriptions.map { "\($0.latest.state)" } ?? "")
            """
    }

    /// - Returns: whether anything has happened, including on links and in the server, which may have long work to do.
    private func goOn() throws -> Bool {
        let before = trace
        hasMoved = false
        try endFaults()
        for client in clients {
            if client.process?.isStopped == true { try restart(client) }
            try advance(client)
            try moveLink(of: client)
        }
        try takeTurns(100)
        for node in nodes { node.machine?.tick() }
        let isServerAtWork = try takeTurns(100)
        for client in clients { try send(to: client, countMax: 100) }
        try observe()
        return isServerAtWork || hasMoved || trace != before
    }

    /// The next time at which a process acts by itself, in milliseconds since the start of the run; nil if none has to
    /// act any more.
    private func nextMoment() -> Int64? {
        let unsettled = clients.filter { !isSettled($0) }
        let starts = nodes.filter { $0.machine == nil }.map(\.startsAt)
        guard !unsettled.isEmpty || !starts.isEmpty else { return nil }
        var moments = unsettled.flatMap { client -> [Int64] in
            guard let process = client.process else { return [client.startsAt] }
            let ping = process.connection?.deadline(after: clock.now)
            return [process.connectsAt, process.resumesAt, ping].compactMap { $0 }
        }
        moments += starts
        return moments.min()
    }

    private func isSettled(_ client: SimulatedClient) -> Bool {
        guard let process = client.process, process.old == nil, process.session.isRunning else { return false }
        let replica = process.replica
        guard !process.session.isWaitingForMark, replica.isAcknowledged else { return false }
        if let latest = replica.record.subscriptions?.latest, latest.version > 0 {
            switch latest.state {
            case .pending, .bootstrapping, .awaitingMark: return false
            case .complete, .refused: break
            }
        }
        return plan.isFlexible || replica.progress.cursor.serverVersion == logEnds[client.file]
    }

    // MARK: The server's processes

    func start(_ node: SimulatedNode) {
        guard node.machine == nil else { return }
        // A process that has just started has not refused any client for an expired token yet.
        for client in clients { client.refusals = [] }
        var settings = ServerMachineSettings(
            now: { [clock] in clock.serverTime }, monotonicSeconds: { [clock] in clock.monotonicSeconds })
        settings.isFlexible = plan.isFlexible
        settings.history = plan.history
        settings.authorizer = permissions
        settings.export = { [roles] in roles.export }
        settings.downloadBytes = plan.downloadBytes
        settings.bootstrapPartBytes = max(500, plan.downloadBytes)
        settings.messageBytesMax = plan.messageBytes
        settings.shortBodyBytesMax = SimulationPlan.shortBodyBytes
        settings.beginStep = { [steps] in steps.begin() }
        settings.randomness = { [salts] in salts.next() }
        node.processCount += 1
        node.followedRoles = permissionLedger.moment
        node.store = node.store.reopened()
        node.machine = ServerMachine(over: node.store, paths: (0..<plan.fileCount).map(path), settings)
        log(hasSeveralNodes ? "node \(node.number) starts" : "server starts")
        record("serve")
    }

    /// Ends a process of the server, and with it all its connections.
    func end(_ node: SimulatedNode, for milliseconds: Int64) {
        node.machine = nil
        node.wakes = []
        permissionLedger.end(node.number)
        log(hasSeveralNodes ? "node \(node.number) ends" : "server ends")
        record("stop")
        node.startsAt = clock.now + milliseconds
        hostile.lose(node)
        for client in clients {
            guard let link = client.process?.link, link.node === node else { continue }
            link.isOpenForServer = false
            drop(link, of: client, toServer: true, toClient: random.isOne(in: 2))
            // A machine that has lost its power closes no connection.
            if random.isOne(in: 4), !faultsAreOff { link.halfOpenSince = clock.now } else { link.close() }
        }
        for write in serverWrites where write.node === node { if let token = write.token { ledger.undone(token) } }
        serverWrites.removeAll { $0.node === node }
    }
}
