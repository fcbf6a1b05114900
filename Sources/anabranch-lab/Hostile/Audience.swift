import AnabranchProtocol
import AnabranchTestClient
import Synchronization

/// Other users of the attacked app, who read and confirm, and what becomes of them.
final class Audience: Sendable {
    private struct State {
        /// By client, how many changesets of others have come.
        var counts: [Int]
        var resetCount = 0
        var endings: [String] = []
    }

    private let state: Mutex<State>
    let clients: [LoadClient]

    /// Each with the objects that it asks for, some of them for one user.
    init(_ count: Int, perUser: Int = 1, of run: AttackRun, asking predicates: [String: String]) async throws {
        state = Mutex(State(counts: Array(repeating: 0, count: count)))
        let users = try await concurrentMap(0..<(count + perUser - 1) / perUser, limit: 16) { _ in
            try await run.user(of: .flexible)
        }
        clients = try await concurrentMap(0..<count, limit: 16) { number in
            try await run.client(of: users[number / perUser], asking: predicates)
        }
        for (number, client) in clients.enumerated() {
            await client.observe(
                onDownload: { [weak self] message, _ in
                    self?.state.withLock { $0.counts[number] += message.changesetCount }
                },
                onFailure: { [weak self] error in
                    self?.state.withLock { state in
                        if error.demandsReset { state.resetCount += 1 }
                        state.endings.append(error.description)
                    }
                })
        }
    }

    /// Waits until each has so many changesets of others, or as many as have not have lost their sessions.
    func wait(for count: Int) async throws {
        while state.withLock({ state in state.counts.count { $0 < count } > state.endings.count }) {
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    /// Waits until nothing has come for a second.
    func settle() async throws {
        var last = -1, now = 0
        while now != last {
            last = now
            try await Task.sleep(for: .seconds(1))
            now = state.withLock { $0.counts.reduce(0, +) }
        }
    }

    /// Prints what has become of them.
    func judge(_ report: AttackReport) {
        let (resets, endings) = state.withLock { ($0.resetCount, $0.endings) }
        report.bound("resets_of_audience", Double(resets), atMost: 0)
        report.bound("lost_sessions_of_audience", Double(endings.count), atMost: 0)
        if let first = endings.first { report.figure("audience_told", first) }
    }
}
