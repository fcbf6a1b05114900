/// How long a client waits for what (`Spec/Protocol.md`, section 13). An application may change it.
public struct ClientTimers: Equatable, Sendable {
    /// For a connection: the name, TCP, TLS and the WebSocket.
    public var connectMilliseconds: Int64 = 120_000
    /// Between PINGs.
    public var pingMilliseconds: Int64 = 60_000
    /// For a PONG, from the decision to send the PING.
    public var pongMilliseconds: Int64 = 120_000
    /// A connection that follows another one so soon is a fast reconnect: `ClientSession.connected`.
    public var fastReconnectMilliseconds: Int64 = 60_000

    /// The defaults.
    public init() {}
}

/// When a connection's PINGs are due, and its PONGs overdue (`Spec/Protocol.md`, section 13).
///
///     waiting ─ due ─▶ PING sent ─ PONG ─▶ waiting
///
/// Times are milliseconds of a clock that never goes back.
struct PingSchedule: Sendable {
    private let timers: ClientTimers
    /// Of the next PING, and of the one on its way: when it was decided on.
    private var due: Int64
    /// The PING on its way.
    private var timestamp: Int64?
    /// The next PING is not to wait for its time.
    private var isHurried = false
    private var roundTrip: UInt64 = 0

    /// The first PING comes at any time of a period, lest those of many clients come at once.
    init(_ timers: ClientTimers, openedAt now: Int64, using randomness: inout some RandomNumberGenerator) {
        self.timers = timers
        due = now + Int64.random(in: 0...timers.pingMilliseconds, using: &randomness)
    }

    /// When there is something to do next: to send a PING, or to give up.
    func deadline(after now: Int64) -> Int64 {
        timestamp == nil && now < due ? due : due + timers.pongMilliseconds
    }

    /// Whether the server is silent, or does not even take a PING.
    func isOverdue(at now: Int64) -> Bool { now >= due + timers.pongMilliseconds }

    /// The next PING, if it is due.
    mutating func next(at now: Int64) -> ClientMessage? {
        guard timestamp == nil, now >= due else { return nil }
        timestamp = now
        return .ping(timestamp: now, roundTripMilliseconds: roundTrip)
    }

    /// The next PING is due now, or as soon as the one on its way is answered.
    mutating func hurry(at now: Int64) {
        if timestamp == nil { due = min(due, now) } else { isHurried = true }
    }

    /// - Throws: if it answers no PING.
    mutating func pong(
        _ timestamp: Int64, at now: Int64, using randomness: inout some RandomNumberGenerator
    ) throws(ProtocolError) {
        guard timestamp == self.timestamp else { throw ProtocolError(.badMessageOrder, "pong: answers no ping") }
        self.timestamp = nil
        roundTrip = UInt64(max(0, now - timestamp))
        let period = timers.pingMilliseconds - Int64.random(in: 0...timers.pingMilliseconds / 10, using: &randomness)
        due = isHurried ? now : now + max(0, period - max(0, now - due))
        isHurried = false
    }
}
