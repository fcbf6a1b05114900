public import AnabranchCore

/// The client's side of one connection (`Spec/Protocol.md`, sections 8.1 and 13): a pure machine that reads and writes
/// the bytes of one WebSocket for the `ClientSession`s on it.
///
///     open ─ violation, or JSON_ERROR of the connection ─▶ failed
///
/// It does not hold the sessions. Their owner passes on the messages that it decodes to the sessions that they name,
/// and enlists a session that has something to say; the sessions then take turns, one message of one, the next message
/// of the next, and PING before all. Messages that come after the connection has failed are skipped unread.
///
/// Nothing that a server sends traps. A longer message than `Limits.messageBytesMax` does not come here: the host ends
/// the WebSocket. Times are milliseconds of a clock that never goes back.
public struct ClientConnection: Sendable {
    /// The version that is spoken.
    public let version: ProtocolVersion
    /// The mode that is spoken.
    public let mode: SyncMode
    private let incoming: ServerMessageCodec
    private let outgoing: ClientMessageCodec

    private var pings: PingSchedule
    /// The sessions that may have something to say, in the order of their turns; each once.
    private var sendQueue: [SessionID] = []
    /// All sessions that there have been, including those that are finished.
    private var bound: Set<SessionID> = []
    /// True once nothing more will be sent or received: the socket has to be closed.
    public private(set) var hasFailed = false

    /// A connection that has just been opened.
    ///
    /// - Parameters:
    ///   - version: the version that `ClientHandshake` found.
    ///   - randomness: decides when the first PING is sent.
    public init(
        _ version: ProtocolVersion, _ mode: SyncMode, limits: Limits = Limits(), timers: ClientTimers = ClientTimers(),
        openedAt now: Int64, using randomness: inout some RandomNumberGenerator
    ) {
        (self.version, self.mode) = (version, mode)
        incoming = ServerMessageCodec(limits: limits, mode: mode, version: version)
        outgoing = ClientMessageCodec(limits: limits, mode: mode)
        pings = PingSchedule(timers, openedAt: now, using: &randomness)
    }

    // MARK: - To the server

    /// A session may have something to say, or has just said something.
    public mutating func schedule(_ session: SessionID) {
        if !hasFailed, !sendQueue.contains(session) { sendQueue.append(session) }
    }

    /// The next thing to do; nil if there is nothing to say. To be called until then whenever the socket can take more,
    /// a session was enlisted, or the time of `deadline` has come.
    public mutating func next(at now: Int64) -> Turn? {
        guard !hasFailed else { return nil }
        if let ping = pings.next(at: now) { return .ping(outgoing.encode(ping)) }
        return sendQueue.isEmpty ? nil : .session(sendQueue.removeFirst())
    }

    /// The bytes of a message that a session has to send.
    public mutating func encode(_ message: ClientMessage) -> EncodedMessage {
        if case .bind(let session, _) = message { bound.insert(session) }
        return outgoing.encode(message)
    }

    /// The sender whose turn it is.
    public enum Turn: Equatable, Sendable {
        /// To be sent.
        case ping(EncodedMessage)
        /// Call `ClientSession.next`. If it has a message, encode and send it, and schedule the session again, after
        /// the others.
        case session(SessionID)
    }

    // MARK: - From the server

    /// Takes one WebSocket binary message, whatever is in it.
    ///
    /// - Returns: what the caller has to do about it, if anything.
    /// - Throws: if it is not a message of the protocol, or names a session that never existed: the connection has to
    ///   be closed.
    public mutating func receive(
        _ message: [UInt8], at now: Int64, using randomness: inout some RandomNumberGenerator
    ) throws(ProtocolError) -> Event? {
        guard !hasFailed else { return nil }
        do throws(ProtocolError) {
            return try receive(try incoming.decode(message), now, &randomness)
        } catch {
            fail()
            throw error
        }
    }

    private mutating func receive(
        _ message: ServerMessage, _ now: Int64, _ randomness: inout some RandomNumberGenerator
    ) throws(ProtocolError) -> Event? {
        switch message {
        case .pong(let timestamp):
            try pings.pong(timestamp, at: now, using: &randomness)
            return nil
        case .log(session: 0, let message): return .log(message)
        case .error(session: 0, let error):
            fail()
            return .failed(error)
        case .ident(let session, _), .download(let session, _), .mark(let session, _), .unbound(let session),
            .log(let session, _), .error(let session, _), .queryError(let session, _),
            .testCommand(let session, _, _):
            guard bound.contains(session) else {
                throw ProtocolError(.badSessionIdent, "\(message.kind.rawValue): no such session")
            }
            return .session(session, message)
        }
    }

    /// Ends the connection after a session has thrown: nothing more will be sent or received.
    public mutating func fail() {
        hasFailed = true
        sendQueue = []
    }

    /// A task that a message of the server sets the caller.
    public enum Event: Equatable, Sendable {
        /// Pass the message on to the session; ignore it if that session is finished and gone.
        case session(SessionID, ServerMessage)
        /// The server has ended the connection, which has to be closed. The sessions do what `ErrorMessage.reaction`
        /// says, and `ConnectionEnd.failed` is the reason for `RetryDelay`.
        case failed(ErrorMessage)
        /// A line for the client's log.
        case log(LogMessage)
    }

    // MARK: - Time

    /// The time by which something has to be done even if nothing arrives: to call `next`, or to look at `isOverdue`.
    public func deadline(after now: Int64) -> Int64 { pings.deadline(after: now) }

    /// True if a PONG has not come in time: the connection is dead, and has to be closed.
    public func isOverdue(at now: Int64) -> Bool { pings.isOverdue(at: now) }

    /// Something suggests that the connection may be dead, such as a change of the network: PING is sent now.
    public mutating func pingNow(at now: Int64) { pings.hurry(at: now) }
}

extension ServerMessage {
    var kind: Kind {
        switch self {
        case .ident: .ident
        case .download: .download
        case .mark: .mark
        case .unbound: .unbound
        case .pong: .pong
        case .log: .log
        case .error: .error
        case .queryError: .queryError
        case .testCommand: .testCommand
        }
    }
}
