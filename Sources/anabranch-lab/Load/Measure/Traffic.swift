import Synchronization

/// Counts the bytes of all messages.
final class Traffic: Sendable {
    struct Bytes: Encodable, Equatable {
        var sent: Int
        var received: Int

        static func - (left: Bytes, right: Bytes) -> Bytes {
            Bytes(sent: left.sent - right.sent, received: left.received - right.received)
        }
    }

    private let sent = Atomic(0)
    private let received = Atomic(0)

    var bytes: Bytes { Bytes(sent: sent.load(ordering: .relaxed), received: received.load(ordering: .relaxed)) }

    func send(_ count: Int) { sent.wrappingAdd(count, ordering: .relaxed) }

    func receive(_ count: Int) { received.wrappingAdd(count, ordering: .relaxed) }
}
