import Synchronization

/// Counts the bytes of all messages.
package final class Traffic: Sendable {
    package struct Bytes: Encodable, Equatable {
        package var sent: Int
        package var received: Int

        package init(sent: Int, received: Int) { (self.sent, self.received) = (sent, received) }

        package static func - (left: Bytes, right: Bytes) -> Bytes {
            Bytes(sent: left.sent - right.sent, received: left.received - right.received)
        }
    }

    private let sent = Atomic(0)
    private let received = Atomic(0)

    package init() {}

    package var bytes: Bytes { Bytes(sent: sent.load(ordering: .relaxed), received: received.load(ordering: .relaxed)) }

    package func send(_ count: Int) { sent.wrappingAdd(count, ordering: .relaxed) }

    package func receive(_ count: Int) { received.wrappingAdd(count, ordering: .relaxed) }
}
