import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchTesting
import NIOHTTP1

@testable import AnabranchServer

/// Plays the clients of a transcript to a server, and compares what it answers with what the recorded server did.
///
/// The recorded server took its time: uploads waited, and DOWNLOADs were made when their session's turn came. So
/// uploads are held back here, and are integrated in the recorded order when a recorded DOWNLOAD shows that they were;
/// a DOWNLOAD is made when the recorded one was sent. Salts are random and are translated.
final class TranscriptReplay {
    private let transcript: Transcript
    private let rig = WireRig(canSend: false, destructiveSchema: .allow)
    /// The server was restarted with an empty directory before this connection.
    private let restartsBefore: Int?
    private var connections: [Int: Replayed] = [:]
    private var files: [VirtualPath: ReplayedFile] = [:]
    private(set) var differences: [String] = []
    private(set) var comparedCount = 0
    /// Recorded ERRORs in whose place JSON_ERROR was sent.
    private(set) var replacedErrors: [String] = []

    private final class Replayed {
        let connection: RigConnection
        var paths: [SessionID: VirtualPath] = [:]
        var clientIdents: [SessionID: ClientFileID] = [:]
        /// Sessions that the client has ended, though the recorded server did not know yet when it sent its next
        /// message.
        var unbound: Set<SessionID> = []
        /// Sent before the recorded server sent the same.
        var early: [SyncMessage] = []
        /// DOWNLOADs to be made, by session.
        var scans: [SessionID: FileRequest] = [:]

        init(_ connection: RigConnection) { self.connection = connection }
    }

    /// A synced file and the calls that wait for their turn.
    private struct ReplayedFile {
        struct Held {
            var session: SessionKey
            let ident: ClientFileID
            /// Nil for the end of the session, which has to wait for its uploads.
            let upload: UploadMessage?
        }

        /// Whose changesets the versions were.
        let order: [RecordedHistory.Step]
        var version = 0
        var held: [Held] = []
        /// Our salts, of versions and of client files.
        var salts: [UInt64: Salt] = [:]
        var fileSalts: [UInt64: Salt] = [:]
        /// The newest client version that was uploaded, integrated or not.
        var uploaded: [ClientFileID: ClientVersion] = [:]
    }

    init(_ transcript: Transcript, restartsBefore: Int? = nil) {
        self.transcript = transcript
        self.restartsBefore = restartsBefore
        for (partition, order) in RecordedHistory.orders(in: transcript) {
            files[Self.path(of: partition, in: transcript)] = ReplayedFile(order: order)
        }
    }

    /// Clients of Barq send strings as they are.
    private static func path(of partition: some Collection<UInt8>, in transcript: Transcript) -> VirtualPath {
        let isPlain = transcript.lines.first?.httpHead.first?.contains("/barq-sync") ?? false
        let value = isPlain ? PartitionValue.canonical(plain: partition) : Array(partition)
        return VirtualPath(Array("/".utf8) + value)
    }

    func run() {
        for line in transcript.lines {
            switch (line.kind, line.isFromClient) {
            case ("http", true): open(line)
            case ("http", false): compareHandshake(line)
            case ("binary", true): receive(line)
            case ("binary", false): expect(line)
            case ("eof", true), ("close", true): close(line)
            default: break
            }
        }
    }

    private func differ(_ line: Transcript.Line, _ text: String) {
        differences.append("line \(line.number): \(text)")
    }

    // MARK: Handshakes

    private func open(_ line: Transcript.Line) {
        if line.connection == restartsBefore { rig.restart(over: InMemoryStore()) }
        let words = line.httpHead[0].split(separator: " ")
        var head = HTTPRequestHead(version: .http1_1, method: .GET, uri: String(words[1]))
        for header in line.httpHead.dropFirst() {
            let parts = header.split(separator: ":", maxSplits: 1)
            head.headers.add(name: String(parts[0]), value: parts[1].drop { $0 == " " }.description)
        }
        do {
            let handshake = try SyncHandshake(head, in: [.realm, .barq])
            connections[line.connection] = Replayed(rig.connect(handshake.negotiation))
            elements[line.connection] = handshake.negotiation.element
        } catch {
            differ(line, "handshake refused: \(error)")
        }
    }

    private var elements: [Int: String] = [:]

    private func compareHandshake(_ line: Transcript.Line) {
        let name = "Sec-WebSocket-Protocol: "
        let recorded = line.httpHead.first { $0.hasPrefix(name) }?.dropFirst(name.count)
        if recorded.map(String.init) != elements[line.connection] { differ(line, "subprotocol") }
    }

