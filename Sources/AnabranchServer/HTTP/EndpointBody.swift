public import NIOCore

/// The body of a request or of a response.
public enum EndpointBody: Sendable {
    /// The whole body in memory.
    case whole([UInt8])
    /// Parts that arrive, or are sent, one by one. The next one is taken when there is room for it: in a response once
    /// the client has read, in a request once the endpoint has.
    /// - Parameter byteCount: the bytes of all parts together, if they are known. A response with a known length can be
    ///   checked by its client; if it turns out to be wrong, the connection is cut.
    case stream(EndpointStream, byteCount: Int? = nil)
}

/// The parts of a body, once.
///
/// That of a request throws `EndpointStreamError` if the rest does not come. If that of a response throws, the
/// connection breaks off, which tells the client that something is missing.
public struct EndpointStream: AsyncSequence, Sendable {
    /// The next part; nil at the end.
    public struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let nextPart: () async throws -> ByteBuffer?

        /// Waits for the next part.
        public mutating func next() async throws -> ByteBuffer? { try await nextPart() }
    }

    private let makeIterator: @Sendable () -> AsyncIterator

    /// The parts of any sequence.
    public init<Parts: AsyncSequence & Sendable>(_ parts: Parts) where Parts.Element == ByteBuffer {
        makeIterator = {
            var iterator = parts.makeAsyncIterator()
            return AsyncIterator { try await iterator.next() }
        }
    }

    /// Begins with the first part. There is one iteration only.
    public func makeAsyncIterator() -> AsyncIterator { makeIterator() }
}

/// The reason why the body of a request ends too early.
public enum EndpointStreamError: Error, Equatable {
    /// The client has left, or has sent nothing for too long.
    case incomplete
    /// The body is longer than its route allows. The client has got status 413.
    case tooLong
}
