import AnabranchProtocol
import Synchronization
import Testing

@testable import AnabranchClient

/// A server that ends connections with an error, and says when to come back.
@Suite(.timeLimit(.minutes(30))) struct ConnectionErrorTests {
    @Test func aServerSeesWhatClientItIs() {
        let release = ClientRelease(offering: ProtocolVersion(14), userAgent: SyncClient.userAgent(of: "notes"))
        #expect(release.said == CoreVersion(14, 14))
        #expect("\(release)" == "Anabranch, like realm-core 14.14.0")
    }

    /// The client itself would wait for a day.
    private static func client(_ port: Int) -> SyncClient {
        var configuration = SyncConfiguration(
            FixedRoute("ws://127.0.0.1:\(port)/api/client/v2.0/app/parts/realm-sync?baas_at="))
        configuration.backOff = BackOff(firstSeconds: 86_400, maxSeconds: 86_400, multiplier: 1)
        return SyncClient(configuration)
    }

    private static func error(triesAgain: Bool, backOff: String = "") -> [UInt8] {
        let json = """
            {"tryAgain":\(triesAgain),"message":"full","logURL":"","shouldClientReset":false,\
            "isRecoveryModeDisabled":false,"action":"\(triesAgain ? "Transient" : "ApplicationBug")"\(backOff)}
            """
        return RawPeer.frame(Array("json_error 101 \(json.utf8.count) 0\n\(json)".utf8))
    }

    /// Answers each connection with an error, and gives the signal of its number.
    private static func withServer(
        _ error: [UInt8], _ connected: [Signal], _ body: (_ port: Int) async throws -> Void
    ) async throws {
        let count = Mutex(0)
        try await withRawServer(
            { peer in
                try await peer.upgrade(choosing: "com.mongodb.realm-sync#14")
                let number = count.withLock { count in
                    count += 1
                    return count - 1
                }
                if number < connected.count { connected[number].give() }
                try await peer.send(error)
                await peer.read()
            }, body)
    }

    @Test func theNumbersOfTheServerCount() async throws {
        let soon = #","backoffIntervalSec":1,"backoffMaxDelaySec":1,"backoffMultiplier":1"#
        let connected = [Signal(), Signal(), Signal()]
        try await Self.withServer(Self.error(triesAgain: true, backOff: soon), connected) { port async throws in
            try await withFolder { path async throws in
                let replica = try SyncedReplica(path: path("one")), client = Self.client(port)
                try await client.add(replica, partition: "1")
                for signal in connected { await signal.wait() }
                await client.stop()
                try await replica.close()
            }
        }
    }

    /// Until somebody wants a connection again.
    @Test func whoIsNotToTryAgainStops() async throws {
        let connected = [Signal(), Signal()]
        try await Self.withServer(Self.error(triesAgain: false), connected) { port async throws in
            try await withFolder { path async throws in
                let one = try SyncedReplica(path: path("one")), two = try SyncedReplica(path: path("two"))
                let client = Self.client(port), events = await one.events()
                try await client.add(one, partition: "1")
                await connected[0].wait()
                #expect(try await first(events, \.stop).reason == "full")
                try await client.add(two, partition: "1")
                await connected[1].wait()
                await client.stop()
                try await one.close()
                try await two.close()
            }
        }
    }
}
