import AnabranchCore
import Foundation

/// The time when a replica and its server last had the same (`StoreStatus.lastSynced`). While they go on to have the
/// same, it is stored once a minute.
struct LastSync {
    /// The least number of seconds between two times that are stored.
    private static let storedSeconds = 60.0

    /// In whole seconds, so that observers are not notified more often.
    private(set) var date: Date?
    private var stored: Date?
    /// True if the server has said on this connection how far it is.
    var hasHeard = false

    /// - Parameter stored: the time that the file has.
    init(_ stored: Date? = nil) { (date, self.stored) = (stored, stored) }

    /// Records that both have the same.
    mutating func record(_ time: ChangesetTime) {
        date = Date(timeIntervalSince1970: time.secondsSince1970.rounded(.down))
    }

    /// Records that another file has the place of the one that has the time.
    mutating func forgetStored() { stored = nil }

    /// The time, if it should be stored now.
    /// - Parameter isLast: whether there may be no other chance for a long time.
    mutating func takeUnstored(isLast: Bool) -> Date? {
        guard let date, date != stored else { return nil }
        if !isLast, let stored, abs(date.timeIntervalSince(stored)) < Self.storedSeconds { return nil }
        stored = date
        return date
    }
}

extension SyncedReplica {
    /// Records the time if the replica has what the server has, and the server what the replica has.
    func recordSync() {
        guard let session, session.isRunning, lastSync.hasHeard, !session.isWaitingForMark, !isDownloadExpected,
            replica.progress.isComplete, transfers.pending.changesets == 0
        else { return }
        lastSync.record(now())
        storeSync(isLast: false)
    }

    /// Stores the time if it is due. Where that fails, an older one stays.
    func storeSync(isLast: Bool) {
        guard !isClosed, let date = lastSync.takeUnstored(isLast: isLast) else { return }
        try? replica.store.store(lastSync: date)
    }
}
