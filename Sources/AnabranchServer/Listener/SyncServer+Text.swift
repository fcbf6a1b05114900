import AnabranchProtocol
import Logging
import Metrics
import NIOCore
import Synchronization

/// The sockets that a shutdown closes one after the other.
private final class SpreadSockets: Sendable {
    private let open = Atomic(0)

    var count: Int { open.load(ordering: .relaxed) }

    /// Counts a socket until it is closed.
    func add(until end: EventLoopFuture<Void>) {
        open.wrappingAdd(1, ordering: .relaxed)
        end.whenComplete { _ in self.open.wrappingSubtract(1, ordering: .relaxed) }
    }
}

extension SyncServer {
    /// - Parameters:
    ///   - users: the limit for the connections of each user.
    ///   - memory: the budget for long messages of clients.
    /// - Returns: nil if there are no wires of text messages.
    func textUpgrade(
        users: ConnectionLimit, _ connections: ConnectionRegistry, memory: MemoryBudget
    ) -> TextUpgrade? {
        guard !wires.isEmpty else { return nil }
        let outbound = budget("texts", bytesMax: settings.messageMemoryBytesMax), spread = SpreadSockets()
        let spreadCount = { @Sendable in spread.count }
        return TextUpgrade(wires: wires, isSecure: tls != nil) { [self] channel, accepted in
            let id = connections.newID()
            var logger = logger
            logger[metadataKey: "connection"] = "\(id)"
            logger[metadataKey: "path"] = "\(accepted.request.path.prefix(200))"
            if let remote = accepted.remote { logger[metadataKey: "remote"] = "\(remote)" }
            let limits = settings.limits, wireSettings = accepted.wire.settings
            let messageBytesMax = min(wireSettings.messageBytesMax, limits.messageBytesMax)
            let silence = SilenceDetector(limit: .seconds(Int64(wireSettings.silenceSecondsMax)))
            let onStall = onStall(logger), stallLimit = TimeAmount.milliseconds(limits.stallMillisecondsMax)
            let memory = MessageMemory(
                textBytesMax: messageBytesMax, limit: stallLimit, budget: memory, outboundBudget: outbound,
                turns: turns.turns(of: accepted.request.address, until: channel.closeFuture)
            ) { onStall("sending the rest of a long message") }
            let stall = StallDetector(limit: stallLimit, requiredBytes: { memory.outboundBytesMin }) {
                onStall("reading")
            }
            if wireSettings.spreadsShutdown { spread.add(until: channel.closeFuture) }
            let times = TextHandler.Times(
                settings, number: id.number, spreadOver: wireSettings.spreadsShutdown ? spreadCount : nil)
            let socket = TextSocket(accepted.request, users: users, until: channel.closeFuture)
            let handler = TextHandler(
                socket, of: accepted.wire, messageBytesMax: messageBytesMax, silence: silence, memory: memory,
                budget: outbound, times: times, logger: logger
            ) { [metrics] in metrics.failedFraming($0) }
            try channel.pipeline.syncOperations.addHandlers([stall, silence, memory], position: .first)
            let pace = ReadThrottle { [connectionMetrics] in connectionMetrics.readingsDelayed.increment() }
            try channel.pipeline.syncOperations.addHandlers([pace, handler])
        }
    }

    /// - Returns: a function to call with what a client has stopped doing, before its socket is closed.
    func onStall(_ logger: Logger) -> (String) -> Void {
        { [connectionMetrics] what in
            connectionMetrics.connectionsStalled.increment()
            logger.info("the client has stopped", metadata: ["what": "\(what)"])
        }
    }
}
