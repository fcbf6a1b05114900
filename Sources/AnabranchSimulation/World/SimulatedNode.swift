import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchReplica
import AnabranchServer
import AnabranchTesting

/// A process of the server. There is one, or there are several that have a store in common.
final class SimulatedNode {
    let number: Int
    /// The store as the process sees it, with the faults that it meets there.
    var store: SimulatedStore
    /// Nil while the process is not running.
    var machine: ServerMachine?
    /// The number of processes that there have been.
    var processCount = 0
    var startsAt: Int64 = 0
    /// The time before which the process does nothing, in milliseconds since the start of the run: it is stopped, or
    /// waits for its store.
    var isBusyUntil: Int64 = 0
    /// The moment at which the process had followed all changes of roles (`PermissionLedger.moment`).
    var followedRoles = 0
    /// The wake-ups about other nodes' commits on their way to this one, with their times of arrival.
    var wakes: [(path: VirtualPath, at: Int64)] = []

    init(_ number: Int, _ store: SimulatedStore) {
        self.number = number
        self.store = store
    }
}

// What only happens where there are several nodes. It has random numbers of its own: a world of one node is as it is
// without it.

extension Simulation {
    var hasSeveralNodes: Bool { nodes.count > 1 }

    /// Some node, whether it runs or not.
    func someNode() -> SimulatedNode { hasSeveralNodes ? nodeRandom.pick(nodes) : nodes[0] }

    /// The nodes that take turns: all of them in the end, before that some node.
    var nodesAtWork: [SimulatedNode] { faultsAreOff ? nodes : [someNode()] }

    /// The node to which a client connects: clients come back to any, and stay where they were as often.
    func node(for client: SimulatedClient) -> SimulatedNode {
        guard hasSeveralNodes else { return nodes[0] }
        let before = client.node, node = nodeRandom.isOne(in: 2) ? nodes[before] : someNode()
        if node.number != before {
            mark("client moves", client)
            if isStoreSound { tally.mark("client moves over a sound store") }
        }
        client.node = node.number
        return node
    }

    /// Wakes the other nodes because of a commit. Some wake-ups are lost.
    func wakeOthers(than node: SimulatedNode, _ path: VirtualPath) {
        guard hasSeveralNodes else { return }
        for other in nodes where other !== node && other.machine != nil {
            if nodeRandom.isOne(in: 3) {
                mark("wake lost")
            } else {
                other.wakes.append((path, clock.now + Int64(nodeRandom.pick([0, 0, 1, 50, 3_000]))))
            }
        }
    }

    func deliverWakes(to node: SimulatedNode) {
        let arrived = node.wakes.filter { $0.at <= clock.now }
        guard !arrived.isEmpty else { return }
        node.wakes.removeAll { $0.at <= clock.now }
        for wake in arrived { node.machine?.wake(wake.path) }
    }

    /// Stops a node, perhaps for longer than its clients wait for it.
    func happenToNodes() {
        guard hasSeveralNodes, nodeRandom.isOne(in: 80) else { return }
        let node = someNode()
        guard node.machine != nil else { return }
        node.isBusyUntil = clock.now + Int64(nodeRandom.pick([1_000, 60_000, 400_000]))
        mark("node stopped")
        log("node \(node.number) is stopped")
    }

    /// Lets a client ask whether it has everything.
    func askForMark(_ client: SimulatedClient) {
        guard hasSeveralNodes, nodeRandom.isOne(in: 20), client.process?.old == nil,
            client.process?.session.isRunning == true
        else { return }
        _ = client.process?.session.requestMark()
        schedule(client)
    }

    /// Checks that a client whose MARK is answered has everything that existed when it sent the MARK.
    func checkMark(_ request: UInt64, _ client: SimulatedClient) throws {
        guard hasSeveralNodes, !client.isTwin, let process = client.process else { return }
        let asked = client.marks.filter { $0.key <= request }.values.max() ?? 0
        client.marks = client.marks.filter { $0.key > request }
        let cursor = process.replica.progress.cursor.serverVersion
        mark("mark answered", client)
        try require(
            cursor >= asked,
            "N1: client \(client.number) is told at version \(cursor) that it has everything up to \(asked)")
    }

    /// True as long as nothing has happened to the store.
    private var isStoreSound: Bool {
        let storeFaults: [SimulationPlan.Fault] = [.serverStoreError, .lateStoreError, .diskFull, .restore]
        return storeFaults.allSatisfy { tally.marks[$0.rawValue] == nil }
    }

    /// Checks that no session ends because of what other nodes do.
    func checkRetry(because error: ErrorMessage, _ client: SimulatedClient) throws {
        guard hasSeveralNodes, !client.isTwin, isStoreSound else { return }
        let isOwnFault = error.message.hasPrefix("the client could not integrate")
        try require(
            error.code != .otherSessionError || isOwnFault,
            "N3: the session of client \(client.number) ends with error 201, and the store has no trouble")
    }
}
