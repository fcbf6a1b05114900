/// Checked reads over the bytes of one changeset: nothing is read beyond the end, and integers never overflow
/// (`Spec/Changeset.md`, sections 2 to 4).
struct ByteReader {
    private let bytes: UnsafeBufferPointer<UInt8>
    private(set) var offset = 0
    /// False as soon as something was read that the encoder would write otherwise.
    var isCanonical = true

    init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    @inline(__always) var isAtEnd: Bool { offset == bytes.count }
    @inline(__always) var remaining: Int { bytes.count - offset }

    // MARK: Integers

    /// A number that takes one, two or three bytes and no superfluous one: nearly all are such. Nil, and nothing is
    /// read, if it is negative or longer, or if it ends close to the end of the input.
    @inline(__always)
    private mutating func short() -> UInt64? {
        guard offset < bytes.count else { return nil }
        let first = UInt64(bytes[offset])
        if first < 0x40 {
            offset &+= 1
            return first
        }
        guard first >= 0x80, remaining > 2 else { return nil }
        let (second, third) = (UInt64(bytes[offset &+ 1]), UInt64(bytes[offset &+ 2]))
        if second < 0x40, second > 0 || first >= 0xC0 {
            offset &+= 2
            return first & 0x7F | second << 7
        }
        guard second >= 0x80, third < 0x40, third > 0 || second >= 0xC0 else { return nil }
        offset &+= 3
        return first & 0x7F | (second & 0x7F) << 7 | third << 14
    }

    /// A number from 0 to 63, which takes one byte.
    @inline(__always)
    private mutating func small() -> UInt8? {
        guard offset < bytes.count, bytes[offset] < 0x40 else { return nil }
        offset &+= 1
        return bytes[offset &- 1]
    }

    /// Reads the shared form: the magnitude and whether the sign bit is set.
    @inline(never)
    private mutating func magnitude(bits: Int) throws(ChangesetError) -> (magnitude: UInt64, isNegative: Bool) {
        let start = offset
        let longest = (bits + 7) / 7
        let top = UInt64.max >> UInt64(64 - bits)
        var value: UInt64 = 0
        var previous: UInt8 = 0
        var shift: UInt64 = 0
        for position in 0..<longest {
            guard offset < bytes.count else {
                throw ChangesetError(.malformedInteger, at: start, "the input ends inside an integer")
            }
            let byte = bytes[offset]
            offset += 1
            if byte & 0x80 != 0 {
                value |= UInt64(byte & 0x7F) << shift
                previous = byte & 0x7F
                shift += 7
                continue
            }
            let part = UInt64(byte & 0x3F)
            guard part <= top >> shift else { throw ChangesetError(.malformedInteger, at: start, "integer too large") }
            if position > 0, part == 0, previous <= 0x3F { isCanonical = false }
            return (value | part << shift, byte & 0x40 != 0)
        }
        throw ChangesetError(.malformedInteger, at: start, "integer too long")
    }

    @inline(never)
    private mutating func unsigned(bits: Int) throws(ChangesetError) -> UInt64 {
        let start = offset
        let (magnitude, isNegative) = try magnitude(bits: bits)
        if isNegative { throw negativeUnsigned(magnitude, at: start) }
        return magnitude
    }

    private func negativeUnsigned(_ magnitude: UInt64, at start: Int) -> ChangesetError {
        ChangesetError(
            magnitude == 0 ? .malformedInteger : .unexpectedSign, at: start, "negative number where none is allowed")
    }

    @inline(never)
    private mutating func signed(bits: Int) throws(ChangesetError) -> Int64 {
        let (magnitude, isNegative) = try magnitude(bits: bits)
        return Int64(bitPattern: isNegative ? ~magnitude : magnitude)
    }

    @inline(__always)
    mutating func u8() throws(ChangesetError) -> UInt8 {
        if let small = small() { return small }
        return UInt8(truncatingIfNeeded: try unsigned(bits: 8))
    }

    @inline(__always)
    mutating func u32() throws(ChangesetError) -> UInt32 {
        if let short = short() { return UInt32(truncatingIfNeeded: short) }
        return UInt32(truncatingIfNeeded: try unsigned(bits: 32))
    }

    @inline(__always)
    mutating func u64() throws(ChangesetError) -> UInt64 {
        if let short = short() { return short }
        return try unsigned(bits: 64)
    }

