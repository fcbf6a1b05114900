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
        sharedBody = body.flatMap { $0.count == 0 ? nil : $0 }
        self.errorCode = errorCode
    }

    /// The size of the message in bytes.
    public var count: Int { head.count + (sharedBody?.count ?? 0) }

    /// The whole message.
    public var bytes: [UInt8] { head + body }
}

/// Bytes in the form that the sockets of a host take.
package protocol SocketBytes: Sendable {
    init(_ bytes: [UInt8])

    var bytes: [UInt8] { get }
}

extension [UInt8]: SocketBytes {
    package var bytes: [UInt8] { self }
}

/// Bytes that messages have in common. They are kept once: in the form of the host's sockets as soon as a message is
/// sent.
package final class SharedBytes: Equatable, Sendable {
    package let count: Int
    private let content: Mutex<any SocketBytes>

    package init(_ bytes: [UInt8]) {
        count = bytes.count
        content = Mutex(bytes)
    }

    package var bytes: [UInt8] { content.withLock { $0.bytes } }

    /// The bytes in the host's form: there is one for each host.
    package func form<Form: SocketBytes>(as type: Form.Type) -> Form {
        content.withLock { content in
            if let form = content as? Form { return form }
            let form = Form(content.bytes)
            content = form
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
    public var count: Int { shared.count }

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
