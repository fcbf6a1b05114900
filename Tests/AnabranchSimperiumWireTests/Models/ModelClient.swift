import AnabranchCore
import AnabranchSimperium

@testable import AnabranchSimperiumWire

/// A client of the wire with one bucket, made after what real ones were seen to do, their mistakes included.
///
/// It keeps what the server has (ghosts) and what its application sees (copies). What comes waits until it is read, so
/// that a test decides what the client knows.
final class ModelClient {
    let kind: Kind
    /// `clientid`
    private(set) var name: String
    private let tag: String
    private let pageSize: Int?
    let ledger: WorldLedger
    var kept = Kept()
    private var saved = Kept()
    private var processes = 1
    private var requestCount = 0

    // MARK: The state of a connection

    private var socket: TextClient?
    private var server: WorldServer?
    /// The port of the server that it was connected to last.
    private var lastPort: Int?
    /// True if the server was sent something, or changes, since `pump` was called.
    private(set) var hasSpoken = false, hasChanged = false
    private var beats = 0
    var watch: ChannelWatch
    /// Unread input: messages, and the changes of messages one by one.
    private var inbox: [Arrival] = []
    /// True if the server has said since the beginning of the connection what the client has missed.
    var isCaughtUp = false
    /// Changes that wait for the version that they were made from, by the entity.
    var gaps: [String: JSONValue] = [:]
    /// The changes of these entities that came after: node works off those of one entity in order.
    var waiting: [String: [JSONValue]] = [:]
    /// Entities that are listed and not yet fetched.
    var fetches: [String: Int64] = [:]
    var listed: [String: Ghost] = [:]
    var listedCV = ""
    /// True from the beginning of a listing to its end.
    var isListing = false
    /// True after `cv:?`, until the listing is over.
    var isStartingOver = false
    /// Changes that android is told while it fetches what was listed.
    var held: [JSONValue] = []
    /// How often the client was told of deletions by others, by the entity.
    private(set) var deletionsTold: [String: Int] = [:]
    /// The ports of the servers that have told the ghosts.
    var ghostPorts: [String: Int] = [:]
    /// Entities of node of which an edit was answered since it came to this server: their copies are put right if they
    /// are not what the server has.
    var answeredHere: Set<String> = []
    /// Those whose copies may differ all the same.
    var excused: Set<String> = []

    /// - Parameters:
    ///   - tag: the beginning of its `ccid`s. Two pages in one browser have one name.
    ///   - pageSize: nil for what its kind asks for.
    init(_ kind: Kind, name: String, tag: String? = nil, pageSize: Int? = nil, _ ledger: WorldLedger) {
        self.kind = kind
        self.name = name
        self.tag = tag ?? name
        self.pageSize = pageSize
        self.ledger = ledger
        watch = ChannelWatch(kind, client: name, ledger)
    }

    var isConnected: Bool { socket != nil }
    var port: Int? { server?.port }
    var hasUnread: Bool { !inbox.isEmpty }
    var isBusy: Bool {
        !kept.requests.isEmpty || !gaps.isEmpty || !fetches.isEmpty || isListing || !kept.owedDeletions.isEmpty
    }
    /// The entity of node whose copy is not what the server has, and should be; nil if there is none.
    var leftBehind: String? {
        answeredHere.subtracting(excused).sorted().first { kept.copies[$0] != kept.ghosts[$0]?.body }
    }
    /// True if it has seen a page of a listing, and another follows.
    var isBetweenPages: Bool { isListing && !listedCV.isEmpty }

    // MARK: Connections

    func connect(to server: WorldServer) async throws {
        guard socket == nil else { return }
        if lastPort != server.port { (answeredHere, excused) = ([], []) }
        lastPort = server.port
        self.server = server
        socket = try await TextClient(port: server.port, path: "/sock/1/\(WireRig.app)/websocket")
        watch = ChannelWatch(kind, client: name, ledger)
        (inbox, held, waiting, gaps, fetches, listed) = ([], [], [:], [:], [:], [:])
        (isListing, isStartingOver) = (false, false)
        // iOS has its changes answered before it lists.
        let isFirst = kind == .ios && kept.cv == nil && !kept.requests.isEmpty
        isCaughtUp = isFirst
        let command = kept.cv.map { "cv:\($0)" } ?? listing()
        let isWithin = kind == .android || kind == .browser && kept.cv == nil
        await sayWhole("0:init:\(opening(isWithin ? command : nil))")
        if kind == .node {
            // What was made offline comes before it says what it knows.
            for key in kept.requests.keys.sorted() where kept.requests[key]?.isSaid == false { await say(request: key) }
        }
        if isFirst { return await resend() }
        await finishChanges()
        if let cv = kept.cv { watch.asks(since: cv) } else { beginListing() }
        if !isWithin { await say(command) }
    }

