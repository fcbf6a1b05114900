import AnabranchCore
import AnabranchSimulation
import AnabranchTesting
import Testing

@testable import AnabranchProtocol

/// The client's side of a connection and the server's, with every message in its bytes: whatever happens around them,
/// neither ever says what the other may not hear, and in the end the client has everything and is waiting for nothing.
@Suite struct ClientConversationTests {
    @Test(arguments: 0..<200 as Range<UInt64>, SyncMode.allCases)
    func randomConversations(seed: UInt64, mode: SyncMode) throws {
        var random = SeededRandom(seed: seed)
        let versions = mode == .partition ? [4, 7, 14] : [4, 7, 11, 12, 14]
        let version = ProtocolVersion(versions[Int(seed) % versions.count])
        let world = ConversationWorld(mode, version, splitsBootstraps: seed % 2 == 0, seed: seed)
        try world.connect(isFast: false)
        for _ in 0..<600 { try world.step(&random) }
        try world.settle()
        try world.checkNothingIsMissing()
    }

    @Test(arguments: SyncMode.allCases)
    func aLostConnectionTakesNothingWithIt(mode: SyncMode) throws {
        for steps in 0..<80 {
            let world = ConversationWorld(mode, ProtocolVersion(14), splitsBootstraps: true, seed: 1)
            try world.connect(isFast: false)
            try world.settle()
            try world.write(0)
            try world.subscribe(0)
            try world.write(0)
            for _ in 0..<steps { _ = try world.advance() }
            try world.connect(isFast: steps % 2 == 0)
            try world.settle()
            try world.checkNothingIsMissing()
        }
    }
}

/// Two synced files, each with a client's file, on one connection.
final class ConversationWorld {
    private let mode: SyncMode
    private let version: ProtocolVersion
    private let splitsBootstraps: Bool
    private var random: SeededRandom
    private var now: Int64 = 0
    private var client: ClientConnection?
    private var server: ServerBox?
    private var connection = 0
    /// On the wire.
    private var toServer: [[UInt8]] = []
    private var toClient: [[UInt8]] = []
    private var requests: [(SessionHandle, SessionRequest)] = []
    private var replicas: [Replica] = []
    private var sessionCount: SessionID = 0
    private var keys: Int64 = 0

    private final class Replica {
        var session: ClientSession
        var file: MemoryFile
        var synced: ScriptedFile
        var handle: SessionHandle?
        /// The synced file has ended it, and has nothing more to do with it.
        var failed: SessionHandle?
        var wanted: QueryVersion = 0
        var requested: UInt64 = 0

        init(_ session: ClientSession, _ file: MemoryFile, _ synced: ScriptedFile) {
            (self.session, self.file, self.synced) = (session, file, synced)
        }
    }

    private final class ServerBox {
        var connection: ServerConnection
        init(_ connection: consuming ServerConnection) { self.connection = connection }
    }

    init(_ mode: SyncMode, _ version: ProtocolVersion, splitsBootstraps: Bool, seed: UInt64) {
        (self.mode, self.version, self.splitsBootstraps) = (mode, version, splitsBootstraps && mode == .flexible)
        random = SeededRandom(seed: seed)
        for _ in 0..<2 {
            replicas.append(
                Replica(newSession(), MemoryFile(mode), ScriptedFile(splitsBootstraps: self.splitsBootstraps)))
        }
    }

    private func newSession() -> ClientSession {
        sessionCount += 1
        return mode == .flexible
            ? ClientSession(sessionCount) : ClientSession(sessionCount, partition: Array("\"p\"".utf8))
    }

    // MARK: What happens

    func step(_ random: inout SeededRandom) throws {
        let index = Int.random(in: 0..<2, using: &random)
        switch Int.random(in: 0..<60, using: &random) {
        case 0: try write(index)
        case 1: try subscribe(index)
        case 2 where mode == .flexible: _ = try replicas[index].file.subscribe("{\"A\":\"refuse\"}")
        case 3 where replicas[index].synced.version > 0:
            keys += 1
            try replicas[index].synced.write(keys)
            expose(index)
        case 4 where replicas[index].synced.version > 0 && mode == .flexible:
            try replicas[index].synced.compensate()
            expose(index)
        case 5: replicas[index].requested = replicas[index].session.requestMark()
        case 6: try connect(isFast: Bool.random(using: &random))
        case 7: fail(index, ErrorMessage([.sessionClosed, .otherSessionError].randomElement(using: &random)!))
        case 8:
            replicas[index].session.unbind()
            try finishIfDone(index)
        case 9: server?.connection.failConnection(ErrorMessage(.connectionClosed))
        case 10: client?.pingNow(at: now)
        case 11: now += Int64.random(in: 0...70_000, using: &random)
        case 12: replicas[index].session.resume()
        default:
            _ = try [clientSpeaks, fileWorks, serverSpeaks, serverReads, clientReads].randomElement(using: &random)!()
        }
    }

    func write(_ index: Int) throws {
        guard replicas[index].file.progress.cursor.serverVersion > 0 else { return }
        keys += 1
        try replicas[index].file.write { try $0.create("A", key: .int(-keys)) }
    }

