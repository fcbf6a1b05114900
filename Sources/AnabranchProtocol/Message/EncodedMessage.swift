public import AnabranchCore
import Synchronization

/// One WebSocket binary message to be sent: the head, then the body, which may be shared with other messages.
public struct EncodedMessage: Equatable, Sendable {
    /// The first line with its line feed.
    public let head: [UInt8]
    /// The bytes after the line feed.
    public var body: [UInt8] { sharedBody?.bytes ?? [] }
    /// The body as shared bytes; nil if it is empty or not shared.
    package let sharedBody: SharedBytes?
    /// The code of a server's JSON_ERROR; nil for other messages.
    public let errorCode: ErrorCode?
    /// The attachment of the body.
    package var attachment: MessageAttachment?

    init(head: [UInt8], body: SharedBytes?, errorCode: ErrorCode? = nil) {
        self.head = head
        sharedBody = body.flatMap { $0.bytes.isEmpty ? nil : $0 }
        self.errorCode = errorCode
    }

    /// The size of the message in bytes.
    public var count: Int { head.count + body.count }

    /// The whole message.
    public var bytes: [UInt8] { head + body }
}

/// Bytes that messages have in common, and the form that a host has given them for its sockets: once for all messages.
package final class SharedBytes: Equatable, Sendable {
    package let bytes: [UInt8]
    private let form = Mutex<(any Sendable)?>(nil)

    package init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// The bytes in the host's form: there is one for each host.
    package func form<Form: Sendable>(_ make: ([UInt8]) -> Form) -> Form {
        form.withLock { known in
            if let form = known as? Form { return form }
            let form = make(bytes)
            known = form
            return form
        }
    }

    package static func == (left: SharedBytes, right: SharedBytes) -> Bool { left.bytes == right.bytes }
}

/// An object of the host that has to live as long as a message waits to be sent. It is not part of the content, so
/// messages that differ in nothing else are equal.
package struct MessageAttachment: Equatable, Sendable {
    package let object: any AnyObject & Sendable

    package init(_ object: any AnyObject & Sendable) { self.object = object }

    package static func == (left: MessageAttachment, right: MessageAttachment) -> Bool { true }
}

/// The body of an UPLOAD or a DOWNLOAD as it goes on the wire, deflated if that makes it smaller
/// (`Spec/Protocol.md`, section 11). Readers with the same client versions may share one.
public struct EncodedBody: Equatable, Sendable {
    /// The bytes that go on the wire.
    let shared: SharedBytes
    let isCompressed: Bool
    let uncompressedBytes: Int
    /// Kept as long as the body, and as the message that it becomes.
    package var attachment: MessageAttachment?

    /// The size on the wire in bytes.
    public var count: Int { bytes.count }

    /// True if there is no changeset in it.
    public var isEmpty: Bool { uncompressedBytes == 0 }

    var bytes: [UInt8] { shared.bytes }

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
            BodyCompression.isWorthwhile(for: body, level: limits.compressionLevel),
            let deflated = BodyCompression.deflate(body, level: limits.compressionLevel)
        {
            (shared, isCompressed) = (SharedBytes(deflated), true)
        } else {
            (shared, isCompressed) = (SharedBytes(body), false)
        }
    }
}
