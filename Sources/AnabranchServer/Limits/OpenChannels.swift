import NIOCore
import Synchronization

/// The accepted sockets of one listener, with a limit for all of them and one for each address.
final class OpenChannels: Sendable {
    /// The limit that a new socket exceeds. The raw value is a label of a metric.
    enum LimitError: String, Error {
        case connections, address
    }

    private let countMax: Int
    private let addresses: ConnectionLimit
    private let channels = Mutex<[ObjectIdentifier: any Channel]>([:])

    init(countMax: Int, countPerAddressMax: Int = .max) {
        self.countMax = countMax
        addresses = ConnectionLimit(countMax: countPerAddressMax)
    }

    var count: Int { channels.withLock { $0.count } }

    /// - Parameter address: the address to count the socket for; nil if it does not count, or not yet.
    func admit(_ channel: any Channel, from address: SocketAddress?) throws(LimitError) {
        let key = ObjectIdentifier(channel)
        let isAdmitted = channels.withLock { channels in
            guard channels.count < countMax else { return false }
            channels[key] = channel
            return true
        }
        guard isAdmitted else { throw .connections }
        channel.closeFuture.whenComplete { [self] _ in channels.withLock { $0[key] = nil } }
        if let address { try admit(address, until: channel.closeFuture) }
    }

    /// Counts a connection of an address until it is over.
    func admit(_ address: SocketAddress, until end: EventLoopFuture<Void>) throws(LimitError) {
        guard let client = address.client else { return }
        guard addresses.admit(client, until: end) else { throw .address }
    }

    /// Asks every socket to finish what it is doing and to close. Closes those that are still open after `timeout`.
    func end(within timeout: TimeAmount, on eventLoop: any EventLoop) async {
        let remaining = channels.withLock { Array($0.values) }
        for channel in remaining { channel.pipeline.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent()) }
        let timer = eventLoop.scheduleTask(in: timeout) {
            for channel in remaining { channel.close(promise: nil) }
        }
        try? await EventLoopFuture.andAllComplete(remaining.map(\.closeFuture), on: eventLoop).get()
        timer.cancel()
    }
}
