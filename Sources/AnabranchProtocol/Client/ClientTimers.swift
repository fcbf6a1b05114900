/// The times that a client waits (`Spec/Protocol.md`, section 13). An application may change them.
public struct ClientTimers: Equatable, Sendable {
    /// The time to make a connection: the name, TCP, TLS and the WebSocket.
    public var connectMilliseconds: Int64 = 120_000
    /// The time between PINGs.
    public var pingMilliseconds: Int64 = 60_000
    /// The time to receive a PONG, from the decision to send the PING.
    public var pongMilliseconds: Int64 = 120_000
    /// A connection that follows another one within this time is a fast reconnect: `ClientSession.connected`.
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
    /// The time of the next PING, or if one is on its way, the time at which it was decided on.
    private var due: Int64
    /// The timestamp of the PING on its way.
    private var timestamp: Int64?
    /// The next PING is not to wait for its time.
    private var isHurried = false
    private var roundTrip: UInt64 = 0

    /// The first PING comes at any time of a period, so that the PINGs of many clients do not come at once.
    init(_ timers: ClientTimers, openedAt now: Int64, using randomness: inout some RandomNumberGenerator) {
        self.timers = timers
        due = now + Int64.random(in: 0...timers.pingMilliseconds, using: &randomness)
    }

    /// The time of the next thing to do: to send a PING, or to give up.
    func deadline(after now: Int64) -> Int64 {
        timestamp == nil && now < due ? due : due + timers.pongMilliseconds
    }

    /// True if the server is silent, or does not even take a PING.
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

    /// - Throws: if it is not the answer to a PING.
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
