import AnabranchCore
import NIOCore
import Synchronization

/// The turns of each user's connections, which do something one after the other: each user has a memory budget with
/// room for one byte, and the connection whose turn it is holds that byte.
final class UserTurns: Sendable {
    private let users = Mutex<[ExactString: (turns: MemoryBudget, connections: Int)]>([:])

    /// - Parameters:
    ///   - user: the user of the connection. Users whom the server does not know, nil, do not wait for each other.
    ///   - end: succeeds or fails when the connection is over.
    func turns(of user: String?, until end: EventLoopFuture<Void>) -> MemoryBudget {
        guard let user = user.map({ ExactString($0) }) else { return MemoryBudget(bytesMax: .max) }
        end.whenComplete { [self] _ in leave(user) }
        return users.withLock { users in
            let known = users[user] ?? (MemoryBudget(bytesMax: 1), 0)
            users[user] = (known.turns, known.connections + 1)
            return known.turns
        }
    }

    /// The number of connected users.
    var count: Int { users.withLock { $0.count } }

    private func leave(_ user: ExactString) {
        users.withLock { users in
            users[user]?.connections -= 1
            if users[user]?.connections == 0 { users[user] = nil }
        }
    }
}
