import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchServer
import AnabranchTesting

/// A client with a login and a wiretap: it repeats others' messages, intact or damaged, makes up messages, and begins
/// sessions that it does not continue. Its user may read, but not write.
final class HostileClient {
    static let user = "hostile"

    private var connection: (number: UInt64, version: ProtocolVersion, node: SimulatedNode)?
    /// The latest messages of others, at most `recordedMax`.
    private var recorded: [[UInt8]] = []
    private var place = 0
    private static let recordedMax = 100

    func record(_ message: [UInt8]) {
        if recorded.count < Self.recordedMax { recorded.append([]) }
        recorded[place % recorded.count] = message
        place = (place + 1) % Self.recordedMax
    }

    func act(in simulation: Simulation) throws {
        let node = connection?.node ?? simulation.someNode()
        guard let machine = node.machine else { return }
        guard let (number, version, _) = connection else { return connect(simulation, machine, node) }
        let message = self.message(&simulation.random, simulation)
        simulation.tally.mark("hostile message")
        simulation.log(message, "somebody says")
        machine.receive(message, isFirst: !simulation.random.isOne(in: 50), isLast: true, from: number)
        if simulation.random.isOne(in: 2) { try read(simulation, machine, number, version) }
        if simulation.random.isOne(in: 10) { leave(simulation) }
    }

    func leave(_ simulation: Simulation) {
        if let connection { connection.node.machine?.disconnect(connection.number) }
        connection = nil
    }

    /// Forgets the connection, if it was to a node whose process has ended.
    func lose(_ node: SimulatedNode) { if connection?.node === node { connection = nil } }

    private func connect(_ simulation: Simulation, _ machine: ServerMachine, _ node: SimulatedNode) {
        let mode = simulation.plan.isFlexible ? SyncMode.flexible : .partition
        let number = simulation.nextConnection()
        let offer = simulation.random.pick([
            ClientHandshake(mode).offer, "com.mongodb.realm-sync#\(simulation.random.below(30))", "x#1",
        ])
        // The offer may be one that the server does not support.
        let version = try? machine.connect(number, offer: offer, by: Principal(app: Simulation.app, user: Self.user))
        connection = version.map { (number, $0, node) }
    }

    // MARK: Messages

    private func message(_ random: inout SeededRandom, _ simulation: Simulation) -> [UInt8] {
        switch random.below(6) {
        case 0: return bind(&random, simulation)
        case 1: return (0..<random.below(60)).map { _ in UInt8(random.below(256)) }
        case 2, 3: return recorded.isEmpty ? [] : random.pick(recorded)
        default: return damaged(recorded.isEmpty ? [] : random.pick(recorded), &random)
        }
    }

    private func bind(_ random: inout SeededRandom, _ simulation: Simulation) -> [UInt8] {
        let session = SessionID(rawValue: UInt64(1 + random.below(20)))
        let codec = ClientMessageCodec(mode: simulation.plan.isFlexible ? .flexible : .partition)
        let request =
            simulation.plan.isFlexible
            ? BindRequest(flexible: FlexibleBind(), needsFileIdent: random.isOne(in: 2))
            : BindRequest(partition: Array("\"p0\"".utf8), needsFileIdent: random.isOne(in: 2))
        return codec.encode(.bind(session: session, request)).bytes
    }

    private func damaged(_ message: [UInt8], _ random: inout SeededRandom) -> [UInt8] {
        var message = message
        for _ in 0...random.below(3) where !message.isEmpty {
            let index = random.below(message.count)
            switch random.below(4) {
            case 0: message[index] ^= 1 << UInt8(random.below(8))
            case 1: message.remove(at: index)
            case 2: message.insert(UInt8(random.below(256)), at: index)
            // Numbers are where most of the checks are.
            default: message[index] = UInt8(ascii: "0") + UInt8(random.below(10))
            }
        }
        return message
    }

    /// Continues a session that was given an ident, so that it may send more.
    private func read(
        _ simulation: Simulation, _ machine: ServerMachine, _ number: UInt64, _ version: ProtocolVersion
    ) throws {
        let mode = simulation.plan.isFlexible ? SyncMode.flexible : .partition
        for output in machine.messages(to: number, countMax: 10) {
            guard case .message(let message) = output else { return leave(simulation) }
            guard !simulation.plan.isFlexible,
                case .ident(let session, let file) = try ServerMessageCodec(mode: mode, version: version).decode(
                    message.bytes)
            else { continue }
            simulation.tally.mark("hostile session")
            var claimed = file
            if simulation.random.isOne(in: 4) { claimed.ident = ClientFileID(UInt64(simulation.random.below(10))) }
            let ident = IdentRequest(
                file: claimed, download: DownloadCursor(), latest: SaltedVersion(), subscriptions: nil)
            let bytes = ClientMessageCodec(mode: mode).encode(.ident(session: session, ident)).bytes
            machine.receive(bytes, isFirst: true, isLast: true, from: number)
        }
    }
}
