public import AnabranchCore

/// One WebSocket binary message to be sent: the head, then the body, which may be shared with other messages.
public struct EncodedMessage: Equatable, Sendable {
    /// The first line with its line feed.
    public let head: [UInt8]
    /// What follows the line feed.
    public let body: [UInt8]
    /// The code of a server's JSON_ERROR; nil for other messages.
    public let errorCode: ErrorCode?
    /// That of the body.
    package var attachment: MessageAttachment?

    init(head: [UInt8], body: [UInt8], errorCode: ErrorCode? = nil) {
        self.head = head
        self.body = body
        self.errorCode = errorCode
    }

    /// The size of the message in bytes.
    public var count: Int { head.count + body.count }

    /// The whole message.
    public var bytes: [UInt8] { head + body }
}

/// Something of the host that has to live as long as a message waits to be sent. It is no part of what is said, so
/// messages that differ in nothing else are equal.
package struct MessageAttachment: Equatable, Sendable {
    package let object: any AnyObject & Sendable

    package init(_ object: any AnyObject & Sendable) { self.object = object }

    package static func == (left: MessageAttachment, right: MessageAttachment) -> Bool { true }
}

/// The body of an UPLOAD or a DOWNLOAD as it goes on the wire, deflated if that makes it smaller
/// (`Spec/Protocol.md`, section 11). Readers with the same client versions may share one.
public struct EncodedBody: Equatable, Sendable {
    /// What goes on the wire.
    let bytes: [UInt8]
    let isCompressed: Bool
    let uncompressedBytes: Int
    /// Is kept as long as the body, and as the message that it becomes.
    package var attachment: MessageAttachment?

    /// The size on the wire in bytes.
    public var count: Int { bytes.count }

    /// The body of a message without changesets.
    public static let empty = EncodedBody(deflating: [], limits: Limits())

    /// Copies each changeset once, and deflates the whole if the limits say so: the expensive step of a DOWNLOAD.
    ///
    /// - Parameter changesets: in the order of the log.
    public init(_ changesets: [DownloadedChangeset], limits: Limits = Limits()) {
        self.init(deflating: [UInt8](encoding: changesets), limits: limits)
    }

    init(deflating body: [UInt8], limits: Limits) {
        uncompressedBytes = body.count
        if body.count > limits.compressionThresholdBytes,
            let deflated = BodyCompression.deflate(body, level: limits.compressionLevel)
        {
            (bytes, isCompressed) = (deflated, true)
        } else {
            (bytes, isCompressed) = (body, false)
        }
    }
}
