import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchServer
import AnabranchTesting

/// A client with a login and a wiretap: it repeats others' messages, intact or damaged, makes up messages, and begins
/// sessions in which it uploads what others have written, or does nothing. Its user may read, but not write.
final class HostileClient {
    static let user = "hostile"

    /// The random numbers for what it does in sessions: a world in which it has none is as it is without them.
    private var random: SeededRandom
    private var connection: (number: UInt64, version: ProtocolVersion, node: SimulatedNode)?
    /// True while it waits for a client file.
    private var isBinding = false
    /// The session that the server has begun, and the client version of its last UPLOAD.
    private var session: (ident: SessionID, version: ClientVersion)?
    /// The client version of the first UPLOAD of the session that is more than a schema, unless other messages have
    /// gone before it: they may have been UPLOADs.
    private var written: ClientVersion?
    private var isAlone = false
    /// The latest changeset that another client has uploaded.
    private var changeset: [UInt8] = []
    /// The latest messages of others, at most `recordedMax`.
    private var recorded: [[UInt8]] = []
    private var place = 0
    private static let recordedMax = 100

    init(seed: UInt64) { random = SeededRandom(scrambling: seed &+ 3 << 32) }

    func record(changeset: [UInt8]) { self.changeset = changeset }

    func record(_ message: [UInt8]) {
        if recorded.count < Self.recordedMax { recorded.append([]) }
        recorded[place % recorded.count] = message
        place = (place + 1) % Self.recordedMax
    }

    func act(in simulation: Simulation) throws {
        let node = connection?.node ?? simulation.someNode()
        guard let machine = node.machine else { return }
        guard let (number, version, _) = connection else { return connect(simulation, machine, node) }
        if isBinding || session != nil, !random.isOne(in: 4) {
            return try goOn(simulation, machine, number, version)
        }
        let message = self.message(&simulation.random, simulation)
        (written, isAlone) = (nil, false)
        simulation.tally.mark("hostile message")
        simulation.log(message, "somebody says")
        machine.receive(message, isFirst: !simulation.random.isOne(in: 50), isLast: true, from: number)
        if simulation.random.isOne(in: 2) { try read(simulation, machine, number, version) }
        if simulation.random.isOne(in: 10) { leave(simulation) }
    }

    func leave(_ simulation: Simulation) {
        if let connection { connection.node.machine?.disconnect(connection.number) }
        connection = nil
        endSession()
    }

    /// Forgets the connection, if it was to a node whose process has ended.
    func lose(_ node: SimulatedNode) {
        guard connection?.node === node else { return }
        connection = nil
        endSession()
    }

    private func endSession() { (isBinding, session, written, isAlone) = (false, nil, nil, false) }

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

    // MARK: Its session

    /// Does what a client does whose user may write.
    private func goOn(
        _ simulation: Simulation, _ machine: ServerMachine, _ number: UInt64, _ version: ProtocolVersion
    ) throws {
        if let (ident, last) = session, !changeset.isEmpty, random.isOne(in: 2) {
            let cursor = UploadCursor(clientVersion: last + 1)
            let sent = UploadedChangeset(cursor: cursor, timestamp: simulation.clock.serverTime, changeset: changeset)
            let upload = UploadMessage(Upload(progress: cursor, changesets: [sent]))
            let bytes = ClientMessageCodec().encode(.upload(session: ident, upload)).bytes
            session = (ident, cursor.clientVersion)
            if isAlone, written == nil, Self.isWrite(changeset) { written = cursor.clientVersion }
            simulation.tally.mark("hostile upload")
            simulation.log(bytes, "somebody says")
            machine.receive(bytes, isFirst: true, isLast: true, from: number)
        }
        try read(simulation, machine, number, version)
    }

    /// True if a changeset does something else than to add classes and columns.
    private static func isWrite(_ changeset: [UInt8]) -> Bool {
        var arena = ChangesetArena()
        guard let index = try? arena.decode(changeset, version: 1, tag: OriginTag(timestamp: 0, ident: 0)) else {
            return false
        }
        return !arena.instructions(of: index).allSatisfy { $0.kind == .addTable || $0.kind == .addColumn }
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
        let needsFileIdent = random.isOne(in: 2)
        isBinding = needsFileIdent && !simulation.plan.isFlexible
        let request =
            simulation.plan.isFlexible
            ? BindRequest(flexible: FlexibleBind(), needsFileIdent: needsFileIdent)
            : BindRequest(partition: Array("\"p0\"".utf8), needsFileIdent: needsFileIdent)
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

    private func read(
        _ simulation: Simulation, _ machine: ServerMachine, _ number: UInt64, _ version: ProtocolVersion
    ) throws {
        for output in machine.messages(to: number, countMax: 10) {
            guard case .message(let message) = output else { return leave(simulation) }
            guard !simulation.plan.isFlexible else { continue }
            switch try ServerMessageCodec(mode: .partition, version: version).decode(message.bytes) {
            case .ident(let ident, let file): identify(as: file, in: ident, simulation, machine, number)
            case .download(session?.ident, let download):
                let acknowledged = download.progress.upload.clientVersion
                try require(
                    written.map { acknowledged < $0 } ?? true,
                    "P8: what somebody has written who may only read is acknowledged")
            case .error(_, let error):
                if error.code == .writeNotAllowed { simulation.tally.mark("hostile upload refused") }
                endSession()
            default: break
            }
        }
    }

    /// Continues a session that was given a client file, so that it may send more.
    private func identify(
        as file: SaltedFileID, in ident: SessionID, _ simulation: Simulation, _ machine: ServerMachine, _ number: UInt64
    ) {
        simulation.tally.mark("hostile session")
        var claimed = file
        if simulation.random.isOne(in: 4) { claimed.ident = ClientFileID(UInt64(simulation.random.below(10))) }
        (isBinding, session) = (false, claimed == file ? (ident, 0) : nil)
        (written, isAlone) = (nil, true)
        let request = IdentRequest(
            file: claimed, download: DownloadCursor(), latest: SaltedVersion(), subscriptions: nil)
        let bytes = ClientMessageCodec().encode(.ident(session: ident, request)).bytes
        machine.receive(bytes, isFirst: true, isLast: true, from: number)
    }
}
