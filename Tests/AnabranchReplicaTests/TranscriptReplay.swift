import AnabranchCore
import AnabranchProtocol
import AnabranchReplica
import AnabranchTesting

/// Plays the server and the applications of a transcript to replicas.
///
/// A client says in each UPLOAD and IDENT how far it has integrated what it was sent. Until it says so, it has not.
final class TranscriptReplay {
    private struct FileKey: Hashable {
        let partition: [UInt8]
        let ident: ClientFileID
    }

    private struct SessionKey: Hashable {
        let connection: Int
        let ident: SessionID
    }

    private struct Session {
        let file: FileKey
        var machine: ClientSession
        /// Messages that are not looked at yet.
        var inbox: [ServerMessage] = []
        /// True if a MARK was sent: the machine may send the first one by itself.
        var hasMarked = false
    }

    private let lines: [Transcript.Line]
    private let isFast: Bool
    private var fileKeys: [SessionKey: FileKey] = [:]
    private var files: [FileKey: RecordedReplica] = [:]
    private var links: [Int: ClientConnection] = [:]
    private var sessions: [SessionKey: Session] = [:]
    private var random = SeededRandom(seed: 1)
    private(set) var differences: [String] = []
    private(set) var violations: [ErrorCode] = []
    /// Messages that had to be equal.
    private(set) var comparedCount = 0
    /// Changesets that had to be equal.
    private(set) var uploadedCount = 0
    /// Pairs of states that had to be equal.
    private(set) var comparedStates = 0

    init(_ transcript: Transcript, isFast: Bool) throws {
        (lines, self.isFast) = (transcript.lines, isFast)
        var partitions: [SessionKey: [UInt8]] = [:], uploads: [FileKey: [Upload]] = [:]
        for line in lines where line.kind == "binary" && line.isFromClient {
            let key = Self.session(of: line)
            switch try ClientMessageCodec().decode(line.bytes) {
            case .bind(_, let request): partitions[key] = request.partition
            case .ident(_, let request):
                fileKeys[key] = FileKey(partition: partitions[key] ?? [], ident: request.file.ident)
            case .upload(_, let upload):
                if let file = fileKeys[key] { uploads[file, default: []].append(upload.upload) }
            default: break
            }
        }
        for file in Set(fileKeys.values) { files[file] = try RecordedReplica(uploads[file] ?? []) }
    }

    func run() throws {
        for line in lines {
            switch (line.kind, line.isFromClient) {
            case ("http", true): expect(line, offer: ClientHandshake(.partition).offer)
            case ("http", false): try open(line)
            case ("binary", true): try compare(line)
            case ("binary", false): try receive(line)
            case ("eof", _), ("close", _): links[line.connection] = nil
            default: break
            }
        }
        for key in sessions.keys { try deliver(to: key, through: ServerVersion(rawValue: .max)) }
    }

    /// Two replicas that have integrated the same, and of which the server has everything, have the same state.
    func compareStates() throws {
        var digests: [[UInt8]: [ServerVersion: StateDigest]] = [:]
        for (key, file) in files where file.replica.isAcknowledged {
            let version = file.replica.progress.cursor.serverVersion
            let digest = try StateDigest(of: file.replica.state)
            let other = digests[key.partition, default: [:]].updateValue(digest, forKey: version)
            guard let other else { continue }
            comparedStates += 1
            if other != digest { differences.append("two states of \(key.partition) at version \(version)") }
        }
    }

    private func differ(_ line: Transcript.Line, _ text: String) { differences.append("line \(line.number): \(text)") }

    private static func session(of line: Transcript.Line) -> SessionKey {
        SessionKey(connection: line.connection, ident: SessionID(line.words.count > 1 ? UInt64(line.words[1]) ?? 0 : 0))
    }

    // MARK: Connections

    private func subprotocol(_ line: Transcript.Line) -> String? {
        let name = "Sec-WebSocket-Protocol: "
        return line.httpHead.first { $0.hasPrefix(name) }.map { String($0.dropFirst(name.count)) }
    }

    private func expect(_ line: Transcript.Line, offer: String) {
        if subprotocol(line) != offer { differ(line, "the offer is \(offer)") }
    }

    private func open(_ line: Transcript.Line) throws {
        let version = try ClientHandshake(.partition).version(chosen: subprotocol(line))
        links[line.connection] = ClientConnection(version, .partition, openedAt: 0, using: &random)
    }

    // MARK: Clients

