import Logging
import Metrics
import NIOCore
import NIOHTTP1
import NIOPosix

extension SyncServer {
    /// Starts the listener of the admin interface, if there is one. It listens before the server does, and until the
    /// last client has left.
    func listenForOperator(
        on group: MultiThreadedEventLoopGroup, _ operations: ServerOperations
    ) async throws -> (any Channel)? {
        guard let admin else { return nil }
        let channels = AdminChannels(countMax: admin.settings.connectionsMax)
        let endpoints = AdminEndpoints(
            admin: admin, server: operations, refusedTokens: refusedTokens, logger: logger)
        let pages = admin.makePages?(
            AdminAccess(
                endpoints: endpoints, authenticator: authenticator, authorizer: authorizer, sessionRefusals: refusals))
        let tls = admin.settings.isSecure ? self.tls : nil
        // The counters of HTTP are for clients only.
        let metrics = ConnectionMetrics(factory: NOOPMetricsHandler.instance)
        let listener = try await listen(host: admin.settings.host, port: admin.settings.port, on: group) {
            [self] channel in
            guard channels.admit(channel) else { return channel.close(promise: nil) }
            if let tls { try channel.pipeline.syncOperations.addHandler(tls.makeHandler()) }
            try HTTPHandler.install(
                in: channel, from: ClientOrigin(of: channel, settings), settings: settings, isSecure: tls != nil,
                metrics: metrics, logger: logger
            ) { head in
                let hasToken = endpoints.hasToken(head)
                if hasToken || pages?.isTrusted(head) ?? false { channels.trust(channel) }
                if let pages, !AdminRoute.has(head.uri.prefix { $0 != "?" }) { return HTTPRoute(to: pages) }
                return hasToken ? endpoints.trustedRoute(of: head) : HTTPRoute(to: endpoints)
            }
        }
        if let address = listener.localAddress {
            logger.info("admin interface listening", metadata: ["address": "\(address.hostAndPort ?? "")"])
            admin.onListening(address)
        }
        return listener
    }
}
