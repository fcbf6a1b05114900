import AnabranchCore
import AnabranchHistory
import AnabranchServer
import Logging

/// One connection of a client, with its channels.
///
/// Its loop is the only one that touches its state. Messages are handled in their order, and each is answered before
/// the next is read, but for changes: they are decided on while the loop goes on.
final class SimperiumConnection {
    let socket: TextSocket
    let wire: SimperiumWire
    let inbox: Inbox
    /// The app of the URL; empty if it names none.
    let app: String
    private let framing: SocketPath.Framing
    private var nextHeartbeat: ContinuousClock.Instant?
    var channels: [ChannelName: Channel] = [:]
    /// The clients of channels whose logins have ended.
    var ended: [ChannelName: String] = [:]
    private var unreadable = 0
    private var serial = 0
    private var inits = MinuteCount()
    private var changes = MinuteCount()
    private var skips = MinuteCount()
    private var nextLoginCheck: ContinuousClock.Instant
    /// The number of the permissions that the channels were checked with.
    private var permissionsNumber: Int
    /// The number of the endings after which its logins were looked at.
    private var endingsNumber: Int

    init(_ socket: TextSocket, _ wire: SimperiumWire, _ path: SocketPath) {
        self.socket = socket
        self.wire = wire
        app = path.app
        framing = path.framing
        inbox = Inbox(socket)
        nextLoginCheck = .now + .seconds(wire.limits.loginCheckSeconds)
        permissionsNumber = wire.permissionsNumber
        endingsNumber = wire.endingsNumber
    }

    /// The longest message of a client that has opened no channel, in bytes: it may be anybody. And the longest `init`.
    static let strangerBytesMax = 64 << 10

    /// Something that ends the connection.
    enum End: Error {
        /// The socket is gone.
        case gone
        /// The server closes it.
        case closed(UInt16, String)
    }

    func run() async {
        defer { for channel in channels.values { channel.file.remove(channel, of: socket) } }
        do {
            if framing == .sockJS {
                try await sendFrame(SockJSFrame.opening)
                nextHeartbeat = .now + SockJSFrame.heartbeatInterval
            }
            while let event = await socket.next(until: deadline) {
                try await recheckPermissions()
                try await recheckLogins()
                if case .text(let text) = event {
                    guard text.utf8.count <= Self.strangerBytesMax || !channels.isEmpty || !ended.isEmpty else {
                        throw End.closed(1008, "a long message without a channel")
                    }
                    for message in try messages(in: text) { try await handle(message) }
                }
                if event == .woken { try await handleNews() }
                try await handleTime()
            }
        } catch End.closed(let code, let reason) {
            await close(code, reason)
        } catch End.gone {
            return
        } catch {
            if !(error is CancellationError) {
                wire.logger.warning("simperium: a connection ends", metadata: ["reason": "\(error)"])
            }
            // Every client comes back, and sends again what was not answered.
            await close(1013, "try again later")
        }
    }

    func send(_ text: String) async throws {
        try await sendFrame(framing == .sockJS ? SockJSFrame.message(text) : text)
    }

    private func sendFrame(_ text: String) async throws {
        guard await socket.send(text) else { throw End.gone }
    }

    private func close(_ code: UInt16, _ reason: String) async {
        if framing == .sockJS { _ = await socket.send(SockJSFrame.closing(reason)) }
        socket.close(code: code, reason: reason)
    }

    private func messages(in text: String) throws -> [String] {
        guard framing == .sockJS else { return [text] }
        guard let messages = SockJSFrame.messages(in: text) else { throw End.closed(1008, "not a frame of SockJS") }
        return messages
    }

    // MARK: Messages

    private func handle(_ text: String) async throws {
        switch Message(text) {
        case .heartbeat(let answer): try await send("h:\(answer)")
        case .log(let line):
            var told: Set<ObjectIdentifier> = []
            for channel in channels.values where told.insert(ObjectIdentifier(channel.file)).inserted {
                channel.file.questions.addLine(line)
            }
        case .command(let name, "init", let payload):
            guard inits.add(atMost: wire.limits.initsPerMinuteMax) else { throw End.closed(1013, "too many inits") }
            try await open(name, payload)
        case .command(let name, let command, let payload):
            if let channel = channels[name] { return try await handle(command, payload, on: channel) }
            if command == "c", let client = ended[name] {
                return try await refuse(payload, 401, client: client, on: name)
            }
            try await send("\(name.prefix)auth:{\"msg\":\"not authorized\",\"code\":401}")
        case .unreadable:
            unreadable += 1
            if unreadable >= wire.limits.unparsableMax { throw End.closed(1008, "messages that cannot be read") }
        }
    }