    /// An opcode. As in the reference, a sign bit makes it another 64-bit number; if that is not an instruction either,
    /// it is reported as unknown (X13) rather than as negative (S7).
    @inline(__always)
    mutating func opcode() throws(ChangesetError) -> (number: UInt64, hasSign: Bool) {
        if let small = small() { return (UInt64(small), false) }
        let start = offset
        let (magnitude, isNegative) = try magnitude(bits: 64)
        if isNegative, magnitude == 0 { throw negativeUnsigned(magnitude, at: start) }
        return (isNegative ? ~magnitude : magnitude, isNegative)
    }

    mutating func i32() throws(ChangesetError) -> Int32 { Int32(truncatingIfNeeded: try signed(bits: 31)) }

    @inline(__always)
    mutating func i64() throws(ChangesetError) -> Int64 {
        if let short = short() { return Int64(bitPattern: short) }
        return try signed(bits: 63)
    }

    @inline(__always)
    mutating func bool() throws(ChangesetError) -> Bool {
        let value = try u8()
        if value > 1 { isCanonical = false }
        return value != 0
    }

    /// The coefficient of a Decimal: the same shape without a sign bit, at most 17 bytes (section 2.1).
    mutating func coefficient() throws(ChangesetError) -> (low: UInt64, high: UInt64) {
        let start = offset
        var low: UInt64 = 0
        var high: UInt64 = 0
        for position in 0..<17 {
            guard offset < bytes.count else {
                throw ChangesetError(.malformedDecimal, at: start, "the input ends inside a decimal coefficient")
            }
            let byte = bytes[offset]
            offset += 1
            let shift = 7 * position
            let part = UInt64(byte & 0x7F)
            if shift < 64 { low |= part << UInt64(shift) }
            if shift > 57 { high |= shift < 64 ? part >> UInt64(64 - shift) : part << UInt64(shift - 64) }
            if byte & 0x80 == 0 {
                guard high >> 49 == 0 else {
                    throw ChangesetError(.decimalOutOfRange, at: start, "decimal coefficient above 113 bits")
                }
                if byte > 0x3F { isCanonical = false }
                if position > 0, byte == 0, bytes[offset - 2] & 0x7F <= 0x3F { isCanonical = false }
                return (low, high)
            }
        }
        throw ChangesetError(.malformedDecimal, at: start, "decimal coefficient too long")
    }

    // MARK: Raw bytes

    /// Skips bytes that are equal to some which were read before, a word at a time. Nothing is skipped if they are not,
    /// or if less than a word more is left than they may take.
    @inline(__always)
    mutating func skip(_ known: Range<Int>) -> Bool {
        let count = known.count
        guard remaining >= count &+ 8 else { return false }
        var position = 0
        while position &+ 8 <= count {
            guard word(at: known.lowerBound &+ position) == word(at: offset &+ position) else { return false }
            position &+= 8
        }
        let difference = word(at: known.lowerBound &+ position) ^ word(at: offset &+ position)
        guard difference << UInt64(64 &- 8 &* (count &- position)) == 0 else { return false }
        offset &+= count
        return true
    }

    /// Eight bytes, the first one lowest.
    @inline(__always)
    private func word(at offset: Int) -> UInt64 {
        invariant(offset >= 0 && offset + 8 <= bytes.count, "a word at \(offset) of \(bytes.count) bytes")
        let word = UnsafeRawBufferPointer(bytes).loadUnaligned(fromByteOffset: offset, as: UInt64.self)
        return UInt64(littleEndian: word)
    }

    /// Skips a counted run of bytes and returns its range.
    @inline(__always)
    mutating func counted(atMost limit: UInt64) throws(ChangesetError) -> Range<Int> {
        let start = offset
        let count = try u64()
        guard count <= limit else { throw ChangesetError(.stringTooLong, at: start, "string of \(count) bytes") }
        guard count <= UInt64(remaining) else { throw truncated(at: start) }
        offset += Int(count)
        return offset - Int(count)..<offset
    }

    /// Reads up to eight raw bytes, the first one lowest.
    mutating func littleEndian(_ count: Int) throws(ChangesetError) -> UInt64 {
        guard count <= remaining else { throw truncated(at: offset) }
        var value: UInt64 = 0
        for position in 0..<count { value |= UInt64(bytes[offset + position]) << UInt64(8 * position) }
        offset += count
        return value
    }

    private func truncated(at offset: Int) -> ChangesetError {
        ChangesetError(.truncated, at: offset, "the input ends inside a value")
    }
}
