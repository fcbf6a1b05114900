import AnabranchProtocol
import AnabranchServer

/// A WebSocket between a client and the server, with all that can happen on the way.
final class SimulatedLink {
    /// What the server calls the connection.
    let number: UInt64
    /// Parts of messages on their way to the server.
    private(set) var toServer: [Part] = []
    /// On their way to the client. They occupy the server's memory until the client has read them.
    private(set) var toClient: [ServerMachine.Output] = []
    /// Nothing moves before that.
    var cloggedUntil: Int64 = 0
    /// The client believes that it has a connection, and the server.
    var isOpenForClient = true
    var isOpenForServer = true
    /// When the other side has gone without a word.
    var halfOpenSince: Int64?

    struct Part {
        var bytes: [UInt8]
        var isFirst: Bool
        var isLast: Bool
    }

    init(_ number: UInt64) { self.number = number }

    /// The client sends a message in parts.
    /// - Parameter partBytes: the size of the next part, at least 1.
    func send(_ message: [UInt8], partBytes: () -> Int) {
        var start = 0
        repeat {
            let end = start + min(max(1, partBytes()), message.count - start)
            toServer.append(
                Part(bytes: Array(message[start..<end]), isFirst: start == 0, isLast: end == message.count))
            start = end
        } while start < message.count
    }

    func send(_ output: [ServerMachine.Output]) { toClient += output }

    func nextPart() -> Part? { toServer.isEmpty ? nil : toServer.removeFirst() }

    func nextOutput() -> ServerMachine.Output? { toClient.isEmpty ? nil : toClient.removeFirst() }

    /// The server's end is gone, and says so.
    func close() {
        isOpenForServer = false
        toServer = []
        toClient.append(.close(1000))
    }

    func isClogged(at now: Int64) -> Bool { now < cloggedUntil }

    /// What is on the way is lost.
    func drop(toServer dropsToServer: Bool, toClient dropsToClient: Bool) {
        if dropsToServer { toServer = [] }
        if dropsToClient { toClient = [] }
    }
}
