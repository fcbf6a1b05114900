import AnabranchCore
import AnabranchProtocol
import AnabranchReplica
import AnabranchServer
import AnabranchTesting

/// A client of one synced file: its disk, and its process if there is one. It behaves as `Spec/Replica.md` says.
final class SimulatedClient {
    let number: Int
    let file: Int
    private(set) var user: Principal
    let mode: SyncMode
    let dialect: WireDialect
    let partition: [UInt8]
    var clock: DeviceClock
    private(set) var disk: SimulatedDisk
    var process: Process?
    /// The time at which the next process starts, in milliseconds since the start of the run.
    var startsAt: Int64 = 0
    /// True if its file was copied to or from another client.
    var isTwin = false
    /// The number of times that it was started again since its file was last thrown away.
    var stopCount = 0
    /// True if it has removed something from its schema that the server keeps, so that it cannot follow what others
    /// write there.
    var isSchemaRefused = false
    /// True while its token has expired and it has no other.
    var hasExpiredToken = false
    /// For a client of a fork: the number of tokens that its app has set, and the time at which it sets the next one.
    var tokenCount = 0
    var renewsTokenAt: Int64?
    /// The number of the node to which it connected last.
    var node = 0
    /// The ends of the log when it sent MARKs that are not answered yet.
    var marks: [UInt64: ServerVersion] = [:]
    /// The times at which its process learned that this token has expired.
    var refusals: [Int64] = []

    /// The state of a process, which is lost when the process ends.
    struct Process {
        var replica: Replica<SimulatedDisk>
        var session: ClientSession
        var connection: ClientConnection?
        var link: SimulatedLink?
        var openedAt: Int64 = 0
        var lastConnected: Int64?
        var retry = RetryDelay<ConnectionEnd>()
        var sessionRetry = RetryDelay<ErrorCode>()
        var connectsAt: Int64?
        var resumesAt: Int64?
        /// During a client reset: the replica as it was, and whether its changes are recovered.
        var old: (replica: Replica<SimulatedDisk>, recovers: Bool)?
        /// True once nothing happens any more until a user steps in.
        var isStopped = false
        /// True while recovered changes are not acknowledged yet.
        var isRecovering = false
    }

    init(
        _ number: Int, file: Int, user: Principal, mode: SyncMode, dialect: WireDialect, partition: [UInt8],
        clock: DeviceClock, disk: SimulatedDisk = SimulatedDisk()
    ) {
        self.number = number
        self.file = file
        self.user = user
        self.mode = mode
        self.dialect = dialect
        self.partition = partition
        self.clock = clock
        self.disk = disk
    }

    // MARK: Processes

    /// The behaviour of a replica that fails where a released client would end its process.
    private var behaviour: ReplicaBehaviour {
        var behaviour = ReplicaBehaviour()
        behaviour.refusals = ApplyRefusals(of: ClientCapabilities(overwritesDanglingLinks: false))
        // Every second one makes a commit of each changeset, between which its process can end.
        if number.isMultiple(of: 2) { behaviour.commitBytes = 1 }
        return behaviour
    }

    func start(at now: Int64, session: UInt64) throws {
        disk = disk.reopened()
        refusals = []
        var replica = try Replica(disk, behaviour)
        if mode == .flexible { try replica.useFlexibleSync() }
        process = Process(
            replica: replica, session: newSession(session, uploads: true), connectsAt: now,
            isRecovering: replica.record.isRecovering)
    }

    func newSession(_ number: UInt64, uploads: Bool) -> ClientSession {
        mode == .flexible
            ? ClientSession(SessionID(rawValue: number), uploads: uploads)
            : ClientSession(SessionID(rawValue: number), partition: partition, uploads: uploads)
    }

    /// Records that a backup was restored: files that exist now may know of what is lost.
    func recordRestoration() {
        marks = [:]
        for disk in [disk, process?.replica.store, process?.old?.replica.store] { disk?.isOlderThanRestoration = true }
    }

    // MARK: A fresh file

    /// Begins a client reset, in which another replica downloads what the server has.
    func beginReset(recovers: Bool, session: UInt64, at now: Int64) throws {
        guard var process else { return }
        let old = process.old?.replica ?? process.replica
        var fresh = try Replica(SimulatedDisk(), behaviour)
        if mode == .flexible {
            try fresh.useFlexibleSync()
            let wanted = old.record.subscriptions?.active?.subscriptions ?? []
            if !wanted.isEmpty { try fresh.subscribe(wanted) }
        }
        process.old = (old, recovers)
        process.replica = fresh
        process.session = newSession(session, uploads: false)
        _ = process.session.requestMark()
        process.isStopped = false
        process.resumesAt = nil
        process.connectsAt = now
        self.process = process
    }

    /// Ends a client reset: the fresh replica has everything, and takes the place of the old one.
    func endReset(session: UInt64, at now: Int64) throws {
        guard var process, let old = process.old else { return }
        let recovery = try process.replica.takePlace(of: old.replica, recovers: old.recovers, at: clock.time(at: now))
        process.isRecovering = old.recovers && recovery.changesets > 0
        process.old = nil
        process.isStopped = false
        process.session = newSession(session, uploads: true)
        process.connectsAt = now
        disk = process.replica.store
        self.process = process
    }

    /// Replaces the disk with a copy of another client's.
    /// - Parameter takesUser: whether the device is another one of the same user.
    func copyFile(of other: SimulatedClient, takesUser: Bool) {
        disk = (other.process?.replica.store ?? other.disk).copy()
        if takesUser { user = other.user }
    }

    /// Throws the file away, as an application does.
    func beginAnew() {
        disk = SimulatedDisk()
        process = nil
        isTwin = false
        isSchemaRefused = false
        stopCount = 0
    }
}
