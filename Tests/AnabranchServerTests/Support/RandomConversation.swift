import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchTesting

@testable import AnabranchServer

/// A random conversation of a few clients with a server: mostly what real clients would say, now and then something
/// they must not. Every step is told to our server, and written down for another one.
final class RandomConversation {
    /// The steps of the clients: lines for `Models/server_bridge.py`.
    private(set) var script: [String] = []
    /// The answers of our server to each step: connection and message, nil for a connection that it dropped.
    private(set) var answers: [[(connection: Int, message: [UInt8]?)]] = []

    private var random: SeededRandom
    /// The changesets come in any order, and the other server applies nothing either.
    private let rig = WireRig(keepsState: false, destructiveSchema: .allow)
    private let changesets: [[UInt8]]
    private var connections: [Int: RigConnection] = [:]
    private var connectionCount = 0
    private var sessionCount: UInt64 = 0
    private var sessions: [Session] = []
    private var files: [ClientFile] = []
    /// The partition of each session, by connection and ident, and the salts that our server has said.
    private var partitions: [String: String] = [:]
    private var fileSalts: [String: UInt64] = [:]
    private var versionSalts: [String: UInt64] = [:]
    private var time: UInt64 = 300_000_000_000

    private struct Session {
        enum Phase { case allocating, waiting, running, failed }

        let connection: Int
        let ident: UInt64
        let partition: String
        var phase: Phase
        /// Index into `files`.
        var file: Int?
        /// The progress of the last UPLOAD.
        var sent = UploadCursor()
    }

    /// The file of a client.
    private struct ClientFile {
        let partition: String
        let ident: UInt64
        var download = DownloadCursor()
        var latest: UInt64 = 0
        var acknowledged = UploadCursor()
        var version: UInt64 = 1
        /// Everything it ever uploaded, to be sent again where it was not acknowledged.
        var entries: [(cursor: UploadCursor, timestamp: UInt64, changeset: [UInt8])] = []
    }

    /// - Parameter changesets: what clients upload.
    init(seed: UInt64, changesets: [[UInt8]]) {
        random = SeededRandom(seed: seed)
        self.changesets = changesets
    }

    func run(steps: Int) {
        for _ in 0..<steps { step() }
    }

    // MARK: Steps

    private func step() {
        if connections.isEmpty || connections.count < 3 && random.isOne(in: 10) { return connect() }
        let connection = connections.keys.sorted().randomElement(using: &random) ?? 0
        if random.isOne(in: 40) || connections[connection]?.isOver == true && random.isOne(in: 3) {
            return disconnect(connection)
        }
        if random.isOne(in: 40) { return say(connection, stray(on: connection)) }
        if random.isOne(in: 12) {
            return say(connection, SyncMessage(words: ["ping", "\(random.number(0...99))", "0"]))
        }
        let own = sessions.indices.filter { sessions[$0].connection == connection }
        guard let index = own.randomElement(using: &random), !random.isOne(in: 8) else { return bind(connection) }
        switch sessions[index].phase {
        case .waiting: identify(index)
        case .running: act(index)
        case .allocating, .failed: unbind(index)
        }
    }

    private func connect() {
        var versions = Array(2...14).reversed().map { "com.mongodb.realm-sync#\($0)" }
        switch random.number(0...19) {
        case 0: versions = ["com.mongodb.realm-query-sync#14", "com.mongodb.realm-query-sync#13"]
        case 1: versions = ["com.mongodb.realm-sync#17", "com.mongodb.realm-sync#16"]
        case 2...6: versions = ["com.mongodb.realm-sync/6", "com.mongodb.realm-sync/5", "com.mongodb.realm-sync/2"]
        default: break
        }
        open(offer: versions.joined(separator: ", "))
    }

