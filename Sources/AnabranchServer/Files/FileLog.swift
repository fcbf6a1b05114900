import AnabranchCore
import AnabranchHistory
import Logging

/// The messages of synced files to the operator.
struct FileLog {
    let metrics: SyncMetrics
    let logger: Logger

    /// Logs failures of the store, and instructions that did not enter the log. Other refused uploads are logged by
    /// their sessions.
    func write(_ outcome: ClientOutcome, path: VirtualPath) {
        if let refusal = outcome.refusal, refusal.isStoreFailure { write(refusal, path: path, client: outcome.ident) }
        if outcome.entriesRestoringNulls > 0 {
            logger.notice(
                "null was put back into sets, for no client could download that it was taken out",
                metadata: [
                    "path": "\(path.abbreviated)", "client": "\(outcome.ident)",
                    "count": "\(outcome.entriesRestoringNulls)",
                ])
        }
        guard let reason = outcome.skippedInstructions.firstReason else { return }
        logger.notice(
            "instructions were left out, for their class or column has been erased",
            metadata: [
                "path": "\(path.abbreviated)", "client": "\(outcome.ident)",
                "count": "\(outcome.skippedInstructions.count)", "first": "\(reason)",
            ])
    }

    /// Logs a client that dates its changes wrongly, so that they win over newer ones, or lose to older ones.
    func write(wrongClock seconds: Int64, of client: ClientFileID, user: String?, path: VirtualPath) {
        logger.notice(
            "the clock of a client is wrong: by so many seconds, negative if it is slow",
            metadata: [
                "path": "\(path.abbreviated)", "client": "\(client)", "user": "\(user ?? "-")",
                "seconds": "\(seconds)",
            ])
    }

    /// Logs and counts the work of one commit of a round of maintenance, since `before`.
    func write(_ report: MaintenanceReport, since before: MaintenanceReport, path: VirtualPath) {
        metrics.maintained(report, since: before)
        for file in report.expired[before.expired.count...] {
            logger.audit(
                "expire", "a client file has expired",
                [
                    "path": "\(path.abbreviated)", "client_ident": "\(file.ident)", "user": "\(file.user ?? "-")",
                    "reason": "\(file.reason.rawValue)", "last_seen": "\(file.lastSeen)",
                ])
        }
    }

    /// Logs the writes of a client of flexible sync that it was not allowed to make, of one class in one upload.
    /// - Parameters:
    ///   - role: the name of the role that applies; nil if none does, or there are none.
    ///   - query: the client's query of the class; nil if it has none.
    func write(
        refused objects: [CompensatingWrite.Object], of client: ClientFileID, user: String?, role: String?,
        query: String?, path: VirtualPath
    ) {
        // By bytes: a character can have any number of them.
        let query = query.map { String(excerptOf: $0.utf8, upTo: 200) } ?? "-"
        logger.notice(
            "writes were undone",
            metadata: [
                "path": "\(path.abbreviated)", "client": "\(client)", "user": "\(user ?? "-")",
                "role": "\(role ?? "-")", "query": "\(query)", "count": "\(objects.count)",
                "first": "\(objects.first?.reason ?? "-")",
            ])
    }

    /// Logs that the classes of an app's export contradict those of the file.
    func write(unusableSchema reason: String, path: VirtualPath) {
        logger.error(
            "the schema of the app's export cannot be added to the state",
            metadata: ["path": "\(path.abbreviated)", "reason": "\(reason)"])
    }

    /// Logs that a user who may only read has uploaded a schema, which is not adopted.
    func write(unknownSchema text: String, path: VirtualPath, client: ClientFileID) {
        logger.notice("\(text)", metadata: ["path": "\(path.abbreviated)", "client": "\(client)"])
    }

    /// Logs that the log of a file has reached its limit, and that nothing of it can be trimmed.
    func writeFull(_ path: VirtualPath) {
        logger.warning(
            "a synced file is full: changes of its clients wait; `anabranch admin file` says what keeps its log",
            metadata: ["path": "\(path.abbreviated)"])
    }

    func write(_ error: HistoryError, path: VirtualPath, client: ClientFileID? = nil) {
        // The operator hears of it once, and not with each client that tries again.
        guard error.code != .noRoom else { return }
        metrics.failed(error)
        var metadata: Logger.Metadata = ["path": "\(path.abbreviated)", "error": "\(error.withWireCode)"]
        if let client { metadata["client"] = "\(client)" }
        logger.error("the store failed", metadata: metadata)
    }
}
