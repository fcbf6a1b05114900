import NIOCore

/// The header of the PROXY protocol, by which a proxy names the client of a connection: version 1, a line of text, or
/// version 2, which is binary.
enum ProxyHeader: Equatable {
    /// The address of the client.
    case client(SocketAddress)
    /// The proxy itself connects, for a health check, or does not know the client.
    case proxyItself

    /// The reason why a connection does not begin with a header, as it has to.
    struct ReadError: Error, CustomStringConvertible {
        let description: String
    }

    /// The longest line, in bytes.
    private static let lineBytesMax = 107
    /// The longest part of version 2 that follows its first 16 bytes, in bytes.
    private static let extensionBytesMax = 2_048
    private static let signature: [UInt8] = [13, 10, 13, 10, 0, 13, 10, 81, 85, 73, 84, 10]

    /// Takes the header from the beginning of a connection; nil if it is not all there yet.
    static func read(from buffer: inout ByteBuffer) throws(ReadError) -> ProxyHeader? {
        let bytes = Array(buffer.readableBytesView.prefix(16))
        if bytes.starts(with: signature.prefix(bytes.count)) {
            return bytes.count < 16 ? nil : try readBinary(from: &buffer, bytes)
        }
        let word = Array("PROXY ".utf8)
        guard bytes.starts(with: word.prefix(bytes.count)) else {
            throw ReadError(description: "no PROXY header")
        }
        return try readLine(from: &buffer)
    }

    private static func readLine(from buffer: inout ByteBuffer) throws(ReadError) -> ProxyHeader? {
        let line = buffer.readableBytesView.prefix(lineBytesMax)
        guard let end = line.firstIndex(of: 10) else {
            if line.count < lineBytesMax { return nil }
            throw ReadError(description: "a PROXY header without end")
        }
        let text = String(decoding: line[..<end], as: UTF8.self)
        buffer.moveReaderIndex(forwardBy: end + 1 - line.startIndex)
        let words = text.split(separator: " ", omittingEmptySubsequences: false)
        if words.count >= 2, words[1].trimmingSuffix("\r") == "UNKNOWN" { return .proxyItself }
        guard words.count == 6, text.last == "\r", let family = family(words[1]),
            let client = address(words[2], words[4], family),
            address(words[3], words[5].dropLast(), family) != nil
        else { throw ReadError(description: "a malformed PROXY header") }
        return .client(client)
    }

    private static func family(_ word: Substring) -> NIOBSDSocket.ProtocolFamily? {
        ["TCP4": .inet, "TCP6": .inet6][word]
    }

    /// - Returns: nil if there is no address, or one of another family.
    private static func address(
        _ word: Substring, _ port: Substring, _ family: NIOBSDSocket.ProtocolFamily
    ) -> SocketAddress? {
        guard let port = UInt16(port), let address = try? SocketAddress(ipAddress: String(word), port: Int(port)),
            address.protocol == family
        else { return nil }
        return address
    }

    private static func readBinary(
        from buffer: inout ByteBuffer, _ start: [UInt8]
    ) throws(ReadError) -> ProxyHeader? {
        let length = Int(start[14]) << 8 | Int(start[15])
        guard start[12] == 0x20 || start[12] == 0x21, length <= extensionBytesMax else {
            throw ReadError(description: "a malformed PROXY header")
        }
        guard buffer.readableBytes >= 16 + length else { return nil }
        buffer.moveReaderIndex(forwardBy: 16)
        guard let body = buffer.readBytes(length: length), start[12] == 0x21 else { return .proxyItself }
        // The families of IPv4 and IPv6 with a stream, and the position of the client's port.
        let (addressBytes, portIndex): (Int, Int)
        switch start[13] {
        case 0x11: (addressBytes, portIndex) = (4, 8)
        case 0x21: (addressBytes, portIndex) = (16, 32)
        default: return .proxyItself
        }
        guard body.count >= portIndex + 4 else { throw ReadError(description: "a malformed PROXY header") }
        let port = Int(body[portIndex]) << 8 | Int(body[portIndex + 1])
        let packed = ByteBuffer(bytes: body.prefix(addressBytes))
        guard let address = try? SocketAddress(packedIPAddress: packed, port: port) else {
            throw ReadError(description: "a malformed PROXY header")
        }
        return .client(address)
    }
}

extension Substring {
    fileprivate func trimmingSuffix(_ suffix: String) -> Substring { hasSuffix(suffix) ? dropLast(suffix.count) : self }
}

/// Reads the header of a proxy. It stands in front of all other handlers until the header has come.
final class ProxyHeaderHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private let onHeader: (ProxyHeader) -> Void
    private let onError: (ProxyHeader.ReadError) -> Void
    private var bytes = ByteBuffer()

    /// - Parameters:
    ///   - onHeader: called before anything else of the connection is read.
    ///   - onError: called before the connection is closed.
    init(onHeader: @escaping (ProxyHeader) -> Void, onError: @escaping (ProxyHeader.ReadError) -> Void) {
        self.onHeader = onHeader
        self.onError = onError
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        bytes.writeImmutableBuffer(unwrapInboundIn(data))
        do throws(ProxyHeader.ReadError) {
            guard let header = try ProxyHeader.read(from: &bytes) else { return }
            onHeader(header)
            if bytes.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(bytes)) }
            bytes = ByteBuffer()
            context.pipeline.syncOperations.removeHandler(self, promise: nil)
        } catch {
            onError(error)
            context.close(promise: nil)
        }
    }
}
