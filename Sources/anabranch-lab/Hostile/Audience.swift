import AnabranchProtocol
import AnabranchTestClient
import Synchronization

/// Other users of the attacked app, who read and confirm, and their fate.
final class Audience: Sendable {
    private struct State {
        /// The number of changesets of others that have come, by client.
        var counts: [Int]
        var resetCount = 0
        var endings: [String] = []
    }

    private let state: Mutex<State>
    let clients: [LoadClient]

    /// Connects clients, each with the objects that it asks for; `perUser` of them belong to one user.
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

    /// Waits until each client has at least `count` changesets of others; those that have lost their sessions are let
    /// off.
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

    /// Prints their fate.
    func judge(_ report: AttackReport) {
        let (resets, endings) = state.withLock { ($0.resetCount, $0.endings) }
        report.bound("resets_of_audience", Double(resets), atMost: 0)
        report.bound("lost_sessions_of_audience", Double(endings.count), atMost: 0)
        if let first = endings.first { report.figure("audience_told", first) }
    }
}
