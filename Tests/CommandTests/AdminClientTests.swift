import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import Testing

@testable import anabranch

@Suite struct AdminClientTests {
    /// Answers as soon as it has the head of a request, and closes.
    private final class HastyHandler: ChannelInboundHandler {
        typealias InboundIn = HTTPServerRequestPart
        typealias OutboundOut = HTTPServerResponsePart

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            guard case .head = unwrapInboundIn(data) else { return }
            let head = HTTPResponseHead(version: .http1_1, status: .ok, headers: ["Content-Length": "0"])
            context.write(wrapOutboundOut(.head(head)), promise: nil)
            context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
            context.close(promise: nil)
        }
    }

    @Test func clientsOfDoorsAreATableOfTheirOwn() throws {
        let answer = """
            {"clients": [], "channels": [
                {"door": "simperium", "user": "5f", "client": "node-1", "bucket": "note", "library": "android 0",
                 "since": 0},
                {"door": "property-list", "user": null, "client": "phone", "bucket": null, "library": null, "since": 1}
            ]}
            """
        let listing = try JSONDecoder().decode(AdminClients.Listing.self, from: Data(answer.utf8))
        let table = """
            DOOR           USER  CLIENT  BUCKET  LIBRARY    SINCE
            simperium      5f    node-1  note    android 0  1970-01-01T00:00:00Z
            property-list  -     phone   -       -          1970-01-01T00:00:01Z

            """
        #expect(listing.rows.isEmpty && listing.other?.description == table)
        let none = try JSONDecoder().decode(AdminClients.Listing.self, from: Data(#"{"clients": []}"#.utf8))
        #expect(none.other?.description == nil)
    }

    @Test func aServerThatAnswersAndClosesEarlyIsUnderstood() async throws {
        let server = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(HastyHandler())
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(server.localAddress?.port)
        let client = try AdminClient(address: AdminAddress(url: "http://127.0.0.1:\(port)"), token: "t", authority: nil)
        for _ in 0..<2000 { _ = try await client.get("/health") }
        try await server.close()
    }
}
