public import AnabranchCore

/// The work that maintenance has done on a file.
public struct MaintenanceReport: Equatable, Sendable {
    /// The entries that were sealed.
    public var sealedEntries: UInt64 = 0
    /// The bytes of their changesets.
    public var sealedBytes: UInt64 = 0
    /// The number of bootstrap generations that were made.
    public var generationsMade: UInt64 = 0
    /// The bytes of their changesets.
    public var generationBytes: UInt64 = 0
    /// The number of older generations that were dropped.
    public var generationsDropped: UInt64 = 0
    /// The client files that were given up in this round.
    public var expired: [ExpiredClientFile] = []
    /// The number of entries that were trimmed.
    public var trimmedEntries: UInt64 = 0
    /// The bytes of their changesets.
    public var trimmedBytes: UInt64 = 0
    /// The number of them that are in the archive now.
    public var archivedEntries: UInt64 = 0
    /// The bytes of their changesets.
    public var archivedBytes: UInt64 = 0
    /// The client file that keeps most of the entries left below the newest bootstrap generation; nil if none keeps
    /// any.
    public var lowestPin: ClientFilePin?

    /// Creates a report of no work.
    public init() {}

    /// True if maintenance has changed nothing.
    public var isEmpty: Bool {
        sealedEntries == 0 && generationsMade == 0 && generationsDropped == 0 && expired.isEmpty && trimmedEntries == 0
    }

    /// Counts the entries that a trim removes.
    fileprivate mutating func record(_ commit: Commit) {
        guard let trim = commit.trim else { return }
        let entries = trim.version.rawValue - commit.head.baseVersion.rawValue
        let bytes = trim.cumulativeSize - commit.head.baseCumulativeSize
        trimmedEntries += entries
        trimmedBytes += bytes
        guard trim.keep == .archive else { return }
        archivedEntries += entries
        archivedBytes += bytes
    }
}

/// A client file that has expired by itself.
public struct ExpiredClientFile: Equatable, Sendable {
    /// The number of the client file in its synced file.
    public let ident: ClientFileID
    /// Its user; nil if the server did not know.
    public let user: String?
    /// The reason why it has expired.
    public let reason: ExpiryReason
    /// When its client was last seen, in seconds since 1970.
    public let lastSeen: UInt64
}

/// One round of maintenance over a file, in steps of bounded work:
///
///     seal ──▶ make a generation ──▶ look at client files ──▶ trim ──▶ drop generations ──▶ done
///                ▲           │             ▲              │
///                └── weigh ◀─┘             └── expire ◀───┘
package struct MaintenanceRound {
    enum Stage {
        case seal
        case generate
        case weigh(GenerationBenefit)
        case build(GenerationBuild)
        case scan(PinScan, ExpiryScan)
        case expire([ClientFileID: ExpiryReason])
        case trim(ServerVersion)
        case drop
        case end
        case done
    }

    /// The client files that are to expire, as far as a scan has come.
    struct ExpiryScan {
        fileprivate let expiry: Expiry
        fileprivate var reasons: [ClientFileID: ExpiryReason] = [:]
    }

    /// The largest number of client files that expire in one commit; the others follow.
    static let expiredCountMax = 512

    /// The largest number of times that empty entries are appended for a generation with more entries than there are
    /// versions: the next one may have more again, if much is written in between.
    static let lengtheningsMax = 3

    let policy: HistoryPolicy
    fileprivate let time: UInt64
    fileprivate let expires: Bool
    fileprivate let connected: Set<ClientFileID>
    let limit: ServerVersion?
    fileprivate let isThorough: Bool
    var stage = Stage.seal
    /// The number of times that empty entries were appended in this round.
    var lengthenings = 0
    /// The work done so far.
    package internal(set) var report = MaintenanceReport()

    /// - Parameters:
    ///   - time: seconds since 1970.
    ///   - expires: whether client files may expire.
    ///   - connected: the client files that have a session.
    ///   - limit: the version up to which entries may go if nobody needs them; nil: up to the newest bootstrap
    ///     generation.
    ///   - isThorough: whether client files are looked at in any case. If not, they are when much was written in
    ///     relation to their number.
    package init(
        _ policy: HistoryPolicy, at time: UInt64, expires: Bool, connected: Set<ClientFileID>,
        upTo limit: ServerVersion? = nil, isThorough: Bool = true
    ) {
        self.policy = policy
        self.time = time
        self.expires = expires
        self.connected = connected
        self.limit = limit
        self.isThorough = isThorough
    }

    package var isDone: Bool { if case .done = stage { true } else { false } }
}