    /// Opens the next connection.
    func open(offer: String) {
        connectionCount += 1
        guard let negotiation = try? Negotiation(offer: offer) else { return }
        connections[connectionCount] = rig.connect(negotiation)
        finish(#"["connect", \#(connectionCount), "\#(offer)"]"#)
    }

    private func disconnect(_ connection: Int) {
        if let gone = connections.removeValue(forKey: connection) { rig.disconnect(gone) }
        sessions.removeAll { $0.connection == connection }
        finish(#"["disconnect", \#(connection)]"#)
    }

    private func bind(_ connection: Int) {
        sessionCount += 1
        let partition = ["/a", "/a", "/b"].randomElement(using: &random) ?? ""
        let needsIdent = files.count { $0.partition == partition } < 2 || random.isOne(in: 10)
        let empty = random.isOne(in: 40)
        let body = empty ? "" : partition
        sessions.append(
            Session(
                connection: connection, ident: sessionCount, partition: partition,
                phase: empty ? .failed : needsIdent ? .allocating : .waiting))
        say(
            connection,
            SyncMessage(
                words: ["bind", "\(sessionCount)", "\(body.utf8.count)", "0", needsIdent ? "1" : "0", "0"],
                body: Array(body.utf8)))
    }

    private func identify(_ index: Int) {
        let session = sessions[index]
        let candidates = files.indices.filter { files[$0].partition == session.partition }
        guard let chosen = session.file ?? candidates.randomElement(using: &random) else { return unbind(index) }
        let file = files[chosen]
        sessions[index].file = chosen
        sessions[index].phase = .running
        sessions[index].sent = UploadCursor()
        say(
            session.connection,
            SyncMessage(words: [
                "ident", "\(session.ident)", "\(file.ident)", "{f:\(file.partition):\(file.ident)}",
                "\(file.download.serverVersion)", "\(file.download.clientVersion)", "\(file.latest)",
                "{v:\(file.partition):\(file.latest)}",
            ]))
    }

    private func act(_ index: Int) {
        let session = sessions[index]
        switch random.number(0...19) {
        case 0...1: unbind(index)
        case 2...4:
            say(session.connection, SyncMessage(words: ["mark", "\(session.ident)", "\(random.number(1...9))"]))
        case 5 where random.isOne(in: 4):
            let text = Array(#"{"message":"no"}"#.utf8)
            let code = [212, 112, 233, 201].randomElement(using: &random) ?? 0
            say(
                session.connection,
                SyncMessage(words: ["json_error", "\(code)", "\(text.count)", "\(session.ident)"], body: text))
            sessions[index].phase = .failed
        default: upload(index)
        }
    }

    private func unbind(_ index: Int) {
        let session = sessions.remove(at: index)
        say(session.connection, SyncMessage(words: ["unbind", "\(session.ident)"]))
    }

    private func upload(_ index: Int) {
        let session = sessions[index]
        guard let number = session.file else { return }
        var file = files[number]
        let isFirst = session.sent == UploadCursor()
        var entries = isFirst ? file.entries.filter { $0.cursor.clientVersion > file.acknowledged.clientVersion } : []
        var base = max(file.entries.last?.cursor.serverVersion ?? 0, session.sent.serverVersion)
        base = min(max(base, file.acknowledged.serverVersion), file.download.serverVersion)
        for _ in 0..<random.number(0...3) {
            file.version += random.number(1...2)
            base = ServerVersion(random.number(base.rawValue...file.download.serverVersion.rawValue))
            time += random.number(0...3)
            var changeset = changesets.randomElement(using: &random) ?? []
            if random.isOne(in: 80) { changeset = changeset.dropLast() }
            let cursor = UploadCursor(clientVersion: ClientVersion(file.version), serverVersion: base)
            let entry = (cursor, time, changeset)
            entries.append(entry)
            file.entries.append(entry)
        }
        file.version += random.number(0...1)
        let progress = UploadCursor(
            clientVersion: ClientVersion(file.version),
            serverVersion: ServerVersion(random.number(base.rawValue...file.download.serverVersion.rawValue)))
        files[number] = file
        sessions[index].sent = progress
        let origin = random.isOne(in: 60) ? file.ident : 0
        var body: [UInt8] = []
        for entry in entries {
            let numbers = [
                entry.cursor.clientVersion.rawValue, entry.cursor.serverVersion.rawValue, entry.timestamp, origin,
                UInt64(entry.changeset.count),
            ]
            body += numbers.flatMap { Array("\($0) ".utf8) } + entry.changeset
        }
        let packed = random.isOne(in: 3) ? deflated(body) : nil
        say(
            session.connection,
            SyncMessage(
                words: [
                    "upload", "\(session.ident)", packed == nil ? "0" : "1", "\(body.count)", "\(packed?.count ?? 0)",
                    "\(progress.clientVersion)", "\(progress.serverVersion)", "\(file.download.serverVersion)",
                ], body: packed ?? body))
    }

    /// A message out of nowhere.
    private func stray(on connection: Int) -> SyncMessage {
        let live = sessions.filter { $0.connection == connection }.randomElement(using: &random)?.ident
        let session = "\(random.isOne(in: 4) ? random.number(1...max(1, sessionCount)) : live ?? 1)"
        let words = [
            ["mark", session, "1"], ["unbind", session], ["ident", session, "2", "5", "0", "0", "0", "0"],
            ["upload", session, "0", "0", "0", "1", "0", "0"], ["bind", session, "0", "0", "0", "0"],
            ["renew", session],
            ["mark", "0", "1"], ["mark", session, "0"], ["ping", "-1", "0"], ["ping", "x", "0"], ["", ""],
            ["upload", session, "1", "9", "0", "1", "0", "0"], ["ident", session, "99", "5", "0", "0", "0", "0"],
            ["upload", session, "0", "14", "0", "9", "0", "0"],
        ].randomElement(using: &random)
        let entry = random.isOne(in: 2) ? "9 0 5 0 99 abc" : "9 0 x 0 99 abc"
        return SyncMessage(words: words ?? [], body: words?.count == 8 && words?[3] == "14" ? Array(entry.utf8) : [])
    }

    // MARK: Saying

    /// Says it, most of the time unchanged.
    private func say(_ connection: Int, _ message: SyncMessage) {
        var message = message
        if random.isOne(in: 25) {
            let good = message
            spoil(&message)
            if isNamedDifference(message) { message = good }
        }
        tell(connection, message)
    }

    /// Tells both servers.
    func tell(_ connection: Int, _ message: SyncMessage) {
        let words = message.words.joined(separator: " ")
        let hex = message.body.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        let ours = SyncMessage(words: message.words.map(translated), body: message.body)
        if ours.kind == "bind", ours.words.count > 1 {
            partitions["\(connection) \(ours.words[1])"] = String(decoding: ours.body, as: UTF8.self)
        }
        connections[connection]?.wire.receive(ours.bytes)
        finish(#"["message", \#(connection), "\#(words)", "\#(hex)"]"#)
    }

    private func spoil(_ message: inout SyncMessage) {
        let index = Int(random.number(0...UInt64(message.words.count - 1)))
        switch random.number(0...9) {
        case 0: message.words.remove(at: index)
        case 1: message.words.insert("1", at: index)
        case 2:
            message.words[index] =
                ["-1", "", "+1", "9223372036854775808", "18446744073709551616"]
                .randomElement(using: &random) ?? ""
        case 3: message.body.append(0)
        case 4 where !message.body.isEmpty: message.body.removeLast()
        case 5 where message.kind == "upload" && message.words[2] == "1":
            message.body[Int(random.number(0...UInt64(message.body.count - 1)))] ^= UInt8(random.number(1...255))
        default:
            guard index > 0, let number = UInt64(message.words[index]) else { return }
            let wrong = random.isOne(in: 2) ? number + 1 : max(1, number) - 1
            message.words[index] = "\(wrong)"
            if message.kind == "ident", message.words.count == 8, index == 6 { adjustSalt(&message, to: wrong) }
        }
    }

    /// The salt belongs to the version; which versions share a salt is a server's own affair.
    private func adjustSalt(_ message: inout SyncMessage, to version: UInt64) {
        let name = message.words[7].prefix { $0 != "}" }.split(separator: ":").prefix(2) + ["\(version)"]
        let salt = name.joined(separator: ":") + "}"
        message.words[7] = version == 0 || translated(salt) != "0" ? salt : "7"
    }

    /// Where the two servers are meant to differ; `DifferentialTests` shows each case by itself.
    private func isNamedDifference(_ message: SyncMessage) -> Bool {
        let words = message.words.map(translated)
        let hasVersionWithoutSalt = words.count == 8 && words[0] == "ident" && words[6] != "0" && words[7] == "0"
        return hasVersionWithoutSalt || words[0] == "json_error"
    }

    private func translated(_ word: String) -> String {
        let name = word.dropFirst(3).dropLast()
        if word.hasPrefix("{f:") { return "\(fileSalts[String(name)] ?? 0)" }
        if word.hasPrefix("{v:") { return "\(versionSalts[String(name)] ?? 0)" }
        return word
    }

    // MARK: Hearing

    private func finish(_ line: String) {
        rig.run()
        var said: [(Int, [UInt8]?)] = []
        for (number, connection) in connections.sorted(by: { $0.key < $1.key }) {
            for message in connection.sent {
                said.append((number, message))
                hear(number, SyncMessage(message))
            }
            connection.sent = []
            if connection.wire.isSuperseded {
                said.append((number, nil))
                connections[number] = nil
                sessions.removeAll { $0.connection == number }
            }
        }
        script.append(line)
        answers.append(said)
    }

    private func hear(_ connection: Int, _ message: SyncMessage) {
        let numbers = message.numbers
        let ident = message.kind == "json_error" ? numbers[2] : numbers[0]
        let partition = partitions["\(connection) \(ident)"] ?? ""
        if message.kind == "ident" { fileSalts["\(partition):\(numbers[1])"] = numbers[2] }
        if message.kind == "download" { versionSalts["\(partition):\(numbers[3])"] = numbers[4] }
        guard let index = sessions.firstIndex(where: { $0.connection == connection && $0.ident == ident }) else {
            return
        }
        switch message.kind {
        case "ident":
            sessions[index].file = files.count
            sessions[index].phase = .waiting
            files.append(ClientFile(partition: partition, ident: numbers[1]))
        case "download":
            guard let file = sessions[index].file else { return }
            files[file].download = DownloadCursor(
                serverVersion: ServerVersion(numbers[1]), clientVersion: ClientVersion(numbers[2]))
            files[file].latest = numbers[3]
            files[file].acknowledged = UploadCursor(
                clientVersion: ClientVersion(numbers[5]), serverVersion: ServerVersion(numbers[6]))
        case "json_error":
            sessions[index].phase = .failed
        default:
            break
        }
    }
}
