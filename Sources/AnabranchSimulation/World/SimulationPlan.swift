import AnabranchHistory
import AnabranchTesting

/// The plan of a run: what happens, and how often. The seed decides all of it.
package struct SimulationPlan: Sendable, CustomStringConvertible {
    /// The kind of changes that clients write.
    package enum Workload: String, Sendable {
        /// Objects that are counted: each write has to be there once in the end.
        case counted
        /// Changes of every kind to a few objects.
        case anything
    }

    let isFlexible: Bool
    let nodeCount: Int
    let workload: Workload
    let fileCount: Int
    let clientCount: Int
    let steps: Int
    let history: HistoryPolicy
    /// True if the server treats the store as one on a disk, and keeps in memory what is costly to read.
    let isOnDisk: Bool
    let downloadBytes: Int
    /// The memory for messages that are longer than `shortBodyBytes`, in bytes.
    let messageBytes: Int
    static let shortBodyBytes = 300
    /// The size of the largest part of a message, in bytes.
    let partBytesMax: Int
    /// The faults of the run, each with the average number of steps in which it happens once.
    private(set) var rates: [Fault: Int] = [:]

    /// A kind of fault.
    package enum Fault: String, CaseIterable, Sendable {
        case cut, halfOpen, clog
        case clientCrash, clientStoreError
        case serverCrash, serverStoreError, lateStoreError, diskFull, slowStore
        case restore, clone, clockJump, absence, expiredToken, rights, schemaConflict
        /// The roles of flexible sync change.
        case roles
        /// A device's clock goes wrong, or is set right.
        case clientClock
    }

    /// - Parameter faults: the only faults that occur, in each world; nil for those that the seed picks. With given
    ///   faults, writes are counted, since not every fault is compatible with the other workload.
    init(_ random: inout SeededRandom, clocks: inout SeededRandom, faults: Set<Fault>? = nil, nodeCount: Int = 1) {
        self.nodeCount = nodeCount
        let mode = random.below(5)
        isFlexible = mode < 2
        workload = !isFlexible && faults == nil && random.isOne(in: 3) ? .anything : .counted
        fileCount = isFlexible ? 1 : random.pick([1, 1, 2])
        clientCount = fileCount + random.pick([1, 2, 3, 4, 8])
        steps = random.pick([400, 800, 1600])
        var history = HistoryPolicy()
        history.sealEntries = UInt64(random.pick([1, 5, 20, 768]))
        history.sealBytes = UInt64(random.pick([200, 5_000, 256 << 10]))
        history.generationBytes = UInt64(random.pick([0, 500, 3_000, 4 << 20]))
        history.generationRatio = random.pick([0, 0.5, 2])
        history.keep = random.isOne(in: 3) ? .archive : .drop
        self.history = history
        isOnDisk = random.isOne(in: 2)
        downloadBytes = random.pick([1, 100, 1_000, 1 << 20])
        messageBytes = random.pick([1_000, 1 << 30])
        partBytesMax = random.pick([1, 7, 100, .max, .max])
        for fault in Fault.allCases where fault != .clientClock && (fault != .roles || isFlexible) {
            if faults?.contains(fault) ?? random.isOne(in: 2) { rates[fault] = fault.interval(&random) }
        }
        if faults?.contains(.clientClock) ?? clocks.isOne(in: 2) {
            rates[.clientClock] = Fault.clientClock.interval(&clocks)
        }
        guard workload == .anything else { return }
        // Writes that are repeated or lost would lead to cases that are known not to converge.
        for fault in [Fault.restore, .clone, .rights, .schemaConflict, .clientStoreError] { rates[fault] = nil }
    }

    package var description: String {
        let mode = isFlexible ? "flexible" : "partition", nodes = nodeCount > 1 ? "\(nodeCount) nodes, " : ""
        let faults = Fault.allCases.compactMap { fault in rates[fault].map { "\(fault.rawValue) 1/\($0)" } }
        return """
            \(nodes)\(mode), \(workload.rawValue), \(fileCount) files, \(clientCount) clients, \(steps) steps, \
            seal \(history.sealEntries), generation \(history.generationBytes) B, \(history.keep.rawValue), \
            \(isOnDisk ? "disk" : "memory"), download \(downloadBytes) B, messages \(messageBytes) B, \
            parts \(partBytesMax == .max ? "whole" : "\(partBytesMax) B"); \(faults.joined(separator: ", "))
            """
    }
}

extension SimulationPlan.Fault {
    fileprivate func interval(_ random: inout SeededRandom) -> Int {
        switch self {
        case .cut, .halfOpen, .clog, .rights, .roles, .clientClock: random.pick([20, 60, 200])
        case .clientCrash, .clientStoreError, .serverStoreError, .lateStoreError: random.pick([40, 150])
        case .serverCrash, .diskFull, .slowStore, .clockJump, .expiredToken, .restore: random.pick([60, 200])
        case .clone, .absence, .schemaConflict: random.pick([200, 500])
        }
    }
}
