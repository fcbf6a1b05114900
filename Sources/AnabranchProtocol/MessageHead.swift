import AnabranchCore

/// Reads the decimal numbers of which heads and entries consist (`Spec/Protocol.md`, section 3).
struct NumberReader {
    let bytes: [UInt8]
    private(set) var position: Int

    init(_ bytes: [UInt8], from position: Int) {
        self.bytes = bytes
        self.position = position
    }

    var remaining: Int { bytes.count - position }

    /// Steps over one byte if it is the expected one.
    mutating func skip(_ byte: UInt8) -> Bool {
        guard position < bytes.count, bytes[position] == byte else { return false }
        position += 1
        return true
    }

    /// Steps over bytes that the caller knows to exist.
    mutating func skip(count: Int) -> ArraySlice<UInt8> {
        let start = position
        position += count
        return bytes[start..<position]
    }

    /// A number of 0 … 2^63 − 1: digits only.
    mutating func number() -> UInt64? {
        guard let magnitude = digits(), magnitude <= UInt64(Int64.max) else { return nil }
        return magnitude
    }

    /// A signed number of 64 bits.
    mutating func signedNumber() -> Int64? {
        guard skip(UInt8(ascii: "-")) else { return digits().flatMap { Int64(exactly: $0) } }
        guard let magnitude = digits(), magnitude <= Int64.min.magnitude else { return nil }
        return Int64(truncatingIfNeeded: 0 &- magnitude)
    }

    private mutating func digits() -> UInt64? {
        let start = position
        let limit = min(bytes.count, start + Limits.numberBytesMax)
        var value: UInt64 = 0
        while position < limit {
            let digit = bytes[position] &- UInt8(ascii: "0")
            guard digit <= 9 else { break }
            let (tens, overflow) = value.multipliedReportingOverflow(by: 10)
            let (sum, carry) = tens.addingReportingOverflow(UInt64(digit))
            guard !overflow, !carry else { return nil }
            value = sum
            position += 1
        }
        return position > start ? value : nil
    }
}

/// Reads the head of a message: a type, then fields that each follow one space, then a line feed.
struct MessageHead {
    let type: MessageType
    private var reader: NumberReader

    enum MessageType: String {
        case bind, ident, upload, mark, unbind, ping
        case error = "json_error"
        case testCommand = "test_command"

        static let bytesMax = testCommand.rawValue.utf8.count
    }

    init(_ message: [UInt8]) throws(ProtocolViolation) {
        let start = message.prefix(MessageType.bytesMax + 1)
        let name = start.prefix { $0 != UInt8(ascii: " ") && $0 != UInt8(ascii: "\n") }
        guard let type = MessageType(rawValue: String(decoding: name, as: UTF8.self)) else {
            throw ProtocolViolation(.unknownMessage, "unknown type")
        }
        self.type = type
        reader = NumberReader(message, from: name.count)
    }

    /// An ident, or another number that begins at 1.
    mutating func ident<Number: TypedNumber>() throws(ProtocolViolation) -> Number { Number(rawValue: try ident()) }

    /// 0 … 2^63 − 1.
    mutating func number<Number: TypedNumber>() throws(ProtocolViolation) -> Number { Number(rawValue: try number()) }

    /// An ident, or another number that begins at 1.
    mutating func ident() throws(ProtocolViolation) -> UInt64 {
        let value = try number()
        guard value > 0 else { throw syntax("0 is out of range") }
        return value
    }

    /// 0 … 2^63 − 1.
    mutating func number() throws(ProtocolViolation) -> UInt64 {
        guard reader.skip(UInt8(ascii: " ")), let value = reader.number() else { throw syntax("bad number") }
        return value
    }

    /// A size in bytes.
    mutating func size() throws(ProtocolViolation) -> Int {
        guard let value = Int(exactly: try number()) else { throw syntax("size out of range") }
        return value
    }

    /// 0 is false, any other number is true.
    mutating func flag() throws(ProtocolViolation) -> Bool { try number() != 0 }

    mutating func signedNumber() throws(ProtocolViolation) -> Int64 {
        guard reader.skip(UInt8(ascii: " ")), let value = reader.signedNumber() else { throw syntax("bad number") }
        return value
    }

    /// The end of the head. What follows is the body, which must have this many bytes; behind a head that announces no
    /// body, bytes are passed over, as servers always have (section 3).
    mutating func end(bodyBytes: Int? = nil) throws(ProtocolViolation) -> NumberReader {
        guard reader.skip(UInt8(ascii: "\n")) else { throw syntax("no end of head where expected") }
        if let bodyBytes, reader.remaining != bodyBytes { throw syntax("size of body") }
        return reader
    }

    func syntax(_ reason: String) -> ProtocolViolation {
        ProtocolViolation(.badSyntax, "\(type.rawValue): \(reason)")
    }
}