    private func opening(_ command: String?) -> String {
        var members: [String: JSONValue] = [
            "name": .string(WorldServer.bucket), "clientid": .string(name), "token": .string(WorldServer.token),
            "app_id": .string(WireRig.app),
        ]
        members["cmd"] = command.map { JSONValue.string($0) }
        let own: [String: JSONValue] =
            switch kind {
            case .node: ["api": "1.1", "library": "node-simperium", "version": "0.0.1"]
            case .android: ["api": "1.1", "library": "android", "version": 0]
            case .ios: ["api": .real(1.1), "library": "ios", "version": "1.9.0", "username": "ann"]
            case .browser: ["build": 1]
            }
        return JSONValue.object(members.merging(own) { $1 }).encoded
    }

    /// Ends the connection. What was not read is lost.
    func cut() async {
        await socket?.cut()
        (socket, server, inbox) = (nil, nil, [])
    }

    /// Makes the version of the history that it stores an older one, as node's is if it is cut off at the wrong moment.
    func goBack() {
        guard kind == .node, let older = kept.olderCVs.first else { return }
        ledger.count(.wentBack)
        kept.cv = older
    }

    /// Saves what outlives the process.
    func save() { saved = kept }

    /// Ends the process: what was not saved is lost. A process of node is another client each time.
    func crash() async {
        await cut()
        if kind == .node {
            processes += 1
            (name, kept, deletionsTold) = ("\(tag).\(processes)", Kept(), [:])
            (answeredHere, excused) = ([], [])
        } else {
            kept = saved
        }
        ledger.count(kind == .node ? .clientRestarted : .crashed)
    }

    /// Takes what the server has sent so far. What it does for news comes between the answers to two heartbeats.
    func pump() async {
        (hasSpoken, hasChanged) = (false, false)
        guard let socket else { return }
        do {
            for _ in 0..<2 { try await socket.send("h:\(nextBeat())") }
            var answers = 0
            while answers < 2 {
                let message = try await socket.receive()
                if message.hasPrefix("h:") { answers += 1 } else { arrive(message) }
            }
        } catch {
            await cut()
        }
    }

    private func nextBeat() -> Int {
        if kind != .ios { beats += 2 }
        return kind == .ios ? 1 : beats
    }

    private func arrive(_ message: String) {
        ledger.record(event: "  \(name) is sent \(message.prefix(500))")
        guard message.hasPrefix("0:") else { return ledger.fail("\(name) is told \(message)") }
        let text = message.dropFirst(2)
        guard let json = try? JSONValue(parsing: text.drop { $0 != ":" }.dropFirst().utf8, depthMax: 200) else {
            if text == "cv:?" { watch.takeUnknownVersion() }
            return inbox.append(.message(text))
        }
        if text.hasPrefix("i:") { watch.takePage(json) }
        guard text.hasPrefix("c:") else { return inbox.append(.message(text)) }
        let changes = json.array ?? []
        watch.take(changes)
        for change in changes where change["o"] == "-" && change["clientid"] != .string(name) {
            deletionsTold[change["id"]?.string ?? "", default: 0] += 1
        }
        inbox += changes.map { Arrival.change($0) } + [.endOfChanges]
    }

    /// Reads some of what has come.
    func read(atMost countMax: Int = .max) async {
        for _ in 0..<min(countMax, inbox.count) where !inbox.isEmpty {
            switch inbox.removeFirst() {
            case .message(let text): await take(text)
            case .change(let change): await take(change)
            case .endOfChanges: if !isCaughtUp { await catchUp() }
            }
        }
    }

    // MARK: Saying

    private func sayWhole(_ text: String) async {
        hasSpoken = true
        ledger.record(event: "  \(name) sends \(text.prefix(500))")
        do { try await socket?.send(text) } catch { await cut() }
    }

    func say(_ text: String) async { await sayWhole("0:\(text)") }

    private func say(request key: String) async {
        guard let message = kept.requests[key]?.message, isConnected else { return }
        kept.requests[key]?.isSaid = true
        hasChanged = true
        await say(message)
    }

    func listing(after mark: String = "") -> String {
        switch kind {
        case .node: "i:1:\(mark)::\(pageSize ?? 10)"
        case .android: "i::\(mark)::\(pageSize ?? 50)"
        case .ios: "i::\(mark)::\(pageSize ?? 500)"
        case .browser: "i:1:\(mark)::\(pageSize ?? (mark.isEmpty ? 40 : 100))"
        }
    }

    /// Waits until changes that were sent are decided on, so that what is asked next is not a matter of chance.
    private func finishChanges() async {
        guard hasChanged, let server else { return }
        await pump()
        try? await server.finish()
        await pump()
    }

    private func beginListing() {
        (isListing, listedCV, listed, fetches) = (true, "", [:], [:])
        watch.asksForListing()
    }

    func list() async {
        await finishChanges()
        // If it is cut off meanwhile, it begins with this.
        kept.cv = nil
        beginListing()
        await say(listing())
    }

    /// Asks for what has come since a version.
    func ask(since cv: String) async {
        await finishChanges()
        watch.asks(since: cv)
        await say("cv:\(cv)")
    }

