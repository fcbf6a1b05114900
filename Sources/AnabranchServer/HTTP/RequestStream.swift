import NIOCore

/// The body of a request on its way from the socket to the endpoint that reads it.
struct RequestStream {
    /// Parts that wait for the endpoint until the socket is not read any more; one has `HTTPHandler.readBytesMax` bytes
    /// at most, or what TLS puts into one record. Reading goes on when half of them are left.
    static let waitingPartsMax = 16

    private typealias Producer = NIOThrowingAsyncSequenceProducer<
        ByteBuffer, any Error, NIOAsyncSequenceProducerBackPressureStrategies.HighLowWatermark, Demand
    >

    /// Called by the endpoint's task, on any thread.
    private final class Demand: NIOAsyncSequenceProducerDelegate {
        let onDemand: @Sendable () -> Void

        init(_ onDemand: @escaping @Sendable () -> Void) { self.onDemand = onDemand }

        func produceMore() { onDemand() }

        /// The rest is read and dropped.
        func didTerminate() { onDemand() }
    }

    /// The socket's end of the stream. Dropping it before the body is complete reports an error to the endpoint.
    private final class Feed {
        let source: Producer.Source

        init(_ source: Producer.Source) { self.source = source }

        deinit { source.finish(EndpointStreamError.incomplete) }
    }

    let parts: EndpointStream
    private let feed: Feed
    private var bytesLeft: Int
    /// The bytes that have come since the last call of `takeProgress`.
    private var newBytes = 0

    /// - Parameter onDemand: called on any thread when parts are wanted again, or not wanted any more.
    init(bytesMax: Int, onDemand: @escaping @Sendable () -> Void) {
        let made = Producer.makeSequence(
            backPressureStrategy: .init(lowWatermark: Self.waitingPartsMax / 2, highWatermark: Self.waitingPartsMax),
            finishOnDeinit: false, delegate: Demand(onDemand))
        feed = Feed(made.source)
        parts = EndpointStream(made.sequence)
        bytesLeft = bytesMax
    }

    /// Passes on a part.
    /// - Returns: false if the endpoint has enough to read.
    mutating func append(_ part: ByteBuffer) throws(HTTPError) -> Bool {
        guard part.readableBytes <= bytesLeft else { throw .bodyTooLarge }
        bytesLeft -= part.readableBytes
        newBytes += part.readableBytes
        return feed.source.yield(part) != .stopProducing
    }

    /// True if a client whose turn it is to send has sent `bytesMin` since the last call.
    mutating func takeProgress(of bytesMin: Int) -> Bool {
        defer { newBytes = 0 }
        return newBytes >= bytesMin
    }

    /// All of the body has come.
    func finish() { feed.source.finish() }

    /// The rest of the body is not taken.
    func refuse() { feed.source.finish(EndpointStreamError.tooLong) }
}
