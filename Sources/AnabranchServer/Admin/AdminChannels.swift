import NIOCore
import Synchronization

/// The sockets of the admin interface. Those that have shown the token stay. The others, which anybody can open, make
/// room when there are too many: the oldest of the address that has the most is closed first. So nobody keeps the
/// operator out.
final class AdminChannels: Sendable {
    fileprivate struct Stranger {
        let channel: any Channel
        let address: String

        func isOf(_ channel: any Channel) -> Bool { self.channel === channel }
    }

    fileprivate struct State {
        var trusted: [ObjectIdentifier: any Channel] = [:]
        /// The sockets that have not shown the token, in order of arrival.
        var strangers: [Stranger] = []
    }

    private let countMax: Int
    private let state = Mutex(State())

    /// - Parameter countMax: the most sockets at one time.
    init(countMax: Int) { self.countMax = countMax }

    /// Takes a new socket in, and closes another one if there are too many.
    /// - Returns: false if all others have shown the token.
    func admit(_ channel: any Channel) -> Bool {
        let (isAdmitted, displaced) = state.withLock { state -> (Bool, (any Channel)?) in
            guard state.trusted.count < countMax else { return (false, nil) }
            let isFull = state.trusted.count + state.strangers.count >= countMax
            let displaced = isFull ? state.takeOldestOfTheMost() : nil
            state.strangers.append(Stranger(channel: channel, address: channel.remoteAddress?.client ?? ""))
            return (true, displaced)
        }
        displaced?.close(promise: nil)
        if isAdmitted { channel.closeFuture.whenComplete { [self] _ in remove(channel) } }
        return isAdmitted
    }

    /// Keeps a socket that has shown the token.
    func trust(_ channel: any Channel) {
        state.withLock { state in
            guard let index = state.strangers.firstIndex(where: { $0.isOf(channel) }) else { return }
            state.strangers.remove(at: index)
            state.trusted[ObjectIdentifier(channel)] = channel
        }
    }

    private func remove(_ channel: any Channel) {
        state.withLock { state in
            state.trusted[ObjectIdentifier(channel)] = nil
            state.strangers.removeAll { $0.isOf(channel) }
        }
    }
}

extension AdminChannels.State {
    fileprivate mutating func takeOldestOfTheMost() -> (any Channel)? {
        let counts = Dictionary(strangers.map { ($0.address, 1) }, uniquingKeysWith: +)
        let most = counts.values.max()
        return strangers.firstIndex { counts[$0.address] == most }.map { strangers.remove(at: $0).channel }
    }
}