    private func compare(_ line: Transcript.Line) throws {
        let recorded = try ClientMessageCodec().decode(line.bytes)
        let key = Self.session(of: line)
        let said: ClientMessage?
        switch recorded {
        case .ping(let timestamp, _): return comparePing(recorded, at: timestamp, line)
        case .upload(_, let message): return try compareUpload(message, of: key, line)
        case .bind(_, let request): begin(key, request, line)
        case .ident(_, let request):
            try deliver(to: key, through: 0)
            try deliverLate(to: key, through: request.download.serverVersion)
        case .mark:
            try deliver(to: key, through: 0)
            let isOwn = !isFast && sessions[key]?.hasMarked == false
            if !isOwn { _ = sessions[key]?.machine.requestMark() }
            sessions[key]?.hasMarked = true
        case .unbind:
            if let file = fileKeys[key], let ahead = files[file]?.ahead, !ahead.isEmpty {
                differ(line, "\(ahead) was uploaded")
            }
            sessions[key]?.machine.unbind()
        case .query, .error, .testCommand: break
        }
        comparedCount += 1
        said = try next(of: key)
        if said != recorded { differ(line, "\(String(describing: said)) in place of \(recorded)") }
    }

    /// A file that the server never gave an ident does nothing.
    private func begin(_ key: SessionKey, _ request: BindRequest, _ line: Transcript.Line) {
        guard let version = links[line.connection]?.version else { return }
        var machine = ClientSession(key.ident, partition: request.partition)
        machine.connected(version, isFast: isFast)
        let nobody = FileKey(partition: request.partition, ident: 0)
        sessions[key] = Session(file: fileKeys[key] ?? nobody, machine: machine)
    }

    private func comparePing(_ recorded: ClientMessage, at timestamp: Int64, _ line: Transcript.Line) {
        comparedCount += 1
        links[line.connection]?.pingNow(at: timestamp)
        let said = links[line.connection]?.next(at: timestamp)
        if said != .ping(ClientMessageCodec().encode(recorded)) { differ(line, "\(String(describing: said))") }
    }

    private func next(of key: SessionKey) throws -> ClientMessage? {
        guard var session = sessions[key] else { return nil }
        var file = try files[session.file] ?? RecordedReplica([])
        let said = try file.with { replica in try session.machine.next(&replica) }
        if files[session.file] != nil { files[session.file] = file }
        sessions[key] = session
        if let said { _ = links[key.connection]?.encode(said) }
        return said
    }

    /// Every upload of the recorded client was uploaded before, or is now.
    private func compareUpload(_ message: UploadMessage, of key: SessionKey, _ line: Transcript.Line) throws {
        guard let file = sessions[key]?.file else { return differ(line, "no session") }
        let recorded = message.upload.changesets
        try deliver(to: key, through: message.lockedVersion)
        try files[file]?.write(through: message.progress.clientVersion)
        repeat {
            guard case .upload(_, let message) = try next(of: key) else { break }
            files[file]?.ahead += message.upload.changesets
        } while (files[file]?.ahead.count ?? 0) < recorded.count
        let said = Array(files[file]?.ahead.prefix(recorded.count) ?? [])
        files[file]?.ahead.removeFirst(said.count)
        uploadedCount += said.count
        if said != recorded { differ(line, "\(said) in place of \(recorded)") }
    }

    // MARK: The server

    private func receive(_ line: Transcript.Line) throws {
        do {
            let event = try links[line.connection]?.receive(line.bytes, at: 0, using: &random)
            guard case .session(let ident, let message)? = event else { return }
            sessions[SessionKey(connection: line.connection, ident: ident)]?.inbox.append(message)
        } catch {
            violations.append(error.code)
            links[line.connection] = nil
        }
    }

    /// Passes on what has come to a session, up to a DOWNLOAD that goes beyond a version.
    private func deliver(to key: SessionKey, through version: ServerVersion) throws {
        while let message = sessions[key]?.inbox.first {
            if case .download(_, let sent) = message, sent.download.progress.cursor.serverVersion > version { return }
            sessions[key]?.inbox.removeFirst()
            guard let file = sessions[key]?.file, let replica = files[file]?.replica else { continue }
            switch try sessions[key]?.machine.receive(message, replica) {
            case .ident(let salted): try files[file]?.with { replica in try replica.identify(as: salted) }
            case .download(let download, _):
                try files[file]?.integrate(download)
                _ = sessions[key]?.machine.integrated()
            default: break
            }
        }
    }

    /// A session begins: what an earlier one of the file has heard, it may have integrated.
    private func deliverLate(to key: SessionKey, through version: ServerVersion) throws {
        guard let file = sessions[key]?.file else { return }
        files[file]?.ahead = []
        let earlier = sessions.keys.filter { $0 != key && sessions[$0]?.file == file }
        for key in earlier {
            try deliver(to: key, through: version)
            sessions[key] = nil
        }
    }
}