    private func close(_ line: Transcript.Line) {
        guard let replayed = connections.removeValue(forKey: line.connection) else { return }
        replayed.connection.wire.end()
        submit(replayed)
        rig.disconnect(replayed.connection)
    }

    // MARK: Clients

    private func receive(_ line: Transcript.Line) {
        guard let replayed = connections[line.connection] else { return differ(line, "no connection") }
        var message = line.message
        let session = SessionID(message.numbers.first ?? 0)
        switch message.kind {
        case "bind":
            let size = Int(message.numbers[1])
            replayed.paths[session] = Self.path(of: message.body.prefix(size), in: transcript)
            replayed.unbound.remove(session)
        case "ident":
            let ident = message.numbers[1], latest = message.numbers[5]
            replayed.clientIdents[session] = ClientFileID(ident)
            if let path = replayed.paths[session], let file = files[path] {
                if let salt = file.fileSalts[ident] { message.words[3] = "\(salt)" }
                if let salt = file.salts[latest] { message.words[7] = "\(salt)" }
            }
        case "unbind":
            replayed.unbound.insert(session)
        case "upload":
            if let path = replayed.paths[session], let ident = replayed.clientIdents[session],
                let newest = files[path]?.uploaded[ident]
            {
                message = withoutChangesets(upTo: newest, message)
            }
        default: break
        }
        replayed.connection.wire.receive(message.bytes)
        submit(replayed)
    }

    /// An UPLOAD without what an earlier session of the file has brought: the recorded server knew it even if it had
    /// not integrated it, whereas our files hear of it in its turn.
    private func withoutChangesets(upTo newest: ClientVersion, _ message: SyncMessage) -> SyncMessage {
        guard case .upload(_, let upload) = try? ClientMessageCodec().decode(message.bytes),
            upload.upload.changesets.contains(where: { $0.cursor.clientVersion <= newest })
        else { return message }
        var body: [UInt8] = []
        for entry in upload.upload.changesets where entry.cursor.clientVersion > newest {
            let numbers = [
                entry.cursor.clientVersion.rawValue, entry.cursor.serverVersion.rawValue, entry.timestamp.rawValue,
                entry.origin.rawValue, UInt64(entry.changeset.count),
            ]
            body += numbers.flatMap { Array("\($0) ".utf8) } + entry.changeset
        }
        let words = message.words
        return SyncMessage(words: [words[0], words[1], "0", "\(body.count)", "0"] + words[5...], body: body)
    }

    /// Passes on what a connection asks of its files, at once or in its turn.
    private func submit(_ replayed: Replayed) {
        for request in replayed.connection.wire.takeRequests() {
            let session = request.session.session.ident
            let ident = replayed.clientIdents[session] ?? 0
            let isWaiting = files[request.path]?.held.contains { $0.session == request.session } ?? false
            switch request.request {
            case .scan:
                replayed.scans[session] = request
            case .integrate(let upload):
                if let newest = upload.upload.changesets.map(\.cursor.clientVersion).max() {
                    files[request.path]?.uploaded[ident] = newest
                }
                files[request.path]?.held.append(
                    ReplayedFile.Held(session: request.session, ident: ident, upload: upload))
            case .close where isWaiting:
                files[request.path]?.held.append(ReplayedFile.Held(session: request.session, ident: ident, upload: nil))
            case .identify:
                inherit(request.path, ident, request.session)
                rig.submit([request])
            default:
                rig.submit([request])
            }
        }
    }

    // MARK: Integration

    /// The messages that an earlier session of the client file has left now wait for the new one; the earlier one ends.
    private func inherit(_ path: VirtualPath, _ ident: ClientFileID, _ session: SessionKey) {
        for (index, held) in (files[path]?.held ?? []).enumerated().reversed() where held.ident == ident {
            if held.upload == nil {
                release(path, index)
            } else {
                files[path]?.held[index].session = session
            }
        }
    }

    /// Integrates, in the recorded order, until the log of `path` has this version.
    private func integrate(_ path: VirtualPath, through version: ServerVersion) {
        while let file = files[path], file.version < Int(version.rawValue), file.version < file.order.count {
            let next = file.order[file.version].ident
            guard let index = file.held.firstIndex(where: { $0.ident == next && $0.upload != nil }) else { return }
            release(path, index)
        }
    }

