import AnabranchCore
import AnabranchHistory
import Synchronization

/// The followers that wait for new entries in the logs of synced files, whether these are open or not.
final class LogFollowers: Sendable {
    private struct Followed {
        /// The newest version announced to them; nil if none was yet.
        var version: ServerVersion?
        var wakes: [Int: AsyncStream<Void>.Continuation] = [:]
    }

    private struct State {
        var files: [VirtualPath: Followed] = [:]
        var followerCount = 0
        var isOver = false
    }

    private let state = Mutex(State())

    /// A new follower of a file, which receives the entries from now on.
    func follow(_ path: VirtualPath) -> LogFollower {
        // One wake is as good as several.
        let (wakes, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let number = state.withLock { state in
            state.followerCount += 1
            if state.isOver {
                wake.finish()
            } else {
                state.files[path, default: Followed()].wakes[state.followerCount] = wake
            }
            return state.followerCount
        }
        return LogFollower(wakes) { [weak self] in self?.leave(path, number) }
    }

    private func leave(_ path: VirtualPath, _ number: Int) {
        state.withLock { state in
            state.files[path]?.wakes[number] = nil
            if state.files[path]?.wakes.isEmpty ?? false { state.files[path] = nil }
        }
    }

    /// The files that somebody follows.
    var paths: [VirtualPath] { state.withLock { Array($0.files.keys) } }

    func isFollowed(_ path: VirtualPath) -> Bool { state.withLock { $0.files[path] != nil } }

    /// Tells followers the durable version with which the log of a file now ends; 0 if the file is gone.
    func record(_ version: ServerVersion, of path: VirtualPath) {
        let wakes = state.withLock { state -> [AsyncStream<Void>.Continuation] in
            guard var followed = state.files[path], followed.version != version else { return [] }
            followed.version = version
            state.files[path] = followed
            return Array(followed.wakes.values)
        }
        for wake in wakes { wake.yield() }
    }

    /// Ends all followers: nothing comes any more.
    func end() {
        let files = state.withLock { state in
            state.isOver = true
            defer { state.files = [:] }
            return state.files.values
        }
        for wake in files.flatMap(\.wakes.values) { wake.finish() }
    }
}

/// A follower that waits for new entries in a log. It belongs to one task at a time.
package final class LogFollower {
    private var wakes: AsyncStream<Void>.Iterator
    private let leave: () -> Void

    init(_ wakes: AsyncStream<Void>, leave: @escaping () -> Void) {
        self.wakes = wakes.makeAsyncIterator()
        self.leave = leave
    }

    deinit { leave() }

    /// Waits until there may be something new.
    /// - Returns: false when the server or the task ends.
    package func wait() async -> Bool { await wakes.next() != nil }
}