    /// What was under way before the connection is sent again after the first answer; by a browser, what never was.
    func catchUp() async {
        isCaughtUp = true
        guard kind == .browser else { return await resend() }
        for key in kept.requests.keys.sorted() where kept.requests[key]?.isSaid == false { await say(request: key) }
    }

    func resend() async {
        for key in kept.requests.keys.sorted() {
            // Node adds the old ghost, which means nothing.
            if kind == .node, let ghost = kept.ghosts[key], kept.requests[key]?.isDeletion == false {
                let data: JSONValue = ["version": .integer(ghost.version), "data": .object(ghost.body)]
                kept.requests[key]?.message.replaceLast("}", with: ",\"d\":\(data.encoded)}")
            }
            await say(request: key)
        }
    }

    /// So much time passes that what is not answered is sent again.
    func waitLong() async {
        guard isCaughtUp, isConnected else { return }
        for key in kept.requests.keys.sorted() {
            if kind == .android, let request = kept.requests[key], !request.isDeletion, !request.isWhole,
                let members = difference(of: key)
            {
                // The same request, with what the entity is now.
                let message = Self.message("M", key, request.ident, members)
                if message != request.message { ledger.count(.resentLarger) }
                kept.requests[key]?.message = message
            }
            if kind == .android || kind == .browser { await say(request: key) }
        }
    }

    // MARK: The application

    func edit(_ key: String, _ body: EntityBody) async {
        kept.copies[key] = body
        await changeOrMark(key)
    }

    func delete(_ key: String) async {
        guard kept.copies.removeValue(forKey: key) != nil else { return }
        // Whatever is written before the answer comes, node sends the removal only.
        if kind == .node, kept.requests[key] != nil { kept.owedDeletions.insert(key) }
        await changeOrMark(key)
    }

    /// Deletes all entities, as iOS can.
    func empty() async {
        guard isCaughtUp, isConnected else { return }
        ledger.count(.emptied)
        for key in kept.copies.keys where kept.requests[key] == nil { kept.copies[key] = nil }
        hasChanged = true
        await say(Self.message("EMPTY", WorldServer.bucket, nextIdent(), [:]))
    }

    private func changeOrMark(_ key: String) async {
        if kept.requests[key] != nil { kept.changed.insert(key) } else { await sendChange(key) }
    }

    /// The members of a request that makes the server have the copy; nil if it has.
    private func difference(of key: String) -> [String: JSONValue]? {
        guard let copy = kept.copies[key] else { return nil }
        let ghost = kept.ghosts[key], diff = ObjectDiff(from: ghost?.body ?? [:], to: copy)
        guard !diff.isEmpty else { return nil }
        var members = ["v": diff.json]
        if let ghost { members["sv"] = kind == .ios ? .string("\(ghost.version)") : .integer(ghost.version) }
        return members
    }

    /// Sends what makes the server have the copy.
    func sendChange(_ key: String) async {
        kept.changed.remove(key)
        if kept.copies[key] == nil {
            guard let ghost = kept.ghosts[key] else { return }
            return await send(key, "-", kind == .browser ? ["sv": .integer(ghost.version)] : [:])
        }
        guard let members = difference(of: key) else { return }
        guard kept.unfitting.remove(key) == nil else { return await sendWhole(key) }
        await send(key, "M", members)
    }

    func sendDeletion(_ key: String) async { await send(key, "-", [:]) }

    private func send(_ key: String, _ operation: String, _ members: [String: JSONValue]) async {
        let ident = nextIdent()
        kept.requests[key] = Request(
            ident: ident, message: Self.message(operation, key, ident, members), isDeletion: operation == "-",
            source: kept.ghosts[key]?.version)
        // Node says at once what it is told to; others first hear what they have missed.
        if isCaughtUp || kind == .node || kind == .android { await say(request: key) }
    }

    /// Sends the whole entity, in place of what was refused.
    func sendWhole(_ key: String) async {
        guard let copy = kept.copies[key] else { return }
        ledger.count(.wholeEntity)
        var members: [String: JSONValue] = ["d": .object(copy)]
        if kind == .android { members["v"] = ObjectDiff(from: kept.ghosts[key]?.body ?? [:], to: copy).json }
        let ident = kept.requests[key]?.ident ?? nextIdent()
        kept.requests[key] = Request(
            ident: ident, message: Self.message("M", key, ident, members), isDeletion: false, isWhole: true)
        await say(request: key)
    }

    private func nextIdent() -> String {
        requestCount += 1
        return "\(tag)-\(requestCount)"
    }

    private static func message(
        _ operation: String, _ key: String, _ ident: String, _ members: [String: JSONValue]
    ) -> String {
        String(Conversation.change(operation, key, ident, members).dropFirst(2))
    }
}

extension String {
    fileprivate mutating func replaceLast(_ end: String, with text: String) {
        if hasSuffix(end), !contains(",\"d\":") { self = String(dropLast(end.count)) + text }
    }
}
