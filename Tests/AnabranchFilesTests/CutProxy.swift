import NIOCore
import NIOPosix
import Synchronization

/// Passes bytes on between clients and a server on loopback ports, and cuts all connections after some of them.
final class CutProxy: Sendable {
    enum Way { case up, down }

    private struct State {
        var left = Int.max
        var bytes = 0
        var channels: [ObjectIdentifier: any Channel] = [:]
    }

    let port: Int
    private let way: Way
    private let listener: any Channel
    private let state: Shared

    private final class Shared: Sendable {
        let state = Mutex(State())
    }

    /// - Parameter way: where bytes are counted.
    init(to server: Int, counting way: Way) async throws {
        let shared = Shared(), group = MultiThreadedEventLoopGroup.singleton
        listener = try await ServerBootstrap(group: group)
            .childChannelInitializer { inner in
                ClientBootstrap(group: inner.eventLoop).connect(host: "127.0.0.1", port: server)
                    .flatMapThrowing { outer in
                        for channel in [inner, outer] {
                            shared.state.withLock { $0.channels[ObjectIdentifier(channel)] = channel }
                        }
                        try inner.pipeline.syncOperations.addHandler(
                            Passing(to: outer) { Self.spend($0, way == .up, shared) })
                        try outer.pipeline.syncOperations.addHandler(
                            Passing(to: inner) { Self.spend($0, way == .down, shared) })
                    }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        (state, self.way, port) = (shared, way, listener.localAddress?.port ?? 0)
    }

    /// The bytes that were passed on.
    var bytes: Int { state.state.withLock { $0.bytes } }

    /// Has all connections cut when so many more bytes have passed; new ones are cut only after the next call.
    func cut(after bytes: Int) { state.state.withLock { $0.left = bytes } }

    func close() async throws { try await listener.close() }

    /// - Returns: false if there is a cut now.
    private static func spend(_ count: Int, _ counts: Bool, _ shared: Shared) -> Bool {
        guard counts else { return true }
        let ended: [any Channel]? = shared.state.withLock { state in
            state.bytes += count
            guard state.left != .max else { return nil }
            state.left -= count
            guard state.left <= 0 else { return nil }
            defer { (state.left, state.channels) = (.max, [:]) }
            return Array(state.channels.values)
        }
        for channel in ended ?? [] { channel.close(promise: nil) }
        return ended == nil
    }

    private final class Passing: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private let partner: any Channel
        private let spend: (Int) -> Bool

        init(to partner: any Channel, _ spend: @escaping (Int) -> Bool) {
            (self.partner, self.spend) = (partner, spend)
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let bytes = unwrapInboundIn(data)
            if spend(bytes.readableBytes) { partner.writeAndFlush(bytes, promise: nil) }
        }

        func channelInactive(context: ChannelHandlerContext) {
            partner.close(promise: nil)
            context.fireChannelInactive()
        }
    }
}