    /// Acknowledgements without changesets, which make no version, up to this progress.
    private func acknowledge(_ path: VirtualPath, _ ident: ClientFileID, through clientVersion: ClientVersion) {
        while let held = files[path]?.held, let index = held.firstIndex(where: { $0.ident == ident }),
            let upload = held[index].upload, upload.changesetCount == 0, upload.progress.clientVersion <= clientVersion
        {
            release(path, index)
        }
    }

    private func release(_ path: VirtualPath, _ index: Int) {
        guard var file = files[path] else { return }
        let held = file.held.remove(at: index)
        file.version += held.upload?.changesetCount ?? 0
        // The end of a session comes right after the last of its uploads.
        let next = file.held.firstIndex { $0.session == held.session }
        let isEnd = next.map { file.held[$0].upload == nil } ?? false
        files[path] = file
        rig.submit([
            FileRequest(
                path: path, session: held.session, principal: Principal(app: ""), capabilities: .all,
                request: held.upload.map { .integrate($0) } ?? .close)
        ])
        if held.upload != nil, isEnd, let next { release(path, next) }
    }

    // MARK: Server

    private func expect(_ line: Transcript.Line) {
        let recorded = line.message
        guard recorded.kind != "log_message" else { return }
        // What was sent to a client that had left meanwhile is no answer to anything.
        guard let replayed = connections[line.connection] else { return }
        comparedCount += 1
        let session = session(of: recorded)
        if let download = ReceivedDownload(recorded), let path = replayed.paths[session] {
            integrate(path, through: download.progress.latest.version)
            acknowledge(path, replayed.clientIdents[session] ?? 0, through: download.progress.upload.clientVersion)
        }
        let kind = recorded.kind == "error" ? "json_error" : recorded.kind
        guard let ours = next(replayed, kind, session: session) else {
            if recorded.kind != "unbound", replayed.unbound.contains(session) { return }
            let errors = replayed.early.filter { $0.kind == "json_error" }.map {
                String(decoding: $0.body, as: UTF8.self)
            }
            return differ(line, "nothing was sent in place of \(recorded) \(errors.joined())")
        }
        compare(line, recorded, ours, replayed)
    }

    private func session(of message: SyncMessage) -> SessionID {
        switch message.kind {
        case "error": SessionID(message.numbers[3])
        case "json_error": SessionID(message.numbers[2])
        case "pong": 0
        default: SessionID(message.numbers[0])
        }
    }

    private func next(_ replayed: Replayed, _ kind: String, session: SessionID) -> SyncMessage? {
        func isWanted(_ message: SyncMessage) -> Bool {
            message.kind == kind && self.session(of: message) == session
        }
        if let index = replayed.early.firstIndex(where: isWanted) { return replayed.early.remove(at: index) }
        while true {
            if let outbound = replayed.connection.wire.next() {
                replayed.connection.record(outbound)
                guard let bytes = replayed.connection.sent.popLast() else { return nil }
                let message = SyncMessage(bytes)
                if isWanted(message) { return message }
                replayed.early.append(message)
            } else {
                submit(replayed)
                guard kind == "download", let scan = replayed.scans.removeValue(forKey: session) else { return nil }
                rig.submit([scan])
            }
        }
    }

    private func compare(
        _ line: Transcript.Line, _ recorded: SyncMessage, _ ours: SyncMessage, _ replayed: Replayed
    ) {
        let session = session(of: recorded)
        guard let path = replayed.paths[session] ?? (session == 0 ? VirtualPath("") : nil) else {
            return differ(line, "no session")
        }
        switch recorded.kind {
        case "ident":
            files[path]?.fileSalts[ours.numbers[1]] = Salt(ours.numbers[2])
            if ours.numbers[1] != recorded.numbers[1] { differ(line, "\(recorded), but here \(ours)") }
        case "download":
            guard var theirs = ReceivedDownload(recorded), let mine = ReceivedDownload(ours) else {
                return differ(line, "unreadable DOWNLOAD")
            }
            let latest = mine.progress.latest
            files[path]?.salts[latest.version.rawValue] = latest.salt
            theirs.progress.latest.salt = latest.salt
            if theirs != mine { differ(line, "\(theirs)\n     but here \(mine)") }
        case "error":
            replacedErrors.append("\(recorded.words[1]) to session \(recorded.words[4])")
            if ours.words[1] != recorded.words[1] { differ(line, "\(recorded), but here \(ours)") }
        default:
            if ours != recorded { differ(line, "\(recorded), but here \(ours)") }
        }
    }
}
