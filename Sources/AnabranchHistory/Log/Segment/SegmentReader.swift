/// Checked reads over the bytes of a log segment: nothing is read beyond the end, and no number overflows
/// (`Spec/Durability.md`, section 8.1).
struct SegmentReader {
    /// The name of the bytes that are read, for errors.
    private let name: String
    private let bytes: [UInt8]
    private var offset: Int

    init(_ bytes: [UInt8], from offset: Int = 0, name: String) {
        self.bytes = bytes
        self.offset = offset
        self.name = name
    }

    /// An error that says where the reader is.
    func damaged(_ reason: String) -> HistoryError {
        HistoryError(.storeDamaged, "\(name) at byte \(offset): \(reason)")
    }

    var isAtEnd: Bool { offset == bytes.count }

    func requireEnd() throws(HistoryError) {
        guard isAtEnd else { throw damaged("\(bytes.count - offset) bytes too many") }
    }

    @inline(__always)
    mutating func number() throws(HistoryError) -> UInt64 {
        var number: UInt64 = 0, shift: UInt64 = 0
        while offset < bytes.count {
            let byte = bytes[offset]
            guard shift < 63 || byte < 2 else { throw damaged("a number has more than 64 bits") }
            offset += 1
            number |= UInt64(byte & 0x7F) &<< shift
            if byte < 0x80 { return number }
            shift += 7
        }
        throw damaged("a number is cut off")
    }

    mutating func count(atMost limit: Int) throws(HistoryError) -> Int {
        let count = try number()
        guard count <= UInt64(limit) else { throw damaged("\(count) where \(limit) is the most") }
        return Int(count)
    }

    /// The number whose difference from `old` was written.
    @inline(__always)
    static func number(from old: UInt64, _ written: UInt64) -> UInt64 {
        old &+ (written >> 1 ^ (0 &- (written & 1)))
    }

    mutating func bytes(_ count: Int) throws(HistoryError) -> ArraySlice<UInt8> {
        guard count <= bytes.count - offset else { throw damaged("\(count) bytes are cut off") }
        offset += count
        return bytes[offset - count..<offset]
    }

    mutating func byte() throws(HistoryError) -> UInt8 {
        guard offset < bytes.count else { throw damaged("a byte is cut off") }
        offset += 1
        return bytes[offset - 1]
    }

    mutating func countedBytes() throws(HistoryError) -> ArraySlice<UInt8> {
        try bytes(try count(atMost: .max))
    }

    mutating func checksum() throws(HistoryError) -> Checksum {
        guard let checksum = Checksum(bytes: Array(try bytes(16))) else { throw damaged("no checksum") }
        return checksum
    }

    /// Numbers that are repeated (`SegmentWriter.write(repeats:)`).
    mutating func repeats(of count: Int) throws(HistoryError) -> [UInt64] {
        var numbers = [UInt64](repeating: 0, count: count), end = 0
        while end < count {
            let start = end
            let repeated = try self.count(atMost: count - start)
            guard repeated > 0 else { throw damaged("a number is repeated 0 times") }
            end += repeated
            let number = try number()
            for place in start..<end { numbers[place] = number }
        }
        return numbers
    }
}
