import AnabranchCore

/// One WebSocket binary message to be sent: the head, then the body, which may be shared with other messages.
public struct EncodedMessage: Equatable, Sendable {
    public let head: [UInt8]
    public let body: [UInt8]
    /// The code of a JSON_ERROR; nil for other messages.
    public let errorCode: ErrorCode?

    /// The size of the message in bytes.
    public var count: Int { head.count + body.count }

    public var bytes: [UInt8] { head + body }
}

/// The changesets of a DOWNLOAD, put together and deflated once. Readers with the same client versions may share it.
public struct DownloadBody: Equatable, Sendable {
    /// What goes on the wire.
    let bytes: [UInt8]
    let isCompressed: Bool
    let uncompressedBytes: Int

    /// The size on the wire in bytes.
    public var count: Int { bytes.count }

    /// What the six numbers of an entry usually take, so that memory is reserved once.
    private static let entryHeadBytesExpected = 64

    public static let empty = DownloadBody(bytes: [], isCompressed: false, uncompressedBytes: 0)

    /// Copies each changeset once, and deflates the whole if the limits say so: the expensive step of a DOWNLOAD.
    ///
    /// - Parameter changesets: in the order of the log.
    public init(_ changesets: [DownloadedChangeset], limits: Limits = Limits()) {
        var body: [UInt8] = []
        body.reserveCapacity(changesets.reduce(0) { $0 + $1.changeset.count + Self.entryHeadBytesExpected })
        for entry in changesets {
            body.append(field: entry.cursor.serverVersion.rawValue)
            body.append(field: entry.cursor.clientVersion.rawValue)
            body.append(field: entry.tag.timestamp.rawValue)
            body.append(field: entry.tag.ident.rawValue)
            body.append(field: entry.originalBytes)
            body.append(field: entry.changeset.count)
            body.append(contentsOf: entry.changeset)
        }
        if body.count > limits.compressionThresholdBytes,
            let deflated = BodyCompression.deflate(body, level: limits.compressionLevel)
        {
            self.init(bytes: deflated, isCompressed: true, uncompressedBytes: body.count)
        } else {
            self.init(bytes: body, isCompressed: false, uncompressedBytes: body.count)
        }
    }

    private init(bytes: [UInt8], isCompressed: Bool, uncompressedBytes: Int) {
        self.bytes = bytes
        self.isCompressed = isCompressed
        self.uncompressedBytes = uncompressedBytes
    }
}

extension ServerMessage {
    /// The message as it goes on the wire (`Spec/Protocol.md`, section 5). The grammar is the same in all versions.
    public var encoded: EncodedMessage {
        switch self {
        case .ident(let session, let file):
            head("ident", [session.rawValue, file.ident.rawValue, file.salt.rawValue])
        case .download(let session, let progress, let body):
            download(session, progress, body)
        case .mark(let session, let request):
            head("mark", [session.rawValue, request])
        case .unbound(let session):
            head("unbound", [session.rawValue])
        case .pong(let timestamp):
            head("pong", [timestamp])
        case .log(let session, let message):
            log(session, message.json)
        case .error(let session, let message):
            error(session, message.code, message.json)
        }
    }

    private func download(_ session: SessionID, _ progress: DownloadProgress, _ body: DownloadBody) -> EncodedMessage {
        head(
            "download",
            [
                session.rawValue, progress.cursor.serverVersion.rawValue, progress.cursor.clientVersion.rawValue,
                progress.latest.version.rawValue, progress.latest.salt.rawValue,
                progress.upload.clientVersion.rawValue, progress.upload.serverVersion.rawValue,
                progress.downloadableBytes,
                body.isCompressed ? 1 : 0, UInt64(body.uncompressedBytes),
                body.isCompressed ? UInt64(body.bytes.count) : 0,
            ],
            body: body.bytes)
    }

    private func log(_ session: SessionID, _ json: [UInt8]) -> EncodedMessage {
        head("log_message", [session.rawValue, UInt64(json.count)], body: json)
    }

    private func error(_ session: SessionID, _ code: ErrorCode, _ json: [UInt8]) -> EncodedMessage {
        head("json_error", [UInt64(code.rawValue), UInt64(json.count), session.rawValue], body: json, code)
    }

    private func head(
        _ type: StaticString, _ fields: [some FixedWidthInteger], body: [UInt8] = [], _ errorCode: ErrorCode? = nil
    ) -> EncodedMessage {
        var head = Array("\(type)".utf8)
        for field in fields {
            head.append(UInt8(ascii: " "))
            head.append(decimal: field)
        }
        head.append(UInt8(ascii: "\n"))
        return EncodedMessage(head: head, body: body, errorCode: errorCode)
    }
}

extension [UInt8] {
    /// A number in front of a changeset.
    fileprivate mutating func append(field: some FixedWidthInteger) {
        append(decimal: field)
        append(UInt8(ascii: " "))
    }

    fileprivate mutating func append(decimal number: some FixedWidthInteger) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: Limits.numberBytesMax) { digits in
            var start = digits.endIndex
            var rest = UInt64(number.magnitude)
            repeat {
                start -= 1
                digits[start] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
                rest /= 10
            } while rest > 0
            if number < 0 {
                start -= 1
                digits[start] = UInt8(ascii: "-")
            }
            append(contentsOf: digits[start...])
        }
    }
}
