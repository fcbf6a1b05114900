import AnabranchCore
import AnabranchProtocol

// A client reset in its automatic modes (`Spec/FlexibleSync.md`, section 2.9).

extension FlexibleClient {
    /// True if the server has requested a client reset.
    package var needsReset: Bool { lastError?.action == .clientReset || lastError?.action == .clientResetNoRecovery }

    /// Returns the client of the fresh file, which asks for the active set of this one and uploads nothing.
    package func freshDownload() throws -> FlexibleClient {
        var fresh = FlexibleClient(release: release, session: session + 1)
        fresh.sessionReason = 1
        if subscriptions.active ?? 0 > 0 {
            _ = try fresh.subscribe(String(decoding: subscriptions.identified.query, as: UTF8.self))
        }
        return fresh
    }

    /// Replaces the client's file with the fresh one, including its ident and progress, and goes on under the client's
    /// own query versions. Changes that were not uploaded are discarded.
    ///
    /// - Parameter keepsPending: whether sets that the server has not answered yet are kept, as in the mode that
    ///   recovers.
    /// - Throws: `ProtocolViolation` if the fresh file is not complete.
    package mutating func reset(to fresh: FlexibleClient, keepsPending: Bool) throws {
        try fresh.checkNothingIsMissing()
        guard let active = fresh.subscriptions.active, fresh.subscriptions.state(of: active) == .complete else {
            throw ProtocolViolation("2.9", "the set of the fresh file has no bootstrap: the client reset fails")
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
