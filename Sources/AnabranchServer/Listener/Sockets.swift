import NIOCore
import Synchronization

/// The sockets that were accepted: at most so many at a time, and so many of one address, and none left when the server
/// ends.
final class Sockets: Sendable {
    /// Why a socket is closed as soon as it is accepted.
    enum Refusal: String, Error {
        case connections, address
    }

    private let countMax: Int
    private let addresses: Crowd
    private let channels = Mutex<[ObjectIdentifier: any Channel]>([:])

    init(countMax: Int, countPerAddressMax: Int = .max) {
        self.countMax = countMax
        addresses = Crowd(countMax: countPerAddressMax)
    }

    var count: Int { channels.withLock { $0.count } }

    func admit(_ channel: any Channel) throws(Refusal) {
        let key = ObjectIdentifier(channel)
        let isAdmitted = channels.withLock { channels in
            guard channels.count < countMax else { return false }
            channels[key] = channel
            return true
        }
        guard isAdmitted else { throw .connections }
        channel.closeFuture.whenComplete { [self] _ in channels.withLock { $0[key] = nil } }
        if let address = channel.remoteAddress?.client {
            guard addresses.admit(address, until: channel.closeFuture) else { throw .address }
        }
    }

    /// Asks every socket to finish what it is doing and to end, and after a while no longer asks.
    func end(within patience: TimeAmount, on eventLoop: any EventLoop) async {
        let remaining = channels.withLock { Array($0.values) }
        for channel in remaining { channel.pipeline.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent()) }
        let timer = eventLoop.scheduleTask(in: patience) {
            for channel in remaining { channel.close(promise: nil) }
        }
        try? await EventLoopFuture.andAllComplete(remaining.map(\.closeFuture), on: eventLoop).get()
        timer.cancel()
    }
}
