import AnabranchCore
import AnabranchHistory
import Logging
import Metrics

/// The maintenance of a synced file that is under way, and the requests that wait for it.
struct FileMaintenance {
    typealias Completion = (Result<MaintenanceReport, any Error>) -> Void

    var round: MaintenanceRound?
    /// The callbacks of the requests for this round.
    var completions: [Completion] = []
    /// The callbacks of those who wait for the next round, since the present one looks only at what is likely to be
    /// due.
    var requests: [Completion] = []
    /// Client files with open sessions, to be recorded as seen.
    var connected: [ClientFileID] = []
    /// The rounds that were begun again, one after the other, because of other nodes.
    var repeatCount = 0
    /// The merges that were committed since the last step.
    var mergeCount = 0

    var isWaiting: Bool { round != nil || !requests.isEmpty || !connected.isEmpty }
}

/// Maintenance (`Spec/BoundedHistory.md`, section 8): a round begins when enough was written that there may be
/// something to do, or on request. A long turn takes one step of it.
extension FileTurns {
    /// The number of clients with sessions that are noted as seen in one step.
    static let recordedCountMax = 256

    /// True if there is a step to be taken. None is taken between two steps that end with one commit of uploads.
    var isMaintenanceWaiting: Bool {
        guard let file = sessions?.file, !file.isIntegrating else { return false }
        return maintenance.isWaiting || isMaintenanceDue(for: file)
    }

    /// True if enough merges have come first: where each merge begins when the one before is stored, maintenance would
    /// never have a turn.
    var isMaintenanceOverdue: Bool { maintenance.mergeCount > Self.shortTurnsMax && isMaintenanceWaiting }

    private func isMaintenanceDue(for file: SyncedFile) -> Bool {
        !environment.isEnding && file.isMaintenanceDue(environment.options.history)
    }

    /// Begins a round that looks at everything.
    /// - Parameter complete: called when the round is over, with its report or the reason why it was not finished.
    func maintain(_ complete: @escaping FileMaintenance.Completion) {
        do throws(HistoryError) {
            _ = try openedSessions()
            maintenance.requests.append(complete)
        } catch {
            environment.log.write(error, path: path)
            afterDelivery { _ in complete(.failure(error)) }
        }
    }

    /// Arranges that clients with sessions are noted as seen: otherwise a client that stays connected would seem to
    /// have been away ever since it came.
    func updateConnected() {
        maintenance.connected = sessions?.clientFiles ?? []
        sessions?.forgetSessions()
    }

    /// Takes a step of bounded work. If it makes a commit, the turn ends.
    func takeMaintenanceStep() {
        guard pending == nil, isMaintenanceWaiting, let sessions else { return }
        maintenance.mergeCount = 0
        if environment.isEnding { return endMaintenance(HistoryError(.storeFailed, "the server ends")) }
        do throws(HistoryError) {
            if !maintenance.connected.isEmpty {
                let seen = maintenance.connected.suffix(Self.recordedCountMax)
                maintenance.connected.removeLast(seen.count)
                return try sessions.file.markSeen(Set(seen))
            }
            try advanceRound(of: sessions)
        } catch {
            guard let error = resolved(error) else { return beginRoundAgain() }
            // Damage would only be met again the next time.
            sessions.file.putOffMaintenance()
            maintenanceFailed(error)
            environment.log.write(error, path: path)
        }
    }

    private func advanceRound(of sessions: FileSessions) throws(HistoryError) {
        var round = maintenance.round.take() ?? newRound(sessions)
        let before = round.report
        environment.metrics.maintenanceSteps.increment()
        let commit = try sessions.file.step(&round)
        let report = round.report
        maintenance.round = round.isDone ? nil : round
        if round.isDone {
            let isFull = environment.options.history.isFull(sessions.file.head)
            if environment.fullFiles.record(path, isFull: isFull) { environment.log.writeFull(path) }
            didMaintain(report)
        }
        guard let commit else { return }
        store(commit) { [self] sessions, failure in
            // The commit may have been stored all the same.
            if let failure {
                guard let error = resolved(failure) else { return beginRoundAgain() }
                return close(because: error)
            }
            environment.log.write(report, since: before, path: path)
            sessions.flexible?.forgetViews(of: report.expired.dropFirst(before.expired.count).map(\.ident))
            if sessions.hasUnannouncedVersions { sessions.announce(until: environment.beginStep()) }
        }
    }

    private static let repeatsMax = 100

    /// Begins the round again, if a request waits for it: another node has changed what the round has read. Otherwise
    /// that node does the work: two that make a generation at the same time would hinder each other.
    private func beginRoundAgain() {
        maintenance.round = nil
        maintenance.requests = maintenance.completions + maintenance.requests
        maintenance.completions = []
        if maintenance.requests.isEmpty {
            sessions?.file.putOffMaintenance()
            return
        }
        maintenance.repeatCount += 1
        guard maintenance.repeatCount > Self.repeatsMax else { return }
        maintenanceFailed(HistoryError(.storeFailed, "other nodes change the file all the time"))
    }

    private func newRound(_ sessions: FileSessions) -> MaintenanceRound {
        let isRequested = !maintenance.requests.isEmpty
        maintenance.completions = maintenance.requests
        maintenance.requests = []
        let time = environment.clock.expiryTime()
        return MaintenanceRound(
            environment.options.history, at: time ?? 0, expires: time != nil,
            connected: Set(sessions.clientFiles), isThorough: isRequested)
    }

    private func didMaintain(_ report: MaintenanceReport) {
        let completions = maintenance.completions
        maintenance.completions = []
        maintenance.repeatCount = 0
        afterDelivery { _ in for complete in completions { complete(.success(report)) } }
    }

    /// Ends the maintenance early.
    func endMaintenance(_ error: HistoryError) {
        guard maintenance.isWaiting else { return }
        maintenanceFailed(error)
    }

    private func maintenanceFailed(_ error: HistoryError) {
        let completions = maintenance.completions + maintenance.requests
        maintenance = FileMaintenance()
        if !environment.isEnding { environment.metrics.maintenanceFailures.increment() }
        afterDelivery { _ in for complete in completions { complete(.failure(error)) } }
    }
}
