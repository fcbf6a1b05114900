import AnabranchTestClient
import ArgumentParser
import CommandSupport
import Foundation
import NIOCore
import NIOPosix

struct FloorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "floor",
        abstract: "What this machine can do: a program that only writes the same bytes to many sockets.",
        discussion: """
            No server, no protocol: in each round bytes go to every socket, and the round is over when the last one \
            has them. Compare with `fanout` of the same numbers. An operation is the delivery to a socket. The \
            processor's time, "cpu_us_per_operation", is that of writing and of reading.

            EXAMPLE
              anabranch-lab load floor --readers 1000 --rounds 100
              anabranch-lab load floor --readers 1000 --rounds 100 --answer 60
            """)

    @Option(help: "How many sockets.")
    var readers = 100

    @Option(help: "How often each gets the bytes.")
    var rounds = 100

    @Option(help: "How many bytes; about 200 more than those of `fanout`, which has a head.")
    var bytes = 300

    @Option(help: "With how many bytes each reader answers, as those of `fanout` acknowledge. Nobody looks at them.")
    var answer = 0

    @Option(help: "Threads that write, and as many that read.")
    var threads = 2

    func validate() throws {
        guard readers > 0, rounds > 0, bytes > 0, threads > 0, answer >= 0 else {
            throw ValidationError("All numbers but --answer must be 1 or more.")
        }
    }

    /// The processor time of this process, in seconds; nil where the system does not say.
    private static var cpuSeconds: Double? { try? ProcessSnapshot(of: getpid()).cpuSeconds }

    func run() async throws {
        OpenFileLimit.raise()
        let writers = MultiThreadedEventLoopGroup(numberOfThreads: threads)
        let readerLoops = MultiThreadedEventLoopGroup(numberOfThreads: threads)
        let arrivals = Arrivals(readers: readers)
        let sockets = try await SocketPairs(
            readers, writers: writers, readers: readerLoops, bytes: bytes, answer: answer, arrivals)
        var outcome = LoadOutcome(operations: readers * rounds, operation: "delivery")
        let start = ContinuousClock.now, before = Self.cpuSeconds
        for _ in 1...rounds {
            let sent = ContinuousClock.now
            sockets.writeToAll()
            let each = try await arrivals.all().map { $0 - sent }
            outcome.latencies["last_reader", default: []].append(each.max() ?? .zero)
            outcome.latencies["reader", default: []] += each
        }
        let seconds = (ContinuousClock.now - start) / .seconds(1)
        var counts = ["per_second": (Double(outcome.operations) / seconds).rounded(places: 0)]
        if let before, let after = Self.cpuSeconds {
            counts["cpu_us_per_operation"] = ((after - before) * 1e6 / Double(outcome.operations)).rounded(places: 1)
        }
        let numbers = ["readers": readers, "rounds": rounds, "bytes": bytes, "answer": answer, "threads": threads]
        print(
            try LoadReport(
                load: "floor", options: numbers.mapValues(Double.init), seconds: seconds.rounded(places: 3),
                operations: outcome.operations, operation: outcome.operation,
                latencyMs: outcome.latencies.mapValues(Percentiles.init),
                bytes: Traffic.Bytes(sent: readers * rounds * answer, received: readers * rounds * bytes),
                counts: counts
            ).jsonLine())
        try await writers.shutdownGracefully()
        try await readerLoops.shutdownGracefully()
    }
}

/// Both ends of many sockets.
private struct SocketPairs {
    /// The ends that are written to, by their event loop.
    private let ends: [(eventLoop: any EventLoop, channels: [any Channel])]
    private let bytes: ByteBuffer

    init(
        _ count: Int, writers: any EventLoopGroup, readers: any EventLoopGroup, bytes: Int, answer: Int,
        _ arrivals: Arrivals
    ) async throws {
        self.bytes = ByteBuffer(repeating: UInt8(ascii: "x"), count: bytes)
        let (accepted, onAccept) = AsyncStream.makeStream(of: (any Channel).self)
        let server = try await ServerBootstrap(group: writers)
            .serverChannelOption(.backlog, value: 1024)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { channel in
                onAccept.yield(channel)
                return channel.eventLoop.makeSucceededVoidFuture()
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let port = server.localAddress?.port ?? 0
        _ = try await concurrentMap(0..<count, limit: 64) { _ in
            try await ClientBootstrap(group: readers)
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.addHandler(ByteCounter(bytes, answer: answer, arrivals))
                    }
                }
                .connect(host: "127.0.0.1", port: port).get()
        }
        var channels: [any Channel] = []
        for await channel in accepted.prefix(count) { channels.append(channel) }
        let byLoop = Dictionary(grouping: channels) { ObjectIdentifier($0.eventLoop) }
        ends = byLoop.values.map { (eventLoop: $0[0].eventLoop, channels: $0) }
    }

    func writeToAll() {
        for (eventLoop, channels) in ends {
            eventLoop.execute { [bytes] in
                for channel in channels { channel.writeAndFlush(bytes, promise: nil) }
            }
        }
    }
}

/// Records when all bytes of a round have arrived.
private final class ByteCounter: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let bytesPerRound: Int
    private let answer: ByteBuffer
    private let arrivals: Arrivals
    private var count = 0

    init(_ bytesPerRound: Int, answer: Int, _ arrivals: Arrivals) {
        self.bytesPerRound = bytesPerRound
        self.answer = ByteBuffer(repeating: UInt8(ascii: "y"), count: answer)
        self.arrivals = arrivals
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        count += unwrapInboundIn(data).readableBytes
        guard count >= bytesPerRound else { return }
        count -= bytesPerRound
        arrivals.record(1, at: .now)
        if answer.readableBytes > 0 { context.channel.writeAndFlush(answer, promise: nil) }
    }
}
