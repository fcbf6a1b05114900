import AnabranchCore

/// Writes the head of a message: a type, then fields that each follow one space, then a line feed
/// (`Spec/Protocol.md`, section 3).
struct HeadWriter {
    private var bytes: [UInt8]

    init(_ kind: some RawRepresentable<String>) {
        bytes = []
        // Few heads are longer.
        bytes.reserveCapacity(128)
        bytes += kind.rawValue.utf8
    }

    mutating func write(_ number: some FixedWidthInteger) {
        bytes.append(UInt8(ascii: " "))
        bytes.append(decimal: number)
    }

    mutating func write(_ number: some TypedNumber) { write(number.rawValue) }

    mutating func write(_ flag: Bool) { write(flag ? 1 : 0) }

    /// Writes a field that is text already.
    mutating func write(raw text: String) {
        bytes.append(UInt8(ascii: " "))
        bytes += text.utf8
    }

    /// Ends the head and makes the message.
    consuming func end(body: [UInt8] = [], errorCode: ErrorCode? = nil) -> EncodedMessage {
        end(sharing: body.isEmpty ? nil : SharedBytes(body), errorCode: errorCode)
    }

    /// The same, with a body that other messages may share.
    consuming func end(sharing body: SharedBytes?, errorCode: ErrorCode? = nil) -> EncodedMessage {
        bytes.append(UInt8(ascii: "\n"))
        return EncodedMessage(head: bytes, body: body, errorCode: errorCode)
    }
}

/// Reads the head of a message.
struct HeadReader {
    /// The type of the message, for errors.
    private let kind: String
    private var reader: NumberReader

    /// - Parameter kind: the first word of the message.
    init(_ message: [UInt8], _ kind: some RawRepresentable<String>) {
        self.kind = kind.rawValue
        reader = NumberReader(message, from: kind.rawValue.utf8.count)
    }

    /// An ident, or another number that begins at 1.
    mutating func ident<Number: TypedNumber>() throws(ProtocolError) -> Number { Number(rawValue: try ident()) }

    /// A number of 0 … 2^63 − 1.
    mutating func number<Number: TypedNumber>() throws(ProtocolError) -> Number { Number(rawValue: try number()) }

    /// An ident, or another number that begins at 1.
    mutating func ident() throws(ProtocolError) -> UInt64 {
        let value: UInt64 = try number()
        guard value > 0 else { throw syntax("0 is out of range") }
        return value
    }

    /// A number of 0 … 2^63 − 1.
    mutating func number() throws(ProtocolError) -> UInt64 {
        guard reader.skip(UInt8(ascii: " ")), let value = reader.number() else { throw syntax("bad number") }
        return value
    }

    /// A size in bytes.
    mutating func size() throws(ProtocolError) -> Int {
        guard let value = Int(exactly: try number() as UInt64) else { throw syntax("size out of range") }
        return value
    }

    /// 0 is false, any other number is true.
    mutating func flag() throws(ProtocolError) -> Bool { try number() as UInt64 != 0 }

    mutating func signedNumber() throws(ProtocolError) -> Int64 {
        guard reader.skip(UInt8(ascii: " ")), let value = reader.signedNumber() else { throw syntax("bad number") }
        return value
    }

    /// A decimal fraction, perhaps with an exponent.
    mutating func real() throws(ProtocolError) -> Double {
        guard reader.skip(UInt8(ascii: " ")), let value = reader.real() else { throw syntax("bad number") }
        return value
    }

    /// A code of 32 bits with a sign.
    mutating func errorCode() throws(ProtocolError) -> Int {
        guard let code = Int32(exactly: try signedNumber()) else { throw syntax("code out of range") }
        return Int(code)
    }

    /// The form in which a body of entries travels.
    struct BodySize {
        let isCompressed: Bool
        let uncompressedBytes: Int
        let compressedBytes: Int
    }

    /// `<is compressed> <uncompressed size> <compressed size>`
    mutating func bodySize() throws(ProtocolError) -> BodySize {
        BodySize(isCompressed: try flag(), uncompressedBytes: try size(), compressedBytes: try size())
    }

    /// The end of the head. The body follows, which must have this many bytes; after a head that announces no body,
    /// further bytes are ignored, as servers always have (section 3).
    mutating func end(bodyBytes: Int? = nil) throws(ProtocolError) -> NumberReader {
        guard reader.skip(UInt8(ascii: "\n")) else { throw syntax("no end of head where expected") }
        if let bodyBytes, reader.remaining != bodyBytes { throw syntax("size of body") }
        return reader
    }

    /// The end of the head, and the body, inflated if it was compressed; empty if it is skipped.
    /// - Parameter stop: whether a compressed body need not be inflated further, which then ends there.
    mutating func end(
        _ size: BodySize, isSkipped: @autoclosure () -> Bool, limits: Limits,
        stop: (_ begun: [UInt8]) -> Bool = { _ in false }
    ) throws(ProtocolError) -> NumberReader {
        guard size.isCompressed || size.compressedBytes == 0 else {
            throw syntax("compressed size without compression")
        }
        var body = try end(bodyBytes: size.isCompressed ? size.compressedBytes : size.uncompressedBytes)
        // Most UPLOADs only acknowledge: there is nothing to skip.
        if size.isCompressed || body.remaining > 0, isSkipped() { return NumberReader([], from: 0) }
        guard size.isCompressed else { return body }
        do throws(BodyCompression.InflationError) {
            let deflated = body.skip(count: size.compressedBytes)
            let inflated = try BodyCompression.inflate(
                deflated, to: size.uncompressedBytes, limits: limits, stop: stop)
            return NumberReader(inflated, from: 0)
        } catch {
            throw ProtocolError(.badDecompression, "\(kind): \(error.rawValue)")
        }
    }

    func syntax(_ reason: String) -> ProtocolError { ProtocolError(.badSyntax, "\(kind): \(reason)") }
}

extension RawRepresentable<String> where Self: CaseIterable {
    /// The case whose word the message begins with. Each message passes through here, so no string is made of its word.
    init?(firstWordOf message: UnsafeRawBufferPointer) {
        let found = Self.allCases.first { kind in
            let word = kind.rawValue.utf8
            guard message.starts(with: word) else { return false }
            guard message.count > word.count else { return true }
            let next = message[word.count]
            return next == UInt8(ascii: " ") || next == UInt8(ascii: "\n")
        }
        guard let found else { return nil }
        self = found
    }

    /// The same, wherever the bytes are.
    init?(firstWordOfCollection message: some Collection<UInt8>) {
        let found = message.withContiguousStorageIfAvailable { Self(firstWordOf: UnsafeRawBufferPointer($0)) }
        guard let kind = found ?? Array(message).withUnsafeBytes({ Self(firstWordOf: $0) }) else { return nil }
        self = kind
    }
}
