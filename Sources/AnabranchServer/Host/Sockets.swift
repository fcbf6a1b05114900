import NIOCore
import Synchronization

/// The sockets that were accepted: at most so many at a time, and none left when the server ends.
final class Sockets: Sendable {
    private let countMax: Int
    private let channels = Mutex<[ObjectIdentifier: any Channel]>([:])

    init(countMax: Int) {
        self.countMax = countMax
    }

    /// - Returns: false if there are too many already.
    func admit(_ channel: any Channel) -> Bool {
        let key = ObjectIdentifier(channel)
        let isAdmitted = channels.withLock { channels in
            guard channels.count < countMax else { return false }
            channels[key] = channel
            return true
        }
        if isAdmitted {
            channel.closeFuture.whenComplete { [self] _ in channels.withLock { $0[key] = nil } }
        }
        return isAdmitted
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
