import NIOCore
import Synchronization

/// Those who have connections, by name, and at most so many connections each.
final class Crowd: Sendable {
    private let countMax: Int
    private let counts = Mutex<[String: Int]>([:])

    init(countMax: Int) {
        self.countMax = countMax
    }

    /// - Parameter end: when the connection is over.
    /// - Returns: false if there are too many of the name already.
    func admit(_ name: String, until end: EventLoopFuture<Void>) -> Bool {
        let isAdmitted = counts.withLock { counts in
            guard counts[name, default: 0] < countMax else { return false }
            counts[name, default: 0] += 1
            return true
        }
        if isAdmitted { end.whenComplete { [self] _ in leave(name) } }
        return isAdmitted
    }

    /// Members whose user the server does not know are not counted.
    func admit(_ member: Member, until end: EventLoopFuture<Void>) -> Bool {
        // An app id contains no slash, so no two users have one name.
        member.user.map { admit("\(member.app)/\($0)", until: end) } ?? true
    }

    private func leave(_ name: String) {
        counts.withLock { counts in
            let count = counts[name, default: 1] - 1
            counts[name] = count > 0 ? count : nil
        }
    }
}