extension SyncedFile {
    /// Does what is due: seals entries, makes a bootstrap generation, lets client files expire, and lets entries and
    /// generations go that nobody needs any more (`Spec/BoundedHistory.md`, section 8).
    /// - Parameters:
    ///   - time: seconds since 1970.
    ///   - expires: whether client files may expire: not if the clock has jumped.
    ///   - connected: the client files that have a session: they do not expire.
    /// - Throws: a failure of the store. What was done before stays.
    @discardableResult
    public func maintain(
        at time: UInt64, _ policy: HistoryPolicy, expires: Bool = true, connected: Set<ClientFileID> = []
    ) throws(HistoryError) -> MaintenanceReport {
        try run(MaintenanceRound(policy, at: time, expires: expires, connected: connected))
    }

    /// Takes all steps of a round.
    package func run(_ round: MaintenanceRound) throws(HistoryError) -> MaintenanceReport {
        try retrying { () throws(HistoryError) in
            var round = round
            while !round.isDone {
                guard let commit = try step(&round) else { continue }
                try self.commit(commit)
            }
            return round.report
        }
    }

    /// True if enough was written since the last round, or since the file was opened, for a round to find work; or if
    /// room is sought.
    package func isMaintenanceDue(_ policy: HistoryPolicy) -> Bool {
        let written = head.version.rawValue - maintained.version.rawValue
        let bytes = head.cumulativeSize - maintained.cumulativeSize
        let bytesMax = min(policy.sealBytes, policy.worthwhileBytes)
        return written >= policy.sealEntries || bytes >= bytesMax && written > 0 || isTrimRequested
    }

    /// Makes a round due though nothing was written: client files may need less than when the file was last looked at.
    package func requestTrim() { isTrimRequested = true }

    /// Makes no round due before more is written.
    package func putOffMaintenance() { (maintained, isTrimRequested) = (head, false) }

    /// Records that clients are connected, as if they had just identified themselves.
    package func markSeen(_ idents: Set<ClientFileID>) throws(HistoryError) {
        guard !idents.isEmpty else { return }
        if isShared { tail?.forgetClients() }
        let seen = try retrying { () throws(HistoryError) in
            try read(missesTail: isShared) { view throws(HistoryError) in
                try idents.map { ident throws(HistoryError) in
                    isShared ? try view.clientFile(ident) : try current(ident, in: view)
                }
            }
        }
        for case let file? in seen where isOwnSession(of: file) { recordSeen(file) }
    }

    /// Takes one step of a round; never while uploads are being merged.
    /// - Returns: the commit to make before the next step; nil if there is none.
    /// - Throws: a failure of the store. The round is over then.
    package func step(_ round: inout MaintenanceRound) throws(HistoryError) -> Commit? {
        switch round.stage {
        case .seal:
            if let commit = try sealCommit(&round) { return commit }
            round.stage = .generate
        case .generate:
            // One is enough, however much is written in the meantime.
            if round.report.generationsMade == 0 {
                if try isGenerationDue(round.policy) { return try beginGeneration(&round) }
                if let benefit = try benefitOfGeneration(round) {
                    round.stage = .weigh(benefit)
                    return nil
                }
            }
            round.stage = try stageBehindGeneration(round)
        case .weigh(let benefit):
            return try weigh(benefit, &round)
        case .build(let build):
            return try continueGeneration(build, &round)
        case .scan(let pins, let expiry):
            round.stage = try scan(pins, expiry, &round.report)
        case .expire(let reasons):
            round.stage = try beginScan(round)
            return try expiryCommit(reasons, &round)
        case .trim(let floor):
            // A client may have begun with the log in the meantime.
            let floor = min(floor, lowestCommittedPin)
            if round.policy.keep == .archive, let commit = try sealCommit(&round, upTo: floor) { return commit }
            if let commit = try trimCommit(upTo: floor, keep: round.policy.keep) {
                round.report.record(commit)
                return commit
            }
            round.stage = .drop
        case .drop:
            if let commit = try droppedGeneration(&round) { return commit }
            round.stage = .end
        case .end:
            putOffMaintenance()
            round.stage = .done
        case .done: break
        }
        return nil
    }

    // MARK: Expiry

