import AnabranchCore
import AnabranchProtocol

// A client reset in its automatic modes (`Spec/FlexibleSync.md`, section 2.9).

extension FlexibleClient {
    /// Whether the server has asked for a client reset.
    package var needsReset: Bool { lastError?.action == .clientReset || lastError?.action == .clientResetNoRecovery }

    /// The client of the fresh file: it asks for the active set of this one, and uploads nothing.
    package func freshDownload() throws -> FlexibleClient {
        var fresh = FlexibleClient(release: release, session: session + 1)
        fresh.sessionReason = 1
        if subscriptions.active ?? 0 > 0 {
            _ = try fresh.subscribe(String(decoding: subscriptions.identified.query, as: UTF8.self))
        }
        return fresh
    }

    /// Takes the fresh file in the place of its own, with ident and progress, and goes on under its own query versions.
    /// What was not uploaded is discarded.
    ///
    /// - Parameter keepsPending: whether sets stay that the server has not answered yet, as in the mode that recovers.
    /// - Throws: `ServerMistake` if the fresh file is not complete.
    package mutating func reset(to fresh: FlexibleClient, keepsPending: Bool) throws {
        try fresh.checkNothingIsMissing()
        guard let active = fresh.subscriptions.active, fresh.subscriptions.state(of: active) == .complete else {
            throw ServerMistake("2.9", "the set of the fresh file has no bootstrap: the client reset fails")
        }
        disconnect()
        file = fresh.file
        progress = fresh.progress
        pendingBootstrap = nil
        lastError = nil
        sessionReason = 1
        subscriptions.reset(keepsPending: keepsPending)
    }
}