    func subscribe(_ index: Int) throws {
        guard mode == .flexible else { return }
        let query = ["{\"A\":\"x\"}", "{\"A\":\"x\",\"B\":\"x\"}", "{}"].randomElement(using: &random)!
        replicas[index].wanted = try replicas[index].file.subscribe(query)
    }

    /// The connection before is lost, with all that was on its way.
    func connect(isFast: Bool) throws {
        let prefix = "\(WireDialect.realm.prefix(of: mode))#\(version.number)"
        server = ServerBox(ServerConnection(try Negotiation(offer: prefix, accepting: [mode])))
        client = ClientConnection(version, mode, openedAt: now, using: &random)
        connection += 1
        (toServer, toClient, requests) = ([], [], [])
        for index in replicas.indices {
            replicas[index].session.disconnected()
            (replicas[index].handle, replicas[index].failed) = (nil, nil)
            renew(index)
            replicas[index].session.connected(version, isFast: isFast)
        }
    }

    /// A session that is finished is followed by another one.
    private func renew(_ index: Int) {
        guard replicas[index].session.isFinished else { return }
        replicas[index].session = newSession()
        replicas[index].requested = 0
    }

    private func expose(_ index: Int) {
        guard let handle = replicas[index].handle else { return }
        server?.connection.receive(.versionExposed(replicas[index].synced.version), for: handle)
    }

    private func fail(_ index: Int, _ error: ErrorMessage) {
        guard let handle = replicas[index].handle else { return }
        server?.connection.fail(handle, error)
    }

    // MARK: Messages

    private func clientSpeaks() throws -> Bool {
        for index in replicas.indices {
            client?.schedule(replicas[index].session.ident)
        }
        while let turn = client?.next(at: now) {
            switch turn {
            case .ping(let message): toServer.append(message.bytes)
            case .session(let ident):
                guard let index = replicas.firstIndex(where: { $0.session.ident == ident }),
                    let message = try replicas[index].session.next(&replicas[index].file)
                else { continue }
                if let bytes = client?.encode(message).bytes { toServer.append(bytes) }
                try finishIfDone(index)
            }
            return true
        }
        return false
    }

    private func finishIfDone(_ index: Int) throws {
        guard replicas[index].session.isFinished else { return }
        renew(index)
        replicas[index].session.connected(version, isFast: Bool.random(using: &random))
    }

    private func serverReads() throws -> Bool {
        guard !toServer.isEmpty, let server else { return false }
        switch server.connection.receive(toServer.removeFirst()) {
        case .ask(let handle, let request): requests.append((handle, request))
        case .connectionFailed(let error): throw error
        case .clientFailed, nil: break
        }
        return true
    }

    private func fileWorks() throws -> Bool {
        guard !requests.isEmpty else { return false }
        let (handle, request) = requests.removeFirst()
        guard let index = replicas.firstIndex(where: { $0.session.ident == handle.ident }) else { return true }
        replicas[index].handle = handle
        guard replicas[index].failed != handle,
            let event = try replicas[index].synced.answer(request, on: connection)
        else { return true }
        if case .failed = event { replicas[index].failed = handle }
        if case .flexibleDownload(let download) = event, mode == .partition {
            server?.connection.receive(.download(download.progress, download.body), for: handle)
        } else {
            server?.connection.receive(event, for: handle)
        }
        return true
    }

    private func serverSpeaks() throws -> Bool {
        switch server?.connection.next() {
        case .message(let message), .lastMessage(let message): toClient.append(message.bytes)
        case .ask(let session, let request): requests.append((session, request))
        case .close(let code): Issue.record("closed with \(code)")
        case nil: return false
        }
        return true
    }

    private func clientReads() throws -> Bool {
        guard !toClient.isEmpty else { return false }
        switch try client?.receive(toClient.removeFirst(), at: now, using: &random) {
        case .session(let ident, let message):
            guard let index = replicas.firstIndex(where: { $0.session.ident == ident }) else { return true }
            if let event = try replicas[index].session.receive(message, replicas[index].file) {
                try replicas[index].file.take(event, of: &replicas[index].session)
            }
            try finishIfDone(index)
        case .failed: try connect(isFast: true)
        case .log, nil: break
        }
        return true
    }

    // MARK: The end

    /// One of those who have something to do goes on.
    func advance() throws -> Bool {
        try clientReads() || serverReads() || fileWorks() || serverSpeaks() || clientSpeaks()
    }

    func settle() throws {
        repeat {
            for index in replicas.indices { replicas[index].session.resume() }
        } while try advance()
    }

    func checkNothingIsMissing() throws {
        for replica in replicas {
            #expect(replica.session.isRunning)
            #expect(replica.file.answered >= replica.requested)
            #expect(replica.file.client?.isAcknowledged == true)
            #expect(replica.file.progress.cursor.serverVersion == replica.synced.version)
            if mode == .flexible {
                #expect(replica.file.sets?.active == replica.wanted)
                #expect(replica.file.sets?.state(of: replica.wanted) == .complete)
            }
        }
    }
}