    func stageBehindGeneration(_ round: MaintenanceRound) throws(HistoryError) -> MaintenanceRound.Stage {
        let written = head.version.rawValue - scanned.rawValue
        let isWorthwhile =
            written >= head.clientFileCount / 8 || round.report.generationsMade > 0 || round.policy.isFull(head)
        return round.isThorough || isWorthwhile ? try beginScan(round) : .drop
    }

    private func beginScan(_ round: MaintenanceRound) throws(HistoryError) -> MaintenanceRound.Stage {
        let limit = try min(newestTrimmed(by: round), head.stateVersion)
        guard limit > head.baseVersion else { return .drop }
        lowestCommittedPin = .largest
        let expiry = try expiry(round, limit)
        return .scan(PinScan(upTo: limit), MaintenanceRound.ExpiryScan(expiry: expiry))
    }

    /// - Parameter limit: the version up to which entries may go if nobody keeps them.
    func expiry(_ round: MaintenanceRound, _ limit: ServerVersion) throws(HistoryError) -> Expiry {
        let heavy = try read { view throws(HistoryError) in
            try view.version(moreThan: round.policy.pinnedBytes, before: limit)
        }
        return Expiry(
            policy: round.policy, time: round.expires ? round.time : 0,
            connected: round.expires ? round.connected : [], limit: limit, heavyVersion: heavy)
    }

    /// True if nothing is known of a client file but its row.
    func isAway(_ ident: ClientFileID) -> Bool {
        queue.progress(of: ident) == nil && unwritten[ident] == nil && identified[ident] == nil
    }

    /// The version up to which entries may go if nobody needs them.
    private func newestTrimmed(by round: MaintenanceRound) throws(HistoryError) -> ServerVersion {
        if let limit = round.limit { return limit }
        if !makesGenerations { return head.version }
        return try generations().last?.version ?? 0
    }

    /// Looks at a page of client files.
    private func scan(
        _ pins: PinScan, _ found: MaintenanceRound.ExpiryScan, _ report: inout MaintenanceReport
    ) throws(HistoryError) -> MaintenanceRound.Stage {
        let (pins, found) = try read { view throws(HistoryError) in
            var pins = pins, found = found
            try pins.advance(over: view) { file, pin throws(HistoryError) in
                guard found.reasons.count < MaintenanceRound.expiredCountMax, isAway(file.ident) else { return }
                found.reasons[file.ident] = found.expiry.reason(for: file, pin: pin)
            }
            return (pins, found)
        }
        guard pins.isDone else { return .scan(pins, found) }
        report.lowestPin = pins.lowest
        scanned = head.version
        return found.reasons.isEmpty ? .trim(pins.floor) : .expire(found.reasons)
    }

    private func expiryCommit(
        _ reasons: [ClientFileID: ExpiryReason], _ round: inout MaintenanceRound
    ) throws(HistoryError) -> Commit? {
        let (head, files) = try read { view throws(HistoryError) in
            let files = try reasons.keys.sorted().map { ident throws(HistoryError) in try view.clientFile(ident) }
            return (try view.head(), files)
        }
        var commit = Commit(file: id, lease: lease, head: head)
        for case var file? in files where !file.isExpired {
            // A client may have come back in the meantime.
            guard let reason = reasons[file.ident], isAway(file.ident), !round.connected.contains(file.ident),
                file.lastSeen &+ Self.seenPrecision <= round.time
            else { continue }
            // Its client may be at another node, which will say so.
            if isShared, file.foundAway == 0 {
                file.foundAway = round.time
                commit.clientFiles.append(file)
                continue
            }
            file.isExpired = true
            commit.clientFiles.append(file)
            round.report.expired.append(
                ExpiredClientFile(ident: file.ident, user: file.user, reason: reason, lastSeen: file.lastSeen))
        }
        return commit
    }

    // MARK: Segments

    /// - Parameter end: entries up to this version are sealed in any case.
    private func sealCommit(
        _ round: inout MaintenanceRound, upTo end: ServerVersion? = nil
    ) throws(HistoryError) -> Commit? {
        let policy = SealingPolicy(
            entriesMax: Int(clamping: round.policy.sealEntries), bytesMax: Int(clamping: round.policy.sealBytes),
            restMin: Int(min(64, round.policy.sealEntries / 8)))
        guard let commit = try sealIfDue(policy, upTo: end), let range = commit.sealed?.range else { return nil }
        round.report.sealedEntries += range.last.rawValue - range.base.rawValue
        round.report.sealedBytes += try read { view throws(HistoryError) in
            try view.cumulativeSize(at: range.last) - view.cumulativeSize(at: range.base)
        }
        return commit
    }
}