    /// Carries out a command on an open channel.
    func handle(_ command: Substring, _ payload: Substring, on channel: Channel) async throws {
        switch command {
        case "i": try await list(ListingRequest(payload), on: channel)
        case "e": try await tellEntity(payload, on: channel)
        case "cv": try await catchUp(from: payload, on: channel)
        case "c": try await change(payload, on: channel)
        case "index": channel.file.questions.answer(payload, of: channel)
        default: break
        }
    }

    // MARK: Channels

    /// The number of the next channel.
    func nextSerial() -> Int {
        serial += 1
        return serial
    }

    func close(_ name: ChannelName) {
        guard let channel = channels.removeValue(forKey: name) else { return }
        channel.file.remove(channel, of: socket)
    }

    /// Counts changes.
    func countChange() throws {
        guard changes.add(atMost: wire.limits.changesPerMinuteMax) else { throw End.closed(1013, "too many changes") }
    }

    /// Counts the changes by which a bucket is emptied.
    func countDeletions(_ count: Int) throws {
        guard changes.addAtOnce(count, atMost: wire.limits.changesPerMinuteMax) else {
            throw End.closed(1013, "too many changes")
        }
    }

    /// Counts entities that a listing passes over: they cost as much as others, although they are not sent.
    func countSkips(_ count: Int) throws {
        guard skips.addAtOnce(count, atMost: wire.limits.skipsPerMinuteMax) else {
            throw End.closed(1013, "listings pass over too many entities")
        }
    }

    // MARK: Time

    /// The time of the next action, if nothing else happens before.
    private var deadline: ContinuousClock.Instant {
        let first = channels.values.filter(\.isListening).compactMap(\.firstLeftBehind).min()
        let heals = first.map { $0 + wire.limits.healDelay }
        return min(heals ?? nextLoginCheck, nextLoginCheck, nextHeartbeat ?? nextLoginCheck)
    }

    private func handleTime() async throws {
        let now = ContinuousClock.now
        if let time = nextHeartbeat, now >= time {
            nextHeartbeat = now + SockJSFrame.heartbeatInterval
            try await sendFrame(SockJSFrame.heartbeat)
        }
        for channel in channels.values {
            guard channel.isListening, let first = channel.firstLeftBehind, now >= first + wire.limits.healDelay
            else { continue }
            try await heal(channel, at: now)
            channel.findFirstLeftBehind()
        }
    }

    /// Ends the channels whose logins have ended: from time to time, and after an operator has ended some.
    private func recheckLogins() async throws {
        let now = ContinuousClock.now, number = wire.endingsNumber
        guard now >= nextLoginCheck || number != endingsNumber else { return }
        (nextLoginCheck, endingsNumber) = (now + .seconds(wire.limits.loginCheckSeconds), number)
        let logins = Set(channels.values.compactMap(\.principal.login))
        guard !logins.isEmpty else { return }
        let endedLogins = await wire.authenticator.ended(among: logins)
        for channel in Array(channels.values) where channel.principal.login.map(endedLogins.contains) == true {
            try await end(channel, 401, "Token invalid")
        }
    }

    /// Ends the channels whose users may not read any more.
    private func recheckPermissions() async throws {
        let number = wire.permissionsNumber
        guard number != permissionsNumber else { return }
        permissionsNumber = number
        for channel in Array(channels.values)
        where wire.permission(for: channel.principal, on: channel.file.path) < .read {
            try await end(channel, 500, "No right to the bucket")
        }
    }

    private func end(_ channel: Channel, _ code: Int, _ reason: String) async throws {
        close(channel.name)
        ended[channel.name] = channel.client
        try await refuse(channel.name, code, reason, isOld: channel.isOld)
    }
}

/// A count that begins again each minute.
struct MinuteCount {
    private var count = 0
    private var end = ContinuousClock.now + .seconds(60)

    /// - Returns: false if it is too many now; then nothing is counted.
    mutating func add(_ number: Int = 1, atMost max: Int) -> Bool {
        let now = ContinuousClock.now
        if now >= end { (count, end) = (0, now + .seconds(60)) }
        guard count + number <= max else { return false }
        count += number
        return true
    }

    /// Adds the entities that one request concerns. One request alone may concern any number.
    mutating func addAtOnce(_ number: Int, atMost max: Int) -> Bool { add(min(number, max / 2), atMost: max) }
}
