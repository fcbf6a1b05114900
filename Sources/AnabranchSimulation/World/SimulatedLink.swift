import AnabranchCore
import AnabranchProtocol
import AnabranchServer

/// A WebSocket between a client and the server, with all that can go wrong on the way.
final class SimulatedLink {
    /// The number by which the server knows the connection.
    let number: UInt64
    let node: SimulatedNode
    /// The process of the node (`SimulatedNode.processCount`).
    let process: Int
    /// When it was made (`PermissionLedger.moment`).
    let moment: Int
    /// The parts of messages on their way to the server.
    private(set) var toServer: [Part] = []
    /// The messages on their way to the client. They occupy the server's memory until the client has read them.
    private(set) var toClient: [ServerMachine.Output] = []
    /// The time before which nothing moves, in milliseconds since the start of the run.
    var cloggedUntil: Int64 = 0
    /// True while the client, or the server, believes that it has a connection.
    var isOpenForClient = true
    var isOpenForServer = true
    /// The time at which the server's end went away without the client's knowledge, in milliseconds since the start of
    /// the run.
    var halfOpenSince: Int64?

    struct Part {
        var bytes: [UInt8]
        var isFirst: Bool
        var isLast: Bool
        /// The client versions that arrive with it: those of an UPLOAD whose last part it is.
        var versions: [ClientVersion] = []
    }

    init(_ number: UInt64, to node: SimulatedNode, at moment: Int) {
        self.number = number
        self.node = node
        process = node.processCount
        self.moment = moment
    }

    /// Sends a message of the client in parts.
    /// - Parameters:
    ///   - versions: the client versions of the changesets in it.
    ///   - partBytes: the size of the next part, at least 1.
    func send(_ message: [UInt8], versions: [ClientVersion], partBytes: () -> Int) {
        var start = 0
        repeat {
            let end = start + min(max(1, partBytes()), message.count - start)
            toServer.append(
                Part(bytes: Array(message[start..<end]), isFirst: start == 0, isLast: end == message.count))
            start = end
        } while start < message.count
        toServer[toServer.count - 1].versions = versions
    }

    func send(_ output: [ServerMachine.Output]) { toClient += output }

    func nextPart() -> Part? { toServer.isEmpty ? nil : toServer.removeFirst() }

    func nextOutput() -> ServerMachine.Output? { toClient.isEmpty ? nil : toClient.removeFirst() }

    /// Closes the server's end and tells the client.
    func close() {
        isOpenForServer = false
        toServer = []
        toClient.append(.close(1000))
    }

    func isClogged(at now: Int64) -> Bool { now < cloggedUntil }

    /// Drops what is on its way, in the given directions.
    func drop(toServer dropsToServer: Bool, toClient dropsToClient: Bool) {
        if dropsToServer { toServer = [] }
        if dropsToClient { toClient = [] }
    }
}
